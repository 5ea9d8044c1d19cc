package experiment

import (
	"fmt"
	"slices"

	"heddle/lab/experiment/bed"
	"heddle/route/engine/vftree"
	"heddle/sim/dataplane"
)

// Hot spots on a large tree (Figure 10 of Paper III).

// hotLanes are the lanes of Figure 10.
var hotLanes = []int{1, 2, 4, 6, 8}

// hotSpots are how many hot spots there are: the first host of each whole, third
// or ninth.
var hotSpots = []int{1, 3, 9}

const (
	hotCold   = 1000 // packet times from a cold start that are measured
	hotWarm   = 4000 // packet times until the steady state is
	hotWindow = 4000
)

// hotSource is how packets wait at a host.
type hotSource struct {
	name  string
	queue dataplane.Sharing
}

var (
	lossy    = hotSource{"wire speed offered, a queue of 64 packets for each lane, excess lost", dataplane.LaneQueue}
	blocking = hotSource{"one queue for all lanes, always full, blocking behind its first packet", dataplane.OwnQueue}
)

// hotPoint is one bar of the figure.
type hotPoint struct {
	tree   bed.Tree
	lanes  int
	spots  int
	source hotSource
}

// hotResult is a mean over seeds, as shares of what a host can send.
type hotResult struct {
	cold, steady float64 // all hosts
	others       float64 // steady, those that are no hot spot
	seeds        []float64
	// filled is from a cold start to the end of each of filledCold, if the queue of
	// each lane is always full.
	filled [len(filledCold)]float64
}

// filledCold are packet times from a cold start.
var filledCold = [...]int{500, filledWindow, 1000}

// filledWindow is the one of them with which the published gains agree.
const filledWindow = 750

// bound is what a host can send at most on one lane, if it has a hot spot.
func (p *hotPoint) bound() float64 {
	return p.tree.Bound(p.spots)
}

// hotRun runs all points on all processors: each has subnets of its own, so the
// result does not depend on how many there are.
func (o *Options) hotRun(points []hotPoint, seeds int) ([]hotResult, error) {
	results := make([]hotResult, len(points))
	err := bed.Each(len(points), func(i int) error {
		p := &points[i]
		if err := p.run(o.Seed, seeds, &results[i]); err != nil {
			return fmt.Errorf("%v, %d hot spots, %d lanes: %w", &p.tree, p.spots, p.lanes, err)
		}
		return nil
	}, func(i, done int) {
		p := &points[i]
		o.say("%v: %d hot spots, %d lanes (%d of %d)", &p.tree, p.spots, p.lanes, done, len(points))
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// bed is the subnet of a point, with traffic not yet begun.
func (p *hotPoint) bed(seed uint64) (*bed.Data, error) {
	return p.tree.Up(seed, vftree.Engine{Lanes: p.lanes}, p.config(seed))
}

func (p *hotPoint) config(seed uint64) dataplane.Config {
	return bed.TreeConfig(seed, p.lanes)
}

func (p *hotPoint) run(seed uint64, seeds int, r *hotResult) error {
	b, err := p.bed(seed)
	if err != nil {
		return err
	}
	for k := range seeds {
		if k > 0 {
			if err := b.Restart(p.config(seed + uint64(k))); err != nil {
				return err
			}
		}
		if err := p.start(b); err != nil {
			return err
		}
		p.once(b, r, float64(seeds))
		if err := b.Engine.Check(); err != nil {
			return err
		}
		if p.source != lossy {
			continue
		}
		if err := p.fill(b, r, seed+uint64(k), float64(seeds)); err != nil {
			return err
		}
	}
	return nil
}

// fill measures a cold start in which each host always has a packet ready for each
// lane, and adds it to the mean over n.
func (p *hotPoint) fill(b *bed.Data, r *hotResult, seed uint64, n float64) error {
	if err := b.Restart(p.config(seed)); err != nil {
		return err
	}
	if err := p.tree.Fill(b, p.spots, p.lanes); err != nil {
		return err
	}
	at, sum := 0, 0.0
	for i, slots := range filledCold {
		b.Measure((bed.TreeSlot() * dataplane.Time(slots-at)).Duration())
		for s := range b.Engine.NumStreams() {
			sum += float64(b.Engine.Flow(s).Delivered)
		}
		at = slots
		r.filled[i] += sum / float64(slots*p.tree.Hosts) / n
	}
	return b.Engine.Check()
}

// start has all hosts send.
func (p *hotPoint) start(b *bed.Data) error {
	return p.tree.Offer(b, p.spots, p.source.queue)
}

// once adds the windows of a run to the mean over n.
func (p *hotPoint) once(b *bed.Data, r *hotResult, n float64) {
	share := func(slots int) (all, others float64) {
		x := b.Measure((bed.TreeSlot() * dataplane.Time(slots)).Duration())
		k := 0
		for h := range x {
			v := float64(b.Engine.Flow(h).Delivered) / float64(slots)
			all += v / float64(len(x))
			if p.tree.Hot(h, p.spots) != h {
				others += v
				k++
			}
		}
		return all, others / float64(k)
	}
	cold, _ := share(hotCold)
	share(hotWarm - hotCold)
	steady, others := share(hotWindow)
	r.cold += cold / n
	r.steady += steady / n
	r.others += others / n
	r.seeds = append(r.seeds, steady)
}

// find is the place of a point, -1.
func find(points []hotPoint, tree bed.Tree, lanes, spots int, queue dataplane.Sharing) int {
	return slices.IndexFunc(points, func(p hotPoint) bool {
		return p.tree == tree && p.lanes == lanes && p.spots == spots && p.source.queue == queue
	})
}
