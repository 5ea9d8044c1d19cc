package transition

import (
	"maps"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// spec selects the states that may apply: entries, service levels of hosts,
// SL-to-VL tables.
type spec uint8

const (
	oldEntries spec = 1 << iota
	newEntries
	oldSLs // and those held from earlier transitions
	newSLs
	oldLanes
	newLanes

	wantedOnly    = newEntries | newSLs | newLanes
	installedOnly = oldEntries | oldSLs | oldLanes
	mixed         = wantedOnly | installedOnly
)

// mixer is the multi-valued routing function {installed, wanted} over a
// layout.
type mixer struct {
	*layout
	g        *fabric.Graph
	before   *fabric.Graph // owners of LIDs that have none now
	managed  int           // switches of g
	old, new *route.Tables
	frozen   []Frozen
	left     []LeftCable
	held     *Held
	groups   map[ib.LID]uint16
	tables   bool   // some tables have Lanes of their own
	levels   uint16 // service levels in use
	injected [][]uint8
	// alone are destinations to which packets come from any switch on these
	// levels, regardless of tables.
	alone map[ib.LID]uint16
	// told are the levels that hosts may use to destinations, by switch, regardless of tables.
	told map[ib.LID][]uint16
	// lost are lost links, by switch·256 + port of each end; strays are the packets that
	// installed entries sent over them.
	cables []LeftCable
	lost   map[int]lostCable
	strays map[ib.LID][]stray
	ports  [][]uint8 // by switch: the ports that CA and router ports hang on
	// recent are SL-to-VL tables that were installed before the current ones.
	recent []*route.Lanes
}

// newMixer combines two states. Most of its methods need build first.
func newMixer(g *fabric.Graph, old, now *route.Tables, o *Options) *mixer {
	x := &mixer{old: old, new: now, g: g, before: o.Before, managed: len(g.Switches), frozen: o.Frozen, left: o.Left, held: o.Held, groups: o.GroupLevels, cables: o.Lost}
	x.levels = levelsOf(now.SL) | o.spare
	if len(old.SL) != len(now.SL) || len(old.SL) > 0 && &old.SL[0] != &now.SL[0] {
		x.levels |= levelsOf(old.SL)
	}
	if old.SL == nil || now.SL == nil {
		x.levels |= 1
	}
	if x.held != nil {
		for _, m := range x.held.Mask {
			x.levels |= m
		}
	}
	for _, mc := range [2]*route.Multicast{old.Multicast, now.Multicast} {
		for i := 0; mc != nil && i < len(mc.Trees); i++ {
			x.levels |= 1 << (mc.Trees[i].SL & 15)
		}
	}
	for _, m := range x.groups {
		x.levels |= m
	}
	x.tables = old.Lanes != nil || now.Lanes != nil
	return x
}

// single reports whether all packets use one lane, so that service levels do
// not matter.
func (x *mixer) single() bool { return x.levels == 1 && !x.tables }

// build makes the layout. Lanes are numbered from 0.
func (x *mixer) build() {
	if x.layout != nil {
		return
	}
	g, old, now := x.g, x.old, x.new
	x.layout = newLayout(g, x.frozen, x.left)
	least, most := uint8(15), uint8(1)
	for _, v := range x.vls[:x.m] {
		least, most = min(least, v), max(most, v)
	}
	lanes := 1
	if !x.single() {
		for m := x.levels; m != 0; m &= m - 1 {
			lanes = max(lanes, min(bits.TrailingZeros16(m)+1, int(most)))
		}
		for _, l := range [2]*route.Lanes{old.Lanes, now.Lanes} {
			for i := 0; l != nil && i < len(l.Rows); i++ {
				for _, v := range l.Rows[i] {
					if v < 15 {
						lanes = max(lanes, int(v)+1)
					}
				}
			}
		}
	}
	x.setLanes(lanes, x.tables || least != most)
	x.lost = x.lostCables(func(s int32, port uint8) int32 { return x.port[int(s)<<8|int(port)] })
	if !x.tables {
		x.findStrays()
		return
	}
	x.injected, x.ports = make([][]uint8, x.n), make([][]uint8, x.n)
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			x.ports[e.Switch] = append(x.ports[e.Switch], e.Port)
		}
	}
	for i := range x.frozen {
		x.ports[x.managed+i] = []uint8{0}
	}
	for _, at := range slices.Sorted(maps.Keys(x.lost)) {
		k := x.lost[at]
		x.ports[k.to] = append(x.ports[k.to], k.in)
	}
	for s := range x.n {
		x.ports[s] = x.alike(int32(s), x.ports[s])
		x.injected[s] = x.alike(int32(s), append([]uint8{0}, x.ports[s]...))
	}
	x.findStrays()
}

func levelsOf(sl []ib.SL) (m uint16) {
	for _, v := range sl {
		m |= 1 << (v & 15)
	}
	return m
}

// alike keeps one of the input ports of a switch whose SL-to-VL tables agree
// for every output port.
func (x *mixer) alike(s int32, ports []uint8) (keep []uint8) {
	same := func(l *route.Lanes, a, b uint8) bool {
		if l == nil || int(s) >= len(l.Index) {
			return true
		}
		st := int(l.Stride[s])
		if int(a) >= st || int(b) >= st {
			return a == b
		}
		return string(l.Index[s][int(a)*st:(int(a)+1)*st]) == string(l.Index[s][int(b)*st:(int(b)+1)*st])
	}
next:
	for _, p := range ports {
		for _, q := range keep {
			if same(x.old.Lanes, p, q) && same(x.new.Lanes, p, q) &&
				!slices.ContainsFunc(x.recent, func(l *route.Lanes) bool { return !same(l, p, q) }) {
				continue next
			}
		}
		keep = append(keep, p)
	}
	return keep
}

// lanesOf are the lanes that service level sl may take on channel c, having
// entered the switch by port in. Lane 15 discards.
func (x *mixer) lanesOf(c int32, in uint8, sl ib.SL, sp spec) (m uint16) {
	if sp&oldLanes != 0 {
		m = 1 << x.lane(x.old, c, in, sl)
	}
	if sp&newLanes != 0 {
		m |= 1 << x.lane(x.new, c, in, sl)
	}
	return m &^ (1 << 15)
}

func (x *mixer) lane(t *route.Tables, c int32, in uint8, sl ib.SL) uint8 {
	s := x.from[c]
	if t.Lanes != nil {
		if row := t.Lanes.Row(s, in, x.outPort[c]); row != nil {
			return min(uint8(row[sl]), 15)
		}
	}
	return uint8(sl) % x.vls[c]
}
