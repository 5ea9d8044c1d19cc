package move

import "heddle/route/cdg"

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
