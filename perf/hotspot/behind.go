package hotspot

import (
	"slices"

	"heddle/perf"
)

// Flows to several hot spots wait for each other on the slow lane: behind a packet to the one that
// is at the head of a queue all wait. Ports of the others then send little and never wait, although
// their hosts are sent more than they take, and which one has its port full may change from round to
// round. If one of them ended its flows would fill the fast lane again. Counters do not say how much
// waits for whom, so a hot spot whose flows are on the slow lane stays while its port sends anything
// that counts, a contributor always has packets and has to wait with some, and flows to it meet those
// to one that shows the sign, or to one that stays so itself.

// shownRounds is for how many rounds more a hot spot counts as one that shows the sign. Ports are
// read one after the other: when another one has its turn no port may show it for a round.
const shownRounds = 1

// Moved says of which open hot spots, by ID, the flows are on the slow lane.
func (c *Core) Moved(ids map[uint64]bool) {
	for _, t := range c.tracks {
		t.moved = t.open != nil && ids[t.open.ID]
	}
}

// queued finds the hot spots that stay because their flows wait behind those to others.
func (c *Core) queued(list []followed, hosts []host) {
	var open []*followed // that may be such
	for i := range list {
		x := &list[i]
		if !x.stays && x.moved && c.src.Use(x.at, perf.XmitData)+c.wait(x.at) >= c.cfg.Trickle && c.held(x.track) {
			open = append(open, x)
		}
	}
	if len(open) == 0 {
		return
	}
	l := &lane{c: c, hosts: hosts}
	l.count, l.seen = make([]int32, l.places()), make([]int32, l.places())
	in := map[*track]bool{}
	for _, t := range c.tracks {
		if t.open != nil && t.moved && t.shown+shownRounds >= c.round {
			l.add(t)
			in[t] = true
		}
	}
	for more := true; more; {
		more = false
		for _, x := range open {
			if x.behind || !l.meets(x.track, in[x.track]) {
				continue
			}
			x.behind, more = true, true
			if !in[x.track] {
				l.add(x.track)
				in[x.track] = true
			}
		}
	}
}

// held reports whether a contributor has packets all the time, and has to wait with some: a queue on
// its slow lane moves too slowly, and meanwhile it sends on other lanes.
func (c *Core) held(t *track) bool {
	return slices.ContainsFunc(t.open.Contributors, func(x Contributor) bool {
		p := c.snap.PortByGUID(x.Host.GUID)
		if p < 0 || int(p) >= c.src.Len() || c.elapsed(p) <= 0 {
			return false
		}
		w := c.wait(p)
		return w >= c.cfg.WaitLow && w+c.src.Use(p, perf.XmitData) >= c.cfg.Busy
	})
}

// lane counts for each place where flows can meet, a host or a channel, the hot spots whose flows
// take it.
type lane struct {
	c     *Core
	hosts []host
	count []int32
	seen  []int32 // by place: the last walk that came there
	walk  int32
	took  []int32 // of the last walk
}

// places is how many there are: channels, and after them hosts.
func (l *lane) places() int { return len(l.c.snap.Graph.Channels) + len(l.hosts) }

// of are the places that flows to a hot spot take, each once.
func (l *lane) of(t *track) []int32 {
	l.walk++
	l.took = l.took[:0]
	first := func(place int32) bool {
		if l.seen[place] == l.walk {
			return false
		}
		l.seen[place] = l.walk
		l.took = append(l.took, place)
		return true
	}
	channels := int32(len(l.c.snap.Graph.Channels))
	for i := range t.open.Contributors {
		if k, ok := find(l.hosts, t.open.Contributors[i].Host.GUID); ok {
			first(channels + int32(k))
			// From a channel that another path took it goes on as that one does.
			l.c.hops(l.hosts[k].sw, t.open.Host.LID, first)
		}
	}
	return l.took
}

func (l *lane) add(t *track) {
	for _, place := range l.of(t) {
		l.count[place]++
	}
}

// meets reports whether flows to a hot spot take a place that those to another one take. in: its own
// are counted.
func (l *lane) meets(t *track, in bool) bool {
	own := int32(0)
	if in {
		own = 1
	}
	return slices.ContainsFunc(l.of(t), func(place int32) bool { return l.count[place] > own })
}
