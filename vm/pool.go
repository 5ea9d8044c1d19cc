package vm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/subnet"
)

// The pool of GUIDs: locally administered ones, so that no vendor's
// hardware has them.
const (
	defaultFirst ib.GUID = 0x0200000000000001
	defaultLast  ib.GUID = 0x02000000FFFFFFFF
)

// pool assigns GUIDs, and counts GUIDs and LIDs. The subnet manager assigns LIDs.
type pool struct {
	first, last ib.GUID
	used        uint64  // by interfaces, as GUID or alias, and by functions
	next        ib.GUID // all GUIDs of the pool before it are taken
	// skipped is the lowest GUID before next that only the fabric or a membership uses, so that
	// it may become free; 0 if there is none.
	skipped ib.GUID

	snap  *subnet.Snapshot // that the following was counted in
	lids  int              // highest LID that every switch can forward; 0 if not known
	given int              // LIDs that ports and functions have
	kept  int              // LIDs reserved for interfaces that the graph does not show
}

func (p *pool) init(cfg Config) { p.first, p.last, p.next = cfg.GUIDFirst, cfg.GUIDLast, cfg.GUIDFirst }

func (p *pool) has(g ib.GUID) bool { return p.first <= g && g <= p.last && g != sa.WellKnownGUID }

// size is how many GUIDs the pool has.
func (p *pool) size() uint64 {
	if p.first > p.last {
		return 0
	}
	n := uint64(p.last - p.first)
	if p.first <= sa.WellKnownGUID && sa.WellKnownGUID <= p.last {
		n--
	}
	return max(n+1, n) // all 2^64 count as one less
}

// take returns the lowest free GUID: one that no interface, function, port of the fabric or
// direct member of a partition has, and that is not among those of the interface itself.
func (p *pool) take(c *Core, mine []ib.GUID) (ib.GUID, error) {
	if p.skipped != 0 {
		p.next, p.skipped = min(p.next, p.skipped), 0
	}
	for g := p.next; p.first <= p.last && g <= p.last && g >= p.first; g++ {
		_, taken := c.byGUID[g]
		_, bound := c.functions.owner[g]
		switch {
		case taken || bound || !p.has(g):
		case slices.Contains(mine, g), c.snap != nil && c.snap.PortByGUID(g) >= 0, c.members.knows(g):
			if p.skipped == 0 {
				p.skipped = g
			}
		default:
			p.next = g
			return g, nil
		}
		if g == p.last {
			break
		}
		p.next = g + 1
	}
	return 0, noRoom("no GUID left: interfaces and functions have %d of the %d from %v to %v, others use the rest: delete interfaces, or configure a larger range", p.used, p.size(), p.first, p.last)
}

// freed is called when no interface has a GUID any more.
func (p *pool) freed(g ib.GUID) {
	if p.has(g) {
		p.next = min(p.next, g)
	}
}

// count adds an interface to the counts, or with -1 removes it.
func (p *pool) count(e *entry, sign int) {
	if p.has(e.GUID) && e.GUIDKind != FunctionGUID {
		p.used += uint64(sign)
	}
	for _, g := range e.Aliases {
		if p.has(g) {
			p.used += uint64(sign)
		}
	}
	p.kept += sign * p.keeps(e)
}

// keeps is how many LIDs e reserves that the graph does not show: its own while it has no
// place, and the base LID of a port while the LID of e floats there.
func (p *pool) keeps(e *entry) int {
	n := 0
	if e.ownLID() && !p.routed(e.LID) {
		n++
	}
	if e.LIDKind == subnet.FloatingLID && e.Place.Function != 0 {
		n++
	}
	return n
}

func (p *pool) routed(l ib.LID) bool { return p.snap != nil && given(p.snap, l) > 0 }

// look counts the LIDs of a new snapshot. It looks at the LIDs and switches that changed, if that is
// known.
func (p *pool) look(c *Core) {
	old := p.snap
	if p.snap = c.snap; old != nil && p.snap != nil && old.Graph == p.snap.Graph && sameNodes(old, p.snap) {
		return
	}
	p.kept = 0
	for e := range c.list.all() {
		p.kept += p.keeps(e)
	}
	if old != nil && p.snap != nil && sameNodes(old, p.snap) {
		if moved, ok := p.snap.Moved(old); ok {
			for _, l := range moved {
				p.given += given(p.snap, l) - given(old, l)
			}
			return
		}
	}
	p.lids, p.given = 0, 0
	if p.snap == nil {
		return
	}
	for i := range p.snap.Nodes {
		if n := &p.snap.Nodes[i]; n.OK && n.SwitchIndex >= 0 {
			if c := int(n.Switch.LinearFDBCap) - 1; p.lids == 0 || c < p.lids {
				p.lids = c
			}
		}
	}
	if p.lids == 0 {
		p.lids = int(ib.LIDMaxUnicast) // no switch limits it
	}
	p.lids = min(max(p.lids, 0), int(ib.LIDMaxUnicast))
	if p.snap.Graph == nil {
		return
	}
	for l := range p.snap.Graph.LIDOwner {
		p.given += given(p.snap, ib.LID(l))
	}
}

// sameNodes reports whether two snapshots share the memory of their nodes.
func sameNodes(a, b *subnet.Snapshot) bool {
	return len(a.Nodes) == len(b.Nodes) && (len(a.Nodes) == 0 || &a.Nodes[0] == &b.Nodes[0])
}

// given is 1 if a port of a snapshot has a LID.
func given(s *subnet.Snapshot, l ib.LID) int {
	if s.Graph != nil && int(l) < len(s.Graph.LIDOwner) && s.Graph.LIDOwner[l] >= 0 {
		return 1
	}
	return 0
}

func (c *Core) pools() Pools {
	p := &c.pool
	return Pools{GUIDs: p.size(), GUIDsUsed: p.used, LIDs: p.lids, LIDsUsed: p.given + p.kept}
}
