package experiment

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/route"
	"heddle/route/engine/vftree"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// Hot spots on a large tree (Figure 10 of Paper III).

// hotTree is a two-level tree; Figure 10b has half of the roots.
type hotTree struct {
	hosts, leaves, down, roots int
	half                       bool
}

// hotTrees are the two trees of a size.
func hotTrees(hosts int) ([]hotTree, error) {
	switch hosts {
	case 648:
		return []hotTree{{648, 36, 18, 18, false}, {648, 36, 18, 9, true}}, nil
	case 72:
		return []hotTree{{72, 12, 6, 6, false}, {72, 12, 6, 3, true}}, nil
	}
	return nil, fmt.Errorf("there is a tree of 648 hosts, as published, and one of 72, not of %d", hosts)
}

func (t *hotTree) String() string {
	if t.half {
		return fmt.Sprintf("%d hosts, %d roots (2:1)", t.hosts, t.roots)
	}
	return fmt.Sprintf("%d hosts, %d roots", t.hosts, t.roots)
}

// hotLanes are the lanes of Figure 10.
var hotLanes = []int{1, 2, 4, 6, 8}

// hotSpots are how many hot spots there are: the first host of each whole, third
// or ninth.
var hotSpots = []int{1, 3, 9}

const (
	hotShare = 0.05 // of the packets of a host that go to its hot spot
	// hotBuffer is the input buffer of a switch port, whatever the lanes: 62 packets.
	hotBuffer = 62 * 33
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
	tree   hotTree
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
	n := p.tree.hosts/p.spots - 1
	return 1 / (hotShare*float64(n) + 1 - hotShare)
}

// hotRun runs all points on all processors: each has subnets of its own, so the
// result does not depend on how many there are.
func (o *Options) hotRun(points []hotPoint, seeds int) ([]hotResult, error) {
	results := make([]hotResult, len(points))
	errs := make([]error, len(points))
	var mu sync.Mutex
	next, done := 0, 0
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(points)) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(points) {
					return
				}
				p := &points[i]
				errs[i] = p.run(o.Seed, seeds, &results[i])
				mu.Lock()
				done++
				o.say("%v: %d hot spots, %d lanes (%d of %d)", &p.tree, p.spots, p.lanes, done, len(points))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%v, %d hot spots, %d lanes: %w", &points[i].tree, points[i].spots,
				points[i].lanes, err)
		}
	}
	return results, nil
}

// bed is the subnet of a point, with traffic not yet begun.
func (p *hotPoint) bed(seed uint64) (*dataBed, error) {
	f, err := fabric.Generate(
		fabric.XGFT{Children: []int{p.tree.down, p.tree.leaves}, Parents: []int{1, p.tree.roots}},
		fabric.GenerateOptions{Width: ib.Width4x, Speed: ib.SpeedQDR},
	)
	if err != nil {
		return nil, err
	}
	cfg := lab.ProductionConfig(lab.RepairChain{})
	cfg.Engines, cfg.Explicit = []route.Engine{vftree.Engine{Lanes: p.lanes}}, true
	b, err := newDataBed(f, sim.Config{Seed: seed}, cfg, p.config(seed))
	if err != nil {
		return nil, err
	}
	if n := b.m.Snap.Tables.NumVLs; n != p.lanes {
		return nil, fmt.Errorf("vftree took %d lanes", n)
	}
	return b, nil
}

func (p *hotPoint) config(seed uint64) dataplane.Config {
	dc := dataplane.Defaults()
	dc.Seed, dc.Reads, dc.LaneBuffer = seed, 3, min(hotBuffer/p.lanes, 2048)
	return dc
}

func (p *hotPoint) run(seed uint64, seeds int, r *hotResult) error {
	b, err := p.bed(seed)
	if err != nil {
		return err
	}
	for k := range seeds {
		if k > 0 {
			if err := b.restart(p.config(seed + uint64(k))); err != nil {
				return err
			}
		}
		if err := p.start(b); err != nil {
			return err
		}
		p.once(b, r, float64(seeds))
		if err := b.e.Check(); err != nil {
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
func (p *hotPoint) fill(b *dataBed, r *hotResult, seed uint64, n float64) error {
	if err := b.restart(p.config(seed)); err != nil {
		return err
	}
	for h := range p.tree.hosts {
		by := make([][]int, p.lanes)
		for d := range p.tree.hosts {
			if d != h {
				by[b.sl[h][d]] = append(by[b.sl[h][d]], d)
			}
		}
		hot := p.hot(h)
		for lane, among := range by {
			if len(among) == 0 {
				continue
			}
			s := dataplane.Stream{Src: h, To: dataplane.ToAmong(among), Bytes: dataBytes}
			if hot != h && int(b.sl[h][hot]) == lane {
				// Of the packets of this lane.
				rest := (1 - hotShare) * float64(len(among)) / float64(p.tree.hosts-1)
				s.To = s.To.Mixed(hotShare/(hotShare+rest), hot)
			}
			if _, err := b.e.AddStream(s); err != nil {
				return err
			}
		}
	}
	at, sum := 0, 0.0
	for i, slots := range filledCold {
		b.measure((hotSlot * dataplane.Time(slots-at)).Duration())
		for s := range b.e.NumStreams() {
			sum += float64(b.e.Flow(s).Delivered)
		}
		at = slots
		r.filled[i] += sum / float64(slots*p.tree.hosts) / n
	}
	return b.e.Check()
}

// restart replaces the data plane by an empty one.
func (b *dataBed) restart(dc dataplane.Config) (err error) {
	b.c.Sim.StopData()
	dc.SL = func(src, dst int) ib.SL { return b.sl[src][dst] }
	b.e, err = b.c.Sim.StartData(dc, dataplane.DefaultCable)
	return err
}

// hot is the hot spot of a host.
func (p *hotPoint) hot(h int) int {
	part := p.tree.hosts / p.spots
	return h / part * part
}

// start has all hosts send.
func (p *hotPoint) start(b *dataBed) error {
	for h := range p.tree.hosts {
		s := dataplane.Stream{Src: h, To: dataplane.ToAny(), Bytes: dataBytes, Queue: p.source.queue}
		if hot := p.hot(h); hot != h {
			s.To = s.To.Mixed(hotShare, hot)
		}
		if s.Queue != dataplane.OwnQueue {
			s.Arrival, s.Gap = dataplane.Constant, hotSlot
		}
		if _, err := b.e.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

// hotSlot is the time of a packet.
var hotSlot = dataplane.LinkRate(ib.Width4x, ib.SpeedQDR).Time(dataBytes)

// once adds the windows of a run to the mean over n.
func (p *hotPoint) once(b *dataBed, r *hotResult, n float64) {
	share := func(slots int) (all, others float64) {
		x := b.measure((hotSlot * dataplane.Time(slots)).Duration())
		k := 0
		for h := range x {
			v := float64(b.e.Flow(h).Delivered) / float64(slots)
			all += v / float64(len(x))
			if p.hot(h) != h {
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
func find(points []hotPoint, tree hotTree, lanes, spots int, queue dataplane.Sharing) int {
	return slices.IndexFunc(points, func(p hotPoint) bool {
		return p.tree == tree && p.lanes == lanes && p.spots == spots && p.source.queue == queue
	})
}
