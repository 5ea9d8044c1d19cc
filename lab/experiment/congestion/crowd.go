package congestion

import (
	"fmt"
	"slices"

	"heddle/lab/experiment/bed"
	"heddle/sim/dataplane"
)

// A crowd: all hosts of a tree send to host 0 as fast as they can (V46), but for some
// victims, which send elsewhere on the same way up.

// crowdLoad is what a victim offers, as a share of its cable.
const crowdLoad = 0.8

// maxVictims is how many leaves have a victim at most.
const maxVictims = 18

// crowdRun is one run.
type crowdRun struct {
	tree   bed.Tree
	scheme scheme
	set    *settings // of congestion control, in the place of the scheme's
	input  dataplane.Queueing
	one    bool // victim
}

// crowdResult is what it gave, as shares.
type crowdResult struct {
	victim, worst float64 // of what victims offer: mean, and of the one that gets least
	hot           float64 // of the hot spot's cable
	fair          float64 // Jain's index of the senders
	settled       float64 // ms until victims last had less than 90 % of their mean in the end
}

// warm is the time until a run is steady, window that over which it is measured, in
// packet times. A sender of n gets one notification in n of them; without congestion control
// it is steady when all buffers are full.
func (c *crowdRun) warm() int {
	if c.scheme.cc || c.set != nil {
		return 420 * c.tree.Hosts
	}
	return 100 * c.tree.Hosts
}

func (c *crowdRun) window() int { return 60 * c.tree.Hosts }

// crowdStep is a step of the way there, for crowdResult.settled.
func (c *crowdRun) step() int { return 4 * c.tree.Hosts }

// victims are pairs of hosts on different leaves, none of them that of host 0, whose way up
// is that of packets to host 0.
func (c *crowdRun) victims(b *bed.Data) ([]bed.Flow, error) {
	t := &c.tree
	n := min(maxVictims, t.Leaves-2)
	if c.one {
		n = 1
	}
	lid := b.LIDs()
	first := func(src, dst int) (string, error) {
		ref := b.Engine.HostPort(src)
		hops, err := b.Cluster.Sim.Trace(int(ref.Node), int(ref.Port), lid[dst], b.SL[src][dst])
		if err != nil || len(hops) < 2 {
			return "", fmt.Errorf("no way from host %d to %d: %v", src, dst, err)
		}
		return fmt.Sprint(hops[1].Node, hops[1].Out), nil
	}
	// vFtree's lanes follow from the numbers of leaves. With an even step all victims would share
	// the crowd's lane.
	step := ((t.Leaves-1)/n-1)/2*2 + 1
	var list []bed.Flow
	for k := range n {
		leaf := t.Leaves - 1 - k*step
		src := leaf*t.Down + t.Down - 1
		hot, err := first(src, 0)
		if err != nil {
			return nil, err
		}
		to := leaf - 1
		if to == 0 {
			to = t.Leaves - 1
		}
		dst := -1
		for d := to * t.Down; d < (to+1)*t.Down-1 && dst < 0; d++ {
			way, err := first(src, d)
			if err != nil {
				return nil, err
			}
			if way == hot {
				dst = d
			}
		}
		if dst < 0 {
			return nil, fmt.Errorf("no host of leaf %d has the way up of host 0", to)
		}
		list = append(list, bed.Flow{src, dst})
	}
	return list, nil
}

func (c *crowdRun) run(seed uint64) (*crowdResult, error) {
	b, err := c.scheme.up(&c.tree, 1, seed, c.input, false)
	if err != nil {
		return nil, err
	}
	if c.set != nil {
		if err := c.set.apply(b); err != nil {
			return nil, err
		}
	}
	victims, err := c.victims(b)
	if err != nil {
		return nil, err
	}
	slot := bed.TreeSlot()
	for _, f := range victims {
		s := dataplane.Stream{
			Src: f[0], To: dataplane.To(f[1]), Bytes: bed.Bytes, Arrival: dataplane.Constant,
			Gap: dataplane.Time(float64(slot) / crowdLoad), Queue: dataplane.DestQueue,
		}
		if _, err := b.Engine.AddStream(s); err != nil {
			return nil, err
		}
	}
	for h := 1; h < c.tree.Hosts; h++ {
		if slices.ContainsFunc(victims, func(f bed.Flow) bool { return f[0] == h }) {
			continue
		}
		if _, err := b.Engine.AddStream(dataplane.Stream{Src: h, To: dataplane.To(0), Bytes: bed.Bytes}); err != nil {
			return nil, err
		}
	}
	var steps []float64
	for range c.warm() / c.step() {
		steps = append(steps, c.mean(b, len(victims), c.step()))
	}
	r := &crowdResult{}
	r.victim = c.mean(b, len(victims), c.window())
	var senders []float64
	r.worst = r.victim
	for i := range b.Engine.NumStreams() {
		v := float64(b.Engine.Flow(i).Delivered) / float64(c.window())
		if i < len(victims) {
			r.worst = min(r.worst, v/crowdLoad)
			continue
		}
		r.hot += v
		senders = append(senders, v)
	}
	r.fair = jain(senders)
	for i, v := range steps {
		if v < 0.9*r.victim {
			r.settled = float64(i+1) * float64(c.step()) * slot.Duration().Seconds() * 1000
		}
	}
	return r, b.Engine.Check()
}

// mean runs for so many packet times and returns what victims get of what they offer.
func (c *crowdRun) mean(b *bed.Data, victims, slots int) (sum float64) {
	b.Measure((bed.TreeSlot() * dataplane.Time(slots)).Duration())
	for i := range victims {
		sum += float64(b.Engine.Flow(i).Delivered) / float64(slots) / crowdLoad / float64(victims)
	}
	return sum
}
