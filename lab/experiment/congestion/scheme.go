package congestion

import (
	"fmt"

	"heddle/ib"
	"heddle/lab/experiment/bed"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/vftree"
	"heddle/sim/dataplane"
)

// scheme is what is done about hot spots on a tree.
type scheme struct {
	fast int  // lanes that vFtree spreads pairs of leaves over; 1: none
	slow bool // dFtree, ideal: packets to hot spots have one more lane from the beginning
	cc   bool
}

// String prints "vFtree 2 + slow lane + CC".
func (s scheme) String() string {
	name := "one lane"
	switch {
	case s.fast > 1:
		name = fmt.Sprintf("vFtree, %d lanes", s.fast)
		if s.slow {
			name = fmt.Sprintf("dFtree: vFtree on %d lanes and a slow one", s.fast)
		}
	case s.slow:
		name = "dFtree: a fast and a slow lane"
	}
	if s.cc {
		name += ", CC"
	}
	return name
}

func (s scheme) lanes() int {
	if s.slow {
		return s.fast + 1
	}
	return s.fast
}

func (s scheme) engine() route.Engine {
	if s.fast > 1 {
		return vftree.Engine{Lanes: s.fast}
	}
	return ftree.Engine{}
}

// schemes are those of the page.
func schemes() []scheme {
	return []scheme{
		{1, false, false},
		{2, false, false},
		{4, false, false},
		{8, false, false},
		{1, true, false},
		{2, true, false},
		{3, true, false},
		{7, true, false},
		{1, false, true},
		{2, false, true},
		{8, false, true},
		{1, true, true},
		{3, true, true},
	}
}

// fewer are those of the page of a tree of thousands of hosts, where a run with congestion control
// takes minutes.
func fewer() []scheme {
	return []scheme{
		{1, false, false},
		{8, false, false},
		{1, true, false},
		{1, false, true},
		{8, false, true},
		{1, true, true},
	}
}

// up brings a tree up with a scheme for so many hot spots. bySL has congestion control slow
// service levels, not queue pairs.
func (s scheme) up(t *bed.Tree, spots int, seed uint64, in dataplane.Queueing, bySL bool) (*bed.Data, error) {
	dc := bed.TreeConfig(seed, s.lanes())
	dc.Input = in
	dc.DetectEvery = -1 // trees have no cycles, and to look for one takes most of the time
	b, err := t.Up(seed, s.engine(), dc)
	if err != nil {
		return nil, err
	}
	if s.slow {
		if err := t.Slow(b, spots, ib.SL(s.fast)); err != nil {
			return nil, err
		}
	}
	if s.cc {
		set := forCrowd(t.Hosts / spots)
		set.bySL = bySL
		return b, set.apply(b)
	}
	return b, nil
}
