package matrix

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// A wild fabric is one that nobody would build but that is valid, as it is
// changed step by step: parts that nothing joins, switches without hosts and
// hosts without switches, several cables between two switches, cables of one
// lane among wide ones, routers, LIDs scattered up to 0xBFFF with any LMC,
// ports without LIDs, tables too short.
type wild struct {
	draw     func(k int) int
	short    bool // tables of switches may be too short
	switches []wildSwitch
	cables   []wildCable
	ends     []wildEnd
	next     int // for GUIDs
}

type wildSwitch struct {
	guid  ib.GUID
	ports int
	cap   uint16
	lid   ib.LID
	lmc   uint8
}

type wildCable struct {
	a, b ib.GUID // switches
	p, q int
	vls  uint8
}

type wildEnd struct {
	guid, node ib.GUID
	kind       ib.NodeType
	num        uint8
	at         ib.GUID // of the switch; 0: on none
	port       int
	lid        ib.LID
	lmc        uint8
}

// fromBytes draws numbers from the bytes of text, and after its end from a generator
// seeded by it.
func fromBytes(text []byte) func(k int) int {
	sum := uint64(len(text))
	for _, c := range text {
		sum = (sum ^ uint64(c)) * 0x100000001B3
	}
	rest := rand.New(rand.NewPCG(sum, 1))
	return func(k int) int {
		if len(text) == 0 {
			return rest.IntN(k)
		}
		v := int(text[0])
		text = text[1:]
		if k > 256 && len(text) > 0 {
			v = v<<8 | int(text[0])
			text = text[1:]
		}
		return v % k
	}
}

func (w *wild) guid(base int) ib.GUID {
	w.next++
	return ib.GUID(base + w.next*16)
}

func (w *wild) addSwitch(ports int) ib.GUID {
	s := wildSwitch{guid: w.guid(0x1000), ports: ports, cap: 0xC000}
	if w.draw(4) == 0 {
		s.guid += ib.GUID(w.draw(1 << 16)) // not in the order they come
	}
	for w.find(s.guid) >= 0 {
		s.guid++
	}
	if w.draw(16) == 0 {
		s.ports = 254
	}
	if w.short && w.draw(4) == 0 {
		s.cap = uint16([]int{1, 2, 64, 100, 256, 512}[w.draw(6)])
	}
	w.switches = append(w.switches, s)
	return s.guid
}

func (w *wild) find(guid ib.GUID) int {
	return slices.IndexFunc(w.switches, func(s wildSwitch) bool { return s.guid == guid })
}

// free is a port of a switch that nothing is on, or 0.
func (w *wild) free(guid ib.GUID) int {
	i := w.find(guid)
	if i < 0 {
		return 0
	}
	var used [256]bool
	for _, c := range w.cables {
		used[c.p] = used[c.p] || c.a == guid
		used[c.q] = used[c.q] || c.b == guid
	}
	for _, e := range w.ends {
		used[e.port] = used[e.port] || e.at == guid
	}
	n := w.switches[i].ports
	at := 0
	if w.draw(6) == 0 {
		at = w.draw(n)
	}
	for k := range n {
		if p := 1 + (at+k)%n; !used[p] {
			return p
		}
	}
	return 0
}

func (w *wild) cable(a, b ib.GUID) {
	if a == b {
		return
	}
	p, q := w.free(a), w.free(b)
	if p == 0 || q == 0 {
		return
	}
	w.cables = append(w.cables, wildCable{a, b, p, q, 8})
}

func (w *wild) any() ib.GUID { return w.switches[w.draw(len(w.switches))].guid }

// host adds a CA or a router with some ports, on this switch or, each port, on
// any or none.
func (w *wild) host(at ib.GUID) {
	node, kind, ports := w.guid(0x10000000), ib.NodeCA, 1
	if w.draw(12) == 0 {
		kind = ib.NodeRouter
	}
	if w.draw(6) == 0 {
		ports = 1 + w.draw(4)
	}
	for p := range ports {
		e := wildEnd{guid: node + ib.GUID(p) + 1, node: node, kind: kind, num: uint8(p + 1), at: at}
		if p > 0 && len(w.switches) > 0 {
			e.at = w.any()
		}
		if e.at != 0 {
			if e.port = w.free(e.at); e.port == 0 {
				e.at = 0
			}
		}
		w.ends = append(w.ends, e)
	}
}

// grow makes a fabric that resembles something: a tree, a torus, a ring, a
// random net, or nothing at all.
func (w *wild) grow() {
	kind := w.draw(7)
	switch kind {
	case 0: // two-level tree
		leaves, spines := 1+w.draw(6), 1+w.draw(4)
		var low, high []ib.GUID
		for range leaves {
			low = append(low, w.addSwitch(12))
		}
		for range spines {
			high = append(high, w.addSwitch(16))
		}
		for _, l := range low {
			for _, s := range high {
				for range 1 + w.draw(12)/10 {
					w.cable(l, s)
				}
			}
			for range w.draw(5) {
				w.host(l)
			}
		}
	case 1, 2: // grid, with or without the cables round
		x, y := 1+w.draw(5), 1+w.draw(5)
		var at []ib.GUID
		for range x * y {
			at = append(at, w.addSwitch(10))
		}
		for i := range x {
			for j := range y {
				if i+1 < x || kind == 1 && x > 2 {
					w.cable(at[i*y+j], at[(i+1)%x*y+j])
				}
				if j+1 < y || kind == 1 && y > 2 {
					w.cable(at[i*y+j], at[i*y+(j+1)%y])
				}
				for range w.draw(3) {
					w.host(at[i*y+j])
				}
			}
		}
	case 3: // three-level tree
		var tops []ib.GUID
		for range 1 + w.draw(4) {
			tops = append(tops, w.addSwitch(16))
		}
		for range 1 + w.draw(3) {
			var mids []ib.GUID
			for range 1 + w.draw(2) {
				m := w.addSwitch(16)
				mids = append(mids, m)
				for _, t := range tops {
					w.cable(m, t)
				}
			}
			for range 1 + w.draw(3) {
				l := w.addSwitch(12)
				for _, m := range mids {
					w.cable(l, m)
				}
				for range w.draw(4) {
					w.host(l)
				}
			}
		}
	case 4: // nothing but hosts
		for range w.draw(4) {
			w.host(0)
		}
	default:
		for i := range w.draw(16) {
			s := w.addSwitch(3 + w.draw(8))
			if i > 0 && w.draw(8) > 0 {
				w.cable(s, w.any())
			}
		}
		if len(w.switches) > 0 {
			for range w.draw(2 * len(w.switches)) {
				w.cable(w.any(), w.any())
			}
			for range w.draw(3 * len(w.switches)) {
				w.host(w.any())
			}
		}
	}
	for range w.draw(3) * w.draw(4) {
		w.step()
	}
	w.number()
}

// step changes one thing.
func (w *wild) step() string {
	if len(w.switches) == 0 {
		w.addSwitch(1 + w.draw(8))
		return "first switch"
	}
	switch w.draw(14) {
	case 0, 1:
		if n := len(w.cables); n > 0 {
			i := w.draw(n)
			w.cables = slices.Delete(w.cables, i, i+1)
		}
		return "cable pulled"
	case 2, 3:
		w.cable(w.any(), w.any())
		return "cable plugged"
	case 4:
		i := w.draw(len(w.switches))
		gone := w.switches[i].guid
		w.switches = slices.Delete(w.switches, i, i+1)
		w.cables = slices.DeleteFunc(w.cables, func(c wildCable) bool { return c.a == gone || c.b == gone })
		keep := w.draw(2) == 0
		w.ends = slices.DeleteFunc(w.ends, func(e wildEnd) bool { return e.at == gone && !keep })
		for i := range w.ends {
			if w.ends[i].at == gone {
				w.ends[i].at, w.ends[i].port = 0, 0
			}
		}
		return "switch gone"
	case 5:
		s := w.addSwitch(2 + w.draw(8))
		for range w.draw(4) {
			w.cable(s, w.any())
		}
		return "switch added"
	case 6:
		w.host(w.any())
		w.number()
		return "host added"
	case 7:
		if n := len(w.ends); n > 0 {
			i := w.draw(n)
			w.ends = slices.Delete(w.ends, i, i+1)
		}
		return "host gone"
	case 8:
		if len(w.ends) > 0 {
			e := &w.ends[w.draw(len(w.ends))]
			e.at, e.port = w.any(), 0
			if e.port = w.free(e.at); e.port == 0 {
				e.at = 0
			}
		}
		return "host moved"
	case 9:
		if len(w.ends) > 0 {
			e := &w.ends[w.draw(len(w.ends))]
			e.lid = 0
			w.number()
		}
		return "other LIDs"
	case 10, 11:
		if len(w.cables) > 0 {
			w.cables[w.draw(len(w.cables))].vls = uint8([]int{1, 2, 4, 8, 15}[w.draw(5)])
		}
		return "other lanes"
	case 12:
		if len(w.ends) > 0 {
			e := &w.ends[w.draw(len(w.ends))]
			e.kind ^= ib.NodeCA ^ ib.NodeRouter
		}
		return "CA or router"
	}
	i := w.draw(len(w.switches))
	if w.short {
		w.switches[i].cap = uint16([]int{1, 64, 300, 0xC000, 0}[w.draw(5)])
	} else {
		w.switches[i].lid = 0
		w.number()
	}
	return "other table or LID of a switch"
}

// number gives LIDs to most ports that have none.
func (w *wild) number() {
	var used [0xC000]bool
	mark := func(lid ib.LID, lmc uint8) {
		for l := range 1 << lmc {
			used[int(lid)+l] = lid != 0
		}
	}
	for _, s := range w.switches {
		mark(s.lid, s.lmc)
	}
	for _, e := range w.ends {
		mark(e.lid, e.lmc)
	}
	give := func(lid *ib.LID, lmc *uint8) {
		if *lid != 0 || w.draw(12) == 0 {
			return
		}
		if *lmc = 0; w.draw(6) == 0 {
			*lmc = uint8(w.draw(8))
		}
		span := 1 << *lmc
		for range 20 {
			base := 1 + w.draw(400)
			if w.draw(32) == 0 {
				base = 0xBFFF - w.draw(300)
			}
			if base &^= span - 1; base > 0 && !slices.Contains(used[base:base+span], true) {
				*lid = ib.LID(base)
				mark(*lid, *lmc)
				return
			}
		}
	}
	for i := range w.switches {
		give(&w.switches[i].lid, &w.switches[i].lmc)
		if w.switches[i].lmc > 1 {
			w.switches[i].lmc = 0 // an enhanced port 0 may have one, but seldom has
		}
	}
	for i := range w.ends {
		give(&w.ends[i].lid, &w.ends[i].lmc)
	}
}

// graph is what there is now.
func (w *wild) graph() *fabric.Graph {
	g := &fabric.Graph{Off: []int32{0}}
	order := slices.Clone(w.switches)
	slices.SortFunc(order, func(a, b wildSwitch) int { return cmp.Compare(a.guid, b.guid) })
	index := map[ib.GUID]int32{0: -1}
	ends := slices.Clone(w.ends)
	for i, s := range order {
		index[s.guid] = int32(i)
		g.Switches = append(g.Switches, fabric.SwitchNode{GUID: s.guid, NumPorts: uint8(s.ports), LinearFDBCap: s.cap})
		g.PortChannel = append(g.PortChannel, slices.Repeat([]int32{-1}, s.ports+1))
		g.Off = append(g.Off, 0)
		ends = append(ends, wildEnd{guid: s.guid + 8, node: s.guid, kind: ib.NodeSwitch, at: s.guid, lid: s.lid, lmc: s.lmc})
	}
	for _, c := range w.cables {
		a, b := index[c.a], index[c.b]
		g.Channels = append(g.Channels,
			fabric.Channel{From: a, To: b, OutPort: uint8(c.p), InPort: uint8(c.q), VLs: c.vls, MTU: ib.MTU4096, Gbps: 100},
			fabric.Channel{From: b, To: a, OutPort: uint8(c.q), InPort: uint8(c.p), VLs: c.vls, MTU: ib.MTU4096, Gbps: 100})
	}
	slices.SortFunc(g.Channels, func(a, b fabric.Channel) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.OutPort, b.OutPort))
	})
	for i := range g.Channels {
		c := &g.Channels[i]
		g.Off[c.From+1]++
		g.PortChannel[c.From][c.OutPort] = int32(i)
	}
	for s := range g.Switches {
		g.Off[s+1] += g.Off[s]
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		c.Rev = g.PortChannel[c.To][c.InPort]
	}
	slices.SortFunc(ends, func(a, b wildEnd) int { return cmp.Compare(a.guid, b.guid) })
	g.LIDOwner = []int32{fabric.NoLID}
	for i, e := range ends {
		at := index[e.at]
		if e.kind == ib.NodeSwitch {
			g.Switches[at].EndPort = int32(i)
		}
		p := fabric.EndPort{GUID: e.guid, NodeGUID: e.node, Type: e.kind, PortNum: e.num, Switch: at, Port: uint8(e.port), LID: e.lid, LMC: e.lmc}
		g.EndPorts = append(g.EndPorts, p)
		for l := int(e.lid); e.lid != 0 && l < int(e.lid)+1<<e.lmc; l++ {
			for len(g.LIDOwner) <= l {
				g.LIDOwner = append(g.LIDOwner, fabric.NoLID)
			}
			g.LIDOwner[l] = int32(i)
		}
	}
	g.TopLID = ib.LID(len(g.LIDOwner) - 1)
	return g
}

// wishes are options as odd as the fabric.
func (w *wild) wishes(g *fabric.Graph) route.Options {
	o := route.Options{
		Workers: 1 + w.draw(8), Seed: uint64(w.draw(3)), MaxVLs: []int{0, 0, 1, 2, 3, 8, 15}[w.draw(7)],
		ConnectRoots: w.draw(2) == 0, SpreadLanes: w.draw(2) == 0, Rebalance: w.draw(8) == 0,
	}
	list := func() (all []ib.GUID) {
		for range w.draw(6) {
			switch k := w.draw(4); {
			case k == 0 && len(g.Switches) > 0:
				all = append(all, g.Switches[w.draw(len(g.Switches))].GUID)
			case k == 1 && len(all) > 0:
				all = append(all, all[0])
			case k == 2 && len(g.EndPorts) > 0:
				all = append(all, g.EndPorts[w.draw(len(g.EndPorts))].GUID)
			default:
				all = append(all, ib.GUID(w.draw(1<<16)))
			}
		}
		return all
	}
	if w.draw(3) == 0 {
		o.Roots = list()
	}
	if w.draw(4) == 0 {
		o.RoutingOrder, o.Unbalanced = list(), list()
	}
	if w.draw(4) == 0 {
		o.IONodes, o.MaxReverseHops = list(), w.draw(4)
	}
	if w.draw(4) == 0 {
		o.ComputeNodes = list()
	}
	if w.draw(4) == 0 {
		o.IDs, o.PortOrder = map[ib.GUID]uint64{}, map[ib.GUID][]uint8{}
		for _, x := range list() {
			o.IDs[x] = uint64(w.draw(3))
			o.PortOrder[x] = []uint8{uint8(w.draw(256)), uint8(w.draw(5)), uint8(w.draw(5)), 255, 0}
		}
	}
	if w.draw(4) == 0 {
		for _, x := range list() {
			o.HopWeights = append(o.HopWeights, route.HopWeight{Switch: x, Port: uint8(w.draw(8)), Weight: uint8([]int{0, 1, 2, 255}[w.draw(4)])})
		}
	}
	return o
}
