package layer

// Split layers all pairs by breaking cycles; ok is false if Max layers do not
// do. Every cycle found costs a scan of the columns and the paths that move.
func Split(p *Paths) (l *Layers, ok bool) {
	l = newLayers(p)
	l.fill()
	for k := 0; k < len(l.cdg); k++ {
		if l.cdg[k].order() {
			continue
		}
		if !l.breakCycles(k) {
			return l, false
		}
		l.cdg[k].order()
	}
	l.compact()
	return l, true
}

// breakCycles searches layer k depth first; whenever the search returns to a
// channel on its path, it removes the weakest dependency of that cycle.
func (l *Layers) breakCycles(k int) bool {
	const white, gray, black = 0, 1, 2
	d, w := l.cdg[k], l.w
	m := l.p.Graph.Channels()
	if w.color == nil {
		w.color = make([]uint8, m)
	}
	clear(w.color)
	for r := range m {
		if w.color[r] != white {
			continue
		}
		stack, ats := append(w.stack[:0], int32(r)), append(w.ats[:0], 0)
		w.color[r] = gray
		for len(stack) > 0 {
			top := len(stack) - 1
			c := stack[top]
			e := d.next(c, ats[top])
			if e < 0 {
				w.color[c] = black
				stack, ats = stack[:top], ats[:top]
				continue
			}
			if w.color[e] == white {
				ats[top] = d.g.col[e] + 1
				w.color[e] = gray
				stack, ats = append(stack, e), append(ats, 0)
				continue
			}
			if w.color[e] == black {
				ats[top] = d.g.col[e] + 1
				continue
			}
			// The cycle is from e on the stack up to c and back to e.
			c1, c2, least := c, e, d.count[d.g.edge(c, e)]
			for i := top; stack[i] != e; i-- {
				if v := d.count[d.g.edge(stack[i-1], stack[i])]; v < least {
					c1, c2, least = stack[i-1], stack[i], v
				}
			}
			if !l.expel(k, c1, c2) {
				return false
			}
			// Channels of the search path may be gone: step back below them.
			for i := 1; i < len(stack); i++ {
				if d.count[d.g.edge(stack[i-1], stack[i])] == 0 {
					for _, c := range stack[i:] {
						w.color[c] = white
					}
					stack, ats = stack[:i], ats[:i]
					break
				}
			}
		}
		w.stack, w.ats = stack, ats
	}
	return true
}

// expel moves all pairs that make a dependency of layer k to the next layer.
func (l *Layers) expel(k int, c1, c2 int32) bool {
	if k+1 == len(l.cdg) {
		if len(l.cdg) == Max {
			l.Used = Max + 1
			return false
		}
		l.grow()
	}
	p := l.p
	u, v := p.Graph.From[c1], p.Graph.From[c2]
	first, second, w1, w2 := p.Rows[u], p.Rows[v], l.way[c1], l.way[c2]
	for i := range p.Cols {
		c := &p.Cols[i]
		// The destination's own switch sends to none of its channels.
		if first[c.Row] != w1 || second[c.Row] != w2 {
			continue
		}
		// All switches behind u in the tree of this column.
		l.node = append(l.node[:0], u)
		for h := 0; h < len(l.node); h++ {
			s := l.node[h]
			for o := p.Graph.Off[s]; o < p.Graph.Off[s+1]; o++ {
				if t := p.Graph.To[o]; p.Rows[t][c.Row] == l.way[p.Graph.Rev[o]] && t != c.Dst {
					l.node = append(l.node, t)
				}
			}
			if p.counts(c, s) && int(l.SL[l.at(s, c.Class)]) == k {
				l.unit(s, c.Class)
				l.removeUnit(l.cdg[k])
				l.addUnit(l.cdg[k+1])
				l.put(s, c.Class, k+1)
			}
		}
	}
	return true
}

// compactWork bounds the channels that compact may examine.
const compactWork = 400_000_000

// compact tries to empty the last layers: their pairs go to the first layer
// that stays acyclic.
func (l *Layers) compact() {
	limit := l.w.topo.Visits + compactWork
	for k := len(l.cdg) - 1; k > 0; k-- {
		left := 0
		l.eachUnit(func(src, class int32) {
			if int(l.SL[l.at(src, class)]) != k || l.w.topo.Visits > limit {
				return
			}
			l.unit(src, class)
			if len(l.ends) == 0 {
				l.put(src, class, 0)
				return
			}
			for j := range k {
				if l.tryUnit(l.cdg[j]) {
					l.removeUnit(l.cdg[k])
					l.put(src, class, j)
					return
				}
			}
			left++
		})
		if left > 0 || l.w.topo.Visits > limit {
			break
		}
		l.cdg = l.cdg[:k]
	}
	l.Used = len(l.cdg)
}

// eachUnit calls fn for each pair that gets a layer.
func (l *Layers) eachUnit(fn func(src, class int32)) {
	for s := range int32(l.p.Graph.Switches()) {
		first := int32(0)
		if l.p.Symmetric {
			first = s + 1
		}
		for c := first; c < int32(len(l.p.Class)); c++ {
			fn(s, c)
		}
	}
}

// Fit layers pair by pair, most Max layers; ok is false if they do not do.
func Fit(p *Paths) (l *Layers, ok bool) {
	l = newLayers(p)
	l.fill()
	if l.cdg[0].order() {
		return l, true
	}
	// An order in which most dependencies of all paths point forward is a good
	// start for each layer: few need repair later.
	l.base = l.cdg[0].nearOrder()
	l.cdg = l.cdg[:0]
	l.grow()
	ok = true
	l.eachUnit(func(src, class int32) {
		if !ok {
			return
		}
		l.unit(src, class)
		if len(l.ends) == 0 {
			return
		}
		for k := 0; ; k++ {
			if k == len(l.cdg) {
				if k == Max {
					l.Used, ok = Max+1, false
					return
				}
				l.grow()
			}
			if l.tryUnit(l.cdg[k]) {
				l.put(src, class, k)
				return
			}
		}
	})
	return l, ok
}
