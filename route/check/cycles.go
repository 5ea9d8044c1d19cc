package check

import (
	"math/bits"

	"heddle/fabric"
	"heddle/ib"
)

// Nodes of the dependency graph are numbered lane·channels + channel.

// cycles finds cycles in the dependencies and adds them to r.
func (j *verifier) cycles(r *Report, ca, sw planes) {
	all := make(planes, len(ca))
	for i := range all {
		switch {
		case sw[i] == nil:
			all[i] = ca[i]
		case ca[i] == nil:
			all[i] = sw[i]
		default:
			all[i] = make([]uint64, len(ca[i]))
			for k := range all[i] {
				all[i][k] = ca[i][k] | sw[i][k]
			}
		}
	}
	if j.acyclic(all) {
		return
	}
	id, count := j.tangles(ca)
	r.CreditCycles += count
	j.describe(r, ca, ca, id, count, false)

	id, count = j.tangles(all)
	byswitch := make([]bool, count+1)
	for x := range id {
		k := id[x]
		if k == 0 {
			continue
		}
		j.succ(all, int32(x), func(y int32) {
			if id[y] == k && !j.has(ca, int32(x), y) {
				byswitch[k] = true
			}
		})
	}
	found := 0
	for k := 1; k <= count; k++ {
		if byswitch[k] {
			found++
		}
	}
	if found == 0 {
		return
	}
	for x, k := range id {
		if !byswitch[k] {
			id[x] = 0
		}
	}
	r.CreditCyclesSwitch += found
	j.describe(r, ca, all, id, count, true)
}

func (j *verifier) split(x int32) (c int32, lane int) {
	m := int32(len(j.to))
	return x % m, int(x / m)
}

func (j *verifier) has(set planes, x, y int32) bool {
	c1, l1 := j.split(x)
	c2, l2 := j.split(y)
	p := set[l1*j.lanes+l2]
	b := uint32(j.row[c1] + j.col[c2])
	return p != nil && p[b>>6]>>(b&63)&1 != 0
}

// succ calls fn for each node that waits for x.
func (j *verifier) succ(set planes, x int32, fn func(y int32)) {
	c, l1 := j.split(x)
	v := j.to[c]
	k := j.g.Off[v+1] - j.g.Off[v]
	lo := uint32(j.row[c])
	for l2, p := range set[l1*j.lanes : (l1+1)*j.lanes] {
		if p == nil {
			continue
		}
		first := int32(l2*len(j.to)) + j.g.Off[v]
		for i := int32(0); i < k; {
			b := lo + uint32(i)
			word := p[b>>6] >> (b & 63)
			step := min(64-int32(b&63), k-i)
			if step < 64 {
				word &= 1<<step - 1
			}
			for ; word != 0; word &= word - 1 {
				fn(first + i + int32(bits.TrailingZeros64(word)))
			}
			i += step
		}
	}
}

// nextSucc is the first node that waits for x, in the order of lanes and
// columns, from lane l2 and column at on.
func (j *verifier) nextSucc(set planes, x int32, l2, at int32) (y, lane, col int32, ok bool) {
	c, l1 := j.split(x)
	v := j.to[c]
	first, k := j.g.Off[v], j.g.Off[v+1]-j.g.Off[v]
	lo := uint32(j.row[c])
	for ; int(l2) < j.lanes; l2, at = l2+1, 0 {
		p := set[l1*j.lanes+int(l2)]
		if p == nil {
			continue
		}
		for at < k {
			b := lo + uint32(at)
			if word := p[b>>6] >> (b & 63); word != 0 {
				at += int32(bits.TrailingZeros64(word))
				if at < k {
					return l2*int32(len(j.to)) + first + at, l2, at, true
				}
				break
			}
			at += 64 - int32(b&63)
		}
	}
	return 0, 0, 0, false
}

// acyclic peels nodes that nothing waits for until none is left or a cycle
// is all that remains.
func (j *verifier) acyclic(set planes) bool {
	m := len(j.to) * j.lanes
	in := make([]int32, m)
	for x := range m {
		j.succ(set, int32(x), func(y int32) { in[y]++ })
	}
	queue := make([]int32, 0, m)
	for x, k := range in {
		if k == 0 {
			queue = append(queue, int32(x))
		}
	}
	for h := 0; h < len(queue); h++ {
		j.succ(set, queue[h], func(y int32) {
			if in[y]--; in[y] == 0 {
				queue = append(queue, y)
			}
		})
	}
	return len(queue) == m
}

// tangles numbers, from 1, the strongly connected components of two
// nodes and more (R. E. Tarjan, 1972, without recursion); 0 is the rest.
func (j *verifier) tangles(set planes) (id []int32, count int) {
	m := len(j.to) * j.lanes
	id = make([]int32, m)
	num := make([]int32, m) // order of discovery from 1; 0 = not yet
	low := make([]int32, m)
	on := make([]bool, m)
	type frame struct{ x, lane, at int32 } // where the search continues
	var frames []frame
	var stack []int32
	next := int32(0)
	enter := func(x int32) {
		next++
		num[x], low[x] = next, next
		stack = append(stack, x)
		on[x] = true
		frames = append(frames, frame{x, 0, 0})
	}
	for r := range m {
		if num[r] != 0 {
			continue
		}
		enter(int32(r))
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			y, lane, at, more := j.nextSucc(set, f.x, f.lane, f.at)
			if more {
				f.lane, f.at = lane, at+1
				if num[y] == 0 {
					enter(y)
				} else if on[y] {
					low[f.x] = min(low[f.x], num[y])
				}
				continue
			}
			x := f.x
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				p := frames[len(frames)-1].x
				low[p] = min(low[p], low[x])
			}
			if low[x] != num[x] {
				continue
			}
			if stack[len(stack)-1] == x { // alone: no channel waits for itself
				stack = stack[:len(stack)-1]
				on[x] = false
				continue
			}
			count++
			for {
				y := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				on[y] = false
				id[y] = int32(count)
				if y == x {
					break
				}
			}
		}
	}
	return id, count
}

// describe adds one cycle of each component numbered in id.
func (j *verifier) describe(r *Report, ca, set planes, id []int32, count int, switchOnly bool) {
	first := make([]int32, count+1)
	for x := len(id) - 1; x >= 0; x-- {
		first[id[x]] = int32(x) + 1
	}
	for k := 1; k <= count && len(r.Cycles) < j.keep; k++ {
		if first[k] == 0 {
			continue
		}
		nodes := j.shortCycle(set, id, first[k]-1)
		cy := Cycle{SwitchOnly: switchOnly}
		for i, x := range nodes {
			y := nodes[(i+1)%len(nodes)]
			cy.Edges = append(cy.Edges, j.explain(x, y, !j.has(ca, x, y)))
		}
		r.Cycles = append(r.Cycles, cy)
	}
}

// shortCycle is a shortest cycle through node x inside its component.
func (j *verifier) shortCycle(set planes, id []int32, x int32) []int32 {
	from := make([]int32, len(id))
	for i := range from {
		from[i] = -1
	}
	queue := []int32{x}
	for h := 0; h < len(queue); h++ {
		closed := int32(-1)
		j.succ(set, queue[h], func(y int32) {
			if y == x && closed < 0 {
				closed = queue[h]
			}
			if id[y] == id[x] && from[y] < 0 && y != x {
				from[y] = queue[h]
				queue = append(queue, y)
			}
		})
		if closed < 0 {
			continue
		}
		var back []int32
		for y := closed; y != x; y = from[y] {
			back = append(back, y)
		}
		out := []int32{x}
		for i := len(back) - 1; i >= 0; i-- {
			out = append(out, back[i])
		}
		return out
	}
	return nil // not reached: x lies on a cycle of its component
}

// explain finds a path that makes the dependency of node y on node x.
func (j *verifier) explain(x, y int32, switches bool) Dependency {
	g := j.g
	c1, l1 := j.split(x)
	c2, l2 := j.split(y)
	d := Dependency{
		In:  Hop{g.Channels[c1].From, g.Channels[c1].OutPort, uint8(l1)},
		Out: Hop{g.Channels[c2].From, g.Channels[c2].OutPort, uint8(l2)},
		Src: -1,
	}
	u, v := g.Channels[c1].From, g.Channels[c2].From
	for l := 1; l < len(g.LIDOwner); l++ {
		owner := g.LIDOwner[l]
		if owner == fabric.NoLID || g.EndPorts[owner].Switch < 0 || g.EndPorts[owner].Switch == v || g.EndPorts[owner].Switch == u {
			continue
		}
		if j.channel(u, l) != c1 || j.channel(v, l) != c2 {
			continue
		}
		dst := &g.EndPorts[owner]
		over := j.over(u, l, dst.Switch)
		for e := range g.EndPorts {
			src := &g.EndPorts[e]
			if src.Switch < 0 || !over[src.Switch] || j.lidsOf[e] == 0 ||
				(src.Type == ib.NodeSwitch && dst.Type == ib.NodeSwitch) != switches {
				continue
			}
			path := j.path(src, l, dst.Switch)
			for i := 1; i < len(path); i++ {
				if path[i-1] == d.In && path[i] == d.Out {
					d.Src, d.Dst, d.Path = int32(e), ib.LID(l), path
					return d
				}
			}
		}
	}
	if !switches {
		j.explainTree(&d, c1, c2)
	}
	return d
}

// over reports for every switch whether its packets to l pass switch u.
func (j *verifier) over(u int32, l int, dst int32) []bool {
	over := make([]bool, j.n)
	for s := range over {
		at := int32(s)
		for range j.n + 1 {
			if at == u || over[at] {
				over[s] = true
				break
			}
			c := j.channel(at, l)
			if at == dst || c < 0 {
				break
			}
			at = j.to[c]
		}
	}
	return over
}

// channel is where switch s sends l, or -1.
func (j *verifier) channel(s int32, l int) int32 {
	p := int(j.effective(s, l))
	if p >= j.stride {
		return -1
	}
	return j.out[int(s)<<j.shift|p]
}

// level is the service level of packets from switch s to l.
func (j *verifier) level(s int32, l int) ib.SL {
	col, step := j.levels(l)
	if col == nil {
		return 0
	}
	return col[int(s)*step]
}

// lane is the data lane of packets that enter switch s by port in and leave
// by channel c; ok if the link has it.
func (j *verifier) lane(s int32, in uint8, c int32, sl ib.SL) (lane uint8, ok bool) {
	if j.mode == single {
		return 0, true
	}
	if j.hop == nil {
		return uint8(sl) % uint8(j.lanes), true
	}
	lane = uint8(j.lanesOf(s, in, c)[sl])
	return lane, lane < j.vls[c]
}

// path walks from an end port toward l: as far as packets get, and at most
// twice around a loop.
func (j *verifier) path(src *fabric.EndPort, l int, dst int32) (hops []Hop) {
	s, in := src.Switch, src.Port
	sl := j.level(s, l)
	for range 3*j.n + 1 {
		if s == dst {
			return hops
		}
		c := j.channel(s, l)
		if c < 0 {
			return hops
		}
		lane, ok := j.lane(s, in, c, sl)
		if !ok {
			return hops
		}
		hops = append(hops, Hop{s, j.g.Channels[c].OutPort, lane})
		s, in = j.to[c], j.g.Channels[c].InPort
	}
	return hops
}
