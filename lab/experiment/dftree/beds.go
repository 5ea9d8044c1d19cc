package dftree

import (
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/fabric"
	"heddle/lab/experiment/bed"
	"heddle/sim/dataplane"
)

// experiment is one of I to IV.
type experiment struct {
	name, figures string
	fabric        func() (*fabric.Fabric, error)
	hosts         int
	victim        bed.Flow
	contributors  []bed.Flow
	cut           int // cable that is cut at begin; 0: contributors begin then
	published     string
	before, after float64 // the victim's rate without dFtree, fluid
	with          float64 // published with dFtree
	gain          float64 // least, by the paper's figures
	check         string
	hot           string // node of the hot spot
}

// begin is when contributors begin, or a cable is cut.
const begin = 13 * second

func small() (*fabric.Fabric, error) { return bed.LeafFabric(2) }
func large() (*fabric.Fabric, error) { return bed.LeafFabricQDR(4) }

// experiments are those of Paper IV.
func experiments() []experiment {
	const e = bed.HostGbps
	return []experiment{
		{
			"I", "Figures 5 and 6", small, 6,
			bed.Flow{2, 3},
			[]bed.Flow{{1, 5}, {3, 5}, {6, 5}},
			0, "12.9, then 3; with 7.5", e, e / 4, 7.5,
			2.5, "P4.2", "H5",
		},
		{
			"II", "Figures 7 and 8", small, 6,
			bed.Flow{2, 4},
			[]bed.Flow{{1, 5}, {3, 5}, {6, 5}},
			2, "12.9, then 3; with 7.5", e, e / 4, 7.5,
			2.5, "P4.3", "H5",
		},
		{
			"III", "Figures 9 and 10", large, 12,
			bed.Flow{2, 7},
			[]bed.Flow{{1, 9}, {5, 9}, {10, 9}},
			0, "12.9, then 3.4; with 12.9", e, e / 4,
			12.9, 3.78, "P4.4", "H9",
		},
		{
			"IV", "Figures 11 and 12", large, 12,
			bed.Flow{2, 11},
			[]bed.Flow{{1, 9}, {5, 9}, {10, 9}},
			0, "12.9, then 2.2; with 12.9", e, e / 6,
			12.9, 5.68, "P4.5", "H9",
		},
	}
}

// bedResult is what an experiment gave with a loop.
type bedResult struct {
	loop   Loop
	buf    bed.Buffers
	before []float64 // Gb/s by flow, the victim first: in the seconds before begin
	after  []float64 // in the last seconds
	steps  [][]float64
	// waits are shares of time in the last seconds: of the ports of hosts, and of the switch
	// ports before them.
	waits [][2]float64
	// repeats are packets that were sent again, by all flows.
	repeats uint64

	// What a loop did, with times from begin on; never: it did not.
	opened, closed []string      // hosts that were marked, and that ceased to be
	victimMoved    bool          // its queue pair was on another level
	movedAt        time.Duration // the last contributor's queue pair had another level
	freeAt         time.Duration // from then on the victim has 90 % of what it has in the end
	backAt         time.Duration // after the contributors' end: all are on the fast lane
}

// never is no time of a bedResult.
const never = time.Duration(-1 << 62)

func (r *bedResult) victim() float64 { return r.after[0] }
func (r *bedResult) hot() float64    { return bed.Total(r.after[1:]) }

// span is how long an experiment goes on after begin, settled the part of it at the end
// that counts as the steady state.
const (
	span    = 13 * second
	settled = 5 * second
)

func (x *experiment) run(loop Loop, buf bed.Buffers, seed uint64) (*bedResult, error) {
	f, err := x.fabric()
	if err != nil {
		return nil, err
	}
	b, err := newTestBed(f, loop, buf, append([]bed.Flow{x.victim}, x.contributors...), seed)
	if err != nil {
		return nil, err
	}
	// Where in an interval of the counters the contributors begin is drawn.
	b.Run(time.Duration(rand.New(rand.NewPCG(seed, 0x7068617365)).Int64N(int64(interval))))
	r := &bedResult{loop: loop, buf: buf, movedAt: never, backAt: never}
	if err := b.begin(loop, b.Flows[0], false); err != nil {
		return nil, err
	}
	contribute := func() error {
		for _, f := range b.Flows[1:] {
			if err := b.begin(loop, f, true); err != nil {
				return err
			}
		}
		return nil
	}
	if x.cut > 0 {
		if err := contribute(); err != nil {
			return nil, err
		}
	}
	line := func(d time.Duration) []float64 {
		sum := make([]float64, len(b.Flows))
		n := int(d / step)
		for range n {
			v := b.rates(step)
			r.steps = append(r.steps, v)
			r.look(b)
			for i := range v {
				sum[i] += v[i] / float64(n)
			}
		}
		return sum
	}
	line(begin - settled)
	r.before = line(settled)
	if x.cut > 0 {
		err = b.Sim.LinkDown("root", x.cut)
	} else {
		err = contribute()
	}
	if err != nil {
		return nil, err
	}
	line(span - settled)
	was := make([][2]dataplane.Time, x.hosts)
	for h := range was {
		b.waitShare(h+1, settled, &was[h])
	}
	r.after = line(settled)
	for h := range was {
		r.waits = append(r.waits, b.waitShare(h+1, settled, &was[h]))
	}
	r.free()
	r.finish(b)
	for _, f := range b.Flows {
		r.repeats += f.Conn.QP().Count.Repeats
	}
	r.opened, r.closed = loop.Marked()
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("experiment %s, %v: %w", x.name, loop, err)
	}
	return r, nil
}

// look notes where the queue pairs are at the end of a step.
func (r *bedResult) look(b *TestBed) {
	r.victimMoved = r.victimMoved || b.level(0) != 0
	moved := true
	for i := range b.Flows[1:] {
		moved = moved && b.level(i+1) != 0
	}
	if moved && r.movedAt == never {
		r.movedAt = time.Duration(len(r.steps))*step - begin
	}
}

// free computes freeAt.
func (r *bedResult) free() {
	first := int(begin / step)
	last := first
	for i, x := range r.steps[first:] {
		if x[0] < 0.9*r.after[0] {
			last = first + i + 1
		}
	}
	r.freeAt = time.Duration(last-first) * step
}

// finish ends the contributors' flows, and waits until their queue pairs are on the fast
// lane, or some intervals.
func (r *bedResult) finish(b *TestBed) {
	for _, f := range b.Flows[1:] {
		f.stream.Stop()
	}
	for at := step; at <= 5*interval; at += step {
		b.Run(step)
		b.Sim.Data()
		back := true
		for i := range b.Flows {
			back = back && b.level(i) == 0
		}
		if back {
			r.backAt = at
			return
		}
	}
}
