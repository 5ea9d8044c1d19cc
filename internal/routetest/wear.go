package routetest

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Wear is a graph that changes: links, switches and hosts fail and return,
// hosts move, cables are swapped. LIDs stay with their ports, but those outside
// a port's range move like virtual machines.
type Wear struct {
	base     *fabric.Graph
	cables   []cable
	switchUp []bool
	ends     []fabric.EndPort // where they are now
	endUp    []bool
	lids     []int // by end port: how many LIDs in its range
	vms      []fabric.LIDGrant
}

type cable struct {
	a, b fabric.Channel // both directions
	up   bool
}

// NewWear begins with everything up.
func NewWear(g *fabric.Graph) *Wear {
	w := &Wear{base: g, switchUp: slices.Repeat([]bool{true}, len(g.Switches)), ends: slices.Clone(g.EndPorts)}
	for c := range g.Channels {
		if r := g.Channels[c].Rev; int(r) > c {
			w.cables = append(w.cables, cable{g.Channels[c], g.Channels[r], true})
		}
	}
	w.endUp = slices.Repeat([]bool{true}, len(w.ends))
	w.lids = make([]int, len(w.ends))
	for l, e := range g.LIDOwner {
		switch {
		case e == fabric.NoLID:
		case int(g.EndPorts[e].LID)+w.lids[e] == l:
			w.lids[e]++
		default:
			w.vms = append(w.vms, fabric.LIDGrant{LID: ib.LID(l), EndPort: e})
		}
	}
	return w
}

// Switch sets whether switch s, by its index in the first graph, is up.
func (w *Wear) Switch(s int, up bool) { w.switchUp[s] = up }

// Cables is how many there are.
func (w *Wear) Cables() int { return len(w.cables) }

// Cable sets whether link i is up. Links are in the order of the first graph's
// channels.
func (w *Wear) Cable(i int, up bool) { w.cables[i].up = up }

// End sets whether end port e of the first graph, not a switch's, is up.
func (w *Wear) End(e int, up bool) { w.endUp[e] = up }

// Step makes one change and describes it; draw(k) returns a number in [0, k).
func (w *Wear) Step(draw func(k int) int) string {
	var hosts []int
	for e := range w.ends {
		if w.ends[e].Type != ib.NodeSwitch {
			hosts = append(hosts, e)
		}
	}
	if len(w.cables) == 0 || len(hosts) == 0 {
		return w.toggleSwitch(draw)
	}
	if len(w.vms) > 0 && draw(3) > 0 {
		return w.moveVM(draw, hosts)
	}
	switch draw(12) {
	case 0, 1, 2:
		i := draw(len(w.cables))
		w.cables[i].up = !w.cables[i].up
		return fmt.Sprintf("link %d up: %v", i, w.cables[i].up)
	case 3:
		for range 1 + draw(4) {
			w.cables[draw(len(w.cables))].up = false
		}
		return "some links down"
	case 4:
		for range 1 + draw(8) {
			w.cables[draw(len(w.cables))].up = true
		}
		return "some links up"
	case 5:
		return w.toggleSwitch(draw)
	case 6:
		for s := range w.switchUp {
			w.switchUp[s] = true
		}
		return "all switches up"
	case 7, 8:
		e := hosts[draw(len(hosts))]
		w.endUp[e] = !w.endUp[e]
		return fmt.Sprintf("host %d up: %v", e, w.endUp[e])
	case 9:
		a, b := &w.ends[hosts[draw(len(hosts))]], &w.ends[hosts[draw(len(hosts))]]
		a.Switch, b.Switch = b.Switch, a.Switch
		a.Port, b.Port = b.Port, a.Port
		return "two hosts changed places"
	case 10:
		return w.crossCables(draw)
	}
	return w.allUp()
}

// toggleSwitch fails or restores a switch.
func (w *Wear) toggleSwitch(draw func(k int) int) string {
	s := draw(len(w.switchUp))
	w.switchUp[s] = !w.switchUp[s]
	return fmt.Sprintf("switch %d up: %v", s, w.switchUp[s])
}

// moveVM moves the LID of a virtual machine to a host. In one case of four it also
// exchanges LIDs with another.
func (w *Wear) moveVM(draw func(k int) int, hosts []int) string {
	i := draw(len(w.vms))
	w.vms[i].EndPort = int32(hosts[draw(len(hosts))])
	if j := draw(len(w.vms)); draw(4) == 0 && j != i {
		w.vms[i].LID, w.vms[j].LID = w.vms[j].LID, w.vms[i].LID
	}
	return fmt.Sprintf("VM with LID %d moved to host %d", w.vms[i].LID, w.vms[i].EndPort)
}

// crossCables exchanges the far ends of two cables, unless a switch would be connected to itself.
func (w *Wear) crossCables(draw func(k int) int) string {
	i, j := draw(len(w.cables)), draw(len(w.cables))
	p, q := &w.cables[i], &w.cables[j]
	if p.a.From != q.b.From && q.a.From != p.b.From && i != j {
		p.b, q.b = q.b, p.b
		for _, c := range []*cable{p, q} {
			c.a.To, c.a.InPort, c.b.To, c.b.InPort = c.b.From, c.b.OutPort, c.a.From, c.a.OutPort
		}
	}
	return fmt.Sprintf("cables %d and %d crossed", i, j)
}

// allUp restores all links and hosts.
func (w *Wear) allUp() string {
	for i := range w.cables {
		w.cables[i].up = true
	}
	for e := range w.endUp {
		w.endUp[e] = true
	}
	return "all links and hosts up"
}

// Graph is the current graph. TopLID is its highest LID.
func (w *Wear) Graph() *fabric.Graph {
	r := &fabric.Graph{Off: []int32{0}}
	index := make([]int32, len(w.switchUp))
	for s, up := range w.switchUp {
		index[s] = -1
		if up {
			index[s] = int32(len(r.Switches))
			r.Switches = append(r.Switches, w.base.Switches[s])
			r.PortChannel = append(r.PortChannel, slices.Repeat([]int32{-1}, len(w.base.PortChannel[s])))
			r.Off = append(r.Off, 0)
		}
	}
	for _, c := range w.cables {
		if !c.up || index[c.a.From] < 0 || index[c.a.To] < 0 {
			continue
		}
		for _, ch := range []fabric.Channel{c.a, c.b} {
			ch.From, ch.To = index[ch.From], index[ch.To]
			r.Channels = append(r.Channels, ch)
		}
	}
	slices.SortFunc(r.Channels, func(a, b fabric.Channel) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.OutPort, b.OutPort))
	})
	for i := range r.Channels {
		c := &r.Channels[i]
		r.Off[c.From+1]++
		r.PortChannel[c.From][c.OutPort] = int32(i)
	}
	for s := range r.Switches {
		r.Off[s+1] += r.Off[s]
	}
	for i := range r.Channels {
		c := &r.Channels[i]
		c.Rev = r.PortChannel[c.To][c.InPort]
	}
	r.LIDOwner = []int32{fabric.NoLID}
	there := make([]int32, len(w.ends))
	for i, e := range w.ends {
		there[i] = -1
		if !w.endUp[i] || e.Switch >= 0 && index[e.Switch] < 0 {
			continue
		}
		k := int32(len(r.EndPorts))
		there[i] = k
		if e.Switch >= 0 {
			e.Switch = index[e.Switch]
			if e.Type == ib.NodeSwitch {
				r.Switches[e.Switch].EndPort = k
			}
		}
		r.EndPorts = append(r.EndPorts, e)
		for l := int(e.LID); l < int(e.LID)+w.lids[i]; l++ {
			for len(r.LIDOwner) <= l {
				r.LIDOwner = append(r.LIDOwner, fabric.NoLID)
			}
			r.LIDOwner[l] = k
		}
	}
	r.TopLID = ib.LID(len(r.LIDOwner) - 1)
	var vms []fabric.LIDGrant
	for _, v := range w.vms {
		if k := there[v.EndPort]; k >= 0 {
			vms = append(vms, fabric.LIDGrant{LID: v.LID, EndPort: k})
		}
	}
	r, err := r.WithLIDs(vms)
	if err != nil {
		panic(err)
	}
	return r
}

// Loads counts the paths over every channel, from CA and router ports with LIDs
// to all LIDs of such ports, except the excluded ones, by walking every path.
func Loads(g *fabric.Graph, t *route.Tables, without []ib.GUID) []uint64 {
	hosts := make([]uint64, len(g.Switches))
	has := make([]bool, len(g.EndPorts))
	counts := func(e int32) bool {
		return e != fabric.NoLID && g.EndPorts[e].Switch >= 0 && g.EndPorts[e].Type != ib.NodeSwitch &&
			!slices.Contains(without, g.EndPorts[e].GUID)
	}
	for _, e := range g.LIDOwner {
		if counts(e) && !has[e] {
			has[e] = true
			hosts[g.EndPorts[e].Switch]++
		}
	}
	loads := make([]uint64, len(g.Channels))
	for l, e := range g.LIDOwner {
		if !counts(e) {
			continue
		}
		for s := range g.Switches {
			u := int32(s)
			for range g.Switches {
				p := t.Entry(u, ib.LID(l))
				if hosts[s] == 0 || int(p) >= len(g.PortChannel[u]) || g.PortChannel[u][p] < 0 {
					break
				}
				c := g.PortChannel[u][p]
				loads[c] += hosts[s]
				u = g.Channels[c].To
			}
		}
	}
	return loads
}

// CheckUpdate reports defects of tables that an update derived from others: an entry
// that moved without need, or an equal row that is not shared; nil if there are none.
// allowed says whether switch s of the new graph may send LID l by channel c.
func CheckUpdate(from route.Solution, h *fabric.Graph, d *fabric.Delta, now *route.Tables, allowed func(s int32, l ib.LID, c int32) bool) error {
	touched := map[ib.LID]bool{}
	for _, l := range d.LIDs {
		touched[l] = true
	}
	for s, row := range now.LFT {
		o := d.Switch[s]
		if len(row) != route.RowLen(h.TopLID) {
			return fmt.Errorf("switch %d has a row of %d entries", s, len(row))
		}
		if o < 0 {
			continue
		}
		was := from.Tables.LFT[o]
		if slices.Equal(was, row) && &was[0] != &row[0] {
			return fmt.Errorf("the row of switch %d is the same and yet copied", s)
		}
		for l := 1; l <= int(h.TopLID) && l < len(was); l++ {
			if was[l] == row[l] || touched[ib.LID(l)] || int(was[l]) >= len(h.PortChannel[s]) {
				continue
			}
			if c := h.PortChannel[s][was[l]]; c >= 0 && d.Channel[c] >= 0 && allowed(int32(s), ib.LID(l), c) {
				return fmt.Errorf("switch %d: LID %d moved from port %d to %d without need", s, l, was[l], row[l])
			}
		}
	}
	return nil
}

// Kind is a small fabric with its name.
type Kind struct {
	Name  string
	Graph *fabric.Graph
}

// Kinds are small fabrics of many kinds, some random; always the same for the
// same draws.
func Kinds(draw func(k int) int) []Kind {
	all := []Kind{
		{"tree", Tree(4, 4).Graph()},
		{"two level", Tree2(6, 3, 4).Graph()},
		{"torus", Torus(4, 4, 2).Graph()},
		{"random", Random(10+draw(20), draw(30), 3, 1, draw).Graph()},
		{"lmc", Random(6+draw(10), draw(20), 2, 4, draw).Graph()},
		{"line", Random(2+draw(4), 0, 2, 1, draw).Graph()},
	}
	for _, k := range []fabric.Topology{
		fabric.Irregular{Switches: 16, Hosts: 1}, fabric.Dragonfly{Switches: 4, Hosts: 2, Global: 2}, fabric.Hypercube{Dims: 4, Hosts: 1},
	} {
		seed := uint64(draw(1 << 30))
		if r, ok := k.(fabric.Irregular); ok {
			r.Seed = seed
			k = r
		}
		f, err := fabric.Generate(k, fabric.GenerateOptions{})
		if err == nil {
			err = fabric.AssignLIDs(f, 1+draw(2))
		}
		if err == nil {
			var g *fabric.Graph
			if g, err = f.Graph(fabric.GraphOptions{}); err == nil {
				all = append(all, Kind{k.Kind(), g})
			}
		}
		if err != nil {
			panic(err)
		}
	}
	return append(all,
		Kind{"tree with VMs", VMs(Tree(4, 4).Graph(), 3, draw)},
		Kind{"random with VMs", VMs(Random(6+draw(10), draw(20), 3, 1+draw(2), draw).Graph(), 4, draw)})
}
