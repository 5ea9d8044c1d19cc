package sm

import (
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
)

// recentState are tables that switches may have acted on before those that are
// installed now. Packets that met them are in the fabric for a while longer.
type recentState struct {
	graph  *fabric.Graph
	tables *route.Tables
	plan   *transition.Plan // of the transition that left them or made them
	until  mad.Time         // when they were in force last; Never while they may be
	hops   time.Duration    // switches on the longest path of a packet that met them
	// moved are the LIDs that were moved from the state before to this one, each once;
	// nil: it is not one that moves led to.
	moved map[ib.LID]bool
}

// longestPath is how many switches a path of a subnet has at most (IBA §14.2.2).
const longestPath = 64

// rememberTables is called before a transition writes anything.
func (c *Core) rememberTables(r *JobResult) {
	if len(r.Plan.Stages) == 0 || r.installed == nil || r.Plan.SMPs == 0 && !r.Plan.NeedsRepath {
		return // what packets meet stays
	}
	if r.transition.Quiet {
		c.recent = nil // there are no packets that could remember anything
		return
	}
	for _, ni := range c.f.swNode {
		if l := c.f.nodes[ni].lft; l != nil {
			l.shared = true // rows that are remembered are not written into
		}
	}
	// A path by entries of two states goes by each at most as far as its own do.
	hops := time.Duration(longestPath)
	if r.Report != nil {
		hops = min(hops, 2*time.Duration(r.Report.MaxHops+1))
	}
	if n := len(c.recent); n > 0 {
		hops = max(hops, c.recent[n-1].hops)
	}
	g := c.f.graph
	steps := []*route.Tables{r.installed, r.Tables}
	if f := r.Plan.Fitted; f != nil && f.First != nil && f.First != r.installed && f.First != f.Tables {
		steps = []*route.Tables{r.installed, f.First, r.Tables}
	}
	for _, t := range steps {
		c.recent = append(c.recent, recentState{graph: g, tables: t, plan: r.Plan, until: mad.Never, hops: hops})
	}
}

// tablesWritten is called when all that a stage wrote is acknowledged.
func (c *Core) tablesWritten(r *JobResult) {
	for i := range c.recent {
		if s := &c.recent[i]; s.until == mad.Never || s.plan == r.Plan {
			s.until = c.now
		}
	}
}

// dropRecent forgets states that no packet remembers any more, and, when there are too
// many, the oldest of the others.
func (c *Core) dropRecent(most int) {
	worst := c.inFlight()
	keep := c.recent[:0]
	for _, s := range c.recent {
		if worst > 0 && !c.forgotten(&s, worst) {
			keep = append(keep, s)
		}
	}
	if n := len(keep) - most; n > 0 {
		keep = append(keep[:0], keep[n:]...)
	}
	clear(c.recent[len(keep):])
	c.recent = keep
}

// forgotten reports whether no packet that met a state can be under way any more.
func (c *Core) forgotten(s *recentState, worst time.Duration) bool {
	return s.until != mad.Never && c.now.Sub(s.until) >= s.hops*worst/longestPath
}

// recentTables are the states that packets may remember, in the order of the
// graph's switches.
func (c *Core) recentTables() (list []transition.Recent) {
	worst := c.inFlight()
	if worst == 0 {
		c.recent = nil // without limits nobody can say what is still there
		return nil
	}
	keep := c.recent[:0]
	for _, s := range c.recent {
		t := s.tables
		if c.forgotten(&s, worst) {
			continue
		}
		keep = append(keep, s)
		if s.graph != c.f.graph {
			t = t.Follow(s.graph, c.f.graph)
		}
		r := transition.Recent{Tables: t, Plan: s.plan}
		if s.until != mad.Never {
			r.Ago = c.now.Sub(s.until)
		}
		list = append(list, r)
	}
	clear(c.recent[len(keep):])
	c.recent = keep
	return list
}

// lostCable is a cable that packets came over until it was lost.
type lostCable struct {
	transition.LeftCable
	at mad.Time
}

// lostCables are those, and the graph that was last looked at for them.
type lostCables struct {
	list   []lostCable
	before *fabric.Graph
}

// rememberLost notes the cables between switches that the tables in force had and the graph
// has not, and forgets those whose packets have left.
func (c *Core) rememberLost() (list []transition.LeftCable) {
	worst := c.inFlight()
	c.lost.list = slices.DeleteFunc(c.lost.list, func(l lostCable) bool { return worst == 0 || c.now.Sub(l.at) >= worst })
	if s := c.served; s != nil && s.graph != c.f.graph && s.graph != c.lost.before && worst > 0 {
		c.lost.before = s.graph
		now := make(map[transition.LeftCable]bool, len(c.f.graph.Channels))
		g := c.f.graph
		cable := func(g *fabric.Graph, h *fabric.Channel) transition.LeftCable {
			return transition.LeftCable{Switch: g.Switches[h.From].GUID, Port: h.OutPort, Peer: g.Switches[h.To].GUID, PeerPort: h.InPort}
		}
		for i := range g.Channels {
			now[cable(g, &g.Channels[i])] = true
		}
		for i := range s.graph.Channels {
			if h := &s.graph.Channels[i]; int32(i) < h.Rev {
				if k := cable(s.graph, h); !now[k] {
					c.lost.list = append(c.lost.list, lostCable{k, c.now})
				}
			}
		}
	}
	for _, l := range c.lost.list {
		list = append(list, l.LeftCable)
	}
	return list
}

// inFlight is how long a packet can be under way in any subnet; 0 if lifetimes
// have no limit.
func (c *Core) inFlight() time.Duration {
	stay, queue := transition.Lifetime(c.cfg.PacketLife), transition.Lifetime(max(c.cfg.HOQLife, c.cfg.LeafHOQLife))
	if stay < 0 || queue < 0 {
		return 0
	}
	return longestPath * (stay + queue)
}
