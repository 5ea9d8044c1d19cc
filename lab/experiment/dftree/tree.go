package dftree

import (
	"fmt"

	"heddle/ib"
	"heddle/lab/experiment/bed"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/vftree"
	"heddle/sim/dataplane"
)

// Figure 13: the mix of Figure 10 of Paper III on the tree of 648 hosts. As in the paper,
// hosts put packets to hot spots on the slow lane themselves.

// layout is what lanes a tree has.
type layout struct {
	fast int // lanes for pairs of leaves; 1: one for all
	slow bool
}

// String prints "vFtree on 3 lanes and a slow one".
func (l layout) String() string {
	switch {
	case l.fast == 1 && l.slow:
		return "a fast and a slow lane (dFtree)"
	case l.fast == 1:
		return "one lane"
	case l.slow:
		return fmt.Sprintf("vFtree on %d lanes and a slow one", l.fast)
	}
	return fmt.Sprintf("vFtree on %d lanes", l.fast)
}

func (l layout) lanes() int {
	if l.slow {
		return l.fast + 1
	}
	return l.fast
}

// layouts are those that are compared; the first is the base of gains, the second dFtree.
func layouts() []layout {
	return []layout{{1, false}, {1, true}, {2, true}, {3, true}, {4, false}, {7, true}, {8, false}}
}

const (
	treeCold   = 1000 // packet times from a cold start that are measured
	treeWarm   = 4000 // packet times until the steady state is
	treeWindow = 4000
	treeFilled = 750 // packet times from a cold start, if a packet is ready for each lane
)

// treePoint is one bar of the figure.
type treePoint struct {
	tree   bed.Tree
	layout layout
	spots  int
	queue  dataplane.Sharing
	one    bool // one packet of an input is read at a time, as in the slot model
}

// treeResult is a mean over seeds, as shares of what a host can send.
type treeResult struct{ steady, cold, filled float64 }

func (p *treePoint) config(seed uint64) dataplane.Config {
	dc := bed.TreeConfig(seed, p.layout.lanes())
	if p.one {
		dc.Reads = 1
	}
	return dc
}

func (p *treePoint) run(seed uint64, seeds int) (r treeResult, err error) {
	var e route.Engine = ftree.Engine{}
	if p.layout.fast > 1 {
		e = vftree.Engine{Lanes: p.layout.fast}
	}
	b, err := p.tree.Up(seed, e, p.config(seed))
	if err != nil {
		return r, err
	}
	if p.layout.slow {
		if err := p.tree.Slow(b, p.spots, ib.SL(p.layout.fast)); err != nil {
			return r, err
		}
	}
	n := float64(seeds)
	for k := range seeds {
		if k > 0 {
			if err := b.Restart(p.config(seed + uint64(k))); err != nil {
				return r, err
			}
		}
		if err := p.tree.Offer(b, p.spots, p.queue); err != nil {
			return r, err
		}
		r.cold += p.share(b, treeCold) / n
		p.share(b, treeWarm-treeCold)
		r.steady += p.share(b, treeWindow) / n
		if err := b.Engine.Check(); err != nil {
			return r, err
		}
		if p.queue == dataplane.OwnQueue {
			continue
		}
		if err := b.Restart(p.config(seed + uint64(k))); err != nil {
			return r, err
		}
		if err := p.tree.Fill(b, p.spots, p.layout.lanes()); err != nil {
			return r, err
		}
		r.filled += p.share(b, treeFilled) / n
		if err := b.Engine.Check(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// share runs for so many packet times and returns the mean over hosts.
func (p *treePoint) share(b *bed.Data, slots int) (sum float64) {
	b.Measure((bed.TreeSlot() * dataplane.Time(slots)).Duration())
	for s := range b.Engine.NumStreams() {
		sum += float64(b.Engine.Flow(s).Delivered)
	}
	return sum / float64(slots) / float64(p.tree.Hosts)
}
