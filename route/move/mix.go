package move

import (
	"heddle/route/cdg"
	"heddle/route/transition"
)

// atOnce tries to write everything in one stage, in any order: then both mixes
// of old and new entries may occur.
func (p *planner) atOnce() bool {
	for _, c := range p.cols {
		if c.owned && p.goesRound(c) {
			return false
		}
	}
	if p.deps != nil {
		had := len(p.live)
		for _, c := range p.cols {
			if c.sent() && !p.anyMix(c) {
				p.drop(had)
				return false
			}
		}
	}
	for _, c := range p.cols {
		c.inOneStage()
	}
	p.epochs = []int{0}
	return true
}

// goesRound reports whether some mix of old and new entries of a LID loops.
func (p *planner) goesRound(c *column) bool {
	const open, done = 1, 2
	state := make([]uint8, p.n)
	type frame struct {
		s    int32
		next uint8
	}
	var stack []frame
	for s := range int32(p.n) {
		if state[s] != 0 || c.now[s] == c.old[s] {
			continue // every loop of a mix has an entry that changes
		}
		stack = append(stack[:0], frame{s, 0})
		state[s] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == 2 {
				state[f.s] = done
				stack = stack[:len(stack)-1]
				continue
			}
			e := c.now[f.s]
			if f.next == 1 {
				e = c.old[f.s]
			}
			f.next++
			if v := p.toward(f.s, e); v >= 0 {
				switch state[v] {
				case open:
					return true
				case 0:
					state[v] = open
					stack = append(stack, frame{v, 0})
				}
			}
		}
	}
	return false
}

// anyMix adds all that a mix of a LID's old and new entries allows.
func (p *planner) anyMix(c *column) bool {
	for u := range c.old {
		for i, e := range [2]byte{c.old[u], c.now[u]} {
			c1 := p.next(int32(u), e)
			if c1 < 0 || i == 1 && c.now[u] == c.old[u] {
				continue
			}
			k := &p.g.Channels[c1]
			for _, f := range [2]byte{c.old[k.To], c.now[k.To]} {
				c2 := p.next(k.To, f)
				if c2 < 0 {
					continue
				}
				d := cdg.Dep{Switch: k.To, In: k.InPort, Out: p.g.Channels[c2].OutPort}
				if p.base.Count(d) > 0 {
					continue
				}
				if !p.insert(d) {
					return false
				}
				p.live = append(p.live, extra{d, c, int32(u)})
			}
		}
	}
	return true
}

// meets adds the possible dependencies of packets to c while its entries of step k
// are written. If they close a cycle it returns false and changes nothing.
func (p *planner) meets(c *column, k, epoch int) bool {
	return p.meetsAt(c, epoch, func(at int32) bool { return p.due(c, at, k) })
}

func (p *planner) meetsAt(c *column, epoch int, due func(at int32) bool) bool {
	if p.deps == nil || p.harmless || p.atRisk() {
		return true
	}
	had := len(p.live)
	for _, x := range c.mixed {
		if !due(x.at) {
			continue
		}
		if w := c.left[x.from]; w != never && int(w) < len(p.epochs) && p.epochs[w] < epoch {
			continue // drained
		}
		d := p.dep(c, x)
		if !p.insert(d) {
			if p.rushes() {
				p.note(d)
				continue
			}
			p.drop(had)
			return false
		}
		p.live = append(p.live, extra{d, c, x.from})
	}
	return true
}

// mixesWell reports whether all old entries together may lead to all new ones without a cycle: the
// usual case, for which one search replaces one for each dependency. If packets that are in flight
// are not waited for, it notes the first cycle that is possible: nothing else depends on it.
func (p *planner) mixesWell() bool {
	if p.deps == nil {
		return true
	}
	if !p.rushes() {
		var list []cdg.Dep
		for _, c := range p.cols {
			for _, x := range c.mixed {
				if d := p.dep(c, x); p.deps.Count(d) == 0 {
					list = append(list, d)
				}
			}
		}
		return !p.ord.Closes(p.deps, list)
	}
	list := p.inTurn()
	deps := make([]cdg.Dep, len(list))
	for i := range list {
		deps[i] = list[i].d
	}
	k := p.ord.FirstClosing(p.deps, deps)
	if k < 0 {
		return true
	}
	for _, x := range list[:k] {
		p.deps.Add(x.d, 1)
	}
	p.live = append(p.live, list[:k]...)
	p.note(deps[k])
	return false
}

// inTurn lists where old entries lead to new ones, in the order in which these are written step by step.
func (p *planner) inTurn() (list []extra) {
	for k := range p.steps {
		for _, c := range p.cols {
			for _, x := range c.mixed {
				if p.due(c, x.at, k) {
					list = append(list, extra{p.dep(c, x), c, x.from})
				}
			}
		}
	}
	return list
}

// atRisk reports whether a risk is noted and more of them change nothing.
func (p *planner) atRisk() bool { return p.risk != nil && p.rushes() }

// rushes reports whether the plan does not wait for packets to drain. Without limits on
// their lifetime a cycle would be permanent.
func (p *planner) rushes() bool { return p.o.NoWait && drain(1, p.o) >= 0 }

// note records the first cycle that packets in flight may close.
func (p *planner) note(d cdg.Dep) {
	if p.risk != nil {
		return
	}
	p.risk = &transition.Risk{Worst: drain(1, p.o), Why: "packets in flight to LIDs that moved may meet new entries"}
	for _, h := range p.deps.Closes(d) {
		p.risk.Cycle = append(p.risk.Cycle, transition.Hop{Switch: h.Switch, Port: h.Port, Lane: h.Lane})
	}
}

// drop removes the last elements of p.live.
func (p *planner) drop(from int) {
	for _, y := range p.live[from:] {
		p.deps.Add(y.d, -1)
	}
	p.live = p.live[:from]
}
