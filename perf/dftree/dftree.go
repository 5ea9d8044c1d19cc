// Package dftree decides which paths go to a slow lane while a hot spot lasts, so that flows to it
// do not keep others waiting (W. L. Guay's thesis, Paper IV: dFtree).
//
//	hotspot.Report, snapshot ─► Core.Step ─► Plan ─► the SA answers with the level of the slow lane,
//	                                                and notifies the hosts whose paths changed
//
// The paths of the contributors to the hot host move, and no others. They move only if packets
// cannot deadlock: the slow lane is one that no path, no multicast tree and no datagram of the
// manager uses, and the dependencies of all paths that move there, and of their reverse paths, have
// no cycle with those of the paths that are there, or left so lately that hosts may still use them.
//
// Core is pure and belongs to one goroutine. A Plan is immutable.
package dftree

import (
	"fmt"
	"maps"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/plural"
	"heddle/perf/hotspot"
	"heddle/route"
	"heddle/route/cdg"
	"heddle/subnet"
)

// Mode says what becomes of a decision.
type Mode uint8

// The modes.
const (
	Observe Mode = iota // it is shown, and nothing is moved
	Act
	Off
	modeEnd
)

var modeNames = [modeEnd]string{"observe", "act", "off"}

// String is the name in the setting "dftree".
func (m Mode) String() string {
	if m >= modeEnd {
		return fmt.Sprintf("mode%d", uint8(m))
	}
	return modeNames[m]
}

// Modes are the names of all modes.
func Modes() []string { return modeNames[:] }

// ParseMode is the mode of a name.
func ParseMode(name string) (Mode, bool) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), true
		}
	}
	return 0, false
}

// Config configures a Core.
type Config struct {
	Mode Mode
	// QoS says that a QoS policy or --qos is in force: any level may be a class of traffic.
	QoS bool
}

// KeepsLane reports whether routes are to leave a lane free. With QoS no path ever moves there.
func (c Config) KeepsLane() bool { return c.Mode == Act && !c.QoS }

// Spot is what is done about a hot spot.
type Spot struct {
	ID uint64 // hotspot.HotSpot.ID
	// Paths are those of its contributors, which are or would be on the slow lane.
	Paths int
	// Refused says why they are not; "": they are.
	Refused string
}

// Plan is what is done about all hot spots. It is immutable.
type Plan struct {
	Mode Mode
	// SL is the level of the slow lane. Why is not empty if there is none.
	SL    ib.SL
	Why   string
	Spots []Spot // as in the hotspot.Report
	// Paths are those that are to be on the slow lane; nil in every mode but Act.
	Paths *subnet.SlowPaths
}

// Moved are the hot spots, by ID, whose paths are to be on the slow lane.
func (p *Plan) Moved() map[uint64]bool {
	ids := map[uint64]bool{}
	for i := range p.Spots {
		if p.Mode == Act && p.Spots[i].Refused == "" {
			ids[p.Spots[i].ID] = true
		}
	}
	return ids
}

// Core decides. It belongs to one goroutine.
type Core struct {
	cfg Config
	// shape is that of graph.
	shape *cdg.Shape
	graph *fabric.Graph
	round uint64 // counts the calls of Step
	// lane has the paths on slow lanes, and those that left them in the last rounds, with the last
	// round in which they were to be there.
	lane map[slowPath]uint64
	hops []subnet.Hop // of the last path
}

// slowPath is a path on the slow lane of a level.
type slowPath struct {
	subnet.PortPair
	sl ib.SL
}

// leaveRounds is for how many rounds hosts may still use a path that comes back from the slow lane:
// until they have the Report, which is repeated if it is lost, and have drained their queue pairs.
const leaveRounds = 4

// mostPaths is how many paths move at most in a fabric with that many end ports: those of two hot
// spots that all hosts feed. With more, the slow lane is as full as the others.
func mostPaths(ends int) int { return max(2*ends, 8192) }

// New returns a core.
func New(cfg Config) *Core { return &Core{cfg: cfg, lane: map[slowPath]uint64{}} }

// Step decides about the hot spots of a report.
func (c *Core) Step(s *subnet.Snapshot, r *hotspot.Report) *Plan {
	c.round++
	maps.DeleteFunc(c.lane, func(_ slowPath, last uint64) bool { return c.round-last > leaveRounds })
	p := &Plan{Mode: c.cfg.Mode}
	p.SL, p.Why = c.level(s)
	if c.cfg.Mode == Off || len(r.Open) == 0 {
		return p
	}
	if c.graph != s.Graph && s.Graph != nil {
		c.graph, c.shape = s.Graph, cdg.NewShape(s.Graph)
	}
	why := p.Why
	var all *cdg.Graph
	var there map[subnet.PortPair]bool
	if why == "" {
		if all, there = c.present(s, p.SL); all.Order() == nil {
			why = fmt.Sprintf("by the new routes those that still use lane %d could wait for each other", p.SL)
		}
	}
	most := 0
	if s.Graph != nil {
		most = mostPaths(len(s.Graph.EndPorts))
	}
	var pairs []subnet.PortPair
	for i := range r.Open {
		x := &r.Open[i]
		out := Spot{ID: x.ID, Refused: why}
		switch {
		case why != "":
		case len(pairs)+len(x.Contributors) > most:
			out.Refused = fmt.Sprintf("%s %s, and with its %d they were more than %d", plural.Of(len(pairs), "path"), plural.Verb(len(pairs), "moves", "move"), len(x.Contributors), most)
		default:
			with, list, why := c.moved(s, all, there, p.SL, x)
			if out.Refused = why; why == "" {
				all, out.Paths, pairs = with, len(list), append(pairs, list...)
			}
		}
		p.Spots = append(p.Spots, out)
	}
	for _, x := range pairs {
		c.lane[slowPath{x, p.SL}] = c.round
	}
	if c.cfg.Mode == Act {
		p.Paths = subnet.NewSlowPaths(p.SL, pairs)
	}
	return p
}

// level is the level of a slow lane; why: there is none. Without a hot spot it says what would be.
func (c *Core) level(s *subnet.Snapshot) (sl ib.SL, why string) {
	g, t := s.Graph, s.Tables
	if g == nil || t == nil || len(g.Channels) == 0 {
		return 0, "there is no link between switches, or no route"
	}
	lanes := route.Budget(g, 0)
	switch {
	case c.cfg.QoS:
		return 0, "with QoS any level may be a class of traffic"
	case lanes <= 1:
		return 0, "links have one lane"
	case t.Lanes != nil && !t.Lanes.Guards:
		return 0, s.Engine + " has SL-to-VL tables of its own"
	case lanes <= t.NumVLs:
		return 0, fmt.Sprintf("%s uses all %s", s.Engine, plural.Of(lanes, "lane"))
	}
	used := usedLevels(s, lanes)
	for lane := lanes - 1; lane >= max(t.NumVLs, 1); lane-- {
		if used>>lane&1 == 0 {
			return ib.SL(lane), ""
		}
	}
	return 0, "the free lanes are those of multicast trees, of partitions or of the manager's datagrams"
}

// usedLevels are the lanes of levels that something else than routed paths uses, a bit for each.
func usedLevels(s *subnet.Snapshot, lanes int) (used uint32) {
	use := func(sl ib.SL) { used |= 1 << (int(sl) % lanes) }
	if p := s.Port(s.Self); p != nil {
		use(p.Info.MasterSMSL)
	}
	if s.Partitions != nil {
		for i := range s.Partitions.Partitions {
			if p := &s.Partitions.Partitions[i]; p.HasSL {
				use(p.SL)
			}
		}
	}
	if m := s.Tables.Multicast; m != nil {
		for i := range m.Trees {
			use(m.Trees[i].SL)
		}
	}
	return used
}

// present are the paths that hosts may use on the slow lane, and their dependencies by the tables of
// a snapshot. By those they were proved by, or where all other paths share a lane, there is no cycle.
func (c *Core) present(s *subnet.Snapshot, sl ib.SL) (all *cdg.Graph, there map[subnet.PortPair]bool) {
	all, there = cdg.New(c.shape, 1), map[subnet.PortPair]bool{}
	for x := range c.lane {
		from, to := s.PortByGUID(x.From), s.PortByGUID(x.To)
		if x.sl == sl && from >= 0 && to >= 0 && c.follow(s, all, sl, from, to) && c.follow(s, all, sl, to, from) {
			there[x.PortPair] = true
		}
	}
	return all, there
}

// moved are the pairs of a hot spot, and the dependencies with theirs; why: they may not move. Those
// of the pairs that are there are among those before.
func (c *Core) moved(s *subnet.Snapshot, before *cdg.Graph, there map[subnet.PortPair]bool, sl ib.SL, x *hotspot.HotSpot) (all *cdg.Graph, list []subnet.PortPair, why string) {
	hot := s.PortByGUID(x.Host.GUID)
	if hot < 0 {
		return nil, nil, "the host is not in the subnet"
	}
	all = before.Clone()
	for i := range x.Contributors {
		from := s.PortByGUID(x.Contributors[i].Host.GUID)
		if from < 0 {
			continue
		}
		pair := subnet.PortPair{From: s.Ports[from].GUID, To: s.Ports[hot].GUID}
		if there[pair] || c.follow(s, all, sl, from, hot) && c.follow(s, all, sl, hot, from) {
			list = append(list, pair)
			continue
		}
		return nil, nil, fmt.Sprintf("the path from %q has no lane for level %d", x.Contributors[i].Host.Desc, sl)
	}
	if all.Order() == nil {
		return nil, nil, fmt.Sprintf("its paths would close a cycle on lane %d", sl)
	}
	return all, list, ""
}

// follow adds the dependencies of the paths from a port to all LIDs of another one. It reports false
// if they do not stay on the lane of a level.
func (c *Core) follow(s *subnet.Snapshot, all *cdg.Graph, sl ib.SL, from, to int32) bool {
	for _, lid := range s.LIDsAt(to) {
		c.hops, _ = s.Trace(from, lid, c.hops[:0])
		for k := range c.hops {
			h := &c.hops[k]
			sw := s.Nodes[h.Node].SwitchIndex
			if sw < 0 || int(h.Out) >= len(s.Graph.PortChannel[sw]) || s.Graph.PortChannel[sw][h.Out] < 0 {
				continue // it ends there
			}
			ch := &s.Graph.Channels[s.Graph.PortChannel[sw][h.Out]]
			if s.Tables.VL(sw, h.In, h.Out, sl, ch.VLs) != ib.VL(sl) {
				return false
			}
			if h.In != 0 && int(h.In) < len(s.Graph.PortChannel[sw]) && s.Graph.PortChannel[sw][h.In] >= 0 {
				all.Add(cdg.Dep{Switch: sw, In: h.In, Out: h.Out}, 1)
			}
		}
	}
	return true
}
