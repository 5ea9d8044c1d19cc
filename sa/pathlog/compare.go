package pathlog

import (
	"slices"

	"heddle/ib"
	"heddle/partition"
	"heddle/route"
	"heddle/subnet"
)

// maxFrom is how many changed destinations of a source switch are remembered. Of more, any path
// from it may have changed.
const maxFrom = 1024

// shown are the differences that a PathRecord shows. A LID with another owner is none: Moved has
// the GUID of each.
const shown = route.PathSL | route.PathMTU | route.PathRate | route.PathGained | route.PathLost

// Comparer compares the paths of two snapshots, a part at a time.
type Comparer struct {
	old, now *subnet.Snapshot
	differ   *route.PathDiffer // nil: routing did not change
	change   *Change
	from     [][]ib.LID
	sl, many []bool     // by source switch
	ends     [][]ib.LID // by switch: base LIDs of its end ports; built when needed
}

// maxReverse is how many reverse paths of a port are remembered. Of more, any path from it may
// have changed.
const maxReverse = 32

// capacity are the differences of a path that its reverse path shows: it may be reversible or not.
const capacity = route.PathMTU | route.PathRate | route.PathGained | route.PathLost

// Compare begins to compare two snapshots of a subnet that is up. back are GUIDs that were lost
// before old and have returned with another LID. It takes the time of finding the LIDs whose
// paths may differ.
func Compare(old, now *subnet.Snapshot, back []Moved) *Comparer {
	c := &Comparer{old: old, now: now, change: &Change{moved: slices.Clone(back)}}
	if old.PacketLife != now.PacketLife || !sameLevels(old.Partitions, now.Partitions) {
		c.change.All = true
		return c
	}
	c.places()
	if routed(old, now) {
		c.differ = route.NewPathDiffer(route.Solution{Graph: old.Graph, Tables: old.Tables}, route.Solution{Graph: now.Graph, Tables: now.Tables}, nil)
		n := len(now.Graph.Switches)
		c.from, c.sl, c.many = make([][]ib.LID, n), make([]bool, n), make([]bool, n)
		for _, e := range c.differ.Sources() {
			c.change.sources = append(c.change.sources, now.Graph.EndPorts[e].GUID)
		}
	}
	return c
}

// Differ reports whether paths may differ between two snapshots, without looking at them.
func Differ(old, now *subnet.Snapshot) bool {
	return routed(old, now) || !subnet.SameGUIDs(old, now) || old.PacketLife != now.PacketLife || !sameLevels(old.Partitions, now.Partitions)
}

// routed reports whether two snapshots may route differently. Tables that are missing, because a
// sweep was aborted, are no change: nothing was written.
func routed(old, now *subnet.Snapshot) bool {
	return old.Tables != nil && now.Tables != nil && old.Graph != nil && now.Graph != nil && (old.Tables != now.Tables || old.Graph != now.Graph)
}

// sameLevels reports whether partitions prescribe the same service levels.
func sameLevels(a, b *partition.Policy) bool {
	if a == b {
		return true
	}
	type level struct {
		key ib.PKey
		sl  ib.SL
	}
	levels := func(p *partition.Policy) (list []level) {
		if p == nil {
			return nil
		}
		for i := range p.Partitions {
			if x := &p.Partitions[i]; x.HasSL {
				list = append(list, level{x.PKey.Base(), x.SL})
			}
		}
		return list
	}
	return slices.Equal(levels(a), levels(b))
}

// places finds the GUIDs that have another LID, are at another port, or have left.
func (c *Comparer) places() {
	if subnet.SameGUIDs(c.old, c.now) {
		return
	}
	known, same := false, false
	subnet.DiffPlaces(c.old, c.now, func(g ib.GUID, was, is int32) {
		p, q := c.old.Ports[was], c.now.Ports[is]
		if p.LID != q.LID {
			c.change.moved = append(c.change.moved, Moved{g, p.LID})
			c.change.sources = append(c.change.sources, g)
			return
		}
		if !known {
			known, same = true, uniform(c.old) && uniform(c.now)
		}
		if !same {
			c.change.sources = append(c.change.sources, g)
		}
	}, func(g ib.GUID, was int32) {
		p := c.old.Ports[was]
		c.change.gone = append(c.change.gone, Gone{g, p.LID, p.Keys()})
	})
}

// uniform reports whether all links of a subnet carry the same values, and all paths
// have one service level.
func uniform(s *subnet.Snapshot) bool {
	if s.Graph == nil || s.Tables == nil || s.Tables.SL != nil {
		return false
	}
	g := s.Graph
	var mtu ib.MTU
	var gbps float32
	same := func(m ib.MTU, r float32) bool {
		if m == 0 && r == 0 { // port 0 of a switch
			return true
		}
		if mtu == 0 && gbps == 0 {
			mtu, gbps = m, r
		}
		return m == mtu && r == gbps
	}
	for i := range g.Channels {
		if !same(g.Channels[i].MTU, g.Channels[i].Gbps) {
			return false
		}
	}
	for i := range g.EndPorts {
		if !same(g.EndPorts[i].MTU, g.EndPorts[i].Gbps) {
			return false
		}
	}
	return true
}

// Step compares paths to further LIDs, about budget source switches in all. It returns the change
// when everything is compared; then the Comparer is done.
func (c *Comparer) Step(budget int) *Change {
	for ; c.differ != nil && c.differ.Left() > 0; budget -= len(c.from) {
		if budget <= 0 {
			return nil
		}
		if l, kinds := c.differ.Next(); kinds != nil && c.stayed(l) {
			c.add(l, kinds)
		}
	}
	c.finish()
	return c.change
}

// stayed reports whether a LID has the same owner. Traps 64 and 65, and Moved, report others.
func (c *Comparer) stayed(l ib.LID) bool {
	was, is := c.old.PortByLID(l), c.now.PortByLID(l)
	return was >= 0 && is >= 0 && c.old.Ports[was].GUID == c.now.Ports[is].GUID
}

func (c *Comparer) add(l ib.LID, kinds []route.PathKind) {
	at, over := len(c.change.lids), false
	for s, k := range kinds {
		if k&capacity != 0 && !over {
			c.change.lids = append(c.change.lids, c.endsAt(s)...)
			over = len(c.change.lids)-at > maxReverse
		}
		switch {
		case k&shown == 0:
		case c.many[s] || len(c.from[s]) >= maxFrom:
			c.many[s], c.from[s] = true, nil
			c.sl[s] = c.sl[s] || k&route.PathSL != 0
		default:
			c.from[s] = append(c.from[s], l)
			c.sl[s] = c.sl[s] || k&route.PathSL != 0
		}
	}
	switch g := c.now.Ports[c.now.PortByLID(l)].GUID; {
	case over:
		c.change.lids = c.change.lids[:at]
		c.change.sources = append(c.change.sources, g)
	case len(c.change.lids) > at:
		c.change.reverse = append(c.change.reverse, reverse{g, int32(at), int32(len(c.change.lids) - at)})
	}
}

// endsAt are the base LIDs of the end ports of a switch.
func (c *Comparer) endsAt(s int) []ib.LID {
	if c.ends == nil {
		c.ends = make([][]ib.LID, len(c.from))
		for i := range c.now.Graph.EndPorts {
			if e := &c.now.Graph.EndPorts[i]; e.Switch >= 0 && e.LID != 0 {
				c.ends[e.Switch] = append(c.ends[e.Switch], e.LID)
			}
		}
	}
	return c.ends[s]
}

// finish puts what was found into the change. Adjacent switches commonly have the same list.
func (c *Comparer) finish() {
	x := c.change
	slices.Sort(x.sources)
	x.sources = slices.Compact(x.sources)
	slices.SortFunc(x.moved, func(a, b Moved) int { return compare(a.GUID, b.GUID) })
	x.moved = slices.CompactFunc(x.moved, func(a, b Moved) bool { return a.GUID == b.GUID })
	slices.SortStableFunc(x.reverse, func(a, b reverse) int { return compare(a.port, b.port) })
	var last part
	for s, list := range c.from {
		if len(list) == 0 && !c.many[s] {
			continue
		}
		p := part{at: int32(len(x.lids)), n: int32(len(list)), sl: c.sl[s], many: c.many[s]}
		if slices.Equal(x.lids[last.at:last.at+last.n], list) {
			p.at = last.at
		} else {
			x.lids = append(x.lids, list...)
		}
		x.switches, x.from = append(x.switches, c.now.Graph.Switches[s].GUID), append(x.from, p)
		x.SL = x.SL || p.sl
		last = p
	}
	x.lids = slices.Clip(x.lids)
	c.differ, c.from = nil, nil
}
