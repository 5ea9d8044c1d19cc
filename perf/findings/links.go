package findings

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/perf"
	"heddle/subnet"
)

// endOf is port i of s.
func endOf(s *subnet.Snapshot, i int32) End {
	p := s.Ports[i]
	n := &s.Nodes[p.Node]
	return End{GUID: n.Info.NodeGUID, Port: p.Num, Desc: n.Desc}
}

func (e End) place() place { return place{e.GUID, e.Port} }

// link is a link that is physically up, by the indices of its ports, the lower GUID first.
type link struct {
	i, j int32
	a, b End
}

func (l *link) key() key { return key{a: l.a.place(), b: l.b.place()} }

// isUp reports whether port i has a link: it and the far end were read, and are LinkUp.
func isUp(s *subnet.Snapshot, i int32) (far int32, ok bool) {
	p := s.Ports[i]
	if !p.Known || p.Num == 0 || p.Virtual != nil || p.Info.PortPhysicalState != ib.PhysLinkUp {
		return -1, false
	}
	if far = s.PortIndex(p.Peer); far < 0 {
		return -1, false
	}
	q := s.Ports[far]
	return far, q.Known && q.Info.PortPhysicalState == ib.PhysLinkUp && q.Peer == subnet.Ref{Node: p.Node, Port: p.Num}
}

// eachLink calls do for every link of s, in the order of ports. Nodes are in the order of GUIDs.
func eachLink(s *subnet.Snapshot, do func(l *link)) {
	for i := range s.FirstVPort() {
		if far, ok := isUp(s, i); ok && i < far {
			do(&link{i, far, endOf(s, i), endOf(s, far)})
		}
	}
}

// countLinks adds up the counters of all links, and of the ports of links that are gone.
func (c *Core) countLinks(src source) {
	n := min(c.snap.FirstVPort(), int32(src.Len()))
	busy := slices.Grow(c.busy[:0], int(n))[:n] // ports of subjects with tracks
	clear(busy)
	for k := range c.tracks {
		if len(c.rules[k.rule].Counters) == 0 {
			continue
		}
		for _, at := range [2]place{k.a, k.b} {
			if i := c.indexOf(at); i >= 0 && i < n {
				busy[i] = true
			}
		}
	}
	c.busy = busy
	// Few ports have anything to look at, so what is cheap to ask comes first.
	for i := range n {
		if !busy[i] && !src.MayErr(i) || src.Elapsed(i) <= 0 || c.snap.Ports[i].Num == 0 {
			continue
		}
		errors := busy[i]
		for x := perf.SymbolErrors; x < perf.NumCounters && !errors; x++ {
			errors = x.IsError() && src.Delta(i, x) > 0
		}
		if !errors {
			continue
		}
		for n := range c.rules {
			if len(c.rules[n].Counters) > 0 {
				c.count(src, n, i)
			}
		}
	}
}

// indexOf is the index of a port in the snapshot, -1 if there is none.
func (c *Core) indexOf(at place) int32 {
	node := c.snap.NodeByGUID(at.guid)
	if node < 0 {
		return -1
	}
	return c.snap.PortIndex(subnet.Ref{Node: node, Port: at.port})
}

// subjectOf is the link of port i, also if it is gone, and which of its ends the port is.
func (c *Core) subjectOf(i int32) (k key, ends []End, side int, ok bool) {
	if far, up := isUp(c.snap, i); up {
		l := link{min(i, far), max(i, far), endOf(c.snap, min(i, far)), endOf(c.snap, max(i, far))}
		if i > far {
			side = 1
		}
		return l.key(), []End{l.a, l.b}, side, true
	}
	at := endOf(c.snap, i).place()
	l := c.lostAt[at]
	if l == nil {
		return k, nil, 0, false
	}
	if l.b.place() == at {
		side = 1
	}
	return key{a: l.a.place(), b: l.b.place()}, []End{l.a, l.b}, side, true
}

// count takes what port i counted for a rule since its last sample.
func (c *Core) count(src source, n int, i int32) {
	r := &c.rules[n]
	waits := r.Flowing && c.waits(src, i)
	skip := waits || r.UpOnly && src.Delta(i, perf.LinkDowned) > 0
	sum, blind, delta := uint64(0), false, [maxCounters]uint64{}
	for k, x := range r.Counters {
		blind = blind || src.AtEnd(i, x)
		if !skip {
			delta[k] = src.Delta(i, x)
			sum += delta[k]
		}
	}
	k, ends, side, ok := c.subjectOf(i)
	if !ok {
		return
	}
	k.rule = n
	t := c.tracks[k]
	if t == nil {
		if sum == 0 {
			return
		}
		if t = c.trackOf(k, ends...); t == nil {
			return
		}
	}
	elapsed := src.Elapsed(i)
	harmless := c.harmless(r, i) * elapsed.Hours()
	t.seen = c.now
	for k := range r.Counters {
		l := &t.level[side][k]
		if waits && t.open == nil {
			*l = 0 // the sample before may have had the first of the congestion
		}
		*l = min(max(0, *l-harmless)+float64(delta[k]), 2*(r.Limit(k)+1))
	}
	switch {
	case float64(sum) > 4*harmless || blind:
		t.clean = 0 // of a counter at its end nobody knows whether there are more
	case c.now > c.last:
		// Both ends are seen in a round, and either may be silent: each gives half of the time.
		t.clean += elapsed / 2
		if !c.bothRead(src, i) {
			t.clean += elapsed / 2
		}
	}
	if sum == 0 {
		return
	}
	if t.since == 0 {
		t.since = src.At(i)
	}
	t.fresh = true
	for k, x := range r.Counters {
		if d := delta[k]; d > 0 {
			t.add(Evidence{
				End: ends[side], What: x.String(), Delta: d, Rate: float64(d) / elapsed.Seconds(), Limit: r.Limit(k),
				Since: src.At(i).Add(-elapsed), At: src.At(i),
			})
		}
	}
}

// bothRead reports whether the far end of port i was read as well.
func (c *Core) bothRead(src source, i int32) bool {
	far, ok := isUp(c.snap, i)
	return ok && far < int32(src.Len()) && src.Elapsed(far) > 0
}

// add adds what a counter counted to what it counted before.
func (t *track) add(e Evidence) {
	for i := range t.evidence {
		if x := &t.evidence[i]; x.End.place() == e.End.place() && x.What == e.What {
			x.Delta, x.Rate, x.At = x.Delta+e.Delta, e.Rate, e.At
			return
		}
	}
	if len(t.evidence) < maxEvidence {
		t.evidence = append(t.evidence, e)
	}
}

// Bit error rates that links are built for: with forward error correction, which links have from HDR
// on, errors that are left count; and without it (IBA §5.6, volume 2: 10^-12; 10^-15 after correction).
const (
	berPlain     = 1e-12
	berCorrected = 1e-15
)

// harmless is how many events of a counter of a rule in an hour are none at port i.
func (c *Core) harmless(r *Rule, i int32) float64 {
	h := r.Harmless
	if speed := perf.SpeedOf(c.snap, i); r.BER && speed != ib.SpeedNone {
		ber := berPlain
		if speed >= ib.SpeedHDR {
			ber = berCorrected
		}
		h += ber * speed.LaneGbps() * 1e9 * float64(c.snap.Ports[i].Info.LinkWidthActive.Lanes()) * time.Hour.Seconds()
	}
	return h
}

// waits reports whether port i waits for credits as congestion makes it.
func (c *Core) waits(src source, i int32) bool {
	n, ok := c.number[Congestion]
	return ok && src.Elapsed(i) > 0 && src.WaitShare(i) >= c.rules[n].Close
}

// congestion finds the ports at the root of trees of waiting ports: those that wait while nothing
// behind them does. All others wait because of these.
func (c *Core) congestion(src source) {
	n, ok := c.number[Congestion]
	if !ok {
		return
	}
	r, s := &c.rules[n], c.snap
	var roots []int32
	waiting, most := 0, int32(-1)
	tracked := false
	for k := range c.tracks {
		tracked = tracked || k.rule == n
	}
	// Few ports wait, so what is cheap to ask comes first.
	for i := range min(s.FirstVPort(), int32(src.Len())) {
		sampled, share := src.Elapsed(i) > 0, 0.0
		if sampled {
			share = src.WaitShare(i)
		}
		if share < r.Open && (!tracked || sampled && share < r.Close) {
			continue
		}
		far, up := isUp(s, i)
		if !up {
			continue
		}
		t := c.tracks[key{rule: n, a: endOf(s, i).place()}]
		if !sampled {
			if t != nil {
				t.held = true
			}
			continue
		}
		if share >= r.Open || t != nil && share >= r.Close {
			waiting++
			if most < 0 || share > src.WaitShare(most) {
				most = i
			}
			if !c.behindWaits(src, i, far) {
				roots = append(roots, i)
			}
		}
	}
	if len(roots) == 0 && most >= 0 {
		roots = append(roots, most) // they wait for each other
	}
	for _, i := range roots {
		far, _ := isUp(s, i)
		e := endOf(s, i)
		k := key{rule: n, a: e.place()}
		share := src.WaitShare(i)
		if t := c.tracks[k]; t != nil && share < r.Open {
			t.held, t.clean = true, 0
			continue
		}
		c.mark(Congestion, k, []End{e, endOf(s, far)}, Evidence{
			End: e, What: perf.XmitWait.String(), Delta: src.Delta(i, perf.XmitWait), Value: share, Limit: r.Open,
			Text: fmt.Sprintf("%.0f %% of the time%s", 100*share, others(waiting-1)),
		})
	}
}

// others says how many other ports wait.
func others(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 other port waits"
	}
	return fmt.Sprintf("; %d other ports wait", n)
}

// behindWaits reports whether port i waits for a switch of which another port waits.
func (c *Core) behindWaits(src source, i, far int32) bool {
	node := c.snap.Ports[far].Node
	if c.snap.Nodes[node].SwitchIndex < 0 {
		return false
	}
	first := c.snap.Nodes[node].First
	for j := range int32(len(c.snap.NodePorts(node))) {
		if x := first + j; x != far && x != i && x < int32(src.Len()) && c.waits(src, x) {
			return true
		}
	}
	return false
}

// linkStates looks at how links came up.
func (c *Core) linkStates() {
	s := c.snap
	eachLink(s, func(l *link) {
		p, q := s.Ports[l.i], s.Ports[l.j]
		ends := []End{l.a, l.b}
		var low []Evidence
		if is, can := p.Info.LinkWidthActive, (p.Info.LinkWidthSupported & q.Info.LinkWidthSupported).Widest(); is.Lanes() < can.Lanes() {
			low = append(low, Evidence{
				End: l.a, What: "LinkWidthActive", Value: float64(is.Lanes()), Limit: float64(can.Lanes()),
				Text: fmt.Sprintf("%v, both can be %v", is, can),
			})
		}
		if is, can := perf.SpeedOf(s, l.i), min(s.Fastest(p), s.Fastest(q)); is < can {
			low = append(low, Evidence{
				End: l.a, What: "LinkSpeedActive", Value: is.LaneGbps(), Limit: can.LaneGbps(),
				Text: fmt.Sprintf("%v, both can be %v", is, can),
			})
		}
		if len(low) > 0 {
			c.state(Degraded, l.key(), ends, low...)
		}
		up := [2]bool{p.State() == ib.StateActive, q.State() == ib.StateActive}
		if up[0] && up[1] {
			return
		}
		name := StuckInit
		if up[0] != up[1] {
			name = HalfActive
		}
		c.state(name, l.key(), ends,
			Evidence{End: l.a, What: "PortState", Value: float64(p.State()), Limit: float64(ib.StateActive), Text: p.State().String()},
			Evidence{End: l.b, What: "PortState", Value: float64(q.State()), Limit: float64(ib.StateActive), Text: q.State().String()})
	})
}
