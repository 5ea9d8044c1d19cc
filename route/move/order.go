package move

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/route"
	"heddle/route/cdg"
	"heddle/route/transition"
)

// admit adds the dependencies of c's current entries to those of the installed tables, in
// place of those that it added before. If they close a cycle it returns false, and
// changes only closing. Tables with several lanes are verified later.
//
// It searches for one cycle; after that, every dependency that disagrees with the order
// counts as closing another. Further searches would save switches but cost ten times as
// much.
func (m *mover) admit(c *column) bool {
	if m.deps == nil || !m.single() {
		return true
	}
	var added []cdg.Dep
	m.closing, m.strict = m.closing[:0], false
	defer func() { m.strict = false }()
	for u, e := range c.now {
		c1 := m.next(int32(u), e)
		if c1 < 0 {
			continue
		}
		k := &m.g.Channels[c1]
		c2 := m.next(k.To, c.now[k.To])
		if c2 < 0 {
			continue
		}
		d := cdg.Dep{Switch: k.To, In: k.InPort, Out: m.g.Channels[c2].OutPort}
		if m.base.Count(d) > 0 {
			continue
		}
		if !m.insert(d) {
			m.closing = append(m.closing, int32(u))
			m.strict = true
			continue
		}
		added = append(added, d)
	}
	if len(m.closing) > 0 {
		m.remove(added)
		return false
	}
	m.remove(c.added)
	c.added = added
	return true
}

// insert adds a dependency unless it closes a cycle. With strict, it also rejects
// one that disagrees with the order.
func (m *mover) insert(d cdg.Dep) bool {
	if m.deps.Count(d) == 0 && !m.ord.Agrees(m.deps, d) && (m.strict || !m.ord.Insert(m.deps, d)) {
		return false // and nothing was copied for it
	}
	m.deps.Add(d, 1)
	return true
}

func (m *mover) remove(list []cdg.Dep) {
	for _, d := range list {
		m.deps.Add(d, -1)
	}
}

// planner assigns the changed entries to stages.
//
// The step of an entry is the number of links to the destination along its new path;
// writing step by step writes each entry after all later ones of its path. An entry may
// be written at any time from its step on if no other entry's new path uses it, and its
// old one causes only dependencies of the installed tables; it goes into the last step,
// so that blocks with several LIDs are written once. A stage is the part of one step; the
// planner waits for acknowledgments between stages. If dependencies of old entries on
// new ones close a cycle, an epoch ends: older packets drain before the next stage. An
// entry that cannot be written even then is dropped for a while. With Options.NoWait
// there is one epoch, nothing is dropped, and the first such dependency becomes a Risk.
type planner struct {
	*mover
	cols   []*column
	all    []int32 // all switches
	steps  int
	epochs []int // by stage
	live   []extra
	held   int  // entries dropped for a while
	inward bool // each block is written once, not all from the destinations outwards (once.go)
	// harmless: all that packets may meet while entries are written from the destinations
	// outwards closes no cycle, whatever the stages.
	harmless bool
	risk     *transition.Risk
}

// extra is a dependency of a switch's old entry on the next switch's new one,
// possible until the former has been written and packets have drained.
type extra struct {
	d    cdg.Dep
	c    *column
	from int32
}

// plan orders cols. It fails only if that takes too many stages.
func (m *mover) plan(cols []*column) (*planner, error) {
	m.strict = false
	p := &planner{mover: m, cols: cols, all: make([]int32, m.n)}
	for s := range p.all {
		p.all[s] = int32(s)
	}
	for _, c := range cols {
		e := m.owner[c.lid]
		dst := int32(-1)
		if e >= 0 {
			dst = m.ends[e].Switch
		}
		m.levels(c, dst)
		c.stage, c.left = slices.Repeat([]uint8{never}, m.n), slices.Repeat([]uint8{never}, m.n)
	}
	if p.atOnce() {
		return p, nil
	}
	for _, c := range cols {
		if err := p.step(c); err != nil {
			return nil, err
		}
	}
	p.together()
	p.harmless = p.mixesWell()
	for k := range p.steps {
		if err := p.do(k); err != nil {
			return nil, err
		}
	}
	if err := p.release(); err != nil {
		return nil, err
	}
	p.better()
	return p, nil
}

// do assigns the entries of step k to stages.
func (p *planner) do(k int) error {
	var now, later []*column
	for _, c := range p.cols {
		if slices.ContainsFunc(p.all, func(s int32) bool { return p.due(c, s, k) }) {
			now = append(now, c)
		}
	}
	epoch := p.epoch()
	for fresh := len(p.epochs) == 0; len(now) > 0; fresh = true {
		if len(p.epochs) >= held {
			return errTooMany
		}
		later = later[:0]
		put := false
		for i, c := range now {
			if !p.meets(c, k, epoch) {
				if !fresh { // a drain is needed anyway
					later = append(later, now[i:]...)
					break
				}
				later = append(later, c)
				continue
			}
			p.write(c, k)
			put = true
		}
		if !put && fresh {
			// Waiting longer does not help: something is held back.
			p.hold(later[0], k, epoch)
			later, put = later[1:], true
		}
		if put {
			p.epochs = append(p.epochs, epoch)
		}
		if len(later) > 0 {
			epoch++
			p.expire(epoch)
		}
		now = slices.Clone(later)
	}
	return nil
}

var errTooMany = errors.New("move: the order takes too many stages: move fewer LIDs at a time")

// epoch is that of the last stage.
func (p *planner) epoch() int {
	if len(p.epochs) == 0 {
		return 0
	}
	return p.epochs[len(p.epochs)-1]
}

// hold writes the entries of step k that it can, and drops those that would close a
// cycle: packets that arrive by old entries then wait for nothing. The new entries
// follow when all older packets have drained.
func (p *planner) hold(c *column, k, epoch int) {
	stage := uint8(len(p.epochs))
	for s := range int32(p.n) {
		if !p.due(c, s, k) {
			continue
		}
		c.left[s] = stage
		if p.meetsAt(c, epoch, func(at int32) bool { return at == s }) {
			c.stage[s] = stage
			continue
		}
		c.stage[s] = held
		p.held++
	}
}

// release writes the entries that were held back.
func (p *planner) release() error {
	if p.held == 0 {
		return nil
	}
	if len(p.epochs) >= held {
		return errTooMany
	}
	for _, c := range p.cols {
		for s, at := range c.stage {
			if at == held {
				c.stage[s] = uint8(len(p.epochs))
			}
		}
	}
	p.epochs = append(p.epochs, p.epoch()+1)
	return nil
}

const (
	free = 254 // the time of an entry that may be written in the last step
	held = 253 // stage of a held entry until it is assigned one
)

// step sets the steps of a column's entries, and finds where old entries meet
// new ones.
func (p *planner) step(c *column) error {
	c.time = make([]uint8, p.n)
	order := slices.Clone(p.byLevel(c))
	lead := make([]bool, p.n) // a new path of an entry that changes leads over it
	for _, u := range slices.Backward(order) {
		if v := p.toward(u, c.now[u]); v >= 0 && (lead[u] || c.now[u] != c.old[u]) {
			lead[v] = true
		}
	}
	for s := range c.time {
		c.time[s] = never
		if c.now[s] == c.old[s] {
			continue
		}
		at := max(c.level[s], 0)
		if at >= held {
			return fmt.Errorf("move: LID %d: a path over %d links", c.lid, at)
		}
		p.steps = max(p.steps, int(at)+1)
		c.time[s] = uint8(at)
		if !lead[s] && at > 0 {
			c.time[s] = free
		}
	}
	if !c.sent() {
		return nil // no host sends to it yet
	}
	for u := range c.old {
		v := p.toward(int32(u), c.old[u])
		if v < 0 || c.now[v] == c.old[v] || p.next(v, c.now[v]) < 0 {
			continue
		}
		x := meet{int32(u), v}
		if p.base != nil && p.base.Count(p.dep(c, x)) > 0 {
			continue
		}
		c.mixed = append(c.mixed, x)
		if c.time[u] == free { // remove it as early as possible
			c.time[u] = uint8(c.level[u])
		}
	}
	return nil
}

// together writes entries of LIDs without traffic in the stage of other changes of the
// same block, if that stage is from their destination outwards too.
func (p *planner) together() {
	for _, c := range p.cols {
		if c.sent() {
			continue
		}
		for _, o := range p.cols {
			if !o.sent() || !sameBlock(o.lid, c.lid) {
				continue
			}
			was := slices.Clone(c.time)
			for s := range c.time {
				if c.time[s] != never && o.time[s] != never {
					c.time[s] = o.time[s]
				}
			}
			if !p.outwards(c) {
				c.time = was
			}
		}
	}
}

// outwards reports whether each entry of c is written after those that its new path leads over.
func (p *planner) outwards(c *column) bool {
	for s, at := range c.time {
		if at == never {
			continue
		}
		for v, n := p.toward(int32(s), c.now[s]), 0; v >= 0 && n < p.n; v, n = p.toward(v, c.now[v]), n+1 {
			if c.time[v] != never && (c.time[v] >= at || c.time[v] == free) {
				return false
			}
		}
	}
	return true
}

// dep is the dependency of an old entry on a new one.
func (p *planner) dep(c *column, x meet) cdg.Dep {
	in, out := p.next(x.from, c.old[x.from]), p.next(x.at, c.now[x.at])
	return cdg.Dep{Switch: x.at, In: p.g.Channels[in].InPort, Out: p.g.Channels[out].OutPort}
}

// byLevel lists the switches by distance from the destination.
func (p *planner) byLevel(c *column) []int32 {
	most := int32(0)
	for _, d := range c.level {
		most = max(most, d)
	}
	at := make([]int32, most+3)
	for _, d := range c.level {
		at[d+2]++
	}
	for k := 1; k < len(at); k++ {
		at[k] += at[k-1]
	}
	list := p.queue[:0]
	list = slices.Grow(list, p.n)[:p.n]
	for s, d := range c.level {
		list[at[d+1]] = int32(s)
		at[d+1]++
	}
	p.queue = list
	return list
}

// due reports whether an entry is to be written in step k.
func (p *planner) due(c *column, s int32, k int) bool {
	return c.stage[s] == never && (int(c.time[s]) == k || c.time[s] == free && k == p.steps-1)
}

// write puts the entries of step k into the next stage.
func (p *planner) write(c *column, k int) {
	for s := range int32(p.n) {
		if p.due(c, s, k) {
			c.stage[s] = uint8(len(p.epochs))
			c.left[s] = c.stage[s]
		}
	}
}

// expire removes what has drained before an epoch.
func (p *planner) expire(epoch int) {
	p.live = slices.DeleteFunc(p.live, func(x extra) bool {
		w := x.c.left[x.from]
		if w == never || p.epochs[w] >= epoch {
			return false
		}
		p.deps.Add(x.d, -1)
		return true
	})
}

// stages lists the blocks of every stage.
func (p *planner) stages() ([]Stage, error) {
	list, hops := make([]Stage, len(p.epochs)), 0
	count := make([]int, len(list))
	p.eachStage(func(k int, _ route.BlockDiff) { count[k]++ })
	for k, n := range count {
		list[k].Blocks = make([]route.BlockDiff, 0, n)
	}
	p.eachStage(func(k int, b route.BlockDiff) { list[k].Blocks = append(list[k].Blocks, b) })
	for k := range list {
		if k+1 < len(list) && p.epochs[k+1] > p.epochs[k] {
			if hops == 0 {
				for _, c := range p.cols {
					hops = max(hops, p.longest(c))
				}
			}
			list[k].Hops = hops
			if list[k].Drain = drain(list[k].Hops, p.o); list[k].Drain < 0 {
				return nil, errors.New("move: packets have to drain between two stages, or a credit cycle may close, but switch or head-of-queue lifetimes have no limit; move fewer LIDs at a time")
			}
		}
	}
	return list, nil
}

// eachStage calls fn with every block and every stage that writes it, by switch and block.
func (p *planner) eachStage(fn func(k int, b route.BlockDiff)) {
	groups := blocksOf(p.cols)
	var in []uint8 // stages of a block
	for s := range int32(p.n) {
		for _, cols := range groups {
			in = in[:0]
			for _, c := range cols {
				for _, k := range [2]uint8{c.left[s], c.stage[s]} {
					if int(k) < len(p.epochs) && !slices.Contains(in, k) {
						in = append(in, k)
					}
				}
			}
			for _, k := range in {
				fn(int(k), route.BlockDiff{Switch: s, Block: uint16(cols[0].lid / route.BlockLen)})
			}
		}
	}
}

// longest is the number of switches on the longest path of packets to c: by old
// entries first, by new ones from then on.
func (p *planner) longest(c *column) int {
	far := func(c *column) (most int) {
		for _, d := range c.level {
			most = max(most, int(d)+1)
		}
		return most
	}
	if !c.owned {
		return far(c)
	}
	was := &column{now: c.old}
	p.levels(was, p.g.EndPorts[p.g.LIDOwner[c.lid]].Switch)
	return far(was) + far(c)
}

// drain is how long packets take to leave a path of so many switches, as in
// route/transition.
func drain(hops int, o Options) time.Duration {
	if o.SwitchLifetime <= 0 || o.HOQLife <= 0 {
		return transition.Unlimited
	}
	return time.Duration(hops) * (o.SwitchLifetime + o.HOQLife)
}
