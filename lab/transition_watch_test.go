package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sim"
	"heddle/sm"
)

// period is when something was so; it still is if until is mad.Never.
type period struct{ from, until mad.Time }

func (p period) meets(a, b mad.Time) bool { return p.from <= b && p.until >= a }

type heldEntry struct {
	period
	port byte
}

type heldPorts struct {
	period
	ports []uint8
}

type heldRow struct {
	period
	lanes smp.SLtoVL
}

// toldLevels is what hosts could learn: the service levels of a snapshot.
type toldLevels struct {
	period
	graph  *fabric.Graph
	tables *route.Tables
	index  map[ib.GUID]int32
}

// flights is the oracle of transitions under traffic. It looks at the
// simulated switches and nowhere else: after every change it asks where data
// packets can be at that moment, given which entries, SL-to-VL tables and links
// were in force when, that a packet leaves a switch within its lifetime and
// head-of-queue limit, and that a host uses a service level until repath after
// it was told another. Then it looks for packets that wait for each other in a
// ring.
type flights struct {
	c      *Cluster
	m      *Manager
	stay   time.Duration // longest in one switch
	repath time.Duration

	entries [][][]heldEntry // by node, LID
	lanes   [][][]heldRow   // by node, in·(ports+1) + out
	groups  []ib.LID        // multicast groups that are watched
	ports   [][][]heldPorts // by node, index in groups
	active  [][][]period    // by node, port
	told    []toldLevels
	owners  map[ib.LID]int
	several bool // more than one lane is in use

	slack  time.Duration // what a sweep's own questions and answers take besides a plan
	err    error
	looks  int
	starts *started
	sent   int // notices seen
	worst  time.Duration
}

// started is what could be reached when a transition began.
type started struct {
	window time.Duration
	worst  time.Duration
	which  [2]int
	pairs  map[[2]int]mad.Time // source node, LID → when it was lost; 0: it is not
}

func watchFlights(c *Cluster, m *Manager, cfg *sm.Config, groups ...ib.LID) *flights {
	w := &flights{
		c: c, m: m, groups: groups, repath: cfg.RepathTime, owners: map[ib.LID]int{}, slack: 20 * time.Millisecond,
		stay: transition.Lifetime(cfg.PacketLife) + transition.Lifetime(max(cfg.HOQLife, cfg.LeafHOQLife)),
	}
	n := len(c.Fabric.Nodes)
	w.entries, w.lanes, w.active = make([][][]heldEntry, n), make([][][]heldRow, n), make([][][]period, n)
	w.ports = make([][][]heldPorts, n)
	for i := range c.Fabric.Nodes {
		ports := c.Fabric.Nodes[i].NumPorts + 1
		w.active[i] = make([][]period, ports)
		w.lanes[i] = make([][]heldRow, ports*ports)
		w.readLinks(i)
		w.readEntries(i)
		w.readLanes(i)
		w.ports[i] = make([][]heldPorts, len(groups))
		w.readGroups(i)
	}
	w.readTold()
	m.OnPublish = w.readTold
	c.Sim.OnChange = func(ch sim.Change) {
		switch {
		case w.err != nil:
			return
		case ch.Kind == sim.ChangeState:
			w.readLinks(ch.Node)
			if ch.Old == ib.StateActive {
				w.starts, w.sent = nil, len(w.m.Notices) // what was planned before is void
			}
		case ch.Kind == sim.ChangeReset:
			w.readLinks(ch.Node)
			w.readEntries(ch.Node)
			w.readLanes(ch.Node)
			w.readGroups(ch.Node)
		case ch.Attr == smp.AttrLFT || ch.Attr == smp.AttrSwitchInfo:
			w.readEntries(ch.Node)
			w.readGroups(ch.Node)
		case ch.Attr == smp.AttrMFT:
			w.readGroups(ch.Node)
		case ch.Attr == smp.AttrSLtoVL:
			w.readLanes(ch.Node)
		default:
			return
		}
		w.look()
	}
	return w
}

func (w *flights) now() mad.Time { return w.c.Sim.Now() }

// recent drops what no packet can have met.
func recent[T any](list []T, p func(*T) *period, horizon mad.Time) []T {
	return slices.DeleteFunc(list, func(x T) bool { return p(&x).until < horizon })
}

func (w *flights) horizon() mad.Time {
	return w.now().Add(-time.Duration(len(switches(w.c.Fabric))+1) * w.stay)
}

func (w *flights) readEntries(n int) {
	if !w.c.Fabric.Nodes[n].IsSwitch() {
		return
	}
	row := w.c.Sim.LFT(n, nil)
	for len(w.entries[n]) < len(row) {
		w.entries[n] = append(w.entries[n], []heldEntry{{period{0, mad.Never}, route.Drop}})
	}
	for l := range w.entries[n] {
		e := byte(route.Drop)
		if l < len(row) {
			e = row[l]
		}
		list := w.entries[n][l]
		if last := &list[len(list)-1]; last.port != e {
			last.until = w.now()
			list = append(list, heldEntry{period{w.now(), mad.Never}, e})
		}
		w.entries[n][l] = recent(list, func(x *heldEntry) *period { return &x.period }, w.horizon())
	}
}

func (w *flights) readLanes(n int) {
	if !w.c.Fabric.Nodes[n].IsSwitch() {
		return
	}
	ports := w.c.Fabric.Nodes[n].NumPorts + 1
	for i := range w.lanes[n] {
		row := w.c.Sim.SLtoVL(n, uint8(i/ports), uint8(i%ports))
		list := w.lanes[n][i]
		if len(list) == 0 || list[len(list)-1].lanes != row {
			if len(list) > 0 {
				list[len(list)-1].until = w.now()
			}
			list = append(list, heldRow{period{w.now(), mad.Never}, row})
		}
		w.lanes[n][i] = recent(list, func(x *heldRow) *period { return &x.period }, w.horizon())
	}
}

func (w *flights) readGroups(n int) {
	for i, g := range w.groups {
		p := w.c.Sim.MFT(n, g)
		list := w.ports[n][i]
		if len(list) == 0 || !slices.Equal(list[len(list)-1].ports, p) {
			if len(list) > 0 {
				list[len(list)-1].until = w.now()
			}
			list = append(list, heldPorts{period{w.now(), mad.Never}, p})
		}
		w.ports[n][i] = recent(list, func(x *heldPorts) *period { return &x.period }, w.horizon())
	}
}

func (w *flights) readLinks(n int) {
	for p := 1; p <= w.c.Fabric.Nodes[n].NumPorts; p++ {
		up := w.c.Sim.Up(n) && w.c.Sim.PortInfo(n, p).PortState == ib.StateActive
		list := w.active[n][p]
		on := len(list) > 0 && list[len(list)-1].until == mad.Never
		switch {
		case up && !on:
			list = append(list, period{w.now(), mad.Never})
		case !up && on:
			list[len(list)-1].until = w.now()
		}
		w.active[n][p] = recent(list, func(x *period) *period { return x }, w.horizon())
	}
}

func (w *flights) isActive(n, p int) bool {
	list := w.active[n][p]
	return len(list) > 0 && list[len(list)-1].until == mad.Never
}

// activeSince reports whether a port is Active, and has been without a break since t or before.
func (w *flights) activeSince(n, p int, t mad.Time) bool {
	list := w.active[n][p]
	return w.isActive(n, p) && list[len(list)-1].from <= t
}

// readTold notes what hosts can learn from the manager.
func (w *flights) readTold() {
	s := w.m.Snap
	if s == nil || s.Tables == nil || s.Graph == nil || len(w.told) > 0 && w.told[len(w.told)-1].tables == s.Tables {
		return
	}
	t := toldLevels{period{w.now(), mad.Never}, s.Graph, s.Tables, map[ib.GUID]int32{}}
	for i := range s.Graph.Switches {
		t.index[s.Graph.Switches[i].GUID] = int32(i)
	}
	if len(w.told) > 0 {
		w.told[len(w.told)-1].until = w.now().Add(w.repath)
	} else {
		t.from = 0
	}
	w.told = append(w.told, t)
	w.told = recent(w.told, func(x *toldLevels) *period { return &x.period }, w.horizon())
	for i := range w.told {
		w.several = w.several || w.told[i].tables.SL != nil || w.told[i].tables.Lanes != nil
	}
}

// buffer is a lane of the channel that leaves a node by a port.
type buffer struct {
	node int32
	port uint8
	lane uint8
}

// flight is a packet that came into a switch over a buffer some time between
// from and until.
type flight struct {
	buffer
	sl          ib.SL
	from, until mad.Time
}

// look judges this moment.
func (w *flights) look() {
	w.reachability()
	w.looks++
	waits := map[buffer]map[buffer]cause{}
	now, begin := w.now(), w.horizon()
	top := 0
	for _, e := range w.c.Sim.LIDs() {
		w.owners[e.LID] = e.Node // remembered when it is gone
	}
	for n := range w.entries {
		top = max(top, len(w.entries[n]))
	}
	f := w.c.Fabric
	for l := 1; l < top; l++ {
		owner, owned := w.owners[ib.LID(l)]
		toSwitch := owned && f.Nodes[owner].IsSwitch()
		seen := map[flight]bool{}
		for n := range f.Nodes {
			if !f.Nodes[n].IsSwitch() || l >= len(w.entries[n]) {
				continue
			}
			var in []uint8
			if !toSwitch {
				in = append(in, 0)
			}
			for p := 1; p <= f.Nodes[n].NumPorts; p++ {
				if r, ok := w.c.Sim.Peer(n, p); ok && !f.Nodes[r.Node].IsSwitch() && w.isActive(n, p) {
					in = append(in, uint8(p))
				}
			}
			if len(in) == 0 {
				continue
			}
			w.levels(f.Nodes[n].GUID, ib.LID(l), func(sl ib.SL, p period) {
				a, b := max(begin, p.from), min(now, p.until)
				for _, port := range in {
					if a <= b {
						w.forward(waits, seen, n, port, l, flight{sl: sl, from: a, until: b}, false)
					}
				}
			})
		}
	}
	for i := range w.groups {
		w.lookGroup(waits, i)
	}
	if ring := ringOf(waits); len(ring) > 0 {
		w.err = fmt.Errorf("at %v packets can wait for each other: %s", now, w.name(ring, waits))
	}
}

// name lists a ring, with a packet on each buffer that waits for the next.
func (w *flights) name(ring []buffer, waits map[buffer]map[buffer]cause) (s string) {
	for i, b := range ring {
		k := waits[b][ring[(i+1)%len(ring)]]
		s += fmt.Sprintf("\n%s[%d] lane %d: level %d to LID %d, here since %v–%v, sent on by an entry of %v–%v",
			w.c.Fabric.Nodes[b.node].ID, b.port, b.lane, k.x.sl, k.lid, k.x.from, k.x.until, k.e.from, k.e.until)
	}
	return s
}

// cause is a packet that waits: where it came in, and when the entry was in force that
// sends it on.
type cause struct {
	lid int
	x   flight
	e   period
}

// levels calls fn for the service levels that hosts on a switch may use, and when.
func (w *flights) levels(guid ib.GUID, l ib.LID, fn func(sl ib.SL, p period)) {
	if !w.several {
		fn(0, period{0, mad.Never})
		return
	}
	for i := range w.told {
		g := w.told[i].graph
		// Nobody is told a path to who is not there.
		if s, ok := w.told[i].index[guid]; ok && int(l) < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID {
			fn(w.told[i].tables.PathSL(s, l), w.told[i].period)
		}
	}
}

// lookGroup adds where packets of a group can be: every switch with ports
// for it may send.
func (w *flights) lookGroup(waits map[buffer]map[buffer]cause, i int) {
	now, begin := w.now(), w.horizon()
	seen := map[flight]bool{}
	for n := range w.ports {
		for _, h := range w.ports[n][i] {
			for k := range w.told {
				sl, known := ib.SL(0), false
				if m := w.told[k].tables.Multicast; m != nil {
					for j := range m.Trees {
						if m.Trees[j].MLID == w.groups[i] {
							sl, known = m.Trees[j].SL, true
						}
					}
				}
				a, b := max(begin, h.from, w.told[k].from), min(now, h.until, w.told[k].until)
				if a > b || !known {
					continue
				}
				for _, in := range append([]uint8{0}, h.ports...) {
					if in == 0 || !w.toSwitch(n, int(in)) {
						w.forwardGroup(waits, seen, n, in, i, flight{sl: sl, from: a, until: b}, false)
					}
				}
			}
		}
	}
}

func (w *flights) toSwitch(n, p int) bool {
	r, ok := w.c.Sim.Peer(n, p)
	return ok && w.c.Fabric.Nodes[r.Node].IsSwitch()
}

// forwardGroup is forward for packets of a group: they leave by all ports but
// the one that they came in by.
func (w *flights) forwardGroup(waits map[buffer]map[buffer]cause, seen map[flight]bool, n int, in uint8, i int, x flight, inFlight bool) {
	last := x.until
	if inFlight {
		last = min(x.until.Add(w.stay), w.now())
	}
	for _, h := range w.ports[n][i] {
		if !h.meets(x.from, last) {
			continue
		}
		for _, p := range h.ports {
			if p != 0 && p != in && w.toSwitch(n, int(p)) {
				w.leave(waits, n, in, p, int(w.groups[i]), x, h.period, inFlight, func(to int, port uint8, y flight) {
					if !seen[y] {
						seen[y] = true
						w.forwardGroup(waits, seen, to, port, i, y, true)
					}
				})
			}
		}
	}
}

// forward sends packets on that are at switch n since x.from..x.until; inFlight
// says that they came over a channel between switches.
func (w *flights) forward(waits map[buffer]map[buffer]cause, seen map[flight]bool, n int, in uint8, l int, x flight, inFlight bool) {
	last := x.until
	if inFlight {
		last = min(x.until.Add(w.stay), w.now())
	}
	for _, e := range w.entries[n][l] {
		if e.port == 0 || int(e.port) > w.c.Fabric.Nodes[n].NumPorts || !e.meets(x.from, last) || !w.toSwitch(n, int(e.port)) {
			continue
		}
		w.leave(waits, n, in, e.port, l, x, e.period, inFlight, func(to int, port uint8, y flight) {
			if l < len(w.entries[to]) && !seen[y] {
				seen[y] = true
				w.forward(waits, seen, to, port, l, y, true)
			}
		})
	}
}

// leave lets packets x that are at switch n go by port p, to which a table
// sends them during e, and calls next for what comes in at the other end.
func (w *flights) leave(waits map[buffer]map[buffer]cause, n int, in, p uint8, l int, x flight, e period, inFlight bool, next func(to int, port uint8, y flight)) {
	if inFlight && in == p {
		return // switches discard what would leave by the port it came in by (IBA §16.1.3.5)
	}
	now := w.now()
	last := x.until
	if inFlight {
		last = min(x.until.Add(w.stay), now)
	}
	r, _ := w.c.Sim.Peer(n, int(p))
	from, until := max(x.from, e.from), min(last, e.until)
	for _, row := range w.lanes[n][int(in)*(w.c.Fabric.Nodes[n].NumPorts+1)+int(p)] {
		lane := uint8(row.lanes[x.sl])
		if lane >= 15 || !row.meets(from, until) {
			continue
		}
		out := buffer{int32(n), p, lane}
		a, b := max(from, row.from), min(until, row.until)
		// Who waits for this entry came while it was in force, or before. Who found the port not Active
		// was discarded (IBA §7.2.7).
		if inFlight && min(x.until, e.until, row.until).Add(w.stay) >= now && w.activeSince(n, int(p), b) && w.isActive(int(x.node), int(x.port)) {
			if waits[x.buffer] == nil {
				waits[x.buffer] = map[buffer]cause{}
			}
			waits[x.buffer][out] = cause{l, x, e}
		}
		for _, up := range w.active[n][p] {
			if up.meets(a, b) {
				next(int(r.Node), r.Port, flight{out, x.sl, max(a, up.from), min(b, up.until)})
			}
		}
	}
}

// ringOf is a ring of buffers that wait for each other, nil if there is none.
func ringOf(waits map[buffer]map[buffer]cause) []buffer {
	state := map[buffer]int{}
	var path, ring []buffer
	var visit func(b buffer) bool
	visit = func(b buffer) bool {
		switch state[b] {
		case 1:
			ring = path[slices.Index(path, b):]
			return true
		case 2:
			return false
		}
		state[b] = 1
		path = append(path, b)
		for c := range waits[b] {
			if visit(c) {
				return true
			}
		}
		path = path[:len(path)-1]
		state[b] = 2
		return false
	}
	for b := range waits {
		if visit(b) {
			return ring
		}
	}
	return nil
}

// delivers says, by switch, whether the entries in force take packets to l.
func (w *flights) delivers(l, owner int) []bool {
	f := w.c.Fabric
	out := make([]bool, len(f.Nodes))
	for n := range f.Nodes {
		if !f.Nodes[n].IsSwitch() {
			continue
		}
		at := n
		for range len(f.Nodes) + 1 {
			if l >= len(w.entries[at]) {
				break
			}
			e := int(w.entries[at][l][len(w.entries[at][l])-1].port)
			if e == 0 {
				out[n] = at == owner
				break
			}
			if e > f.Nodes[at].NumPorts || !w.isActive(at, e) {
				break
			}
			r, ok := w.c.Sim.Peer(at, e)
			if !ok {
				break
			}
			if !f.Nodes[r.Node].IsSwitch() {
				out[n] = int(r.Node) == owner
				break
			}
			at = int(r.Node)
		}
	}
	return out
}

// reachability follows, from the moment that a transition is announced to the
// end of its sweep, what could be reached when it began. While no link changes
// nothing may be lost for longer than the plan said.
func (w *flights) reachability() {
	for ; w.sent < len(w.m.Notices); w.sent++ {
		n := &w.m.Notices[w.sent]
		switch n.Kind {
		case sm.KindRouted:
			w.starts = &started{window: n.Dur}
		case sm.KindSweepEnd:
			w.finish(n.Report)
			w.starts = nil
		}
	}
	s := w.starts
	if s == nil {
		return
	}
	first := s.pairs == nil
	if first {
		s.pairs = map[[2]int]mad.Time{}
	}
	for _, e := range w.c.Sim.LIDs() {
		got := w.delivers(int(e.LID), e.Node)
		for n, ok := range got {
			pair := [2]int{n, int(e.LID)}
			lost, known := s.pairs[pair]
			switch {
			case first && ok:
				s.pairs[pair] = 0
			case known && !ok && lost == 0:
				s.pairs[pair] = w.now()
			case known && ok && lost != 0:
				w.lost(pair, w.now().Sub(lost))
				s.pairs[pair] = 0
			}
		}
	}
}

func (w *flights) lost(pair [2]int, d time.Duration) {
	if s := w.starts; d > s.worst {
		s.worst, s.which = d, pair
	}
}

// believed reports whether the manager takes a link between switches to be up.
func (w *flights) believed(n, p int) bool {
	g := w.m.Snap.Graph
	if g == nil {
		return false // our own port is down
	}
	for s := range g.Switches {
		if g.Switches[s].GUID == w.c.Fabric.Nodes[n].GUID {
			return p < len(g.PortChannel[s]) && g.PortChannel[s][p] >= 0
		}
	}
	return false
}

// finish judges a transition whose sweep ended. One that a switch did not take
// part in, or that was broken off, was not carried out as planned, and one that was planned before the
// manager heard of a link was for another fabric.
func (w *flights) finish(r *sm.SweepReport) {
	s := w.starts
	if s == nil || r == nil || r.Problems > 0 || r.Broken {
		return
	}
	for _, c := range cables(w.c.Fabric) {
		n, p := int(c.Node), int(c.Port)
		up := w.c.Sim.Up(n) && w.c.Sim.PortInfo(n, p).PortPhysicalState == ib.PhysLinkUp
		if up != w.isActive(n, p) || up != w.believed(n, p) {
			return
		}
	}
	for pair, lost := range s.pairs {
		if lost != 0 {
			w.lost(pair, w.now().Sub(lost))
		}
	}
	w.worst = max(w.worst, s.worst)
	if limit := s.window + s.window/4 + w.slack; s.worst > limit && w.err == nil {
		w.err = fmt.Errorf("at %v: %s lost LID %d for %v, longer than %v", w.now(), w.c.Fabric.Nodes[s.which[0]].ID, s.which[1], s.worst, limit)
	}
}
