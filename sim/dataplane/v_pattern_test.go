package dataplane

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heddle/fabric"
	"heddle/route/check"
)

// patternCases are V17–V22: patterns on fat trees with d-mod-k tables.
var patternCases = []vcase{
	{"V17", "permutations, 648: used uplinks + flows inside leaves", false, func(t *testing.T) (out []result) {
		x := newTree(t, fabric.FatTree{Hosts: 648}, qdr)
		seeds := uint64(2)
		if full() {
			seeds = 20
		}
		for seed := range seeds {
			perm := randomPerm(648, seed)
			for _, m := range []struct {
				in            Queueing
				buffer, lanes int
			}{{FIFO, 32, 1}, {VOQ, 8, 1}, {FIFO, 62, 8}} {
				c := testConfig()
				c.Input, c.Buffer, c.Lanes = m.in, m.buffer*33, m.lanes
				p, sl := x.lanes(m.lanes)
				c.SL = sl
				e := mustNew(t, x.top, p, c)
				permute(t, e, perm, rc2k)
				s := measure(t, e, 200*Microsecond, slots(300))
				up, inside := x.usedUplinks(e, p, perm)
				out = append(out, exact(fmt.Sprintf("seed %d, %v, %d lanes: packets", seed, m.in, m.lanes), float64(s.Delivered), float64(300*(up+inside))))
			}
		}
		return out
	}},
	{"V18", "random permutations, 648", false, func(t *testing.T) []result {
		x := newTree(t, fabric.FatTree{Hosts: 648}, qdr)
		p := x.tables(1)
		e := mustNew(t, x.top, p, testConfig())
		share, largest := 0.0, 0.0
		for seed := range uint64(200) {
			perm := randomPerm(648, seed)
			up, inside := x.usedUplinks(e, p, perm) // what is accepted, by V17
			share += float64(up+inside) / 648 / 200
			largest += float64(x.maxLoad(e, p, perm)) / 200
		}
		perm := randomPerm(648, 1)
		permute(t, e, perm, rc2k)
		measure(t, e, 200*Microsecond, slots(400))
		above := 0.0 // how far a flow is above its max-min rate
		for i, share := range x.maxMin(e, p, perm) {
			if got := float64(e.Flow(i).Delivered) / 400; got <= worstFlow(e)/400 {
				above = max(above, got/share-1)
			}
		}
		return []result{
			most("worst flow above its max-min rate", above, 0.05),
			near("mean share", share, 0.664, 0.01), near("largest load", largest, 4.8, 0.1),
			near("worst flow", worstFlow(e)/400, 1/float64(x.maxLoad(e, p, perm)), 0.01),
		}
	}},
	{"V19", "shifts", false, func(t *testing.T) (out []result) {
		sizes, shifts := []int{648}, []int{1, 18, 100, 323, 647}
		if full() {
			sizes = []int{648, 11664}
		}
		for _, n := range sizes {
			x := newTree(t, fabric.FatTree{Hosts: n}, qdr)
			for _, k := range shifts {
				if n > 648 && k != 323 && k != 18 {
					continue
				}
				c := Defaults()
				e := mustNew(t, x.top, x.tables(1), c)
				perm := make([]int, n)
				for h := range perm {
					perm[h] = (h + k) % n
				}
				permute(t, e, perm, rc2k)
				s := measure(t, e, 20*Microsecond, slots(100))
				out = append(out, exact(fmt.Sprintf("%d hosts, shift %d: packets in 100 slots", n, k), float64(s.Delivered), float64(100*n)))
			}
		}
		return out
	}},
	{"V20", "random permutations, 11,664", true, func(t *testing.T) (out []result) {
		x := newTree(t, fabric.FatTree{Hosts: 11664}, qdr)
		for _, in := range []Queueing{FIFO, VOQ} {
			c := Defaults()
			c.Input = in
			p := x.tables(1)
			e := mustNew(t, x.top, p, c)
			perm := randomPerm(11664, 1)
			permute(t, e, perm, rc2k)
			s := measure(t, e, 150*Microsecond, slots(200))
			got := float64(s.Delivered) / 200 / 11664
			if in == FIFO {
				out = append(out, within("max-min share", mean(x.maxMin(e, p, perm)), 0.515, 0.05), most("FIFO", got, 0.515*1.05))
			} else {
				out = append(out, within("VoQ", got, 0.515, 0.05))
			}
		}
		return out
	}},
	{"V21", "random bisection, one way and both", false, func(t *testing.T) []result {
		x := newTree(t, fabric.FatTree{Hosts: 648}, qdr)
		p := x.tables(1)
		e := mustNew(t, x.top, p, testConfig())
		one, both := 0.0, 0.0
		for seed := range uint64(200) {
			perm := bisection(648, seed)
			up, inside := x.usedUplinks(e, p, perm)
			one += float64(up+inside) / 324 / 200
			up, inside = x.usedUplinks(e, p, mirrored(perm))
			both += float64(up+inside) / 648 / 200
		}
		perm := mirrored(bisection(648, 7))
		permute(t, e, perm, rc2k)
		up, inside := x.usedUplinks(e, p, perm)
		s := measure(t, e, 200*Microsecond, slots(200))
		return []result{
			near("one way", one, 0.809, 0.01), near("both", both, 0.663, 0.01),
			exact("seed 7, both: packets in 200 slots", float64(s.Delivered), float64(200*(up+inside))),
		}
	}},
	{"V22", "loads of route/check", false, func(t *testing.T) (out []result) {
		for _, w := range []struct {
			n               int
			largest, bisect float64
		}{{648, 4.80, 0.812}, {5832, 0, 0.685}, {11664, 6.63, 0.674}} {
			if w.n > 648 && !full() {
				continue
			}
			x := newTree(t, fabric.FatTree{Hosts: w.n}, qdr)
			if w.largest > 0 {
				l := check.PatternLoad(x.g, x.rt, check.Permutation, check.PatternOptions{Workers: 2})
				out = append(out, near(fmt.Sprintf("%d: largest load", w.n), l.MeanMaxLoad, w.largest, 0.01*w.largest))
			}
			l := check.PatternLoad(x.g, x.rt, check.Bisect, check.PatternOptions{Workers: 2})
			out = append(out, near(fmt.Sprintf("%d: bisection", w.n), l.MeanShare, w.bisect, 0.01))
		}
		return out
	}},
}

// slots is the time of n QDR packets of 2 KiB.
func slots(n int) Time { return Time(n) * qdr.Time(rc2k) }

// worstFlow is the least number of packets that a stream has delivered.
func worstFlow(e *Engine) float64 {
	worst := uint64(1) << 63
	for i := range e.NumStreams() {
		worst = min(worst, e.Flow(i).Delivered)
	}
	return float64(worst)
}

// bisection pairs the hosts of a random half with those of the other, one way.
func bisection(n int, seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 5)).Perm(n)
	perm := make([]int, n)
	for i := range perm {
		perm[i] = i
	}
	for i := range n / 2 {
		perm[r[i]] = r[n/2+i]
	}
	return perm
}

func mirrored(perm []int) []int {
	out := make([]int, len(perm))
	copy(out, perm)
	for h, d := range perm {
		if h != d {
			out[d] = h
		}
	}
	return out
}

// paths lists the channels (node·256 + output) of each flow of a permutation.
func (x *tree) paths(e *Engine, p Tables, perm []int) (flows [][]int32) {
	for h, d := range perm {
		if h == d {
			continue
		}
		lid := x.f.Port(e.HostPort(d)).LID
		path := []int32{e.HostPort(h).Node<<8 | 1}
		for at := x.f.Port(e.HostPort(h)).Peer.Node; x.f.Nodes[at].IsSwitch(); {
			out := p.Route(at, lid)
			path = append(path, at<<8|int32(out))
			at = x.f.Nodes[at].Ports[out].Peer.Node
		}
		flows = append(flows, path)
	}
	return flows
}

// maxLoad is the largest number of flows on a channel.
func (x *tree) maxLoad(e *Engine, p Tables, perm []int) (most int) {
	load := map[int32]int{}
	for _, f := range x.paths(e, p, perm) {
		for _, c := range f {
			load[c]++
			most = max(most, load[c])
		}
	}
	return most
}

// maxMin are the max-min fair shares of the flows of a permutation, by filling all flows at the same pace until a channel of theirs is full.
func (x *tree) maxMin(e *Engine, p Tables, perm []int) []float64 {
	flows := x.paths(e, p, perm)
	users, room, count := map[int32][]int{}, map[int32]float64{}, map[int32]int{}
	for i, f := range flows {
		for _, c := range f {
			users[c] = append(users[c], i)
			room[c] = 1
			count[c]++
		}
	}
	share, done := make([]float64, len(flows)), make([]bool, len(flows))
	for left := len(flows); left > 0; {
		best := 2.0
		for c, n := range count {
			if n > 0 {
				best = min(best, room[c]/float64(n))
			}
		}
		for c, n := range count {
			if n == 0 || room[c]/float64(n) > best*(1+1e-9) {
				continue
			}
			for _, i := range users[c] {
				if done[i] {
					continue
				}
				done[i], share[i] = true, best
				left--
				for _, d := range flows[i] {
					room[d] -= best
					count[d]--
				}
			}
		}
	}
	return share
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}
