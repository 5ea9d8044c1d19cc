package nue

import (
	"math"
	"slices"

	"heddle/ib"
)

const (
	// improveWork bounds improving, in channels searched.
	improveWork = 32 << 20
	maxPasses   = 24
	steep       = 16.0 // how much dearer than a link its load is, at the top
	power       = 8
)

// improver reroutes LIDs one after another if that lowers the sum over all
// channels of a steep function of their load (plus the length of the paths):
// each step lowers the sum, so it terminates. Prices are that function's slope,
// which makes the search a step of the conditional gradient method for convex
// cost flows.
type improver struct {
	*job
	load  []uint64
	price []uint64
	scale float64
	hot   uint64 // process only LIDs that use a channel with at least this load
	old   []step // the tree to beat
	tree  []step // the one being tried
	flow  []uint32
}

type step struct {
	u, c int32
	f    uint32
}

const link = uint64(1) << 32 // the price of a link while improving

// slope is the price of one more path over a channel with some load; scale is
// the load of the fullest.
func slope(load uint64, scale float64) uint64 {
	x := float64(load) / scale
	x *= x
	x *= x
	x *= x
	return uint64(float64(link) * (1 + steep*min(x, 1<<12)))
}

// cost is the integral of the slope, in links.
func (m *improver) cost(load uint64) float64 {
	x := float64(load) / m.scale
	p := x * x
	p *= p
	p *= p
	p *= x
	return float64(load) + float64(steep*m.scale/(power+1)*p)
}

func (m *improver) add(c int32, f uint32) {
	m.load[c] += uint64(f)
	m.price[c] = slope(m.load[c], m.scale)
}

func (m *improver) sub(c int32, f uint32) {
	m.load[c] -= uint64(f)
	m.price[c] = slope(m.load[c], m.scale)
}

// newImprover adds the loads of all layers and makes their prices common.
func newImprover(j *job) *improver {
	m := &improver{
		job: j, load: j.loads(), flow: make([]uint32, j.n), price: make([]uint64, len(j.to)),
	}
	for _, t := range j.tours {
		t.price, t.loads = m.price, m.load
		t.toll = 0
		t.caching = false
		clear(t.blocked)
	}
	return m
}

func (m *improver) rescale(most uint64) {
	m.scale = float64(max(most, 1))
	for c, k := range m.load {
		m.price[c] = slope(k, m.scale)
	}
	for _, t := range m.tours {
		t.scale = m.scale
	}
}

// improve lowers the load of the fullest channels within its budget. It is
// sequential: every step depends on all earlier ones.
func (j *job) improve(passes int) {
	if j.most <= j.floor() {
		return
	}
	m := newImprover(j)
	work := int64(improveWork)
	stale := 0
	lids := 0
	for _, k := range j.cas {
		lids += int(k)
	}
	all := int64(lids*len(j.to)) < improveWork/int64(maxPasses)
	for pass := 0; pass < passes && work > 0 && stale < 3; pass++ {
		m.rescale(j.most)
		m.hot = 0
		if !all {
			m.hot = j.most - j.most/8
		}
		changed := false
		for _, t := range j.tours {
			t.work = work
			for _, d := range t.dest {
				for i, l := range t.behind(d)[:t.cas[d]] {
					if t.work <= 0 {
						break
					}
					if i == 0 || t.limit {
						t.prepare(d, l)
					}
					if m.again(t, d, l) {
						changed = true
					}
				}
			}
			work = t.work
		}
		now := slices.Max(m.load)
		if now >= j.most {
			stale++
		} else {
			stale = 0
		}
		j.most = now
		if !changed {
			break
		}
	}
	m.done()
}

// done returns the loads. Their division among layers no longer matters.
func (m *improver) done() {
	for _, t := range m.tours {
		clear(t.load)
		// From here on the layers may be worked on side by side again.
		t.price, t.loads = slices.Clone(m.price), nil
	}
	m.base = make([]uint32, len(m.to))
	for c, k := range m.load {
		m.base[c] = uint32(k)
	}
	m.weigh()
}

// again reroutes one LID if that is better, and reports whether it was.
func (m *improver) again(t *tour, d int32, l ib.LID) bool {
	t.read(d, l)
	m.old = m.flows(t, m.old)
	if m.hot > 0 && !slices.ContainsFunc(m.old, func(s step) bool { return s.f > 0 && m.load[s.c] >= m.hot }) {
		return false
	}
	t.work -= int64(len(t.to))
	var was float64
	for _, s := range m.old {
		if x := t.v[t.to[s.c]].next; x >= 0 {
			t.drop(s.c, x)
		}
		if s.f > 0 {
			was += m.cost(m.load[s.c])
			m.sub(s.c, s.f)
			was -= m.cost(m.load[s.c])
		}
	}
	t.begin(d)
	t.finish()
	m.tree = m.flows(t, m.tree)
	var is float64
	for _, s := range m.tree {
		if s.f > 0 {
			is += m.cost(m.load[s.c])
			m.sub(s.c, s.f)
			is -= m.cost(m.load[s.c])
		}
	}
	if len(t.order) == t.want && is < was*(1-1e-9) {
		for _, s := range m.tree {
			m.add(s.c, s.f)
		}
		t.write(l)
		return true
	}
	t.undo()
	m.restore(t, d, m.old)
	return false
}

// flows lists the channels of the tree at hand with the paths over them.
func (m *improver) flows(t *tour, into []step) []step {
	into = into[:0]
	for i := len(t.order) - 1; i > 0; i-- {
		u := t.order[i]
		c := t.v[u].next
		f := m.flow[u] + t.hosts[u]
		m.flow[u] = 0
		m.flow[t.to[c]] += f
		into = append(into, step{u, c, f})
	}
	m.flow[t.order[0]] = 0
	return into
}

// restore takes a tree back in that was taken out; the rest is as it was, so
// it closes no cycle.
func (m *improver) restore(t *tour, d int32, old []step) {
	left := t.work
	t.work = math.MaxInt64
	t.begin(d)
	for _, s := range old {
		t.v[s.u].next = s.c
	}
	for _, s := range old {
		if s.f > 0 {
			m.add(s.c, s.f)
		}
		if x := t.v[t.to[s.c]].next; x >= 0 && !t.add(s.c, x) {
			panic("nue: a tree that was there closes a cycle")
		}
	}
	t.work = left - (math.MaxInt64 - t.work)
}
