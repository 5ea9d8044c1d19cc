package congestion

import (
	"math"
	"time"

	"heddle/fabric"
	"heddle/lab/experiment/bed"
	"heddle/route/engine/minhop"
	"heddle/sim/dataplane"
)

// The test bed of Figure 5 of Paper III: hosts 1 and 2 share a cable with the victim 1-5;
// 2, 7 and 8 send to host 6.

// pairFlows has the victim first; it sends from the beginning, the others from pairBegin
// on.
var pairFlows = []bed.Flow{{1, 5}, {2, 6}, {7, 6}, {8, 6}}

const (
	pairBegin  = 2 * time.Millisecond
	pairWindow = 500 * time.Microsecond
)

// pairRun is one run on the test bed.
type pairRun struct {
	lanes int // 2: the victim's by hand
	cc    *settings
	input dataplane.Queueing
	span  time.Duration // from pairBegin on; the second half is the steady state
}

// outcome is what a run gave.
type outcome struct {
	rates []float64   // Gb/s by flow, steady
	steps [][]float64 // by window and flow, from the beginning
	// swing is how far the contributors' rates swing: the mean of their standard
	// deviations over windows, as a part of their mean.
	swing float64
	fair  float64 // Jain's index of the contributors
	// settled is from the contributors' beginning until the victim last had less than
	// 90 % of what it has in the end; -1: it falls below that in the end, too.
	settled time.Duration
	marked  uint64
}

func (o *outcome) victim() float64 { return o.rates[0] }
func (o *outcome) hot() float64    { return bed.Total(o.rates[1:]) }

// jain is Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
func jain(x []float64) float64 {
	s, q := 0.0, 0.0
	for _, v := range x {
		s, q = s+v, q+v*v
	}
	if q == 0 {
		return 1
	}
	return s * s / (float64(len(x)) * q)
}

func (p *pairRun) run(seed uint64) (*outcome, error) {
	r := bed.Run{Fabric: bed.PairFabric, Engine: minhop.Engine{}, Lanes: p.lanes, Buffers: bed.Wide(), Input: p.input}
	if p.lanes > 1 {
		r.ByHand = map[bed.Flow]int{pairFlows[0]: 1}
	}
	b, err := r.Start(seed)
	if err != nil {
		return nil, err
	}
	if p.cc != nil {
		if err := p.cc.apply(b); err != nil {
			return nil, err
		}
	}
	if err := b.AddApart(pairFlows[:1]); err != nil {
		return nil, err
	}
	o := &outcome{}
	for range pairBegin / pairWindow {
		o.steps = append(o.steps, append(b.Measure(pairWindow), 0, 0, 0))
	}
	if err := b.AddApart(pairFlows[1:]); err != nil {
		return nil, err
	}
	for range p.span / pairWindow {
		o.steps = append(o.steps, b.Measure(pairWindow))
	}
	o.sum(int(pairBegin / pairWindow))
	o.marked = marks(b)
	return o, b.Engine.Check()
}

// sum computes the figures from the steps; the contributors begin at step first.
func (o *outcome) sum(first int) {
	after := o.steps[first:]
	end := after[len(after)/2:]
	o.rates = make([]float64, len(end[0]))
	for _, x := range end {
		for i, v := range x {
			o.rates[i] += v / float64(len(end))
		}
	}
	for i := 1; i < len(o.rates); i++ {
		v := 0.0
		for _, x := range end {
			v += (x[i] - o.rates[i]) * (x[i] - o.rates[i]) / float64(len(end))
		}
		o.swing += math.Sqrt(v) / o.rates[i] / float64(len(o.rates)-1)
	}
	o.fair = jain(o.rates[1:])
	last := 0
	for i, x := range after {
		if x[0] < 0.9*o.rates[0] {
			last = i + 1
		}
	}
	if o.settled = time.Duration(last) * pairWindow; last > len(after)/2 {
		o.settled = -1
	}
}

// marks are the packets that all switches have marked.
func marks(b *bed.Data) (n uint64) {
	f := b.Cluster.Fabric
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			for p := 1; p < len(f.Nodes[i].Ports); p++ {
				n += b.Engine.Congestion(ref(i, p)).Marked
			}
		}
	}
	return n
}

func ref(node, port int) fabric.Ref { return fabric.Ref{Node: int32(node), Port: uint8(port)} }
