package bed

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/route"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// Tree is a tree of QDR cables: two levels of switches, or three with Pods. Figure 10b of
// Paper III has half of the roots.
type Tree struct {
	Hosts, Leaves, Down, Roots int
	Half                       bool
	Pods                       int // groups of leaves with a second level of their own; 0: two levels
	// Share is the part of the packets of a host that go to its hot spot.
	Share float64
}

// FullTree is the tree of full bisection of a size.
func FullTree(hosts int) (Tree, error) {
	switch hosts {
	case 2916:
		return Tree{2916, 162, 18, 324, false, 9, HotShare}, nil
	case 648, 72:
		t, err := Trees(hosts)
		return t[0], err
	}
	return Tree{}, fmt.Errorf("there are trees of 72, 648 and 2916 hosts, not of %d", hosts)
}

// Trees are the two trees of a size.
func Trees(hosts int) ([]Tree, error) {
	switch hosts {
	case 648:
		return []Tree{{648, 36, 18, 18, false, 0, HotShare}, {648, 36, 18, 9, true, 0, HotShare}}, nil
	case 72:
		return []Tree{{72, 12, 6, 6, false, 0, HotShare}, {72, 12, 6, 3, true, 0, HotShare}}, nil
	}
	return nil, fmt.Errorf("there is a tree of 648 hosts, as published, and one of 72, not of %d", hosts)
}

// String prints "648 hosts, 18 roots".
func (t *Tree) String() string {
	if t.Half {
		return fmt.Sprintf("%d hosts, %d roots (2:1)", t.Hosts, t.Roots)
	}
	return fmt.Sprintf("%d hosts, %d roots", t.Hosts, t.Roots)
}

const (
	// HotShare is the Share of the trees as published.
	HotShare = 0.05
	// TreeBuffer is the input buffer of a switch port in blocks, whatever the lanes: 62
	// packets.
	TreeBuffer = 62 * 33
)

// TreeSlot is the time of a packet on the cables of a Tree.
func TreeSlot() dataplane.Time {
	return dataplane.LinkRate(ib.Width4x, ib.SpeedQDR).Time(Bytes)
}

// Hot is the hot spot of host h, one of so many: the first host of each whole, third
// or ninth.
func (t *Tree) Hot(h, spots int) int {
	part := t.Hosts / spots
	return h / part * part
}

// Bound is what a host can send at most on one lane if it has a hot spot, as a share of
// its cable.
func (t *Tree) Bound(spots int) float64 {
	n := t.Hosts/spots - 1
	return 1 / (t.Share*float64(n) + 1 - t.Share)
}

// Offer has each host send at wire speed: Share of its packets to its hot spot, the
// rest to hosts drawn from all. Stream h is that of host h. With OwnQueue a packet that
// cannot leave blocks all that follow.
func (t *Tree) Offer(b *Data, spots int, q dataplane.Sharing) error {
	for h := range t.Hosts {
		s := dataplane.Stream{Src: h, To: dataplane.ToAny(), Bytes: Bytes, Queue: q}
		if hot := t.Hot(h, spots); hot != h {
			s.To = s.To.Mixed(t.Share, hot)
		}
		if q != dataplane.OwnQueue {
			s.Arrival, s.Gap = dataplane.Constant, TreeSlot()
		}
		if _, err := b.Engine.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

// Fill has each host always have a packet ready for each lane, with the same mix of
// destinations within a lane. On a lane that only packets to hot spots take, they are
// offered at their share of the host's rate.
func (t *Tree) Fill(b *Data, spots, lanes int) error {
	for h := range t.Hosts {
		by := make([][]int, lanes)
		for d := range t.Hosts {
			if d != h {
				by[b.SL[h][d]] = append(by[b.SL[h][d]], d)
			}
		}
		hot := t.Hot(h, spots)
		for lane, among := range by {
			if len(among) == 0 {
				continue
			}
			s := dataplane.Stream{Src: h, To: dataplane.ToAmong(among), Bytes: Bytes}
			own, share := 0.0, float64(len(among))/float64(t.Hosts-1)
			if hot != h {
				share *= 1 - t.Share
				if int(b.SL[h][hot]) == lane {
					own, share = t.Share, share+t.Share
				}
			}
			if own > 0 {
				s.To = s.To.Mixed(own/share, hot)
			}
			if !slices.ContainsFunc(among, func(d int) bool { return t.Hot(d, spots) != d }) {
				s.Gap = dataplane.Time(float64(TreeSlot()) / share)
			}
			if _, err := b.Engine.AddStream(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Slow puts all packets that are directed to a hot spot on service level sl, whichever
// host sends them, as the packet generator of Paper IV (§5.4) does. It reports an error
// if some switch has no lane of that number for it.
func (t *Tree) Slow(b *Data, spots int, sl ib.SL) error {
	for h := range t.Hosts {
		for hot := 0; hot < t.Hosts; hot += t.Hosts / spots {
			if hot != h {
				b.SL[h][hot] = sl
			}
		}
	}
	f := b.Cluster.Fabric
	for n := range f.Nodes {
		if !f.Nodes[n].IsSwitch() {
			continue
		}
		for out := 1; out < len(f.Nodes[n].Ports); out++ {
			in := out%(len(f.Nodes[n].Ports)-1) + 1
			if vl := b.Cluster.Sim.SLtoVL(n, uint8(in), uint8(out))[sl]; vl != ib.VL(sl) {
				return fmt.Errorf("%s port %d has service level %d on lane %d", f.Nodes[n].ID, out, sl, vl)
			}
		}
	}
	return nil
}

// TreeConfig is the data plane of a Tree with so many lanes in use.
func TreeConfig(seed uint64, lanes int) dataplane.Config {
	dc := dataplane.Defaults()
	dc.Seed, dc.Reads, dc.LaneBuffer = seed, 3, min(TreeBuffer/lanes, 2048)
	return dc
}

// Fabric is the tree's network.
func (t *Tree) Fabric() (*fabric.Fabric, error) {
	x := fabric.XGFT{Children: []int{t.Down, t.Leaves}, Parents: []int{1, t.Roots}}
	if t.Pods > 0 {
		x = fabric.XGFT{Children: []int{t.Down, t.Leaves / t.Pods, t.Pods}, Parents: []int{1, t.Down, t.Roots / t.Down}}
	}
	return fabric.Generate(x, fabric.GenerateOptions{Width: ib.Width4x, Speed: ib.SpeedQDR})
}

// Up brings the tree up under a manager with an engine; with vFtree all lanes of dc are
// its lanes.
func (t *Tree) Up(seed uint64, e route.Engine, dc dataplane.Config) (*Data, error) {
	f, err := t.Fabric()
	if err != nil {
		return nil, err
	}
	cfg := lab.ProductionConfig(lab.RepairChain{})
	cfg.Engines, cfg.Explicit = []route.Engine{e}, true
	b, err := NewData(f, sim.Config{Seed: seed}, cfg, dc)
	if err != nil {
		return nil, err
	}
	return b, wantLanes(b, e)
}

// Each calls run for 0 to n-1 on all processors, and done, if set, after each. Runs have
// subnets of their own, so results do not depend on how many processors there are. The
// error is that of the first run that fails.
func Each(n int, run func(i int) error, done func(i, ended int)) error {
	errs := make([]error, n)
	var mu sync.Mutex
	next, ended := 0, 0
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				errs[i] = run(i)
				mu.Lock()
				ended++
				if done != nil {
					done(i, ended)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
