// Package nue holds the routing engine that always succeeds: free of deadlocks
// with any number of lanes, also a single one, on any fabric.
//
// Source: J. Domke, T. Hoefler, S. Matsuoka, "Routing on the Dependency Graph:
// A New Approach to Deadlock-Free High-Performance Routing", HPDC 2016.
//
// Destinations are divided among the layers, one per lane. Within a layer, each
// destination's tree is searched in the complete channel dependency graph: a
// channel is used only if the dependencies of all trees of the layer stay
// acyclic. The escape paths over a spanning tree are added first, so that a
// tree always exists. Differences from the paper:
//
//   - Whether a dependency closes a cycle is answered by an order of the
//     channels that is repaired as the graph grows (internal/toposort), nearly
//     always by one comparison.
//   - The fallback is not the escape tree but the highest tree in that order,
//     and only for what was cut off.
//   - One lane is tried first; if all shortest paths fit into it, as on a fat
//     tree, no more are used.
//   - Small fabrics are routed again and again, tree by tree, to lower the load
//     of the fullest channels.
package nue

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Engine is the Nue engine. It uses the options Workers, Seed (where the search
// for the root of the escape tree begins), MaxVLs, and Previous (trees that the
// dependency graph permits are kept).
type Engine struct{}

// Name is "nue".
func (Engine) Name() string { return "nue" }

// Leveling implements route.Leveling.
func (Engine) Leveling() {}

const (
	// repairWork bounds the repairs of the orders of all layers, in dependencies
	// examined.
	repairWork = 192 << 20
	// rounds is how often layers that are computed in parallel exchange their
	// loads.
	rounds = 16
)

// Compute routes g. It never refuses a graph: components are routed separately.
// Paths avoid switches whose tables are too short for a LID where up/down paths
// permit it.
//
// Complexity: O(LIDs · channels) if shortest paths suffice, with a factor
// log(channels) for detours; repairs and improvement are bounded.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	if o.Previous != nil && len(o.Previous.LFT) != len(g.Switches) {
		return nil, route.Refuse("nue", route.ErrInput, "previous tables are for %d switches, the graph has %d",
			len(o.Previous.LFT), len(g.Switches))
	}
	w := newNet(g)
	budget := route.Budget(g, o.MaxVLs)
	if o.Previous != nil && !o.Rebalance {
		if j := resume(w, o, budget); j != nil {
			return j.tables(), nil
		}
	}
	j := solve(w, o, budget)
	route.ForEach(o.Workers, len(j.tours), func(_, k int) { j.tours[k].switches() })
	return j.tables(), nil
}

const (
	// trialWork bounds the trials, in channels searched; each searches most
	// of them several times.
	trialWork = 12 << 20
	maxTrials = 12
	// trialPasses is how often a trial is improved before it is rated.
	trialPasses = 3
	// good is how far above the lower bound the fullest channel may be for
	// a single lane to be taken without looking further, in percent.
	good = 2
	// fair is the same in a large fabric, where looking further takes long.
	fair = 25
	// bad is how many times above it the fullest channel may be for a large
	// fabric to be left as it is.
	bad = 4
)

// solve routes all LIDs of hosts.
//
// It first tries a single lane, which suffices if all hosts' paths are shortest
// paths and the load is even. Otherwise it uses all lanes, with several
// starting points, and completes the best. If a single lane was as good, that
// is the result.
func solve(w *net, o route.Options, budget int) *job {
	var single *job
	near := uint64(good)
	if full, _ := effort(w); full > trialWork {
		near = fair
	}
	for _, even := range []bool{false, true} {
		j := newJob(w, o, 1, way{even: even})
		if !j.run(true) {
			continue
		}
		j.improve(maxPasses)
		if single == nil || j.better(single) {
			single = j
		}
		if single.most <= j.least()*(100+near)/100 {
			return single
		}
	}
	best := begin(w, o, budget)
	best.improve(maxPasses)
	if single != nil && !best.better(single) {
		return single
	}
	return best
}

// effort is the cost of routing all LIDs of hosts, and of one LID per switch,
// in channels examined.
func effort(w *net) (full, thin int) {
	for s := range w.n {
		full += int(w.cas[s]) * len(w.to)
		thin += int(min(w.cas[s], 1)) * len(w.to)
	}
	return full, thin
}

// begin tries several starting points and returns the best job. In a large
// fabric it tries only two, with one LID per switch.
func begin(w *net, o route.Options, budget int) *job {
	full, thin := effort(w)
	trials := min(maxTrials, trialWork/max(full, 1))
	if trials < 3 {
		return beginLarge(w, o, budget, full, thin)
	}
	jobs := make([]*job, trials)
	alone := o
	alone.Workers = 1
	route.ForEach(o.Workers, trials, func(_, i int) {
		jobs[i] = newJob(w, alone, budget, ways(i, o.Seed))
		jobs[i].run(false)
		jobs[i].improve(trialPasses)
	})
	best := jobs[0]
	for _, k := range jobs {
		if k.better(best) {
			best = k
		}
	}
	best.o.Workers = o.Workers
	return best
}

// beginLarge routes one LID per switch from two starting points and all LIDs
// from the better one; also from the other if the first result is bad.
func beginLarge(w *net, o route.Options, budget, full, thin int) *job {
	first := 1
	if trialWork/max(thin, 1) > 0 {
		var jobs [2]*job
		alone := o
		alone.Workers = 1
		route.ForEach(o.Workers, 2, func(_, i int) {
			k := newJob(w, alone, budget, ways(i, o.Seed))
			k.thin = true
			for _, t := range k.tours {
				t.work = int64(float64(t.work) * float64(thin) / float64(full))
			}
			k.run(false)
			jobs[i] = k
		})
		if !jobs[1].better(jobs[0]) {
			first = 0
		}
	}
	best := newJob(w, o, budget, ways(first, o.Seed))
	best.run(false)
	if best.most > bad*best.least() {
		if k := newJob(w, o, budget, ways(1-first, o.Seed)); k.run(false) && k.better(best) {
			best = k
		}
	}
	return best
}

// way is a starting point of a job: the order, and whether it may be repaired
// before the trees are improved.
type way struct {
	deep  bool
	fixed bool
	drawn bool // the root is drawn, not searched for
	even  bool // spread the paths to one LID
	bare  bool // the escape paths are not taken in
	seed  uint64
}

// ways is the i-th starting point. If paths are short compared with the number
// of lanes, an order that grew wide and is repaired is best; otherwise that
// leads to impasses, and an order that grew deep and is kept is better.
func ways(i int, seed uint64) way {
	return way{deep: i%3 == 1, fixed: i%3 > 0, even: i >= 6, drawn: i >= 3, seed: mix(seed + uint64(i/3))}
}

// mix is the output function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// job is one computation with a given number of layers.
type job struct {
	*net
	o     route.Options
	t     *route.Tables
	of    []int32  // by switch: the layer of its LIDs
	tours []*tour  // by layer
	base  []uint32 // by channel: paths that no layer counts; nil if there are none
	thin  bool     // route only one LID per switch
	most  uint64   // load of the fullest channel
	sum   uint64   // load of all channels
}

// tour is the state of one layer.
type tour struct {
	*router
	job   *job
	dest  []int32  // the layer's destination switches
	load  []uint32 // by channel: paths of this layer
	stack []int32
	left  []lidAt // LIDs whose tree was not kept
}

func newJob(w *net, o route.Options, layers int, how way) *job {
	j := &job{net: w, o: o, t: route.New("nue", w.n, w.g.TopLID), of: partition(w, layers)}
	j.tours = make([]*tour, layers)
	for s := range int32(w.n) {
		for _, l := range w.behind(s) {
			j.t.LFT[s][l] = w.g.EndPorts[w.g.LIDOwner[l]].Port
		}
	}
	route.ForEach(o.Workers, layers, func(_, k int) {
		t := &tour{job: j, router: newRouter(newLayer(w, repairWork/int64(layers))), load: make([]uint32, len(w.to))}
		dest := make([]bool, w.n)
		for s, of := range j.of {
			if int(of) == k && w.off[s+1] > w.off[s] {
				t.dest = append(t.dest, int32(s))
				dest[s] = true
			}
		}
		with := t.dest
		if i := slices.IndexFunc(with, func(s int32) bool { return w.cas[s] > 0 }); i > 0 || len(with) > 0 && i < 0 {
			with = slices.DeleteFunc(slices.Clone(with), func(s int32) bool { return w.cas[s] == 0 })
			if len(with) == 0 {
				with = t.dest
			}
		}
		var e *escape
		if how.drawn && w.n > 0 {
			e = &escape{}
			e.grow(w, w.able(int32(mix(how.seed+uint64(k))%uint64(w.n))), how.deep)
		} else {
			e = chooseRoot(w, with, o.Seed, how.deep)
		}
		t.start(e)
		if !how.bare {
			t.holdEscape(e, dest)
		}
		t.fixed, t.even = how.fixed, how.even
		j.tours[k] = t
	})
	return j
}

// run routes all LIDs. If strict, it returns false as soon as some path of a
// host is not a shortest one.
func (j *job) run(strict bool) bool {
	turns := rounds
	if len(j.tours) == 1 {
		turns = 1
	}
	for q := range turns {
		ok := true
		route.ForEach(j.o.Workers, len(j.tours), func(_, k int) {
			t := j.tours[k]
			lo, hi := len(t.dest)*q/turns, len(t.dest)*(q+1)/turns
			if !t.hosted(t.dest[lo:hi], strict) && strict {
				ok = false // one layer only
			}
		})
		if !ok {
			return false
		}
		if turns > 1 {
			j.share()
		}
	}
	for _, t := range j.tours {
		t.fixed = false
	}
	j.weigh()
	return true
}

// loads are those of all layers together.
func (j *job) loads() []uint64 {
	load := make([]uint64, len(j.to))
	for c, k := range j.base {
		load[c] = uint64(k)
	}
	for _, t := range j.tours {
		for c, k := range t.load {
			load[c] += uint64(k)
		}
	}
	return load
}

// weigh finds the most and the sum of the loads.
func (j *job) weigh() {
	j.most, j.sum = 0, 0
	for _, load := range j.loads() {
		j.most = max(j.most, load)
		j.sum += load
	}
}

// least is a lower bound on the load of the fullest channel, if all paths are
// shortest paths.
func (j *job) least() uint64 {
	k := uint64(max(len(j.to), 1))
	return max(j.floor(), (j.sum+k-1)/k)
}

// better reports whether the load of j is lower than that of k: at the fullest
// channel, otherwise overall.
func (j *job) better(k *job) bool {
	return j.most < k.most || j.most == k.most && j.sum < k.sum
}

// share makes the prices of every layer those of the load of all.
func (j *job) share() {
	for c := range j.to {
		p := hop
		for _, t := range j.tours {
			p += uint64(t.load[c])
		}
		for _, t := range j.tours {
			t.price[c] = p
		}
	}
}

// hosted routes the LIDs attached to switches with hosts.
func (t *tour) hosted(dest []int32, strict bool) bool {
	for _, d := range dest {
		if t.cas[d] == 0 {
			continue
		}
		for i, l := range t.behind(d)[:t.cas[d]] {
			if i == 0 || t.limit {
				t.prepare(d, l)
			} else if t.job.thin {
				break
			}
			if !t.route(d) && strict {
				return false
			}
			t.count(t.load)
			t.write(l)
		}
	}
	return true
}

// switches routes the LIDs of switches, after all others and in the order
// that those left. Port 0 of a switch with hosts takes the tree of its last.
func (t *tour) switches() {
	t.fixed, t.even = true, false
	for _, d := range t.dest {
		lids := t.behind(d)
		for _, l := range lids[t.cas[d]:] {
			if t.cas[d] > 0 && !t.limit {
				t.read(d, lids[t.cas[d]-1])
				t.again()
			} else {
				t.prepare(d, l)
				t.route(d)
			}
			t.write(l)
		}
	}
	t.fixed = false
}

// again takes the dependencies of the tree at hand in once more.
func (r *router) again() {
	for _, u := range r.order {
		if c := r.v[u].next; c >= 0 {
			if x := r.v[r.to[c]].next; x >= 0 {
				r.used[r.base[c]+x]++
			}
		}
	}
}

// read makes the tree of LID l on switch d from the tables the current tree. It
// ignores its dependencies.
func (t *tour) read(d int32, l ib.LID) {
	const walked = int32(-1)
	t.begin(d)
	for s := range int32(t.n) {
		t.stack = t.stack[:0]
		u := s
		for t.v[u].next == none {
			p := t.job.t.LFT[u][l]
			if int(p) >= len(t.g.PortChannel[u]) || t.g.PortChannel[u][p] < 0 {
				break
			}
			c := t.g.PortChannel[u][p]
			t.v[u] = vertex{next: c, np: walked}
			t.stack = append(t.stack, u)
			u = t.to[c]
		}
		leads := t.v[u].next != none && t.v[u].np != walked // neither a dead end nor a loop
		for i := len(t.stack) - 1; i >= 0; i-- {
			u := t.stack[i]
			if !leads {
				t.v[u].next = none
				continue
			}
			c := t.v[u].next
			t.settle(u, c, t.v[t.to[c]].cost+t.price[c])
		}
	}
}

// write puts the tree at hand into the tables.
func (t *tour) write(l ib.LID) {
	for _, u := range t.order {
		if c := t.v[u].next; c >= 0 {
			t.job.t.LFT[u][l] = t.g.Channels[c].OutPort
		}
	}
}

// tables finishes the job.
func (j *job) tables() *route.Tables {
	t := j.t
	t.NumVLs = len(j.tours)
	m := &memo{of: j.of}
	for _, t := range j.tours {
		m.order = append(m.order, t.at)
		m.used = append(m.used, t.used)
	}
	m.load = make([]uint32, len(j.to))
	for c, k := range j.loads() {
		m.load[c] = uint32(k)
	}
	t.Memo = m
	if t.NumVLs > 1 {
		t.SwitchClasses(j.g)
		t.SL = make([]ib.SL, j.n*t.NumClasses)
		for s := range j.n {
			row := t.SL[s*t.NumClasses:][:t.NumClasses]
			for d := range row {
				row[d] = ib.SL(j.of[d])
			}
		}
	}
	return t
}
