// Package file takes tables from the dump files of another subnet manager or of
// an earlier run, like OpenSM's engine of the same name: forwarding tables, and
// optionally service levels and SL-to-VL tables.
//
// A dump is made for one assignment of LIDs. If it names the port of each LID (as
// opensm-lfts.dump does), routes follow the port to its current LID. Otherwise
// (opensm.fdbs) the LIDs must be unchanged, which the package verifies at the end
// of each route. LIDs of virtual functions that are missing from the dump get the
// routes of their port.
//
// Tables are as good as the file: the package neither balances them nor removes
// deadlocks, so they must be proved before they are installed. It refuses a dump
// that does not fit the fabric: one without a table for some switch, without
// routes to some LID, or with ports that a switch does not have. OpenSM's lid
// matrix is not needed: paths follow from the tables.
//
// Cost: O(entries of the dump + switches × LIDs).
package file

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/osmdump"
)

// Engine returns dumped tables.
type Engine struct {
	Dump *osmdump.Routes
	// SLs are the service levels of the paths; nil: all 0.
	SLs []osmdump.SourceSLs
	// SL2VL are the switches' SL-to-VL tables; nil: each link uses lane SL mod
	// its data VLs.
	SL2VL []osmdump.PortLanes
}

// Name is "file".
func (Engine) Name() string { return "file" }

// Compute returns the tables; Options.MaxVLs is used.
func (e Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	l := &loader{g: g, Engine: e, t: route.New("file", len(g.Switches), g.TopLID)}
	if err := l.load(o); err != nil {
		return nil, route.RefusedBy("file", route.ErrInput, err)
	}
	return l.t, nil
}

type loader struct {
	Engine
	g     *fabric.Graph
	t     *route.Tables
	lid   []ib.LID          // by LID of the dump: the current LID; 0: the port is gone
	ports []int32           // end ports by ascending GUID
	like  []ib.LID          // by LID: the LID whose routes it shares; 0: it has its own
	node  map[ib.GUID]int32 // switch by the node GUID of an end port on it
}

func (l *loader) load(o route.Options) error {
	if l.Dump == nil {
		return errors.New("no dump is given")
	}
	l.mapLIDs()
	if err := l.entries(); err != nil {
		return err
	}
	l.virtuals()
	if err := l.arrivals(); err != nil {
		return err
	}
	if err := l.levels(); err != nil {
		return err
	}
	if err := l.lanes(); err != nil {
		return err
	}
	budget := route.Budget(l.g, o.MaxVLs)
	if l.t.NumVLs > budget {
		are := "are"
		if budget == 1 {
			are = "is"
		}
		return route.Refuse("file", route.ErrLanes, "the dump needs %d lanes, %d %s allowed", l.t.NumVLs, budget, are)
	}
	return nil
}

// endPort is the end port with a GUID, or -1.
func (l *loader) endPort(guid ib.GUID) int32 {
	i, ok := slices.BinarySearchFunc(l.ports, guid, func(e int32, guid ib.GUID) int { return cmp.Compare(l.g.EndPorts[e].GUID, guid) })
	if !ok {
		return -1
	}
	return l.ports[i]
}

// mapLIDs finds the current LID for each LID of the dump.
func (l *loader) mapLIDs() {
	g := l.g
	for i := range g.EndPorts {
		l.ports = append(l.ports, int32(i))
	}
	slices.SortStableFunc(l.ports, func(a, b int32) int { return cmp.Compare(g.EndPorts[a].GUID, g.EndPorts[b].GUID) })
	top := ib.LID(0)
	for i := range l.Dump.Switches {
		for _, r := range l.Dump.Switches[i].Routes {
			top = max(top, r.LID)
		}
	}
	for _, s := range l.SLs {
		for _, p := range s.SLs {
			top = max(top, p.LID)
		}
	}
	l.lid = make([]ib.LID, int(top)+1)
	from := make([]ib.LID, int(g.TopLID)+1) // by LID now: the first of the dump that became it
	take := func(was, now ib.LID) {
		if now <= g.TopLID && from[now] == 0 {
			from[now] = was
			l.lid[was] = now
		}
	}
	// First LIDs that their port still has, then its former ones.
	for _, kept := range []bool{true, false} {
		for d := range l.lid {
			was := ib.LID(d)
			guid, known := l.Dump.Owner[was]
			e := l.endPort(guid)
			if !known || e < 0 || g.EndPorts[e].LID == 0 || kept != (was <= g.TopLID && g.LIDOwner[was] == e) {
				continue
			}
			now := was
			if !kept {
				now = g.EndPorts[e].LID + was&(1<<g.EndPorts[e].LMC-1)
			}
			take(was, now)
		}
	}
	for d := range l.lid {
		if _, known := l.Dump.Owner[ib.LID(d)]; !known {
			take(ib.LID(d), ib.LID(d))
		}
	}
}

// entries fills the forwarding tables.
func (l *loader) entries() error {
	g := l.g
	at := map[ib.GUID]*osmdump.SwitchRoutes{}
	for i := range l.Dump.Switches {
		at[l.Dump.Switches[i].GUID] = &l.Dump.Switches[i]
	}
	for s := range g.Switches {
		sw := &g.Switches[s]
		d := at[sw.GUID]
		if d == nil {
			return fmt.Errorf("the dump has no table for switch %v", sw.GUID)
		}
		row := l.t.LFT[s]
		for _, r := range d.Routes {
			now := l.lid[r.LID]
			if now == 0 || r.Port == route.Drop {
				continue
			}
			if r.Port > sw.NumPorts {
				return fmt.Errorf("the dump sends LID %d out of port %d of switch %v, which has %d ports", r.LID, r.Port, sw.GUID, sw.NumPorts)
			}
			if c := ib.LID(sw.LinearFDBCap); c != 0 && now >= c {
				return fmt.Errorf("the table of switch %v holds %d entries, there is a route to LID %d", sw.GUID, c, now)
			}
			row[now] = r.Port
		}
	}
	return nil
}

// virtuals gives LIDs of virtual functions that are missing from the dump the
// routes of their port: functions change more often than the dump.
func (l *loader) virtuals() {
	g := l.g
	l.like = make([]ib.LID, len(g.LIDOwner))
	for d, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		end := &g.EndPorts[e]
		own := d >= int(end.LID) && d < int(end.LID)+1<<end.LMC
		if home := l.t.LFT[end.Switch]; own || end.LID == 0 || home[d] != route.Drop || home[end.LID] == route.Drop {
			continue
		}
		l.like[d] = end.LID
		for _, row := range l.t.LFT {
			row[d] = row[end.LID]
		}
	}
}

// arrivals checks for every LID that its own switch delivers it to its port.
func (l *loader) arrivals() error {
	g := l.g
	for d, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		end := &g.EndPorts[e]
		switch p := l.t.LFT[end.Switch][d]; {
		case p == end.Port:
		case p == route.Drop:
			return fmt.Errorf("the dump has no route to LID %d of port %v", d, end.GUID)
		case len(l.Dump.Owner) == 0:
			return fmt.Errorf("the dump routes LID %d to port %d of switch %v, but port %v is elsewhere: the dump was made for other LIDs and names no ports; use one that names them (opensm-lfts.dump)",
				d, p, g.Switches[end.Switch].GUID, end.GUID)
		default:
			return fmt.Errorf("the dump routes LID %d to port %d of switch %v, but port %v is at its port %d", d, p, g.Switches[end.Switch].GUID, end.GUID, end.Port)
		}
	}
	return nil
}

// levels fills in the service levels: LIDs for which all switches use the same
// levels form one class.
func (l *loader) levels() error {
	if len(l.SLs) == 0 {
		return nil
	}
	g := l.g
	n := len(g.Switches)
	const none = 0xFF
	cols := make([]byte, n*(int(g.TopLID)+1)) // by LID, switch
	for i := range cols {
		cols[i] = none
	}
	for _, s := range l.SLs {
		sw := l.source(s)
		if sw < 0 {
			continue
		}
		for _, p := range s.SLs {
			now := l.lid[p.LID]
			if now == 0 {
				continue
			}
			at := &cols[int(now)*n+int(sw)]
			if *at != none && *at != byte(p.SL) {
				return fmt.Errorf("ports on switch %v have service levels %d and %d to LID %d; all ports of a switch must have the same", g.Switches[sw].GUID, *at, p.SL, now)
			}
			*at = byte(p.SL)
		}
	}
	for d, base := range l.like {
		if base != 0 {
			copy(cols[d*n:(d+1)*n], cols[int(base)*n:(int(base)+1)*n])
		}
	}
	t := l.t
	t.Class = make([]int32, int(g.TopLID)+1)
	class := map[string]int32{}
	var first []int // by class: a LID
	top := ib.SL(0)
	for d := range t.Class {
		t.Class[d] = -1
		if g.LIDOwner[d] == fabric.NoLID {
			continue
		}
		col := cols[d*n : (d+1)*n]
		for s, sl := range col {
			if sl == none {
				col[s] = 0
			}
			top = max(top, ib.SL(col[s]))
		}
		c, ok := class[string(col)]
		if !ok {
			c = int32(len(first))
			class[string(col)] = c
			first = append(first, d)
		}
		t.Class[d] = c
	}
	if top == 0 {
		t.Class = nil
		return nil
	}
	t.NumClasses = len(first)
	t.SL = make([]ib.SL, n*len(first))
	for c, d := range first {
		for s := range n {
			t.SL[s*len(first)+c] = ib.SL(cols[d*n+s])
		}
	}
	t.NumVLs = int(top) + 1
	return nil
}

// source is the switch that the paths of a block begin at, or -1.
func (l *loader) source(s osmdump.SourceSLs) int32 {
	if !s.Node {
		if e := l.endPort(s.GUID); e >= 0 {
			return l.g.EndPorts[e].Switch
		}
		return -1
	}
	if l.node == nil {
		l.node = map[ib.GUID]int32{}
		for i := range l.g.EndPorts {
			if e := &l.g.EndPorts[i]; e.Switch >= 0 {
				l.node[e.NodeGUID] = e.Switch
			}
		}
	}
	if sw, ok := l.node[s.GUID]; ok {
		return sw
	}
	return -1
}

// lanes fills the SL-to-VL tables. Pairs of ports that the dump does not have
// use lane SL mod the link's data VLs.
func (l *loader) lanes() error {
	if len(l.SL2VL) == 0 {
		return nil
	}
	g := l.g
	lanes := &route.Lanes{Index: make([][]uint8, len(g.Switches)), Stride: make([]uint16, len(g.Switches))}
	index := map[[16]ib.VL]uint8{}
	row := func(vl [16]ib.VL) (uint8, error) {
		i, ok := index[vl]
		if !ok {
			if len(lanes.Rows) == 256 {
				return 0, errors.New("the dump has more than 256 different SL-to-VL tables")
			}
			i = uint8(len(lanes.Rows))
			index[vl] = i
			lanes.Rows = append(lanes.Rows, vl)
		}
		return i, nil
	}
	vls := uint8(route.Budget(g, 0))
	for s := range g.Switches {
		stride := int(g.Switches[s].NumPorts) + 1
		lanes.Stride[s] = uint16(stride)
		lanes.Index[s] = make([]uint8, stride*stride)
		for out := range stride {
			have := vls
			if out < len(g.PortChannel[s]) && g.PortChannel[s][out] >= 0 {
				have = max(g.Channels[g.PortChannel[s][out]].VLs, 1)
			}
			var vl [16]ib.VL
			for sl := range vl {
				vl[sl] = ib.VL(uint8(sl) % have)
			}
			i, err := row(vl)
			if err != nil {
				return err
			}
			for in := range stride {
				lanes.Index[s][in*stride+out] = i
			}
		}
	}
	for _, p := range l.SL2VL {
		if !p.Switch {
			continue
		}
		s := int32(-1)
		if e := l.endPort(p.GUID); e >= 0 && g.EndPorts[e].Type == ib.NodeSwitch {
			s = g.EndPorts[e].Switch
		} else if i, ok := slices.BinarySearchFunc(g.Switches, p.GUID, func(s fabric.SwitchNode, guid ib.GUID) int { return cmp.Compare(s.GUID, guid) }); ok {
			s = int32(i)
		}
		if s < 0 {
			continue
		}
		stride := int(lanes.Stride[s])
		for _, r := range p.Rows {
			if int(r.In) >= stride || int(r.Out) >= stride {
				return fmt.Errorf("the dump has an SL-to-VL table for ports %d and %d of switch %v, which has %d ports", r.In, r.Out, g.Switches[s].GUID, stride-1)
			}
			i, err := row(r.VL)
			if err != nil {
				return err
			}
			lanes.Index[s][int(r.In)*stride+int(r.Out)] = i
		}
	}
	l.t.Lanes = lanes
	l.t.NumVLs = l.used()
	return nil
}

// used is the number of lanes that the tables' service levels use on links
// between switches.
func (l *loader) used() int {
	var levels [16]bool
	levels[0] = true
	for _, sl := range l.t.SL {
		levels[sl&15] = true
	}
	top := 0
	for i := range l.g.Channels {
		c := &l.g.Channels[i]
		for in := range int(l.g.Switches[c.From].NumPorts) + 1 {
			for sl, is := range levels {
				if vl := l.t.VL(c.From, uint8(in), c.OutPort, ib.SL(sl), 15); is && vl < 15 {
					top = max(top, int(vl))
				}
			}
		}
	}
	return top + 1
}
