package nue

import (
	"slices"

	"heddle/ib"
	"heddle/route"
)

// newWork bounds the search for better trees over new links, in channels.
const newWork = 8 << 20

// useNew lets LIDs use new links. LIDs whose path from the adjacent switch gets
// shorter are routed again if the load permits; those whose path stays equally
// long move over, at that switch alone, until the link has its share.
func (u *update) useNew() {
	var m *improver
	for c := range int32(len(u.to)) {
		if u.d.Channel[c] >= 0 || u.d.Switch[u.net.from[c]] < 0 {
			continue
		}
		if m == nil {
			m = newImprover(u.job)
			m.rescale(slices.Max(m.load))
			for _, t := range u.tours {
				t.work = newWork / int64(len(u.tours))
			}
		}
		for _, t := range u.tours {
			m.useNew(t, c)
		}
	}
	if m != nil {
		m.done()
	}
}

func (m *improver) useNew(t *tour, c int32) {
	u, v := t.from[c], t.to[c]
	for _, d := range t.dest {
		if d == u {
			continue
		}
		for i, l := range t.behind(d) {
			p := m.t.LFT[u][l]
			if p == route.Drop || t.g.PortChannel[u][p] == c || !t.holds(v, l) || t.work <= 0 {
				continue
			}
			far, _ := t.hops(u, d, l, -1)
			near, through := t.hops(v, d, l, u)
			host := i < int(t.cas[d])
			switch {
			case through || near+1 > far:
			case near+1 < far && host:
				t.prepare(d, l)
				m.again(t, d, l)
			case near+1 < far || host && m.load[t.g.PortChannel[u][p]] > m.load[c]:
				t.work -= int64(t.n)
				t.read(d, l)
				m.move(t, u, c, l, near+1 < far, host)
			}
		}
	}
}

// hops counts the links from s to d, and reports whether the path leads through
// switch by.
func (t *tour) hops(s, d int32, l ib.LID, by int32) (n int, through bool) {
	for ; s != d; n++ {
		through = through || s == by
		p := t.job.t.LFT[s][l]
		if p == route.Drop {
			return 1 << 20, through
		}
		s = t.to[t.g.PortChannel[s][p]]
	}
	return n, through
}

// move sends the tree at hand over channel c at switch u, if no cycle closes
// and, unless it must, that makes the load more even.
func (m *improver) move(t *tour, u, c int32, l ib.LID, must, host bool) {
	x := t.v[u].next
	f := uint32(0)
	if host {
		f = t.gather(u)
	}
	next := func(c int32) int32 { return t.v[t.to[c]].next }
	along := func(c int32, f func(c int32, paths uint32), paths uint32) (cost float64) {
		for ; c >= 0; c = next(c) {
			cost -= m.cost(m.load[c])
			f(c, paths)
			cost += m.cost(m.load[c])
		}
		return cost
	}
	if f > 0 && along(x, m.sub, f)+along(c, m.add, f) >= 0 && !must {
		along(c, m.sub, f)
		along(x, m.add, f)
		return
	}
	ok := true
	if y := next(c); y >= 0 {
		ok = t.add(c, y)
	}
	// The channels into u that send on to x.
	in := t.stack[:0]
	for o := t.g.Off[u]; o < t.g.Off[u+1] && ok; o++ {
		if z := t.rev[o]; t.v[t.to[o]].next == z {
			if ok = t.add(z, c); ok {
				in = append(in, z)
			} else if y := next(c); y >= 0 {
				t.drop(c, y)
			}
		}
	}
	t.stack = in
	if !ok {
		for _, z := range in {
			t.drop(z, c)
		}
		along(c, m.sub, f)
		along(x, m.add, f)
		return
	}
	for _, z := range in {
		t.drop(z, x)
	}
	if y := next(x); y >= 0 {
		t.drop(x, y)
	}
	m.t.LFT[u][l] = t.g.Channels[c].OutPort
}

// gather is how many paths of the tree at hand lead through u.
func (t *tour) gather(u int32) (f uint32) {
	for i := len(t.order) - 1; i > 0; i-- {
		s := t.order[i]
		if s == u {
			f = t.flow[s] + t.hosts[s]
			break
		}
		t.flow[t.to[t.v[s].next]] += t.flow[s] + t.hosts[s]
	}
	for _, s := range t.order {
		t.flow[s] = 0
	}
	return f
}
