package updn

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Ranking is the order of switches that directs the cables.
type Ranking struct {
	// Order holds all switches, upper ones first.
	Order []int32
	// Roots are the switches at level 0, ascending.
	Roots []int32
	// Found says that at least one root was found rather than given.
	Found bool
	// Note tells the operator what was not done as asked; "" if nothing.
	Note string
}

// share is the part of the hosts (in percent) that counts when roots are
// looked for; the rest may be far away for a broken link or two.
const share = 95

// Rank orders the switches below the given roots; parts of the fabric without
// one get roots of their own, as follows. The reach of a switch is the least
// distance within which 95 % of its part's CA ports lie. The switches of least
// reach are the centre: in a tree they are the tops. If no cable joins two of
// them, all are roots; else (torus, mesh, irregular nets) the one with the
// least sum of distances to CA ports, then the lowest GUID, is the only root.
//
// Up*/down* with several roots can leave two switches without a legal path: no
// root is above both. Only pairs with a CA on one side matter. A root that
// some CA of its part does not lie below is then put just under one of its
// neighbours, so that it keeps most of its links downward but can be reached
// from everywhere; if that does not help either, one root remains.
func Rank(g *fabric.Graph, given []ib.GUID, workers int) *Ranking {
	r := &ranker{g: g, n: len(g.Switches)}
	r.prepare()
	out := &Ranking{}
	first := make([]int32, len(r.size)) // by part: the root to fall back to
	for k := range first {
		first[k] = -1
	}
	missing := 0
	isRoot := make([]bool, r.n)
	for _, guid := range given {
		s, ok := slices.BinarySearchFunc(g.Switches, guid, func(a fabric.SwitchNode, b ib.GUID) int { return cmp.Compare(a.GUID, b) })
		if !ok {
			missing++
			continue
		}
		isRoot[s] = true
		if k := r.part[s]; first[k] < 0 {
			first[k] = int32(s)
		}
	}
	if missing > 0 {
		out.note("%d of %d given roots are not in the fabric", missing, len(given))
	}
	out.Found = slices.Contains(first, -1)
	if out.Found {
		if len(given) > missing {
			out.note("a part of the fabric had no given root; found some")
		}
		r.find(isRoot, first, workers)
	}

	r.level(isRoot)
	r.sort()
	if bad := r.incomplete(isRoot); len(bad) > 0 && !r.everyPair() {
		for _, s := range bad {
			r.demote(s, isRoot)
		}
		r.sort()
		if r.everyPair() {
			out.note("%d of %d roots do not have every CA below them and are ranked under a neighbour", len(bad), count(isRoot))
			for _, s := range bad {
				isRoot[s] = false
			}
		} else {
			all := count(isRoot)
			clear(isRoot)
			for _, s := range first {
				isRoot[s] = true
			}
			r.level(isRoot)
			r.sort()
			out.note("%d roots leave CAs without a legal path; only the first of each part is used", all)
		}
	}
	out.Order = r.order
	for s, is := range isRoot {
		if is {
			out.Roots = append(out.Roots, int32(s))
		}
	}
	return out
}

func (r *Ranking) note(format string, a ...any) {
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += fmt.Sprintf(format, a...)
}

func count(set []bool) int {
	n := 0
	for _, b := range set {
		if b {
			n++
		}
	}
	return n
}

// place is a switch's position in the order: compared field by field.
type place struct {
	level, guid int32 // switches are numbered by GUID
	under, self int32 // for a demoted root: level and guid are its neighbour's, under is 1
}

type ranker struct {
	g      *fabric.Graph
	n      int
	part   []int32 // by switch: its connected part
	size   []int   // by part: switches
	weight []int64 // by switch: CA and router ports; 1 in a part without any
	hosts  []bool
	total  []int64 // by part: weight
	place  []place
	order  []int32
	tops   []int32  // switches with no channel up
	sets   []uint64 // by switch × words: which of tops can be climbed to
	words  int
}

func (r *ranker) prepare() {
	g := r.g
	r.part = make([]int32, r.n)
	r.weight = make([]int64, r.n)
	r.hosts = make([]bool, r.n)
	r.place = make([]place, r.n)
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Switch >= 0 && e.Type != ib.NodeSwitch {
			r.weight[e.Switch]++
			r.hosts[e.Switch] = true
		}
	}
	for s := range r.part {
		r.part[s] = -1
	}
	for s := range r.n {
		if r.part[s] >= 0 {
			continue
		}
		k := int32(len(r.size))
		queue := []int32{int32(s)}
		r.part[s] = k
		var total int64
		for h := 0; h < len(queue); h++ {
			u := queue[h]
			total += r.weight[u]
			for _, c := range g.Channels[g.Off[u]:g.Off[u+1]] {
				if r.part[c.To] < 0 {
					r.part[c.To] = k
					queue = append(queue, c.To)
				}
			}
		}
		if total == 0 {
			for _, u := range queue {
				r.weight[u] = 1
			}
			total = int64(len(queue))
		}
		r.size = append(r.size, len(queue))
		r.total = append(r.total, total)
	}
}

// find sets roots in the parts that have none in first.
func (r *ranker) find(isRoot []bool, first []int32, workers int) {
	var from []int32
	for s := range r.n {
		if r.weight[s] > 0 && first[r.part[s]] < 0 {
			from = append(from, int32(s))
		}
	}
	dist := make([]uint16, len(from)*r.n)
	workers = max(workers, 1)
	queues := make([][]int32, workers)
	route.ForEach(workers, len(from), func(w, i int) {
		queues[w] = r.distances(from[i], dist[i*r.n:(i+1)*r.n], queues[w])
	})
	reach := make([]int32, r.n)
	sum := make([]int64, r.n)
	longest := 0
	for _, d := range dist {
		if d != far {
			longest = max(longest, int(d))
		}
	}
	hist := make([]int64, longest+1)
	for s := range r.n {
		k := r.part[s]
		if first[k] >= 0 {
			continue
		}
		clear(hist)
		for i, u := range from {
			if d := dist[i*r.n+s]; d != far {
				hist[d] += r.weight[u]
				sum[s] += r.weight[u] * int64(d)
			}
		}
		need := (r.total[k]*share + 99) / 100
		for d, c := range hist {
			if need -= c; need <= 0 {
				reach[s] = int32(d)
				break
			}
		}
	}
	better := func(a, b int32) bool {
		if reach[a] != reach[b] {
			return reach[a] < reach[b]
		}
		return sum[a] < sum[b] // then the lower index, which comes first
	}
	best := slices.Clone(first)
	for s := range int32(r.n) {
		k := r.part[s]
		if first[k] < 0 && (best[k] < 0 || better(s, best[k])) {
			best[k] = s
		}
	}
	joined := make([]bool, len(first))
	central := func(s int32) bool { return first[r.part[s]] < 0 && reach[s] == reach[best[r.part[s]]] }
	for _, c := range r.g.Channels {
		if central(c.From) && central(c.To) {
			joined[r.part[c.From]] = true
		}
	}
	for s := range int32(r.n) {
		if k := r.part[s]; central(s) && (!joined[k] || best[k] == s) {
			isRoot[s] = true
		}
	}
	copy(first, best)
}

// distances fills dist with the links from s to every switch.
func (r *ranker) distances(s int32, dist []uint16, queue []int32) []int32 {
	for i := range dist {
		dist[i] = far
	}
	dist[s] = 0
	queue = append(queue[:0], s)
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := r.g.Off[u]; c < r.g.Off[u+1]; c++ {
			if v := r.g.Channels[c].To; dist[v] == far {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return queue
}

// level places every switch by its distance from the nearest root.
func (r *ranker) level(isRoot []bool) {
	queue := make([]int32, 0, r.n)
	for s := range r.place {
		r.place[s] = place{level: -1, guid: int32(s), self: int32(s)}
		if isRoot[s] {
			r.place[s].level = 0
			queue = append(queue, int32(s))
		}
	}
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for _, c := range r.g.Channels[r.g.Off[u]:r.g.Off[u+1]] {
			if r.place[c.To].level < 0 {
				r.place[c.To].level = r.place[u].level + 1
				queue = append(queue, c.To)
			}
		}
	}
}

// sort makes the order from the places, and finds which tops every switch can
// climb to.
func (r *ranker) sort() {
	r.order = r.order[:0]
	for s := range int32(r.n) {
		r.order = append(r.order, s)
	}
	slices.SortFunc(r.order, func(a, b int32) int {
		p, q := r.place[a], r.place[b]
		return cmp.Or(cmp.Compare(p.level, q.level), cmp.Compare(p.guid, q.guid),
			cmp.Compare(p.under, q.under), cmp.Compare(p.self, q.self))
	})
	rank := make([]int32, r.n)
	for i, s := range r.order {
		rank[s] = int32(i)
	}
	r.tops = r.tops[:0]
	up := func(c *fabric.Channel) bool { return rank[c.To] < rank[c.From] }
	for _, s := range r.order {
		if !slices.ContainsFunc(r.g.Channels[r.g.Off[s]:r.g.Off[s+1]], func(c fabric.Channel) bool { return up(&c) }) {
			r.tops = append(r.tops, s)
		}
	}
	r.words = (len(r.tops) + 63) / 64
	r.sets = make([]uint64, r.n*r.words)
	for i, s := range r.tops {
		r.set(s)[i>>6] |= 1 << (i & 63)
	}
	for _, s := range r.order {
		mine := r.set(s)
		for c := r.g.Off[s]; c < r.g.Off[s+1]; c++ {
			if ch := &r.g.Channels[c]; up(ch) {
				for i, w := range r.set(ch.To) {
					mine[i] |= w
				}
			}
		}
	}
}

func (r *ranker) set(s int32) []uint64 { return r.sets[int(s)*r.words : (int(s)+1)*r.words] }

// incomplete lists the roots that some switch with a CA in their part cannot
// climb to.
func (r *ranker) incomplete(isRoot []bool) []int32 {
	var bad []int32
	for i, top := range r.tops {
		if !isRoot[top] {
			continue
		}
		for s := range int32(r.n) {
			if r.hosts[s] && r.part[s] == r.part[top] && r.set(s)[i>>6]>>(i&63)&1 == 0 {
				bad = append(bad, top)
				break
			}
		}
	}
	return bad
}

// everyPair reports whether each switch with a CA shares a top with every
// switch of its part: then up*/down* joins them, both ways.
func (r *ranker) everyPair() bool {
	distinct := func(keep func(s int32) bool) []int32 {
		var all []int32
		for s := range int32(r.n) {
			if keep(s) {
				all = append(all, s)
			}
		}
		compare := func(a, b int32) int {
			return cmp.Or(cmp.Compare(r.part[a], r.part[b]), slices.Compare(r.set(a), r.set(b)))
		}
		slices.SortFunc(all, compare)
		return slices.CompactFunc(all, func(a, b int32) bool { return compare(a, b) == 0 })
	}
	with := distinct(func(s int32) bool { return r.hosts[s] })
	all := distinct(func(int32) bool { return true })
	for _, a := range with {
		for _, b := range all {
			if r.part[a] == r.part[b] && !r.meet(a, b) {
				return false
			}
		}
	}
	return true
}

func (r *ranker) meet(a, b int32) bool {
	x, y := r.set(a), r.set(b)
	for i := range x {
		if x[i]&y[i] != 0 {
			return true
		}
	}
	return false
}

// demote places root s just under that neighbour from which most tops can be
// climbed to.
func (r *ranker) demote(s int32, isRoot []bool) {
	best, most := int32(-1), -1
	for c := r.g.Off[s]; c < r.g.Off[s+1]; c++ {
		v := r.g.Channels[c].To
		if isRoot[v] {
			continue
		}
		k := 0
		for _, w := range r.set(v) {
			for ; w != 0; w &= w - 1 {
				k++
			}
		}
		if k > most || k == most && v < best {
			best, most = v, k
		}
	}
	if best >= 0 {
		r.place[s] = place{level: r.place[best].level, guid: best, under: 1, self: s}
	}
}
