package dataplane

import (
	"fmt"
	"testing"

	"heddle/fabric"
)

// programCases are V47–V49: what hosts do.
var programCases = []vcase{
	{"V47", "ring all-reduce", false, func(t *testing.T) (out []result) {
		n, packets := 72, 20
		var topo fabric.Topology = fabric.XGFT{Children: []int{6, 12}, Parents: []int{1, 6}}
		if full() {
			n, packets, topo = 648, 51, fabric.FatTree{Hosts: 648} // 64 MiB: 50.6 packets of 2 KiB for each step
		}
		x := newTree(t, topo, qdr)
		e := mustNew(t, x.top, x.tables(1), Defaults())
		steps := 2 * (n - 1)
		done := program(t, e, n, steps, packets, func(rank, _ int) int { return (rank + 1) % n })
		e.Run(Second)
		mustCheck(t, e)
		// α: what the last packet of a step takes besides its time on the wire. A step
		// between leaves has 4 cables and 3 switches; ranks wait for the slowest.
		alpha := float64(4*DefaultCable + 3*100*Nanosecond)
		want := float64(steps) * (float64(packets)*float64(qdr.Time(rc2k)) + alpha)
		return []result{within(fmt.Sprintf("%d ranks: ms", n), float64(*done)/1e9, want/1e9, 0.02)}
	}},
	{"V48", "shift all-to-all, 64 KiB", false, func(t *testing.T) (out []result) {
		n := 72
		var topo fabric.Topology = fabric.XGFT{Children: []int{6, 12}, Parents: []int{1, 6}}
		if full() {
			n, topo = 648, fabric.FatTree{Hosts: 648}
		}
		x := newTree(t, topo, qdr)
		e := mustNew(t, x.top, x.tables(1), Defaults())
		done := program(t, e, n, n-1, 32, func(rank, step int) int { return (rank + step + 1) % n })
		e.Run(Second)
		mustCheck(t, e)
		alpha := float64(4*DefaultCable + 3*100*Nanosecond)
		want := float64(n-1) * (32*float64(qdr.Time(rc2k)) + alpha)
		return []result{within(fmt.Sprintf("%d ranks: ms", n), float64(*done)/1e9, want/1e9, 0.03)}
	}},
	{"V49", "a window of w packets, round trip T", false, func(t *testing.T) (out []result) {
		for _, w := range []int{1, 2, 4, 8} {
			n := chain(qdr, qdr, qdr)
			e := mustNew(t, &n.Topology, n.tables(1), testConfig())
			ack := 1500 * Nanosecond
			mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Arrival: Closed, Window: w, AckDelay: ack})
			s := measure(t, e, 100*Microsecond, 10*Millisecond)
			trip := float64(qdr.Time(rc2k) + 3*DefaultCable + 2*100*Nanosecond + ack)
			want := min(1, float64(w)*float64(qdr.Time(rc2k))/trip)
			out = append(out, within(fmt.Sprintf("w %d: share of the rate", w), float64(s.Delivered)*float64(qdr.Time(rc2k))/float64(10*Millisecond), want, 0.01))
		}
		return out
	}},
}

// program runs steps of n ranks: in each a rank sends so many packets to another,
// and goes on when it has sent its own and got what is sent to it. The result is
// when the last rank has done its last step.
func program(t *testing.T, e *Engine, n, steps, packets int, to func(rank, step int) int) *Time {
	stream := map[[2]int]int{}
	for r := range n {
		for s := range steps {
			if d := to(r, s); stream[[2]int{r, d}] == 0 {
				stream[[2]int{r, d}] = 1 + mustAdd(t, e, Stream{Src: r, To: To(d), Bytes: rc2k, Arrival: Posted})
			}
		}
	}
	got := make([][]uint16, n) // by rank and step
	for r := range got {
		got[r] = make([]uint16, steps)
	}
	sent, at := make([]int, n), make([]int, n) // packets of the step that are delivered, step
	from := make([]int, e.NumStreams())
	step := make([]int, e.NumStreams())
	count := make([]int, e.NumStreams())
	for k, s := range stream {
		from[s-1] = k[0]
		step[s-1] = -1
	}
	for r := range n {
		for s := range steps {
			if x := stream[[2]int{r, to(r, s)}] - 1; step[x] < 0 {
				step[x] = s
			}
		}
	}
	done := new(Time)
	post := func(r int) { e.Post(stream[[2]int{r, to(r, at[r])}]-1, uint64(packets)) }
	advance := func(r int) {
		for at[r] < steps && sent[r] == packets && int(got[r][at[r]]) == packets {
			at[r]++
			sent[r] = 0
			if at[r] == steps {
				*done = max(*done, e.Now())
				return
			}
			post(r)
		}
	}
	e.SetHooks(Hooks{OnDeliver: func(d *Delivery) {
		r := from[d.Stream]
		s := step[d.Stream] + count[d.Stream]/packets // a stream's steps follow each other
		count[d.Stream]++
		got[d.Host][s]++
		sent[r]++
		advance(r)
		advance(d.Host)
	}})
	for r := range n {
		post(r)
	}
	return done
}
