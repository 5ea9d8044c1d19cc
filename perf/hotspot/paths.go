package hotspot

import (
	"cmp"
	"maps"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/perf"
)

// maxHops bounds a walk over the tables: no path is longer.
const maxHops = 64

// hops calls fn with each channel of the path from a switch to a LID, until fn is false. It reports
// whether all were visited.
func (c *Core) hops(sw int32, lid ib.LID, fn func(ch int32) bool) bool {
	g, t := c.snap.Graph, c.snap.Tables
	for range maxHops {
		port := int(t.Entry(sw, lid))
		if port == 0 || port >= len(g.PortChannel[sw]) {
			return true
		}
		ch := g.PortChannel[sw][port]
		if ch < 0 {
			return true
		}
		if !fn(ch) {
			return false
		}
		sw = g.Channels[ch].To
	}
	return false
}

// portAt is the index in Ports of the port by which a channel is left, -1 if it is not known.
func (c *Core) portAt(ch int32) int32 {
	x := &c.snap.Graph.Channels[ch]
	i := c.portOf(x.From, x.OutPort)
	if int(i) >= c.src.Len() {
		return -1
	}
	return i
}

// backed reports whether each link between switches on a host's path to a LID waits: traffic on
// it is held back all the way. Ports that were not sampled count as waiting.
func (c *Core) backed(from *host, lid ib.LID) bool {
	return c.hops(from.sw, lid, func(ch int32) bool {
		i := c.portAt(ch)
		return i >= 0 && (c.elapsed(i) <= 0 || c.wait(i) >= c.cfg.WaitLow)
	})
}

// work is what is known of a round, and what it may still cost.
type work struct {
	limits limits
	open   int // hot spots that are open
	room   int // for contributors
	walk   int // hops
	// leaf are the hosts at each switch, and waiting those that wait, by index in the list of hosts.
	leaf    [][]int32
	waiting []int32
	// backed says for each switch, and each LID of the host in question, whether its path waits: 0 is
	// not known, 1 no, 2 yes.
	backed []uint8
	// feeds says of each host, by index in their list, that it feeds a hot spot, listed or not.
	feeds []bool
}

// begin prepares a round.
func (c *Core) begin(hosts []host) {
	w := work{limits: limitsOf(len(hosts)), leaf: make([][]int32, len(c.snap.Graph.Switches)), feeds: make([]bool, len(hosts))}
	w.room, w.walk = w.limits.feeders, w.limits.walk
	for i := range hosts {
		h := &hosts[i]
		w.leaf[h.sw] = append(w.leaf[h.sw], int32(i))
		if c.elapsed(h.port) > 0 && c.wait(h.port) >= c.cfg.Wait {
			w.waiting = append(w.waiting, int32(i))
		}
	}
	for _, t := range c.tracks {
		if t.open != nil {
			w.open++
			w.room -= len(t.open.Contributors)
		}
	}
	c.of = w
}

// find is the index of the host with a port GUID; ok is false if it is not in the subnet.
func find(hosts []host, g ib.GUID) (k int, ok bool) {
	return slices.BinarySearchFunc(hosts, g, func(h host, g ib.GUID) int { return cmp.Compare(h.end.GUID, g) })
}

// contributors are those of before, and the hosts that feed a hot spot now. In the paper each
// host that waits and uses less than half of its link is one. Here also its path has to wait, and
// the SA must have told it the path. more are those for which there is no room.
func (c *Core) contributors(h *host, sign Sign, hosts []host, before []Contributor) (list []Contributor, more int) {
	list = make([]Contributor, 0, len(before))
	lids := c.snap.LIDsAt(h.port)
	c.of.backed = slices.Grow(c.of.backed[:0], len(lids)*len(c.of.leaf))[:len(lids)*len(c.of.leaf)]
	clear(c.of.backed)
	keep := func(y Contributor) {
		if i, ok := find(hosts, y.Host.GUID); ok {
			x := &hosts[i]
			y.Host, y.Wait, y.Use = x.end, c.wait(x.port), c.src.Use(x.port, perf.XmitData)
		}
		list = append(list, y)
	}
	k := 0
	for _, i := range c.of.waiting {
		x := &hosts[i]
		for k < len(before) && before[k].Host.GUID < x.end.GUID {
			keep(before[k])
			k++
		}
		if k < len(before) && before[k].Host.GUID == x.end.GUID {
			keep(before[k])
			k++
			continue
		}
		ok, known := c.feeds(x, h, sign, lids)
		switch {
		case !ok:
		case len(list)+len(before)-k >= len(before)+c.of.room:
			more++
			c.of.feeds[i] = true
		default:
			keep(Contributor{Host: x.end, Since: c.src.At(x.port).Add(-c.elapsed(x.port)), Known: known})
		}
	}
	for ; k < len(before); k++ {
		keep(before[k])
	}
	return list, more
}

// feeds reports whether host x, which waits, feeds the hot spot h with these LIDs, and whether it is
// known to have asked for the path.
func (c *Core) feeds(x, h *host, sign Sign, lids []ib.LID) (ok, known bool) {
	if x.port == h.port {
		return false, false
	}
	if was, ok := c.freed[x.end.GUID]; ok && was.from != h.end.GUID {
		return false, false
	}
	if sign == Waiting && c.src.Use(x.port, perf.XmitData) >= c.cfg.MaxUse {
		return false, false
	}
	for k, to := range lids {
		memo := &c.of.backed[k*len(c.of.leaf)+int(x.sw)]
		if *memo == 0 {
			*memo = 1
			if c.backed(x, to) {
				*memo = 2
			}
		}
		if *memo == 1 {
			continue
		}
		if c.holds == nil {
			return true, false
		}
		for _, from := range c.snap.LIDsAt(x.port) {
			if may, sure := c.holds(from, to); may {
				ok, known = true, known || sure
			}
		}
	}
	return ok, known
}

// freed is a host that was a victim.
type freed struct {
	from ib.GUID // the host of the hot spot; 0: of several
}

// suffer finds the hosts that may suffer from each hot spot.
func (c *Core) suffer(hosts []host) {
	clear(c.freed)
	for _, t := range c.tracks {
		if t.open != nil {
			for i := range t.open.Contributors {
				if k, ok := find(hosts, t.open.Contributors[i].Host.GUID); ok {
					c.of.feeds[k] = true
				}
			}
		}
	}
	for _, g := range slices.Sorted(maps.Keys(c.tracks)) {
		t := c.tracks[g]
		if t.open == nil {
			continue
		}
		// t.open is not published yet: look and open made it in this round.
		t.open.Victims, t.open.MoreVictims = c.victims(t, hosts)
	}
}

// victims are the hosts that wait, feed no hot spot, and have a path over a waiting link of this
// one.
func (c *Core) victims(t *track, hosts []host) (list []Victim, more int) {
	x := t.open
	waiting := map[int32]bool{} // channels on the paths of contributors
	seen := make([]bool, len(c.of.leaf))
	for i := range x.Contributors {
		k, ok := find(hosts, x.Contributors[i].Host.GUID)
		if !ok || seen[hosts[k].sw] {
			continue
		}
		sw := hosts[k].sw
		seen[sw] = true
		c.hops(sw, x.Host.LID, func(ch int32) bool {
			if p := c.portAt(ch); p >= 0 && c.wait(p) >= c.cfg.WaitLow {
				waiting[ch] = true
			}
			return true
		})
	}
	shared := map[int32]int32{} // by switch: a waiting link of its paths, -1: none
	var all []*host
	for _, i := range c.of.waiting {
		h := &hosts[i]
		if c.of.feeds[i] || h.end.GUID == x.Host.GUID {
			continue
		}
		via, known := shared[h.sw]
		if !known {
			via = c.sharedLink(h.sw, x.Host.LID, waiting)
			shared[h.sw] = via
		}
		if via >= 0 {
			all = append(all, h)
		}
	}
	if t.grew {
		c.note(x.Host.GUID, all)
	}
	slices.SortStableFunc(all, func(a, b *host) int { return cmp.Compare(c.wait(b.port), c.wait(a.port)) })
	for _, h := range all[:min(len(all), maxVictims)] {
		list = append(list, Victim{Host: h.end, Wait: c.wait(h.port), Use: c.src.Use(h.port, perf.XmitData), Via: c.endAt(shared[h.sw])})
	}
	return list, len(all) - len(list)
}

// note remembers the victims of a hot spot.
func (c *Core) note(hot ib.GUID, victims []*host) {
	for _, h := range victims {
		g := h.end.GUID
		f := freed{hot}
		if was, ok := c.freed[g]; ok && was != f {
			f.from = 0
		}
		c.freed[g] = f
	}
}

// sharedLink is the index in Ports of the port before a waiting link that a path from a switch to
// another LID than hot takes; -1: there is none, or the round has cost too much.
func (c *Core) sharedLink(sw int32, hot ib.LID, waiting map[int32]bool) int32 {
	if len(waiting) == 0 {
		return -1
	}
	via := int32(-1)
	for lid, owner := range c.snap.Graph.LIDOwner {
		if owner == fabric.NoLID || ib.LID(lid) == hot {
			continue
		}
		if c.of.walk <= 0 {
			return -1
		}
		if !c.hops(sw, ib.LID(lid), func(ch int32) bool {
			c.of.walk--
			if waiting[ch] {
				via = c.portAt(ch)
				return false
			}
			return true
		}) && via >= 0 {
			return via
		}
	}
	return -1
}
