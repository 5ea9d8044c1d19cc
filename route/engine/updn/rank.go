package updn

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
)

// ranking is the order of switches that gives links their direction.
type ranking struct {
	// Order holds all switches, upper ones first. Every switch but the first
	// of its part of the fabric has a cable to one before it.
	Order []int32
	// Roots are the switches at level 0, the first of each part before the others.
	Roots []int32
	// Found says that at least one root was detected.
	Found bool
	// Note tells the operator which options could not be applied; "": none.
	Note string

	hosts int // CA and router ports
}

// rank orders the switches below o.Roots; components of the fabric without one get roots
// as follows. The reach of a switch is the least distance within which more than half of
// its component's CA ports lie, which hides broken links. The switches of least reach are
// the center: in an even tree the tops. If no link joins two of them, all are roots, the
// lowest GUID first; else (torus, mesh, irregular nets) the switch with the least sum of
// distances to CA ports, then the lowest GUID, is the only root.
//
// A switch's level is its distance from the nearest root. If a switch without CAs would
// only have links up, all to one level, no packet could pass it. Such a switch, for
// example a top that lost too many links to be detected as a root, or a middle switch
// without a link to the tops, is lifted above that level. Up*/down* with several roots
// would leave two switches without a legal path if no root is above both, such as a spine
// that lost its link to a leaf, and that leaf. So the order is grown from the first root
// of a component: the next switch is always, of those with a link to a placed one, the
// one with the lowest level, then the lowest ID (o.IDs, otherwise the GUID). All switches
// are below the first root, hence every pair of switches, roots included, has a legal
// path; and nearly all links keep the direction that their levels give them: in a fat
// tree one leaf is placed above one middle switch of each group, and that one above its
// tops, while all shortest paths between leaves stay legal. With a single root the order
// is by level, then ID.
//
// rank is Rank with given in place of o.Roots; mirrored turns the levels upside
// down and grows the order from a switch that is farthest from the roots.
func rank(g *fabric.Graph, o route.Options, given []ib.GUID, mirrored bool) *ranking {
	r := &ranker{g: g, n: len(g.Switches)}
	r.prepare()
	out := &ranking{}
	first := make([]int32, len(r.size)) // by part: the root that the order is grown from
	for k := range first {
		first[k] = -1
	}
	isRoot := make([]bool, r.n)
	for _, guid := range given {
		s := engine.Switch(g, guid)
		if s < 0 {
			continue
		}
		isRoot[s] = true
		if k := r.part[s]; first[k] < 0 {
			first[k] = s
		}
	}
	var missing []ib.GUID
	for _, guid := range o.Roots {
		if engine.Switch(g, guid) < 0 {
			missing = append(missing, guid)
		}
	}
	out.Note = engine.Notes(engine.Missing("roots", missing), missingIDs(g, o.IDs))
	out.Found = slices.Contains(first, -1)
	if out.Found {
		if len(o.Roots) > len(missing) {
			lacking := 0
			for _, s := range first {
				if s < 0 {
					lacking++
				}
			}
			out.Note = engine.Notes(out.Note, fmt.Sprintf("%d of %d parts of the fabric had no given root; found some", lacking, len(first)))
		}
		r.find(isRoot, first, o.Workers)
	}
	out.Roots = slices.Clone(first)
	for s, is := range isRoot {
		if is && first[r.part[s]] != int32(s) {
			out.Roots = append(out.Roots, int32(s))
		}
	}
	r.levels(isRoot)
	if mirrored {
		r.mirror()
	} else {
		r.lift()
	}
	r.keys(o.IDs)
	out.Order = r.grow(first, mirrored)
	out.hosts = r.count
	return out
}

func missingIDs(g *fabric.Graph, ids map[ib.GUID]uint64) string {
	var missing []ib.GUID
	for guid := range ids {
		if engine.Switch(g, guid) < 0 {
			missing = append(missing, guid)
		}
	}
	slices.Sort(missing)
	return engine.Missing("ids", missing)
}

type ranker struct {
	g      *fabric.Graph
	n      int
	part   []int32 // by switch: its connected part
	size   []int   // by part: switches
	weight []int64 // by switch: CA and router ports; 1 in a part without any
	hosts  []bool
	count  int     // CA and router ports in all
	total  []int64 // by part: weight
	level  []int32
	sorted []int32 // switches by ascending level, then ID
	key    []int32 // by switch: its place in sorted
}

func (r *ranker) prepare() {
	g := r.g
	r.part = make([]int32, r.n)
	r.weight = make([]int64, r.n)
	r.hosts = make([]bool, r.n)
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Switch >= 0 && e.Type != ib.NodeSwitch {
			r.weight[e.Switch]++
			r.hosts[e.Switch] = true
			r.count++
		}
	}
	for s := range r.part {
		r.part[s] = -1
	}
	queue := make([]int32, 0, r.n)
	for s := range r.n {
		if r.part[s] >= 0 {
			continue
		}
		k := int32(len(r.size))
		queue = append(queue[:0], int32(s))
		r.part[s] = k
		var total int64
		for h := 0; h < len(queue); h++ {
			u := queue[h]
			total += r.weight[u]
			for c := g.Off[u]; c < g.Off[u+1]; c++ {
				if v := g.Channels[c].To; r.part[v] < 0 {
					r.part[v] = k
					queue = append(queue, v)
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

// reaches are, by switch of a part without a root, the least distance within which
// more than half of the part's CA ports lie, and the sum of the distances to them.
// dist has a row for each switch of from.
func (r *ranker) reaches(from []int32, dist []uint16, first []int32) (reach []int32, sum []int64) {
	reach = make([]int32, r.n)
	sum = make([]int64, r.n)
	longest := 0
	for _, d := range dist {
		if d != unreached {
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
			if d := dist[i*r.n+s]; d != unreached {
				hist[d] += r.weight[u]
				sum[s] += r.weight[u] * int64(d)
			}
		}
		need := r.total[k]/2 + 1
		for d, c := range hist {
			if need -= c; need <= 0 {
				reach[s] = int32(d)
				break
			}
		}
	}
	return reach, sum
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
	reach, sum := r.reaches(from, dist, first)
	best, chosen := slices.Clone(first), slices.Clone(first) // by part: of least reach, the first root
	for s := range int32(r.n) {
		k := r.part[s]
		if first[k] < 0 && (best[k] < 0 || reach[s] < reach[best[k]]) {
			best[k] = s
		}
	}
	joined := make([]bool, len(first))
	central := func(s int32) bool { return first[r.part[s]] < 0 && reach[s] == reach[best[r.part[s]]] }
	for c := range r.g.Channels {
		if ch := &r.g.Channels[c]; central(ch.From) && central(ch.To) {
			joined[r.part[ch.From]] = true
		}
	}
	for s := range int32(r.n) {
		k := r.part[s]
		if first[k] >= 0 || !joined[k] && !central(s) {
			continue
		}
		if now := chosen[k]; now < 0 || joined[k] && sum[s] < sum[now] {
			chosen[k] = s
		}
		isRoot[s] = isRoot[s] || !joined[k]
	}
	for k, s := range chosen {
		if first[k] < 0 {
			first[k] = s
			isRoot[s] = true
		}
	}
}

const unreached = 0xFFFF

// distances fills dist with the links from s to every switch.
func (r *ranker) distances(s int32, dist []uint16, queue []int32) []int32 {
	for i := range dist {
		dist[i] = unreached
	}
	dist[s] = 0
	queue = append(queue[:0], s)
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := r.g.Off[u]; c < r.g.Off[u+1]; c++ {
			if v := r.g.Channels[c].To; dist[v] == unreached {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return queue
}

// levels gives every switch its distance from the nearest root.
func (r *ranker) levels(isRoot []bool) {
	r.level = make([]int32, r.n)
	queue := make([]int32, 0, r.n)
	for s := range r.level {
		r.level[s] = -1
		if isRoot[s] {
			r.level[s] = 0
			queue = append(queue, int32(s))
		}
	}
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := r.g.Off[u]; c < r.g.Off[u+1]; c++ {
			if v := r.g.Channels[c].To; r.level[v] < 0 {
				r.level[v] = r.level[u] + 1
				queue = append(queue, v)
			}
		}
	}
}

// lift raises switches without CAs whose adjacent switches are all of one
// level, below the roots, above that level. No other level depends on theirs.
func (r *ranker) lift() {
	g := r.g
	lifted := slices.Clone(r.level)
	for s := range int32(r.n) {
		lo, hi := g.Off[s], g.Off[s+1]
		if r.hosts[s] || lo == hi || r.level[s] == 0 {
			continue
		}
		l := r.level[g.Channels[lo].To]
		same := l > 0
		for c := lo; c < hi && same; c++ {
			same = r.level[g.Channels[c].To] == l
		}
		if same {
			lifted[s] = l - 1
		}
	}
	r.level = lifted
}

// keys computes r.key, which is smaller for earlier switches: by level, then
// ID. Switches whose tables are too short for some LIDs come last, the shortest
// at the end, so that no others depend on them without need.
func (r *ranker) keys(ids map[ib.GUID]uint64) {
	g := r.g
	id := make([]uint64, r.n)
	var caps []uint16
	short := func(s int32) bool { c := g.Switches[s].LinearFDBCap; return c != 0 && ib.LID(c) <= g.TopLID }
	r.sorted = make([]int32, r.n)
	for s := range int32(r.n) {
		r.sorted[s] = s
		guid := g.Switches[s].GUID
		id[s] = uint64(guid)
		if x, ok := ids[guid]; ok {
			id[s] = x
		}
		if short(s) {
			caps = append(caps, g.Switches[s].LinearFDBCap)
		}
	}
	if len(caps) > 0 {
		slices.Sort(caps)
		caps = slices.Compact(caps)
		for s := range int32(r.n) {
			if short(s) {
				at, _ := slices.BinarySearch(caps, g.Switches[s].LinearFDBCap)
				r.level[s] += int32(r.n * (len(caps) - at))
			}
		}
	}
	slices.SortFunc(r.sorted, func(a, b int32) int {
		return cmp.Or(cmp.Compare(r.level[a], r.level[b]), cmp.Compare(id[a], id[b]), cmp.Compare(a, b))
	})
	r.key = make([]int32, r.n)
	for i, s := range r.sorted {
		r.key[s] = int32(i)
	}
}

// mirror turns the levels of each part round.
func (r *ranker) mirror() {
	deepest := make([]int32, len(r.size))
	for s, l := range r.level {
		deepest[r.part[s]] = max(deepest[r.part[s]], l)
	}
	for s := range r.level {
		r.level[s] = deepest[r.part[s]] - r.level[s]
	}
}

// grow makes the order of all switches, part after part. It begins a part
// with its first root, unless that has a short table or the levels are
// mirrored: then with the smallest key.
func (r *ranker) grow(first []int32, mirrored bool) []int32 {
	least := make([]int32, len(first))
	for k := range least {
		least[k] = -1
	}
	for _, s := range r.sorted {
		if k := r.part[s]; least[k] < 0 {
			least[k] = s
		}
	}
	order := make([]int32, 0, r.n)
	met := make([]bool, r.n)
	wait := make([]uint64, (r.n+63)/64) // keys of the switches next to those placed
	for k, s := range first {
		if mirrored || r.level[s] > 0 {
			s = least[k]
		}
		met[s] = true
		low := int(r.key[s]) >> 6 // no word before it has a bit
		wait[low] |= 1 << (r.key[s] & 63)
		for {
			for low < len(wait) && wait[low] == 0 {
				low++
			}
			if low == len(wait) {
				break
			}
			u := r.sorted[low<<6+bits.TrailingZeros64(wait[low])]
			wait[low] &= wait[low] - 1
			order = append(order, u)
			for c := r.g.Off[u]; c < r.g.Off[u+1]; c++ {
				if v := r.g.Channels[c].To; !met[v] {
					met[v] = true
					at := int(r.key[v]) >> 6
					wait[at] |= 1 << (r.key[v] & 63)
					low = min(low, at)
				}
			}
		}
	}
	return order
}
