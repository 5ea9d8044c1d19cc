package hotspot

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/perf"
	"heddle/subnet"
)

// source is a perf.Round, or a test's substitute.
type source interface {
	Len() int
	At(i int32) mad.Time
	Elapsed(i int32) time.Duration
	WaitShare(i int32) float64
	Use(i int32, c perf.Counter) float64
	Details(i int32) *perf.Details
}

// Core finds hot spots. It belongs to one goroutine.
type Core struct {
	cfg Config
	// holds is nil if nothing is known: any host may hold any path.
	holds Holds

	snap   *subnet.Snapshot
	src    source
	now    mad.Time
	most   time.Duration // that a sample may cover; 0: any
	of     work
	round  uint64
	nextID uint64
	tracks map[ib.GUID]*track // by port GUID of the host
	// freed are the victims, in the last round, of hot spots of which contributors were found then.
	// If these have moved since, ports of victims and of those that they send to show before and
	// after in one sample.
	freed  map[ib.GUID]freed
	closed []HotSpot
}

// track is a host with an open hot spot, or one that closed a moment ago.
type track struct {
	open *HotSpot
	mean float64 // of the port's waiting while it was open
	n    float64
	mute int  // rounds without a sample
	grew bool // it has a contributor since this round
	// moved says that its flows are on the slow lane, shown is the last round in which its port had
	// the sign.
	moved bool
	shown uint64
	// closedAt and again are the rounds in which it closed last, and was opened again last; 0: never.
	closedAt, again uint64
}

// New returns a core. Without holds any host may hold any path.
func New(cfg Config, holds Holds) *Core {
	return &Core{cfg: cfg, holds: holds, tracks: map[ib.GUID]*track{}, freed: map[ib.GUID]freed{}}
}

// Step evaluates a round.
func (c *Core) Step(r *perf.Round) Output { return c.step(r.Snap, r.Ended, r.Period, r) }

// longest is how many periods a sample covers at most: one of an agent that was silent for longer
// averages what was with what is, and would show a hot spot that has ended.
const longest = 3

// elapsed is the time that a sample of this round covers; 0: there is none that counts.
func (c *Core) elapsed(i int32) time.Duration {
	if d := c.src.Elapsed(i); c.most == 0 || d <= c.most {
		return d
	}
	return 0
}

func (c *Core) step(s *subnet.Snapshot, now mad.Time, every time.Duration, src source) (out Output) {
	c.snap, c.src, c.now, c.most = s, src, now, longest*every
	c.round++
	held, missed := 0, 0
	if s.Graph != nil && s.Tables != nil {
		hosts := c.hosts()
		c.begin(hosts)
		at := make(map[ib.GUID]int, len(c.tracks))
		var list []candidate
		for k := range hosts {
			h := &hosts[k]
			if t := c.tracks[h.end.GUID]; t != nil && t.open != nil {
				at[h.end.GUID] = k
			} else if c.begins(h) {
				if sign, feeder, ok := c.sign(h, hosts); ok {
					list = append(list, candidate{h, sign, feeder})
				}
			}
		}
		c.follow(hosts, at, &out) // what ends makes room
		held, missed = c.openAll(list, hosts, &out)
		c.suffer(hosts)
	}
	for g, t := range c.tracks {
		if t.open == nil && c.round > max(t.closedAt, t.again)+2*c.cfg.Calm {
			delete(c.tracks, g)
		}
	}
	out.Report = &Report{Round: c.round, At: now, Closed: c.closed, Held: held, Missed: missed}
	for _, t := range c.tracks {
		if t.open != nil {
			out.Report.Open = append(out.Report.Open, *t.open)
			out.Watch = append(out.Watch, t.open.At.GUID)
		}
	}
	slices.SortFunc(out.Report.Open, func(a, b HotSpot) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(out.Watch)
	out.Watch = slices.Compact(out.Watch)
	c.snap, c.src, c.of = nil, nil, work{}
	return out
}

// host is an adapter port and the switch port before it.
type host struct {
	end      End
	port, at int32 // indices in Ports
	sw       int32 // index in Graph.Switches
	num      uint8 // of the switch port
}

// hosts lists the adapter ports at switches, in the order of port GUIDs.
func (c *Core) hosts() []host {
	s := c.snap
	list := make([]host, 0, len(s.Graph.EndPorts))
	for e := range s.Graph.EndPorts {
		x := &s.Graph.EndPorts[e]
		if x.Type == ib.NodeSwitch || x.Switch < 0 || x.LID == 0 || e >= len(s.EndPortPort) {
			continue
		}
		h := host{port: s.EndPortPort[e], sw: x.Switch, num: x.Port}
		if h.at = c.portOf(x.Switch, x.Port); h.port < 0 || h.at < 0 || int(max(h.port, h.at)) >= c.src.Len() {
			continue
		}
		p := s.Ports[h.port]
		h.end = End{Node: x.NodeGUID, Port: x.PortNum, GUID: x.GUID, LID: p.LID, Desc: s.Nodes[p.Node].Desc}
		list = append(list, h)
	}
	return list
}

// portOf is the index in Ports of a port of a switch of the graph, -1 if there is none.
func (c *Core) portOf(sw int32, num uint8) int32 {
	if int(sw) >= len(c.snap.SwitchNode) {
		return -1
	}
	return c.snap.PortIndex(subnet.Ref{Node: c.snap.SwitchNode[sw], Port: num})
}

// endAt is a switch port; its GUID is that of the switch's port 0.
func (c *Core) endAt(i int32) End {
	s := c.snap
	p := s.Ports[i]
	n := &s.Nodes[p.Node]
	return End{Node: n.Info.NodeGUID, Port: p.Num, Desc: n.Desc, GUID: s.Ports[n.First].GUID, LID: p.LID}
}

func (c *Core) wait(i int32) float64 { return c.src.WaitShare(i) }

// begins reports whether the port before a host has the sign of a hot spot.
func (c *Core) begins(h *host) bool {
	if c.elapsed(h.at) <= 0 {
		return false
	}
	return c.wait(h.at) >= c.cfg.Wait || c.src.Use(h.at, perf.XmitData) >= c.cfg.Full
}

// sign is what the sign of a host's port is, and which port feeds it most; ok is false if it has
// none.
func (c *Core) sign(h *host, hosts []host) (s Sign, feeder int32, ok bool) {
	feeder = c.feeder(h, hosts)
	switch {
	case c.wait(h.at) >= c.cfg.Wait && c.saturated(h, c.cfg.Busy):
		return Waiting, feeder, true
	case c.src.Use(h.at, perf.XmitData) >= c.cfg.Full && feeder >= 0 && c.wait(feeder) >= c.cfg.Wait:
		return Full, feeder, true
	}
	return 0, feeder, false
}

// saturated reports whether a host's port waits because the host takes no more. A port also waits
// while the inputs with packets for it send to other ports: where inputs are FIFOs that is often the
// case next to a hot spot. A host that takes less than it is sent keeps its port busy, sending or
// waiting, for the share busy of the time or more. In the round in which that begins the port was
// busy for less. Then it counts if the other ports of the switch have sent for less time than it
// waited: inputs were not busy with them for so long.
func (c *Core) saturated(h *host, busy float64) bool {
	wait := c.wait(h.at)
	return wait+c.src.Use(h.at, perf.XmitData) >= busy || wait > c.others(h)
}

// others is the sum of what the other ports of a host's switch use; a port without a sample counts
// as in use all the time.
func (c *Core) others(h *host) (sum float64) {
	s := c.snap
	for num := range s.Nodes[s.SwitchNode[h.sw]].Info.NumPorts {
		i := c.portOf(h.sw, num+1)
		switch {
		case i < 0 || i == h.at || s.Ports[i].Info.PortState != ib.StateActive:
		case int(i) >= c.src.Len() || c.elapsed(i) <= 0:
			sum++
		default:
			sum += c.src.Use(i, perf.XmitData)
		}
	}
	return sum
}

// feeder is the port that waits most of those that feed the port before a host: ports of other
// switches whose entries for the host lead there, and hosts at the same switch. -1: there is none.
func (c *Core) feeder(h *host, hosts []host) int32 {
	best := int32(-1)
	take := func(i int32) {
		if i >= 0 && int(i) < c.src.Len() && c.elapsed(i) > 0 && (best < 0 || c.wait(i) > c.wait(best)) {
			best = i
		}
	}
	g, t := c.snap.Graph, c.snap.Tables
	for k := g.Off[h.sw]; k < g.Off[h.sw+1]; k++ {
		in := &g.Channels[g.Channels[k].Rev]
		if t.Entry(in.From, h.end.LID) == in.OutPort {
			take(c.portOf(in.From, in.OutPort))
		}
	}
	for _, i := range c.of.leaf[h.sw] {
		if hosts[i].port != h.port {
			take(hosts[i].port)
		}
	}
	return best
}

// candidate is a host with the sign of a hot spot.
type candidate struct {
	*host
	sign   Sign
	feeder int32
}

// openAll opens hot spots of hosts with the sign. held are those that are held back, missed those for
// which there is no room: then those that wait most come first.
func (c *Core) openAll(list []candidate, hosts []host, out *Output) (held, missed int) {
	if len(list)+c.of.open > c.of.limits.spots {
		most := func(x *candidate) float64 {
			if x.sign == Full {
				return c.wait(x.feeder)
			}
			return c.wait(x.at)
		}
		slices.SortStableFunc(list, func(x, y candidate) int { return cmp.Compare(most(&y), most(&x)) })
	}
	for i := range list {
		if c.of.open >= c.of.limits.spots || c.of.room <= 0 || i >= c.of.limits.looks {
			return held, len(list) - i
		}
		if c.open(&list[i], hosts, out) {
			held++
		}
	}
	return held, 0
}

// open opens the hot spot of a host if somebody feeds it. It reports whether it is held back.
func (c *Core) open(h *candidate, hosts []host, out *Output) (held bool) {
	list, more := c.contributors(h.host, h.sign, hosts, nil)
	if len(list) == 0 {
		return false
	}
	t := c.tracks[h.end.GUID]
	if t == nil {
		t = &track{}
		c.tracks[h.end.GUID] = t
	}
	if t.closedAt != 0 && c.round <= t.closedAt+c.cfg.Calm {
		if t.again != 0 && c.round <= t.again+c.cfg.Calm {
			return true
		}
		t.again = c.round
	}
	c.nextID++
	t.mean, t.n, t.mute, t.moved, t.shown = 0, 0, 0, false, c.round
	t.open = &HotSpot{
		ID: c.nextID, Sign: h.sign, Opened: c.now,
		Since: c.src.At(h.at).Add(-c.elapsed(h.at)), Contributors: list, MoreContributors: more,
	}
	c.of.open++
	c.of.room -= len(list)
	t.grew = true
	t.look(c, h.host, h.feeder)
	out.Opened = append(out.Opened, *t.open)
	return false
}

// look takes the newest numbers of a hot spot's port. What was published is not changed.
func (t *track) look(c *Core, h *host, feeder int32) {
	x := *t.open
	x.Host, x.At = h.end, c.endAt(h.at)
	x.Wait, x.Use, x.Lane, x.Behind = c.wait(h.at), c.src.Use(h.at, perf.XmitData), -1, false
	from := h.at
	if x.Sign == Full {
		from = feeder
	}
	if from >= 0 {
		if d := c.src.Details(from); d != nil && d.VLWaitAt != 0 {
			most := uint16(0)
			for vl, n := range d.VLWait[:15] {
				if n > most {
					most, x.Lane = n, vl
				}
			}
		}
	}
	t.n++
	t.mean += (x.Wait - t.mean) / t.n
	t.open = &x
}

// followed is an open hot spot in a round.
type followed struct {
	*track
	*host
	feeder int32
	sign   Sign
	stays  bool
	behind bool // it stays because its flows wait behind those to others
}

// follow looks at open hot spots: which have ended, and who else feeds the others.
func (c *Core) follow(hosts []host, at map[ib.GUID]int, out *Output) {
	list := make([]followed, 0, len(at))
	for _, g := range slices.Sorted(maps.Keys(c.tracks)) {
		t := c.tracks[g]
		if t.open == nil {
			continue
		}
		t.grew = false
		k, there := at[g]
		switch {
		case !there:
			c.close(t, Unseen, out)
			continue
		case c.elapsed(hosts[k].at) <= 0:
			if t.mute++; t.mute >= unseenRounds {
				c.close(t, Unseen, out)
			}
			continue
		}
		t.mute = 0
		x := followed{track: t, host: &hosts[k], feeder: c.feeder(&hosts[k], hosts)}
		if x.sign, x.stays = c.stays(t, x.host, x.feeder); x.stays {
			t.shown = c.round
		}
		list = append(list, x)
	}
	c.queued(list, hosts)
	for i := range list {
		c.take(&list[i], hosts, out)
	}
}

// take closes a hot spot that has ended, and looks who else feeds one that has not.
func (c *Core) take(x *followed, hosts []host, out *Output) {
	t := x.track
	was, mean, n := t.open.Sign, t.mean, t.n
	t.look(c, x.host, x.feeder)
	if !x.stays {
		t.mean, t.n = mean, n
		if t.open.Behind = x.behind; !x.behind {
			c.close(t, Ended, out)
			return
		}
		x.sign = was
	}
	if x.sign != was {
		t.mean, t.n = t.open.Wait, 1
	}
	t.open.Sign = x.sign
	before := len(t.open.Contributors)
	t.open.Contributors, t.open.MoreContributors = c.contributors(x.host, x.sign, hosts, t.open.Contributors)
	c.of.room -= len(t.open.Contributors) - before
	t.grew = len(t.open.Contributors) > before
}

// stays reports whether the port of an open hot spot still shows it, and by which sign.
func (c *Core) stays(t *track, h *host, feeder int32) (Sign, bool) {
	w := c.wait(h.at)
	if (t.open.Sign == Waiting && w >= max(c.cfg.WaitLow, c.cfg.Keep*t.mean) || w >= c.cfg.Wait) && c.saturated(h, c.cfg.BusyLow) {
		return Waiting, true
	}
	// Once flows are on a lane of their own, ports that feed it are busy with others.
	if c.src.Use(h.at, perf.XmitData) >= c.cfg.FullLow && (feeder >= 0 && c.wait(feeder) >= c.cfg.WaitLow || c.fed(t)) {
		return Full, true
	}
	return 0, false
}

// fed reports whether a contributor to a hot spot waits.
func (c *Core) fed(t *track) bool {
	for i := range t.open.Contributors {
		p := c.snap.PortByGUID(t.open.Contributors[i].Host.GUID)
		if p >= 0 && int(p) < c.src.Len() && c.wait(p) >= c.cfg.WaitLow {
			return true
		}
	}
	return false
}

func (c *Core) close(t *track, why string, out *Output) {
	x := *t.open
	x.Closed, x.Why = c.now, why
	x.Victims, x.MoreVictims, x.Behind = nil, 0, false
	t.open, t.closedAt = nil, c.round
	c.of.open--
	c.of.room += len(x.Contributors)
	if n := len(x.Contributors); n > maxClosedFeeders {
		x.Contributors, x.MoreContributors = slices.Clone(x.Contributors[:maxClosedFeeders]), x.MoreContributors+n-maxClosedFeeders
	}
	out.Closed = append(out.Closed, x)
	// Reports share the list, so a new one is made.
	c.closed = append(slices.Clone(c.closed[max(0, len(c.closed)+1-maxClosed):]), x)
}
