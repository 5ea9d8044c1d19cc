package layer

import (
	"slices"

	"heddle/ib"
	"heddle/route"
)

// Change maps the paths of an earlier layering to the current ones.
type Change struct {
	// Switch gives, by current switch, its old index, or -1; Gone is the inverse.
	// Channel and GoneChannel do the same for channels.
	Switch, Gone         []int32
	Channel, GoneChannel []int32
	// Column gives, by current column, its old index, or -1 if it is new. Columns
	// of one old class are in one class now.
	Column []int32
	// Touched reports, by current column, that some entry of its tree may differ.
	Touched []bool
}

// Update updates the layering old to the changed paths p: pairs with unchanged paths
// keep their layer, others keep it if it stays acyclic, otherwise they move to the
// first layer that does, or to a new one up to budget. It returns nil if that is not
// enough, or if old has more layers than budget because some link now has fewer lanes.
// old is not changed.
//
// The cost is that of copying the layers, of walking the paths of the changed pairs,
// and of the searches to insert them.
func Update(old *Layers, p *Paths, ch *Change, budget, workers int) *Layers {
	if len(old.cdg) > min(budget, Max) {
		return nil
	}
	c := &updater{Change: ch, was: &Layers{p: old.p, SL: old.SL}}
	c.now = &Layers{p: p, SL: make([]ib.SL, p.Graph.Switches()*len(p.Class)), w: &search{}}
	same := identity(ch.Channel, len(ch.GoneChannel))
	for _, d := range old.cdg {
		if same {
			n := d.clone(c.now.w)
			n.g = p.Graph
			c.now.cdg = append(c.now.cdg, n)
		} else {
			c.now.cdg = append(c.now.cdg, d.translate(p.Graph, ch.Channel, c.now.w))
		}
	}
	c.now.Used = len(c.now.cdg)
	c.classes()
	c.levels()
	c.mark(workers)
	c.takeOut()
	if !c.putIn(budget) {
		return nil
	}
	return c.now
}

func identity(m []int32, n int) bool {
	if len(m) != n {
		return false
	}
	for i, k := range m {
		if k != int32(i) {
			return false
		}
	}
	return true
}

type updater struct {
	*Change
	was, now *Layers // was is a view of old with scratch of its own
	class    []int32 // by class of now: its index of old, or -1
	gone     []int32 // by class of old: its index now, or -1
	changed  []bool  // by pair of now
	todo     [][2]int32
}

// classes matches classes by their columns; in symmetric layerings they are switches.
func (c *updater) classes() {
	o, p := c.was.p, c.now.p
	c.class, c.gone = make([]int32, len(p.Class)), make([]int32, len(o.Class))
	for k := range c.class {
		c.class[k] = -1
	}
	for k := range c.gone {
		c.gone[k] = -1
	}
	if p.Symmetric || len(p.Class) == p.Graph.Switches() && len(o.Class) == o.Graph.Switches() && c.bySwitch() {
		copy(c.class, c.Switch)
		copy(c.gone, c.Gone)
		return
	}
	for i, k := range c.Column {
		if k >= 0 {
			c.class[p.Cols[i].Class], c.gone[o.Cols[k].Class] = o.Cols[k].Class, p.Cols[i].Class
		}
	}
}

// bySwitch reports whether classes are switches.
func (c *updater) bySwitch() bool {
	for i := range c.now.p.Cols {
		if c.now.p.Cols[i].Class != c.now.p.Cols[i].Dst {
			return false
		}
	}
	for i := range c.was.p.Cols {
		if c.was.p.Cols[i].Class != c.was.p.Cols[i].Dst {
			return false
		}
	}
	return true
}

// levels copies the old levels.
func (c *updater) levels() {
	k := len(c.now.p.Class)
	for s, o := range c.Switch {
		if o < 0 {
			continue
		}
		row, from := c.now.SL[s*k:(s+1)*k], c.was.SL[int(o)*len(c.was.p.Class):]
		for i, was := range c.class {
			if was >= 0 {
				row[i] = from[was]
			}
		}
	}
}

// note marks a pair as changed, once.
func (c *updater) note(src, class int32) {
	if c.now.p.Symmetric && src > class {
		src, class = class, src
	}
	if at := c.now.at(src, class); !c.changed[at] {
		c.changed[at] = true
		c.todo = append(c.todo, [2]int32{src, class})
	}
}

// mark finds the pairs with a changed path, or whose path begins or ceases to
// count.
func (c *updater) mark(workers int) {
	o, p := c.was.p, c.now.p
	c.changed = make([]bool, len(c.now.SL))
	n := p.Graph.Switches()
	moved := false // some switch is new, or sends or does not as it did not or did
	for s, k := range c.Switch {
		moved = moved || k < 0 || o.CA[k] != p.CA[s]
	}
	// By column, the switches whose paths changed.
	others := make([][]int32, len(p.Cols))
	walkers := make([]*walker, max(workers, 1))
	route.ForEach(workers, len(p.Cols), func(w, i int) {
		if c.Column[i] < 0 || !c.Touched[i] {
			return
		}
		if walkers[w] == nil {
			walkers[w] = &walker{state: make([]uint8, n)}
		}
		others[i] = c.differ(walkers[w], &o.Cols[c.Column[i]], &p.Cols[i])
	})
	kept := make([]bool, len(o.Cols))
	for i := range p.Cols {
		col := &p.Cols[i]
		k := c.Column[i]
		if k < 0 {
			for s := range n {
				c.note(int32(s), col.Class)
			}
			continue
		}
		kept[k] = true
		was := &o.Cols[k]
		if moved && !(col.CA && was.CA) || col.CA != was.CA {
			for s, k := range c.Switch {
				if k < 0 || o.counts(was, k) != p.counts(col, int32(s)) {
					c.note(int32(s), col.Class)
				}
			}
		}
		for _, s := range others[i] {
			c.note(s, col.Class)
		}
	}
	for k := range o.Cols {
		if kept[k] || c.gone[o.Cols[k].Class] < 0 {
			continue
		}
		for s := range n { // a class that lost a column
			c.note(int32(s), c.gone[o.Cols[k].Class])
		}
	}
}

// walker is one goroutine's scratch.
type walker struct {
	state []uint8 // of a switch's path
	stack []int32
}

// State of a path.
const (
	unknown = iota
	same
	other
	open // being walked
)

// differ lists the switches whose path in the tree of a column changed.
func (c *updater) differ(w *walker, was, col *Column) (others []int32) {
	o, p := c.was.p, c.now.p
	state, stack := w.state, w.stack[:0]
	clear(state)
	for s := range state {
		u := int32(s)
		for state[u] == unknown {
			state[u] = open
			stack = append(stack, u)
			next := p.next(col, u)
			before := int32(-1)
			if k := c.Switch[u]; k >= 0 {
				before = o.next(was, k)
			}
			switch {
			case next < 0 && before < 0 && c.Switch[u] >= 0:
				state[u] = same
			case next < 0 || before < 0 || c.Channel[next] != before:
				state[u] = other
			default:
				u = p.Graph.To[next]
			}
		}
		// All on the stack lead to u: if it differs, so do they.
		for _, v := range stack {
			state[v] = state[u]
		}
		stack = stack[:0]
		if state[s] == other {
			others = append(others, int32(s))
		}
	}
	w.stack = stack
	return others
}

// takeOut removes the old paths of changed pairs, and of removed ones, from
// their layers.
func (c *updater) takeOut() {
	for _, t := range c.todo {
		if src, class := c.Switch[t[0]], c.class[t[1]]; src >= 0 && class >= 0 {
			c.remove(src, class)
		}
	}
	if !slices.Contains(c.Gone, -1) && !slices.Contains(c.gone, -1) {
		return
	}
	c.was.eachUnit(func(src, class int32) {
		if c.Gone[src] < 0 || c.gone[class] < 0 {
			c.remove(src, class)
		}
	})
}

// remove removes a pair's old path, as far as its channels still exist.
func (c *updater) remove(src, class int32) {
	w := c.was
	w.unit(src, class)
	d := c.now.cdg[w.SL[w.at(src, class)]]
	begin := int32(0)
	for _, end := range w.ends {
		for i := begin + 1; i < end; i++ {
			c1, c2 := c.GoneChannel[w.path[i-1]], c.GoneChannel[w.path[i]]
			if c1 >= 0 && c2 >= 0 {
				d.less(c1, c2)
			}
		}
		begin = end
	}
}

// putIn finds layers for the changed pairs.
func (c *updater) putIn(budget int) bool {
	l := c.now
	for _, t := range c.todo {
		src, class := t[0], t[1]
		l.unit(src, class)
		if len(l.ends) == 0 {
			continue
		}
		old := int(l.SL[l.at(src, class)])
		if l.tryUnit(l.cdg[old]) {
			l.put(src, class, old)
			continue
		}
		found := false
		for k := 0; !found; k++ {
			if k == len(l.cdg) {
				if k >= min(budget, Max) {
					return false
				}
				l.grow()
			}
			if k != old && l.tryUnit(l.cdg[k]) {
				l.put(src, class, k)
				found = true
			}
		}
	}
	return true
}
