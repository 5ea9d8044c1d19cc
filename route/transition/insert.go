package transition

import "slices"

// inserter keeps a topological order of the channels while dependencies are
// added one at a time, and refuses one that would close a cycle (D. J. Pearce
// and P. H. J. Kelly, "A dynamic topological sort algorithm for directed
// acyclic graphs", 2006). Taking dependencies away needs no work: the order
// stays valid.
type inserter struct {
	x      *extended
	deps   depSet
	ord    []int32 // by channel: its place
	budget int     // visits left; negative: insert answers false for want of it
	mark   []bool
	fwd    []int32
	back   []int32
	places []int32
	into   []int32 // channels by the switch they enter
	inOff  []int32
}

func (t *inserter) init() {
	g := t.x.g
	t.mark = make([]bool, len(g.Channels))
	t.inOff = make([]int32, len(g.Switches)+1)
	for i := range g.Channels {
		t.inOff[g.Channels[i].To+1]++
	}
	for s := range g.Switches {
		t.inOff[s+1] += t.inOff[s]
	}
	t.into = make([]int32, len(g.Channels))
	next := slices.Clone(t.inOff)
	for i := range g.Channels {
		to := g.Channels[i].To
		t.into[next[to]] = int32(i)
		next[to]++
	}
}

// insert makes room for the dependency c1→c2 in the order; false if it would
// close a cycle or the budget is used up. The caller sets the bit.
func (t *inserter) insert(c1, c2 int32) bool {
	if c1 == c2 {
		return false
	}
	lo, hi := t.ord[c2], t.ord[c1]
	if hi < lo {
		return true
	}
	ok := t.forward(c2, c1, hi)
	if ok {
		t.backward(c1, lo)
	}
	for _, c := range t.fwd {
		t.mark[c] = false
	}
	for _, c := range t.back {
		t.mark[c] = false
	}
	if ok {
		t.shift()
	}
	t.fwd, t.back = t.fwd[:0], t.back[:0]
	return ok
}

// forward collects what c reaches at places up to hi; false if that includes
// goal.
func (t *inserter) forward(c, goal, hi int32) bool {
	t.mark[c] = true
	t.fwd = append(t.fwd, c)
	found := false
	for h := 0; h < len(t.fwd); h++ {
		t.x.succ(t.deps, t.fwd[h], func(d int32) {
			if d == goal {
				found = true
			}
			if t.ord[d] < hi && !t.mark[d] {
				t.mark[d] = true
				t.fwd = append(t.fwd, d)
			}
			t.budget--
		})
		if found || t.budget < 0 {
			return false
		}
	}
	return true
}

// backward collects what reaches c at places from lo on.
func (t *inserter) backward(c, lo int32) {
	g := t.x.g
	t.mark[c] = true
	t.back = append(t.back, c)
	for h := 0; h < len(t.back); h++ {
		d := t.back[h]
		at := g.Channels[d].From
		for _, e := range t.into[t.inOff[at]:t.inOff[at+1]] {
			t.budget--
			if t.ord[e] > lo && !t.mark[e] && t.deps.has(t.x.row[e]+int64(t.x.col[d])) {
				t.mark[e] = true
				t.back = append(t.back, e)
			}
		}
	}
}

// shift gives the places of both sets to back first, then fwd.
func (t *inserter) shift() {
	byPlace := func(a, b int32) int { return int(t.ord[a] - t.ord[b]) }
	slices.SortFunc(t.back, byPlace)
	slices.SortFunc(t.fwd, byPlace)
	t.places = t.places[:0]
	for _, c := range t.back {
		t.places = append(t.places, t.ord[c])
	}
	for _, c := range t.fwd {
		t.places = append(t.places, t.ord[c])
	}
	slices.Sort(t.places)
	i := 0
	for _, c := range t.back {
		t.ord[c] = t.places[i]
		i++
	}
	for _, c := range t.fwd {
		t.ord[c] = t.places[i]
		i++
	}
}
