package transition

import (
	"math/bits"
	"slices"

	"heddle/ib"
	"heddle/internal/heap"
)

// slot holds the possible packets on a channel: lanes by service level.
type slot struct {
	levels uint16
	lanes  [16]uint16
}

// join adds b and reports whether that made a difference.
func (a *slot) join(b *slot) bool {
	more := b.levels&^a.levels != 0
	for m := b.levels; m != 0; m &= m - 1 {
		sl := bits.TrailingZeros16(m)
		more = more || b.lanes[sl]&^a.lanes[sl] != 0
		a.lanes[sl] |= b.lanes[sl]
	}
	a.levels |= b.levels
	return more
}

// seeker searches paths for the switches that cannot reach one destination.
type seeker struct {
	f *fitter
	// By switch:
	next []int32 // the channel it is to use; -1: none
	good []bool
	dist []int32 // links to the destination, of good switches
	out  []slot  // on its final channel
	was  []slot  // on the channel of its installed entry
	// Of disconnected switches: those whose installed entry leads here.
	head, link []int32
	tried      []bool                     // by channel
	turned     []bool                     // by switch
	lost       bool                       // an SL-to-VL table discards what was sent on since it was cleared
	queue      heap.Heap[int32, struct{}] // channels that cut-off switches may take: cost, then channel
}

func newSeeker(f *fitter) *seeker {
	n := f.x.n
	return &seeker{
		f: f, next: make([]int32, n), good: make([]bool, n), dist: make([]int32, n), out: make([]slot, n), was: make([]slot, n),
		head: make([]int32, n), link: make([]int32, n), tried: make([]bool, f.x.m), turned: make([]bool, n),
	}
}

// search connects the switches that cannot reach l: outwards from those that can,
// the shortest path first, over any channel that closes no cycle with packets on
// the channels before and after it. Entries that lead to a reconnected switch
// stay. It reports whether all are connected; if not, nothing changed.
func (f *fitter) search(l ib.LID) bool { return f.seek(l, false) }

// searchSome is search that connects as many as it can.
func (f *fitter) searchSome(l ib.LID) { f.seek(l, true) }

// take has switch u take channel c to l if that closes no cycle. It returns how many switches that
// connects.
func (f *fitter) take(l ib.LID, u, c int32) int {
	f.w.edges = f.w.edges[:0]
	if !f.s.attach(l, u, c) || !f.insert() {
		return 0
	}
	return f.s.connected(l, u, c)
}

func (f *fitter) seek(l ib.LID, some bool) bool {
	x, s, w := f.x, f.s, f.w
	if f.broken[l] < 0 {
		return false
	}
	d, port := x.owner(l)
	from := len(f.log)
	if f.retold(l) {
		// Packets on the new level meet entries that stay, too.
		w.edges = w.edges[:0]
		if !x.depsOf(w, l, installedOnly|newSLs) || !f.insert() {
			return false
		}
	}
	s.begin(l, d, port, mixed)
	left := int(f.broken[l])
	attach := func(u, c int32) { left -= f.take(l, u, c) }
	if !s.good[d] {
		attach(d, -1)
	}
	for turn := true; left > 0 && turn; {
		for left > 0 && s.queue.Len() > 0 && f.ins.budget > 0 {
			h := s.queue.Pop()
			c := int32(h.Tie)
			u := x.from[c]
			if s.good[u] {
				continue
			}
			if h.Key < later {
				w.edges = w.edges[:0]
				if s.attach(l, u, c); len(w.edges) > 0 {
					s.queue.Push(h.Key+later, h.Tie, struct{}{})
					continue
				}
			}
			attach(u, c)
		}
		turn = left > 0 && !some && s.turn(l, d)
	}
	s.queue.Reset()
	if left > 0 && !some {
		for _, b := range f.log[from:] {
			f.ins.deps.clear(b)
		}
		f.log = f.log[:from]
		return false
	}
	for u := range int32(x.managed) {
		switch {
		case f.comp[u] != f.comp[d] || !s.good[u]:
		case u == d:
			f.set(u, l, port)
		case s.next[u] >= 0:
			f.set(u, l, x.outPort[s.next[u]])
		}
	}
	return left == 0
}

// insert adds the walker's dependencies, or none if one closes a cycle.
func (f *fitter) insert() bool {
	if !f.ins.all(f.w.edges) {
		if f.cycle == nil {
			f.cycle = f.findCycle()
		}
		return false
	}
	f.log = append(f.log, f.ins.added...)
	return true
}

// findCycle is a cycle that the walker's dependencies close.
func (f *fitter) findCycle() []Hop {
	x, w := f.x, f.w
	var set []int64
	defer func() {
		for _, b := range set {
			f.ins.deps.clear(b)
		}
	}()
	for _, e := range w.edges {
		if !f.ins.deps.has(e.bit) {
			f.ins.deps.set(e.bit)
			set = append(set, e.bit)
		}
	}
	before := make([]int32, x.nodes())
	var next []int32
	for _, e := range w.edges {
		// Breadth first from the end of the dependency back to its start.
		for i := range before {
			before[i] = -1
		}
		before[e.v] = e.v
		queue := []int32{e.v}
		for h := 0; h < len(queue) && before[e.u] < 0; h++ {
			next = x.succ(f.ins.deps, queue[h], next[:0])
			for _, v := range next {
				if before[v] < 0 {
					before[v] = queue[h]
					queue = append(queue, v)
				}
			}
		}
		if before[e.u] < 0 {
			continue
		}
		var cycle []Hop
		for v := e.u; ; v = before[v] {
			c := v / x.lanes
			cycle = append(cycle, Hop{x.from[c], x.outPort[c], uint8(v % x.lanes)})
			if v == e.v {
				break
			}
		}
		slices.Reverse(cycle)
		return cycle
	}
	return nil
}

// later is added to the cost of a channel that needs new dependencies, so that
// channels without any come first and leave room for destinations that need them.
const later = 1 << 20

// turn moves a connected switch next to a disconnected one to another channel, if
// that opens a path for the other. It reports whether it did.
func (s *seeker) turn(l ib.LID, d int32) bool {
	f, x, w := s.f, s.f.x, s.f.w
	for v := range int32(x.managed) {
		if !s.good[v] || v == d || s.turned[v] || f.ins.budget < 0 {
			continue
		}
		beside := false
		for _, c := range x.into[x.intoOff[v]:x.intoOff[v+1]] {
			beside = beside || !s.good[x.from[c]]
		}
		if !beside {
			continue
		}
		s.turned[v] = true
		for _, c := range x.outs[x.outOff[v]:x.outOff[v+1]] {
			if c == s.next[v] || !s.good[x.to[c]] || s.through(x.to[c], v) {
				continue
			}
			w.edges = w.edges[:0]
			if !s.attach(l, v, c) || !f.insert() {
				continue
			}
			s.connected(l, v, c)
			for _, c := range x.into[x.intoOff[v]:x.intoOff[v+1]] {
				s.tried[c] = false
			}
			s.offer(v)
			return true
		}
	}
	return false
}

// through reports whether packets go from u by v.
func (s *seeker) through(u, v int32) bool {
	for range s.f.x.n {
		if u == v {
			return true
		}
		if s.next[u] < 0 {
			return false
		}
		u = s.f.x.to[s.next[u]]
	}
	return true
}

// begin adds the dependencies of the installed entries for packets on levels of sp.
func (s *seeker) begin(l ib.LID, d int32, port uint8, sp spec) {
	x, w := s.f.x, s.f.w
	x.load(w, l, installedOnly)
	x.order(w)
	x.start(w, l, sp)
	for u := range s.head {
		s.head[u] = -1
	}
	clear(s.tried)
	clear(s.turned)
	for _, u := range w.post {
		c := w.a[u]
		s.good[u] = u == d && effective(x.old, u, int(l)) == port || u != d && c >= 0 && s.good[x.to[c]]
		s.dist[u] = 0
		s.next[u] = c
		if u == d {
			s.next[u] = -1
		} else if s.good[u] {
			s.dist[u] = s.dist[x.to[c]] + 1
		}
		s.was[u], s.out[u] = slot{}, slot{}
	}
	for i := len(w.post) - 1; i >= 0; i-- {
		u := w.post[i]
		c := w.a[u]
		if c < 0 {
			continue
		}
		s.inject(&s.was[u], l, u, c)
		for j := s.head[u]; j >= 0; j = s.link[j] {
			s.pass(&s.was[j], w.a[j], c, &s.was[u], false)
		}
		if s.good[u] {
			s.out[u] = s.was[u]
		}
		v := x.to[c]
		s.link[u], s.head[v] = s.head[v], u
	}
	for u := range int32(x.n) {
		if s.good[u] {
			s.offer(u)
		}
	}
}

// offer queues the channels into u that disconnected switches may take.
func (s *seeker) offer(u int32) {
	x := s.f.x
	for _, c := range x.into[x.intoOff[u]:x.intoOff[u+1]] {
		from := x.from[c]
		if s.good[from] || s.tried[c] || int(from) >= x.managed {
			continue
		}
		s.tried[c] = true
		cost := (s.dist[u] + 1) * 4
		if s.next[from] != c {
			cost++
		}
		s.queue.Push(cost, uint64(c), struct{}{})
	}
}

// inject starts the packets of switch u and its hosts into a slot of channel c.
func (s *seeker) inject(to *slot, l ib.LID, u, c int32) {
	x, w := s.f.x, s.f.w
	m := w.arrive[u]
	if m == 0 {
		return
	}
	if !x.tables {
		for ; m != 0; m &= m - 1 {
			sl := bits.TrailingZeros16(m)
			to.levels |= 1 << sl
			to.lanes[sl] |= x.lanesOf(c, 0, ib.SL(sl), oldLanes)
		}
		return
	}
	ports := x.ports[u]
	if x.fromAnywhere(l) {
		ports = x.injected[u]
	}
	for _, p := range ports {
		for r := m; r != 0; r &= r - 1 {
			sl := bits.TrailingZeros16(r)
			to.levels |= 1 << sl
			to.lanes[sl] |= x.lanesOf(c, p, ib.SL(sl), oldLanes)
		}
	}
}

// pass sends the packets in a slot of channel c1 by channel c2 into another slot;
// edges says whether the dependencies are added to the walker's.
func (s *seeker) pass(in *slot, c1, c2 int32, to *slot, edges bool) {
	s.passIn(in, c1, s.f.x.inPort[c1], c2, to, edges)
}

// passIn is pass for packets from a port; c1 is negative if no packet waits for the
// channel by which they arrived.
func (s *seeker) passIn(in *slot, c1 int32, port uint8, c2 int32, to *slot, edges bool) {
	x, w := s.f.x, s.f.w
	for m := in.levels; m != 0; m &= m - 1 {
		sl := bits.TrailingZeros16(m)
		if in.lanes[sl] == 0 {
			continue
		}
		lanes := x.lanesOf(c2, port, ib.SL(sl), oldLanes)
		s.lost = s.lost || lanes == 0
		if to != nil {
			to.levels |= 1 << sl
			to.lanes[sl] |= lanes
		}
		if !edges || c1 < 0 {
			continue
		}
		for p := in.lanes[sl]; p != 0; p &= p - 1 {
			for q := lanes; q != 0; q &= q - 1 {
				x.add(w, c1, int32(bits.TrailingZeros16(p)), c2, int32(bits.TrailingZeros16(q)))
			}
		}
	}
}

// attach collects the dependencies at switch u if it takes channel c to l (-1:
// delivers): those of its own packets, and of packets that installed and recent
// entries bring to it.
// It reports false if an SL-to-VL table discards some of them.
func (s *seeker) attach(l ib.LID, u, c int32) bool {
	if c < 0 {
		return true
	}
	s.lost = false
	var out slot
	s.inject(&out, l, u, c)
	s.arrivals(l, u, c, &out, true)
	s.follow(u, c, &out, false)
	return !s.lost
}

// arrivals sends the packets that installed, recent and new entries bring to switch u by
// channel c.
func (s *seeker) arrivals(l ib.LID, u, c int32, out *slot, edges bool) {
	x, w := s.f.x, s.f.w
	for past, i := s.f.pastOf(l, u), 0; i < len(past); i++ {
		s.passIn(&past[i].slot, past[i].c, past[i].in, c, out, edges)
	}
	for j := s.head[u]; j >= 0; j = s.link[j] {
		s.pass(&s.was[j], w.a[j], c, out, edges)
	}
	if !s.good[u] {
		return // nothing new leads to it yet
	}
	for _, k := range x.into[x.intoOff[u]:x.intoOff[u+1]] {
		if j := x.from[k]; s.good[j] && s.next[j] == k {
			s.pass(&s.out[j], k, c, out, edges)
		}
	}
}

// follow continues from channel c of switch u with the packets in out, to the
// destination or to where all of them have been before. keep records them;
// otherwise the dependencies are collected.
func (s *seeker) follow(u, c int32, out *slot, keep bool) {
	x := s.f.x
	at := *out
	for range x.n {
		if keep && !s.out[u].join(&at) {
			return
		}
		v := x.to[c]
		next := s.next[v]
		if next < 0 {
			return
		}
		var on slot
		s.pass(&at, c, next, &on, !keep)
		if seen := s.out[v]; !keep && !seen.join(&on) {
			return
		}
		u, c, at = v, next, on
	}
}

// connected records that u takes channel c, which also connects all switches
// whose installed entries lead to u. It returns how many switches that
// connects.
func (s *seeker) connected(l ib.LID, u, c int32) (n int) {
	x := s.f.x
	s.next[u] = c
	s.out[u] = slot{} // of another channel
	var out slot
	if c >= 0 {
		s.inject(&out, l, u, c)
		s.arrivals(l, u, c, &out, false)
		s.follow(u, c, &out, true)
	}
	stack := []int32{u}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		s.good[v] = true
		s.dist[v] = 0
		if k := s.next[v]; k >= 0 {
			s.dist[v] = s.dist[x.to[k]] + 1
		}
		if v != u {
			s.out[v].join(&s.was[v])
		}
		if int(v) < x.managed {
			n++
		}
		s.offer(v)
		for j := s.head[v]; j >= 0; j = s.link[j] {
			if !s.good[j] {
				stack = append(stack, j)
			}
		}
	}
	return n
}
