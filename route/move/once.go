package move

import (
	"cmp"
	"slices"

	"heddle/route/cdg"
	"heddle/route/transition"
)

// The planner writes each LID's entries from its destination outwards. Two things make it
// write a block twice: LIDs of one block that change at a switch in different steps, and
// entries that are dropped until older packets have drained. This file orders whole
// blocks instead, so that each is written once and nothing is dropped. The order need not
// run from the destinations outwards: packets may follow old entries to the old place for
// longer, where a dropped entry would have lost them anyway.

// unit is a block of a switch and the columns that change in it.
type unit struct {
	s    int32
	cols []*column
}

// order is an order that a planner found.
type order struct {
	stage, left [][]uint8 // by column
	epochs      []int
	held        int
	risk        *transition.Risk
}

// take returns the planner's order and resets the planner.
func (p *planner) take() (o order) {
	o.epochs, o.held, o.risk = p.epochs, p.held, p.risk
	for _, c := range p.cols {
		o.stage, o.left = append(o.stage, c.stage), append(o.left, c.left)
		c.stage, c.left = slices.Repeat([]uint8{never}, p.n), slices.Repeat([]uint8{never}, p.n)
	}
	p.drop(0)
	p.epochs, p.held, p.risk = nil, 0, nil
	return o
}

func (p *planner) restore(o order) {
	p.drop(0)
	p.epochs, p.held, p.risk = o.epochs, o.held, o.risk
	for i, c := range p.cols {
		c.stage, c.left = o.stage[i], o.left[i]
	}
}

// better replaces the order by one that writes each block once, if one exists that drops
// nothing, waits no longer and risks no additional cycle.
func (p *planner) better() {
	if p.held == 0 && p.writesOnce() {
		return
	}
	was := p.take()
	drains := was.epochs[len(was.epochs)-1]
	if !p.onceOnly() || was.held == 0 && p.epoch() > drains || was.risk == nil && p.risk != nil {
		p.restore(was)
		return
	}
	p.inward = true
}

// writesOnce reports whether no block is in two stages.
func (p *planner) writesOnce() bool {
	for _, cols := range blocksOf(p.cols) {
		if len(cols) == 1 {
			continue
		}
		for s := range p.n {
			at := uint8(never)
			for _, c := range cols {
				switch k := c.stage[s]; {
				case k == never || k == at:
				case at == never:
					at = k
				default:
					return false
				}
			}
		}
	}
	return true
}

// units lists the blocks to write, those that are near the destinations first.
func (p *planner) units() (list []unit) {
	for _, cols := range blocksOf(p.cols) {
		for s := range int32(p.n) {
			u := unit{s: s}
			for _, c := range cols {
				if c.now[s] != c.old[s] {
					u.cols = append(u.cols, c)
				}
			}
			if u.cols != nil {
				list = append(list, u)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b unit) int { return cmp.Compare(a.cols[0].level[a.s], b.cols[0].level[b.s]) })
	return list
}

// onceOnly puts each block into one stage, and reports whether it could.
func (p *planner) onceOnly() bool {
	for _, c := range p.cols {
		slices.SortStableFunc(c.mixed, func(a, b meet) int { return cmp.Compare(a.at, b.at) })
	}
	epoch, fresh := 0, true // fresh: nothing was written since packets drained
	for units := p.units(); len(units) > 0; {
		if len(p.epochs) >= held {
			return false
		}
		had := len(units)
		units = slices.DeleteFunc(units, func(u unit) bool { return p.outward(u) && p.admitUnit(u, epoch) })
		if len(units) == had && (fresh || p.rushes()) {
			if i := slices.IndexFunc(units, func(u unit) bool { return p.alone(u) && p.admitUnit(u, epoch) }); i >= 0 {
				units = slices.Delete(units, i, i+1)
			}
		}
		switch {
		case len(units) < had:
			p.epochs = append(p.epochs, epoch)
			fresh = false
		case fresh, p.rushes():
			return false
		default:
			epoch++
			p.expire(epoch)
			fresh = true
		}
	}
	return true
}

// outward reports whether the new paths over a block use only entries that do not change
// or were written in earlier stages: then a packet that follows a new entry follows new
// ones to the end.
func (p *planner) outward(u unit) bool {
	for _, c := range u.cols {
		if !c.owned {
			continue
		}
		for v, n := p.toward(u.s, c.now[u.s]), 0; v >= 0; v, n = p.toward(v, c.now[v]), n+1 {
			if n > p.n || c.now[v] != c.old[v] && int(c.stage[v]) >= len(p.epochs) {
				return false
			}
		}
	}
	return true
}

// alone reports whether no packet loops while a block is the only one of its stage.
func (p *planner) alone(u unit) bool {
	for _, c := range u.cols {
		if !c.owned {
			continue
		}
		for v, n := p.toward(u.s, c.now[u.s]), 0; v >= 0; n++ {
			if v == u.s || n > p.n {
				return false
			}
			if c.stage[v] == never {
				v = p.toward(v, c.old[v])
			} else {
				v = p.toward(v, c.now[v])
			}
		}
	}
	return true
}

// admitUnit puts a block into the next stage, unless packets in flight could then close a
// cycle.
func (p *planner) admitUnit(u unit, epoch int) bool {
	had := len(p.live)
	for _, c := range u.cols {
		if p.deps != nil && c.sent() && !p.atRisk() && !p.mixes(c, u.s, epoch) {
			p.drop(had)
			return false
		}
	}
	for _, c := range u.cols {
		c.stage[u.s] = uint8(len(p.epochs))
		c.left[u.s] = c.stage[u.s]
	}
	return true
}

// mixes adds the possible dependencies of packets to c while its entry at s is
// written.
func (p *planner) mixes(c *column, s int32, epoch int) bool {
	add := func(d cdg.Dep, old int32) bool {
		switch {
		case p.insert(d):
			p.live = append(p.live, extra{d, c, old})
		case p.rushes():
			p.note(d)
		default:
			return false
		}
		return true
	}
	i, _ := slices.BinarySearchFunc(c.mixed, s, func(x meet, s int32) int { return cmp.Compare(x.at, s) })
	for ; i < len(c.mixed) && c.mixed[i].at == s; i++ { // from old entries to this new one
		x := c.mixed[i]
		if w := c.left[x.from]; w != never && int(w) < len(p.epochs) && p.epochs[w] < epoch {
			continue // drained
		}
		if !add(p.dep(c, x), x.from) {
			return false
		}
	}
	// From this new entry to an old one that is not written yet.
	in := p.next(s, c.now[s])
	if in < 0 {
		return true
	}
	k := &p.g.Channels[in]
	if c.now[k.To] == c.old[k.To] || c.stage[k.To] != never && int(c.stage[k.To]) < len(p.epochs) {
		return true
	}
	out := p.next(k.To, c.old[k.To])
	if out < 0 {
		return true
	}
	d := cdg.Dep{Switch: k.To, In: k.InPort, Out: p.g.Channels[out].OutPort}
	return p.base.Count(d) > 0 || add(d, k.To)
}
