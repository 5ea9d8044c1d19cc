package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// PairState says whether packets from a switch with hosts reach a LID.
type PairState uint8

// The states of a pair.
const (
	// PairApart: no path of active links exists, or no port has the LID.
	PairApart PairState = iota
	// PairBroken: a path exists, but the tables do not follow one.
	PairBroken
	// PairWorks: the tables deliver.
	PairWorks
)

// Pairs tracks which pairs (switch with hosts, LID) of a Subnet work, according
// to the installed tables and the port states. It evaluates a destination
// whenever one of its entries changes, so it sees every transient state. It
// ignores SL-to-VL tables.
type Pairs struct {
	// OnPair, if set, gets every change of a pair's state: the time, the node of
	// the switch, and the LID.
	OnPair func(at mad.Time, node int, lid ib.LID, was, now PairState)

	s    *Subnet
	root int     // only pairs in the part of this node count; < 0: all
	node []int32 // of the tracked switches
	of   []int32 // by node: its index in node; -1: not a switch

	top     []ib.LID      // LinearFDBTop by switch
	rows    [][]byte      // entries by switch, for LIDs that have an owner
	state   [][]PairState // by LID, switch
	owner   []int32       // by LID: index in Subnet.ports; -1: none
	part    []int32       // by switch: number of the connected part, -1: down
	mine    int32         // part of root, -1: all count
	source  []bool        // by switch: a host is attached
	works   int
	broken  int
	stale   bool // links, owners or table sizes changed
	staleAt mad.Time
	stats   PairStats

	walk []uint8 // scratch of eval, by switch
	path []int32
}

// PairStats counts the changes of pairs since the watch began or was reset.
type PairStats struct {
	Works, Broken int // current pairs
	// Worst is the highest number of broken pairs; Breaks counts the pairs that
	// stopped working, Repairs those that work again.
	Worst, Breaks, Repairs int
	// FirstBreak and LastRepair are times, 0 if there was none.
	FirstBreak, LastRepair mad.Time
}

// WatchPairs tracks the pairs of s from now on. Only pairs count that active
// links connect with node root; root < 0: all. The watch uses OnChange, and
// calls its earlier function.
func (s *Subnet) WatchPairs(root int) *Pairs {
	p := &Pairs{s: s, root: root, of: make([]int32, len(s.devs))}
	for i := range s.devs {
		p.of[i] = -1
		if s.devs[i].isSwitch() {
			p.of[i] = int32(len(p.node))
			p.node = append(p.node, int32(i))
		}
	}
	n := len(p.node)
	p.top, p.rows = make([]ib.LID, n), make([][]byte, n)
	p.part, p.source, p.walk = make([]int32, n), make([]bool, n), make([]uint8, n)
	earlier := s.OnChange
	s.OnChange = func(c Change) {
		if earlier != nil {
			earlier(c)
		}
		p.changed(&c)
	}
	p.reload(s.k.now)
	p.Reset()
	return p
}

// Stats returns the current counts.
func (p *Pairs) Stats() PairStats {
	p.Settle()
	st := p.stats
	st.Works, st.Broken = p.works, p.broken
	return st
}

// Reset sets the counts to zero.
func (p *Pairs) Reset() {
	p.Settle()
	p.stats = PairStats{Worst: p.broken}
}

// Settle processes pending link changes, which are evaluated together so that
// the changes of one fault count once. Stats settles too.
func (p *Pairs) Settle() {
	if p.stale {
		p.stale = false
		p.reload(p.staleAt)
	}
}

// Ends reports where a packet from switch node to lid ends: the node, and the
// port by which it would leave (0: the tables have none).
func (p *Pairs) Ends(node int, lid ib.LID) (at int, port uint8) {
	p.Settle()
	d := p.of[node]
	for range p.node {
		at, port = int(p.node[d]), p.entry(d, lid)
		if port == noRoute {
			return at, 0
		}
		next, _ := p.next(d, port)
		if next < 0 {
			return at, port
		}
		d = next
	}
	return at, port
}

func (p *Pairs) changed(c *Change) {
	switch c.Kind {
	case ChangeState, ChangeReset, ChangeVPort:
		p.mark(c.At)
		return
	}
	d := p.of[c.Node]
	switch c.Attr {
	case smp.AttrLFT:
		p.Settle()
		first := int(c.AttrMod) * smp.LFTBlockLIDs
		for l := first; l < min(first+smp.LFTBlockLIDs, len(p.rows[d])); l++ {
			if e := p.held(d, ib.LID(l)); e != p.rows[d][l] {
				p.rows[d][l] = e
				p.eval(c.At, ib.LID(l))
			}
		}
	case smp.AttrSwitchInfo:
		if d >= 0 && p.s.devs[c.Node].sw.info.LinearFDBTop != p.top[d] {
			p.mark(c.At)
		}
	case smp.AttrPortInfo:
		dev := &p.s.devs[c.Node]
		for i := dev.first; i <= dev.first+int32(dev.nports); i++ {
			if pt := &p.s.ports[i]; pt.lid != 0 && (int(pt.lid) >= len(p.owner) || p.owner[pt.lid] != i) {
				p.mark(c.At)
				return
			}
		}
	}
}

// mark marks all pairs for evaluation.
func (p *Pairs) mark(at mad.Time) {
	if p.stale && p.staleAt != at {
		p.Settle()
	}
	p.stale, p.staleAt = true, at
}

// held is the switch's current entry for a LID.
func (p *Pairs) held(d int32, l ib.LID) byte {
	w := p.s.devs[p.node[d]].sw
	if l > w.info.LinearFDBTop {
		return noRoute
	}
	return w.route(l)
}

func (p *Pairs) entry(d int32, l ib.LID) byte {
	if int(l) < len(p.rows[d]) {
		return p.rows[d][l]
	}
	return noRoute
}

// reload reads links, owners and tables, and evaluates every pair.
func (p *Pairs) reload(at mad.Time) {
	s := p.s
	most := len(p.state)
	for i := range p.owner {
		p.owner[i] = -1
	}
	for _, e := range s.LIDs() {
		for k := range e.Num {
			l := int(e.LID) + k
			for len(p.owner) <= l {
				p.owner = append(p.owner, -1)
			}
			p.owner[l] = s.devs[e.Node].first + int32(e.Port)
		}
	}
	most = max(most, len(p.owner))
	for len(p.state) < most {
		p.state = append(p.state, make([]PairState, len(p.node)))
	}
	p.parts()
	for d := range p.node {
		w := s.devs[p.node[d]].sw
		p.top[d] = w.info.LinearFDBTop
		p.rows[d] = slices.Grow(p.rows[d][:0], most)[:most]
		for l := range p.rows[d] {
			p.rows[d][l] = p.held(int32(d), ib.LID(l))
		}
	}
	for l := 1; l < most; l++ {
		p.eval(at, ib.LID(l))
	}
}

// parts finds the connected parts of the switches and those with hosts.
func (p *Pairs) parts() {
	s := p.s
	for d := range p.part {
		p.part[d], p.source[d] = -1, false
	}
	number := int32(0)
	for d := range p.node {
		if p.part[d] >= 0 || s.devs[p.node[d]].down {
			continue
		}
		p.part[d] = number
		for queue := []int32{int32(d)}; len(queue) > 0; queue = queue[1:] {
			dev := &s.devs[p.node[queue[0]]]
			for i := dev.first + 1; i <= dev.first+int32(dev.nports); i++ {
				q := s.ports[i].peer
				if q < 0 || s.ports[i].phys != ib.PhysLinkUp || s.devs[s.ports[q].dev].down {
					continue
				}
				switch e := p.of[s.ports[q].dev]; {
				case e < 0:
					p.source[queue[0]] = true
				case p.part[e] < 0:
					p.part[e] = number
					queue = append(queue, e)
				}
			}
		}
		number++
	}
	p.mine = -1
	if p.root >= 0 {
		p.mine = -2 // no switch's part: the node has no link
		dev := &s.devs[p.root]
		for i := dev.first; i <= dev.first+int32(dev.nports); i++ {
			if d := p.attached(i); d >= 0 && p.part[d] >= 0 {
				p.mine = p.part[d]
				break
			}
		}
	}
}

// attached is the switch of port i, or the switch at the other end of its link;
// -1: none.
func (p *Pairs) attached(i int32) int32 {
	pt := &p.s.ports[i]
	if d := p.of[pt.dev]; d >= 0 {
		return d
	}
	if pt.peer < 0 || pt.phys != ib.PhysLinkUp || p.s.devs[pt.dev].down {
		return -1
	}
	return p.of[p.s.ports[pt.peer].dev]
}

// next is the switch to which port e of switch d sends data packets, or -1 and
// the host's port; both -1: none.
func (p *Pairs) next(d int32, e byte) (next, host int32) {
	s := p.s
	dev := &s.devs[p.node[d]]
	if e == 0 || e > dev.nports {
		return -1, -1
	}
	pt := &s.ports[dev.first+int32(e)]
	if pt.peer < 0 || pt.phys != ib.PhysLinkUp || pt.state != ib.StateActive {
		return -1, -1
	}
	if st := s.ports[pt.peer].state; st != ib.StateActive && st != ib.StateArmed {
		return -1, -1
	}
	if next = p.of[s.ports[pt.peer].dev]; next < 0 {
		return -1, pt.peer
	}
	return next, -1
}

// State of a switch during eval.
const (
	walkUnknown = iota
	walkOpen    // on the current path
	walkLost
	walkArrives
)

// eval follows all switches' entries for a LID.
func (p *Pairs) eval(at mad.Time, l ib.LID) {
	own := int32(-1)
	if int(l) < len(p.owner) {
		own = p.owner[l]
	}
	to := int32(-1) // the owner's part
	if own >= 0 {
		if d := p.attached(own); d >= 0 {
			to = p.part[d]
		}
	}
	clear(p.walk)
	for d := range p.node {
		if to < 0 || p.part[d] != to || !p.source[d] || p.mine != -1 && p.mine != to {
			p.set(at, int32(d), l, PairApart)
			continue
		}
		if p.arrives(int32(d), l, own) {
			p.set(at, int32(d), l, PairWorks)
		} else {
			p.set(at, int32(d), l, PairBroken)
		}
	}
}

// arrives follows the entries for l from switch d and records the outcome for
// every switch on the path.
func (p *Pairs) arrives(d int32, l ib.LID, own int32) bool {
	p.path = p.path[:0]
	end := uint8(walkLost)
	for {
		if w := p.walk[d]; w != walkUnknown {
			if w != walkOpen { // otherwise it is a loop
				end = w
			}
			break
		}
		p.walk[d] = walkOpen
		p.path = append(p.path, d)
		e := p.entry(d, l)
		if e == 0 {
			if p.s.ports[own].dev == p.node[d] {
				end = walkArrives
			}
			break
		}
		next, host := p.next(d, e)
		if next < 0 {
			if host >= 0 && host == own {
				end = walkArrives
			}
			break
		}
		d = next
	}
	for _, x := range p.path {
		p.walk[x] = end
	}
	return end == walkArrives
}

func (p *Pairs) set(at mad.Time, d int32, l ib.LID, now PairState) {
	was := p.state[l][d]
	if was == now {
		return
	}
	p.state[l][d] = now
	switch was {
	case PairBroken:
		p.broken--
	case PairWorks:
		p.works--
	}
	switch now {
	case PairBroken:
		p.broken++
		p.stats.Worst = max(p.stats.Worst, p.broken)
		if was == PairWorks {
			p.stats.Breaks++
			if p.stats.FirstBreak == 0 {
				p.stats.FirstBreak = at
			}
		}
	case PairWorks:
		p.works++
		if was == PairBroken {
			p.stats.Repairs++
			p.stats.LastRepair = at
		}
	}
	if p.OnPair != nil {
		p.OnPair(at, int(p.node[d]), l, was, now)
	}
}

// cmdPairs prints the counts of pairs: once, or since 'watch' with their
// changes.
func (s *Subnet) cmdPairs(a []string, out *strings.Builder) error {
	switch {
	case len(a) == 0 && s.pairs == nil:
		was := s.OnChange
		p := s.WatchPairs(s.managerNode())
		s.OnChange = was
		fmt.Fprintf(out, "works %d broken %d\n", p.works, p.broken)
	case len(a) == 0:
		st := s.pairs.Stats()
		took := time.Duration(0)
		if st.LastRepair > 0 && st.FirstBreak > 0 {
			took = st.LastRepair.Sub(st.FirstBreak)
		}
		fmt.Fprintf(out, "works %d broken %d worst %d breaks %d repairs %d took %v\n", st.Works, st.Broken, st.Worst, st.Breaks, st.Repairs, took)
	case len(a) == 1 && strings.EqualFold(a[0], "watch"):
		if s.pairs == nil {
			s.pairs = s.WatchPairs(s.managerNode())
		}
		s.pairs.Reset()
	default:
		return errUsage
	}
	return nil
}

// managerNode is the node that a manager is attached to, -1 if there is none.
func (s *Subnet) managerNode() int {
	for _, e := range s.eps {
		if e != nil && e.issm {
			return int(s.ports[e.port].dev)
		}
	}
	return -1
}
