package maxmin

import (
	"math"
	"math/rand/v2"
	"testing"
)

// problem makes a Problem of flows that list their channels, with weight 1.
func problem(capacity, demand []float64, flows ...[]int32) *Problem {
	p := &Problem{Capacity: capacity}
	for f, list := range flows {
		ws := make([]float64, len(list))
		for i := range ws {
			ws[i] = 1
		}
		p.Add(demand[f], list, ws)
	}
	return p
}

var inf = math.Inf(1)

func TestSolve(t *testing.T) {
	for _, c := range []struct {
		name string
		p    *Problem
		want []float64
	}{
		{"one flow takes the narrowest channel", problem([]float64{3, 2}, []float64{inf}, []int32{0, 1}), []float64{2}},
		{
			"equal shares", problem([]float64{1}, []float64{inf, inf, inf}, []int32{0}, []int32{0}, []int32{0}),
			[]float64{1. / 3, 1. / 3, 1. / 3},
		},
		{
			"what one cannot use goes to the other", problem([]float64{1, 0.25}, []float64{inf, inf}, []int32{0, 1}, []int32{0}),
			[]float64{0.25, 0.75},
		},
		{"a demand below the share", problem([]float64{1}, []float64{0.2, inf}, []int32{0}, []int32{0}), []float64{0.2, 0.8}},
		{ // Bertsekas, Gallager 1992, figure 6.14: four flows of one channel each and one over all
			"a long flow",
			problem([]float64{1, 1, 1}, []float64{inf, inf, inf, inf}, []int32{0, 1, 2}, []int32{0}, []int32{0}, []int32{1}),
			[]float64{1. / 3, 1. / 3, 1. / 3, 2. / 3},
		},
		{"nothing asked", problem([]float64{1}, []float64{0, inf}, []int32{0}, []int32{0}), []float64{0, 1}},
		{"no flows", &Problem{Capacity: []float64{1}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.p.Solve()
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for f := range got {
				if math.Abs(got[f]-c.want[f]) > 1e-12 {
					t.Errorf("%v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestWeights: a flow that uses a channel with a part of its packets.
func TestWeights(t *testing.T) {
	p := &Problem{Capacity: []float64{1, 1}}
	p.Add(1, []int32{0, 1}, []float64{1, 0.5}) // half of its packets
	p.Add(1, []int32{1}, []float64{1})
	// They rise together until 0.5·x + x = 1.
	got := p.Solve()
	if math.Abs(got[0]-2./3) > 1e-12 || math.Abs(got[1]-2./3) > 1e-12 {
		t.Errorf("%v, want 2/3 each", got)
	}
}

// TestFair checks the definition on random problems: no channel carries more than
// it can, no flow gets more than it asks for, and each flow that gets less has a
// full channel on which no other flow is faster. That decides the rates.
func TestFair(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := &Problem{}
		channels, flows := 1+r.IntN(20), 1+r.IntN(60)
		for range channels {
			p.Capacity = append(p.Capacity, 0.1+r.Float64())
		}
		for range flows {
			perm := r.Perm(channels)[:1+r.IntN(min(channels, 6))]
			var list []int32
			var ws []float64
			for _, c := range perm {
				list = append(list, int32(c))
				ws = append(ws, []float64{1, 1, 0.5, r.Float64() + 0.01}[r.IntN(4)])
			}
			p.Add([]float64{inf, r.Float64() * 0.2}[r.IntN(2)], list, ws)
		}
		rate := p.Solve()
		use, fastest := make([]float64, channels), make([]float64, channels)
		each := func(f int, yield func(c int32, w float64)) {
			for i := p.Off[f]; i < p.Off[f+1]; i++ {
				yield(p.Channel[i], p.Weight[i])
			}
		}
		for f := range rate {
			each(f, func(c int32, w float64) {
				use[c] += w * rate[f]
				fastest[c] = max(fastest[c], rate[f])
			})
		}
		for c := range use {
			if use[c] > p.Capacity[c]+1e-9 {
				t.Fatalf("seed %d: channel %d carries %v of %v", seed, c, use[c], p.Capacity[c])
			}
		}
		for f, x := range rate {
			if x > p.Demand[f]+1e-12 {
				t.Fatalf("seed %d: flow %d gets %v and asks for %v", seed, f, x, p.Demand[f])
			}
			limited := x >= p.Demand[f]-1e-9
			each(f, func(c int32, _ float64) {
				limited = limited || use[c] > p.Capacity[c]-1e-7 && x > fastest[c]-1e-7
			})
			if !limited {
				t.Fatalf("seed %d: flow %d gets %v of %v, and nothing holds it back", seed, f, x, p.Demand[f])
			}
		}
	}
}
