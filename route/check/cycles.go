package check

import (
	"math/bits"

	"heddle/fabric"
	"heddle/ib"
)

// cycles looks for cycles in the dependencies of one lane and adds them to r.
func (j *judge) cycles(r *Report, lane uint8, ca, sw []uint64) {
	all := make([]uint64, len(ca))
	for i := range all {
		all[i] = ca[i] | sw[i]
	}
	if j.acyclic(all) {
		return
	}
	id, count := j.tangles(ca)
	r.CreditCycles += count
	j.describe(r, lane, ca, ca, id, count, false)

	id, count = j.tangles(all)
	byswitch := make([]bool, count+1)
	for c := range j.to {
		k := id[c]
		if k == 0 {
			continue
		}
		j.succ(all, int32(c), func(d int32) {
			if id[d] == k && !j.has(ca, int32(c), d) {
				byswitch[k] = true
			}
		})
	}
	for k := 1; k <= count; k++ {
		if byswitch[k] {
			r.CreditCyclesSwitch++
		} else {
			for c := range id {
				if id[c] == int32(k) {
					id[c] = 0
				}
			}
		}
	}
	if r.CreditCyclesSwitch > 0 {
		j.describe(r, lane, ca, all, id, count, true)
	}
}

func (j *judge) has(set []uint64, c1, c2 int32) bool {
	b := uint32(j.row[c1] + j.col[c2])
	return set[b>>6]>>(b&63)&1 != 0
}

// succ calls fn for each channel that depends on c's release.
func (j *judge) succ(set []uint64, c int32, fn func(d int32)) {
	v := j.to[c]
	first, k := j.g.Off[v], j.g.Off[v+1]-j.g.Off[v]
	lo := uint32(j.row[c])
	for i := int32(0); i < k; {
		b := lo + uint32(i)
		word := set[b>>6] >> (b & 63)
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

// nextSucc is the first channel from column at on that depends on c's release.
func (j *judge) nextSucc(set []uint64, c, at int32) (int32, bool) {
	v := j.to[c]
	first, k := j.g.Off[v], j.g.Off[v+1]-j.g.Off[v]
	lo := uint32(j.row[c])
	for at < k {
		b := lo + uint32(at)
		if word := set[b>>6] >> (b & 63); word != 0 {
			at += int32(bits.TrailingZeros64(word))
			return first + at, at < k
		}
		at += 64 - int32(b&63)
	}
	return 0, false
}

// acyclic peels channels that nothing waits for until none is left or a cycle
// is all that remains.
func (j *judge) acyclic(set []uint64) bool {
	m := len(j.to)
	in := make([]int32, m)
	for c := range m {
		j.succ(set, int32(c), func(d int32) { in[d]++ })
	}
	queue := make([]int32, 0, m)
	for c, k := range in {
		if k == 0 {
			queue = append(queue, int32(c))
		}
	}
	for h := 0; h < len(queue); h++ {
		j.succ(set, queue[h], func(d int32) {
			if in[d]--; in[d] == 0 {
				queue = append(queue, d)
			}
		})
	}
	return len(queue) == m
}

// tangles numbers, from 1, the strongly connected components of two
// channels and more (R. E. Tarjan, 1972, without recursion); 0 is the rest.
func (j *judge) tangles(set []uint64) (id []int32, count int) {
	m := len(j.to)
	id = make([]int32, m)
	num := make([]int32, m) // order of discovery from 1; 0 = not yet
	low := make([]int32, m)
	on := make([]bool, m)
	type frame struct{ c, at int32 } // at: successors looked at already
	var frames []frame
	var stack []int32
	next := int32(0)
	enter := func(c int32) {
		next++
		num[c], low[c] = next, next
		stack = append(stack, c)
		on[c] = true
		frames = append(frames, frame{c, 0})
	}
	for r := range m {
		if num[r] != 0 {
			continue
		}
		enter(int32(r))
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			d, more := j.nextSucc(set, f.c, f.at)
			if more {
				f.at = j.col[d] + 1
				if num[d] == 0 {
					enter(d)
				} else if on[d] {
					low[f.c] = min(low[f.c], num[d])
				}
				continue
			}
			c := f.c
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				p := frames[len(frames)-1].c
				low[p] = min(low[p], low[c])
			}
			if low[c] != num[c] {
				continue
			}
			if stack[len(stack)-1] == c { // alone: no channel waits for itself
				stack = stack[:len(stack)-1]
				on[c] = false
				continue
			}
			count++
			for {
				d := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				on[d] = false
				id[d] = int32(count)
				if d == c {
					break
				}
			}
		}
	}
	return id, count
}

// describe adds one cycle of each component numbered in id.
func (j *judge) describe(r *Report, lane uint8, ca, set []uint64, id []int32, count int, switchOnly bool) {
	first := make([]int32, count+1)
	for c := len(id) - 1; c >= 0; c-- {
		first[id[c]] = int32(c) + 1
	}
	for k := 1; k <= count && len(r.Cycles) < j.keep; k++ {
		if first[k] == 0 {
			continue
		}
		chans := j.shortCycle(set, id, first[k]-1)
		cy := Cycle{SwitchOnly: switchOnly}
		for i, c1 := range chans {
			c2 := chans[(i+1)%len(chans)]
			cy.Edges = append(cy.Edges, j.explain(c1, c2, lane, !j.has(ca, c1, c2)))
		}
		r.Cycles = append(r.Cycles, cy)
	}
}

// shortCycle is a shortest cycle through channel c inside its component.
func (j *judge) shortCycle(set []uint64, id []int32, c int32) []int32 {
	from := make([]int32, len(id))
	for i := range from {
		from[i] = -1
	}
	queue := []int32{c}
	for h := 0; h < len(queue); h++ {
		closed := int32(-1)
		j.succ(set, queue[h], func(d int32) {
			if d == c && closed < 0 {
				closed = queue[h]
			}
			if id[d] == id[c] && from[d] < 0 && d != c {
				from[d] = queue[h]
				queue = append(queue, d)
			}
		})
		if closed < 0 {
			continue
		}
		var back []int32
		for d := closed; d != c; d = from[d] {
			back = append(back, d)
		}
		out := []int32{c}
		for i := len(back) - 1; i >= 0; i-- {
			out = append(out, back[i])
		}
		return out
	}
	return nil // not reached: c lies on a cycle of its component
}

// explain finds a path that makes the dependency c1→c2 on a lane.
func (j *judge) explain(c1, c2 int32, lane uint8, switches bool) Dependency {
	g := j.g
	hop := func(c int32) Hop { return Hop{g.Channels[c].From, g.Channels[c].OutPort, lane} }
	d := Dependency{In: hop(c1), Out: hop(c2), Src: -1}
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
		for e := range g.EndPorts {
			src := &g.EndPorts[e]
			if src.Switch < 0 || j.lidsOf[e] == 0 || j.lane(src.Switch, dst.Switch) != lane ||
				(src.Type == ib.NodeSwitch && dst.Type == ib.NodeSwitch) != switches {
				continue
			}
			if path, ok := j.path(src.Switch, l, c1, lane); ok {
				d.Src, d.Dst, d.Path = int32(e), ib.LID(l), path
				return d
			}
		}
	}
	return d
}

// channel is where switch s sends l, or -1; the destination's own switch sends
// nowhere.
func (j *judge) channel(s int32, l int) int32 {
	row := j.t.LFT[s]
	limit := int(j.g.Switches[s].LinearFDBCap)
	if l > int(j.t.TopLID) || l >= len(row) || (limit > 0 && l >= limit) || int(row[l]) >= j.stride {
		return -1
	}
	return j.out[int(s)<<j.shift|int(row[l])]
}

// path walks from switch s towards l; ok if it goes over channel through.
func (j *judge) path(s int32, l int, through int32, lane uint8) (hops []Hop, ok bool) {
	dst := j.g.EndPorts[j.g.LIDOwner[l]].Switch
	for range j.n + 1 {
		if s == dst {
			return hops, ok
		}
		c := j.channel(s, l)
		if c < 0 {
			return hops, ok
		}
		ok = ok || c == through
		hops = append(hops, Hop{s, j.g.Channels[c].OutPort, lane})
		s = j.to[c]
	}
	return hops, ok
}
