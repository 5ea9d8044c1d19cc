package dataplane

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/engine/sssp"
	"heddle/route/engine/updn"
)

// faultCases are V34–V42: deadlocks, limits, faults.
var faultCases = []vcase{
	{"V34", "ring of n, i → i+2, one lane, full load", false, func(t *testing.T) (out []result) {
		for _, n := range []int{4, 6, 11} {
			e := ring(t, n, 1, Never)
			e.Run(Millisecond)
			d := e.Deadlock()
			if d == nil {
				t.Fatalf("ring of %d: no deadlock found; delivered %d", n, e.Stats().Delivered)
			}
			before := e.Stats().Delivered
			e.Run(5 * Millisecond)
			mustCheck(t, e)
			circle := 0
			for i, w := range d.Cycle {
				next := d.Cycle[(i+1)%len(d.Cycle)]
				if e.top.Nodes[w.In.Node].Switch && e.in[e.port(next.In)].up == e.port(w.Out) && next.VL == w.Lane {
					circle++
				}
			}
			out = append(out, exact(fmt.Sprintf("ring of %d: channels of the witness", n), float64(len(d.Cycle)), float64(n)),
				exact("that follow each other", float64(circle), float64(n)), exact("delivered after it", float64(e.Stats().Delivered-before), 0))
		}
		return out
	}},
	{"V35", "V34 with a dateline; engines on a torus", false, func(t *testing.T) (out []result) {
		e := ring(t, 6, 2, Never)
		off := ringConfig(2)
		off.DetectEvery = -1
		f := ringWith(t, 6, off, Never)
		e.Run(2 * Millisecond)
		f.Run(2 * Millisecond)
		out = append(out, exact("dateline: deadlocks", found(e), 0), exact("hash with the detector off", float64(e.Stats().Hash-f.Stats().Hash), 0),
			least("searches", float64(e.det.runs), 1), least("share of the rate", float64(e.Stats().Delivered)/6/(2e9/518500), 0.4))
		for _, by := range []route.Engine{updn.Engine{}, lash.Engine{}, sssp.DFEngine{}} {
			x := newRouted(t, fabric.Torus{Dims: []int{4, 4}, Hosts: 2}, qdr, by)
			c := testConfig()
			p, sl, lanes := x.engineLanes()
			c.Lanes, c.SL, c.LaneBuffer = lanes, sl, 40
			e := mustNew(t, x.top, p, c)
			for h := range e.NumHosts() {
				mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc2k, End: Millisecond})
			}
			e.Run(3 * Millisecond)
			mustCheck(t, e)
			out = append(out, exact(fmt.Sprintf("%s, %d lanes: deadlocks", by.Name(), lanes), found(e), 0), exact("left in the fabric", float64(e.Live()), 0))
		}
		return out
	}},
	{"V36", "paper I: the mesh 3×2 loses 2-5", false, paperOne},
	{"V37", "a sink stops: head of queue life 8, VLStallCount 7", false, func(t *testing.T) []result {
		n := chain(qdr, qdr)
		p := n.tables(1)
		life := LifeOf(8)
		p.Attr[2][2].HOQLife, p.Attr[2][2].StallCount = life, 7
		e := mustNew(t, &n.Topology, p, testConfig())
		var hoq, stalled []Time
		e.SetHooks(Hooks{OnDrop: func(d *Drop) {
			switch d.Cause {
			case HeadOfQueue:
				hoq = append(hoq, d.At)
			case Stalled:
				stalled = append(stalled, d.At)
			default:
				t.Errorf("%v: dropped by %v", d.At, d.Cause)
			}
		}})
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
		e.Run(Millisecond)
		e.Stop(1)
		e.Run(30 * Millisecond)
		mustCheck(t, e)
		if len(hoq) < 14 || len(stalled) == 0 {
			t.Fatalf("%d and %d drops", len(hoq), len(stalled))
		}
		wrong := 0
		for i := 1; i < 7; i++ {
			if hoq[i]-hoq[i-1] != life {
				wrong++
			}
		}
		inside, gap := 0, Time(0)
		for i, at := range stalled {
			if at >= hoq[6] && at < hoq[6]+8*life {
				inside++
				if i > 0 {
					gap = max(gap, at-stalled[i-1])
				}
			}
		}
		return []result{
			exact("first 7 drops not one life apart", float64(wrong), 0),
			exact("stalled from the 7th", float64(stalled[0]-hoq[6]), 0),
			// All that arrives is dropped, as fast as the link brings it.
			exact("largest pause between drops, ps", float64(gap), float64(qdr.Time(rc2k))),
			most("last one before the end, ps", float64(hoq[6]+8*life-stalled[inside-1]), float64(qdr.Time(rc2k))),
			exact("next drop of a head: a life after the first that stays", boolean(hoq[7] > hoq[6]+9*life && hoq[7] < hoq[6]+9*life+Microsecond), 1),
			exact("deadlocks", found(e), 0),
		}
	}},
	{"V38", "no limits, stable links, any load: nothing is lost", false, func(t *testing.T) (out []result) {
		for _, in := range []Queueing{FIFO, VOQ} {
			x := newTree(t, fabric.KAry{K: 4, N: 3}, qdr)
			c := testConfig()
			c.Input, c.Lanes, c.Reads = in, 3, 2
			e := mustNew(t, x.top, x.tables(3), c)
			for h := range e.NumHosts() {
				mustAdd(t, e, Stream{Src: h, To: ToAny().Mixed(0.3, 7), Bytes: rc2k, SL: ib.SL(h % 3), End: Millisecond})
				mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc256, SL: ib.SL(h + 1), Arrival: OnOff, Gap: Microsecond, On: 20 * Microsecond, Off: 10 * Microsecond, End: Millisecond})
			}
			e.Run(Millisecond)
			mustCheck(t, e)
			e.Run(200 * Millisecond)
			mustCheck(t, e)
			out = append(out, exact(fmt.Sprintf("%v: lost", in), float64(e.Stats().Drops()), 0), exact("left", float64(e.Live()), 0),
				exact("events left", float64(e.q.Len()), 0))
		}
		return out
	}},
	{"V39", "a cable is cut in a full QDR stream, 100 ns long", false, func(t *testing.T) (out []result) {
		for _, at := range []Time{Millisecond, Millisecond + 100*Nanosecond, Millisecond + 250*Nanosecond, Millisecond + 450*Nanosecond} {
			n := newNet(2, 2, 2)
			n.link(0, 2, qdr)
			mid := n.cable(2, 3, qdr, 100*Nanosecond)
			n.link(3, 1, qdr)
			e := mustNew(t, &n.Topology, n.tables(1), testConfig())
			mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, End: 3 * Millisecond})
			e.Run(at)
			e.CutLink(mid)
			mustCheck(t, e)
			e.Run(2 * Millisecond)
			mustCheck(t, e)
			s := e.Stats()
			hit := s.Dropped[LostOnWire] + s.Dropped[BadEnd]
			out = append(out, most("packets hit", float64(hit), 2), least("packets hit", float64(hit), 1), least("dropped as inactive", float64(s.Dropped[Inactive]), 1000))
			before := s.Delivered
			e.RestoreLink(mid)
			e.Run(4 * Millisecond)
			mustCheck(t, e)
			s = e.Stats()
			out = append(out, least("delivered after it is back", float64(s.Delivered-before), 1900),
				exact("created - delivered - lost", float64(s.Created-s.Delivered-s.Drops()), 0))
		}
		return out
	}},
	{"V42", "old and new tables mixed under load", false, func(t *testing.T) []result {
		seeds := 40
		if full() {
			seeds = 1000
		}
		deadlocks, acyclic, wrong := 0, 0, 0
		for seed := range seeds {
			d, cyclic, follows := mixedTables(t, uint64(seed))
			if d {
				deadlocks++
			}
			if !cyclic {
				acyclic++
			}
			if d && (!cyclic || !follows) {
				wrong++
			}
		}
		return []result{
			exact("deadlocks that no cycle of dependencies explains", float64(wrong), 0), least("deadlocks", float64(deadlocks), 1), least("mixtures without a cycle", float64(acyclic), 1),
		}
	}},
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func found(e *Engine) float64 { return boolean(e.Deadlock() != nil) }

func ringConfig(lanes int) Config {
	c := testConfig()
	c.Lanes, c.LaneBuffer = lanes, 40
	if lanes > 1 {
		c.SL = func(src, dst int) ib.SL { // paths over the dateline, between the last and the first
			if dst < src {
				return 1
			}
			return 0
		}
	}
	return c
}

// ring is a ring of n switches with a host each; all send clockwise to the next
// but one. With two lanes paths over the dateline have their own.
func ring(t *testing.T, n, lanes int, life Time) *Engine {
	return ringWith(t, n, ringConfig(lanes), life)
}

func ringWith(t *testing.T, n int, c Config, life Time) *Engine {
	x, p := ringNet(n, c.Lanes)
	for i := range n {
		for j := range p.Attr[n+i] {
			p.Attr[n+i][j].HOQLife = life
		}
	}
	e := mustNew(t, &x.Topology, p, c)
	for h := range n {
		mustAdd(t, e, Stream{Src: h, To: To((h + 2) % n), Bytes: rc2k})
	}
	return e
}

// ringNet is the ring: port 1 of a switch is its host's, 2 leads clockwise, 3
// back.
func ringNet(n, lanes int) (*net, *Plain) {
	x := newNet(n, n, 3)
	for i := range n {
		x.link(i, n+i, qdr)
	}
	for i := range n {
		x.Links = append(x.Links, Link{fabric.Ref{Node: int32(n + i), Port: 2}, fabric.Ref{Node: int32(n + (i+1)%n), Port: 3}, qdr, DefaultCable})
	}
	p := x.tables(lanes)
	for i := range n {
		for d := range n {
			if d != i {
				p.SetRoute(int32(n+i), p.lidOf(d), 2)
			}
		}
	}
	return x, p
}

// paperOne is the cut of paper I of the thesis: six flows on a mesh that
// becomes a ring, first on one lane, then with the lanes of a dateline.
func paperOne(t *testing.T) (out []result) {
	for _, life := range []Time{LifeOf(8), Never} {
		x, _ := ringNet(6, 2)
		for i := range 6 {
			x.Nodes[6+i].Ports = 4
		}
		mid := fabric.Ref{Node: 7, Port: 4}
		x.Links = append(x.Links, Link{mid, fabric.Ref{Node: 10, Port: 4}, qdr, DefaultCable})
		p := NewPlain(&x.Topology, 2)
		for i := range 6 {
			for d := range 6 {
				p.SetRoute(int32(6+i), p.lidOf(d), 2) // clockwise
				if i == d {
					p.SetRoute(int32(6+i), p.lidOf(d), 1)
				}
			}
			for j := range p.Attr[6+i] {
				p.Attr[6+i][j].HOQLife = life
			}
		}
		// Before the cut 2-4 and 5-1 take the middle cable: no cycle.
		p.SetRoute(7, p.lidOf(3), 4)
		p.SetRoute(10, p.lidOf(3), 3)
		p.SetRoute(10, p.lidOf(0), 4)
		p.SetRoute(7, p.lidOf(0), 3)
		c := testConfig()
		c.Lanes, c.LaneBuffer = 2, 330
		e := mustNew(t, &x.Topology, p, c)
		level := func(h int) ib.SL {
			if (h+2)%6 < h {
				return 1
			}
			return 0
		}
		for h := range 6 {
			mustAdd(t, e, Stream{Src: h, To: To((h + 2) % 6), Bytes: rc2k, End: 60 * Millisecond})
			mustAdd(t, e, Stream{Src: h, To: To((h + 2) % 6), Bytes: rc2k, SL: level(h), Start: 60 * Millisecond})
			// Some small packets, or six equal flows stay in step and never lock.
			mustAdd(t, e, Stream{Src: h, To: To((h + 2) % 6), Bytes: rc256, Arrival: Poisson, Gap: 4 * Microsecond, Queue: LaneQueue, End: 60 * Millisecond})
		}
		before := measure(t, e, Millisecond, 2*Millisecond).Delivered / 2
		if e.Deadlock() != nil {
			t.Fatalf("before the cut: %v", e.Deadlock())
		}
		p.SetRoute(7, p.lidOf(3), 2)
		p.SetRoute(10, p.lidOf(0), 2)
		e.CutLink(mid)
		after := measure(t, e, 10*Millisecond, 40*Millisecond).Delivered / 40
		name := fmt.Sprintf("limit %v: ", life)
		out = append(out, exact(name+"deadlock found", found(e), 1), most(name+"share of before, one lane", float64(after)/float64(before), 0.01))
		repathed := measure(t, e, 100*Millisecond, 10*Millisecond).Delivered / 10
		if life == Never {
			// Two flows use the new lane alone; four need the one that holds the circle.
			old := uint64(0)
			for h := range 4 {
				old += e.Flow(3*h + 1).Delivered
			}
			out = append(out, exact("without limits, after repath: on the old lane", float64(old), 0))
		} else {
			// Each cable has two flows: half the rate for each of six.
			out = append(out, least("with limits, after repath: share of the ring's rate", float64(repathed)/(3*1e9/518500), 0.85))
		}
	}
	return out
}
