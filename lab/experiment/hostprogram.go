package experiment

import (
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/lab"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
	"heddle/sm"
)

// newMeshBed is the mesh under whole tables, with hosts that repath by migration or
// not at all.
func newMeshBed(seed uint64, limits uint8, deaf bool) (*hostBed, error) {
	f, err := ringFabric(false)
	if err != nil {
		return nil, err
	}
	c := hostCut{policy: sm.TransitionStatic2003, limits: limits, repath: 30 * time.Second}
	return newHostBed(f, c.config(), deadlockConfig(seed), hostConfig(deaf, repath.ByMigration))
}

// world places a parallel program: rank r on host r modulo the number of hosts.
func (b *hostBed) world(steps [][]program.Step) (*program.World, error) {
	at := map[*adapter.Adapter]*lab.Host{}
	for _, h := range b.hosts {
		at[h.Adapter] = h
	}
	var ranks []*adapter.Adapter
	for r := range steps {
		ranks = append(ranks, b.hosts[r%len(b.hosts)].Adapter)
	}
	hc := hostConfig(false, repath.ByMigration)
	return program.NewWorld(ranks, steps, program.Links{
		Options: hc.Options, Sender: hc.Sender,
		Path:  func(from, to *adapter.Adapter) (rc.Path, error) { return at[from].Resolve(at[to]) },
		Peer:  func(a *adapter.Adapter) ib.GID { return at[a].GID() },
		Local: dataplane.Microsecond, // shared memory
	})
}

// meshCuts are the cables that the papers cut, in their order: 2-5, 3-4.
var meshCuts = []struct {
	node string
	port int
}{{"S2", 2}, {"S3", 3}}

// ranRun is how a program came out.
type ranRun struct {
	ended bool
	took  time.Duration
	step  int // where it stands if it did not end
	bad   error
}

// nextCut is how long after one cable the next is cut: whole tables take 110 ms.
const nextCut = 150 * time.Millisecond

// play runs a program on a bed, with so many cables cut in the middle: the first after
// a time, the next after nextCut.
func (b *hostBed) play(steps [][]program.Step, cuts int, after, limit time.Duration) (ranRun, error) {
	w, err := b.world(steps)
	if err != nil {
		return ranRun{}, err
	}
	began := b.Sim.Now()
	for i := range cuts {
		c := meshCuts[i]
		b.Sim.After(after+nextCut*time.Duration(i), func() { _ = b.Sim.LinkDown(c.node, c.port) })
	}
	zero := b.Sim.Data().Now()
	w.Run()
	r := ranRun{}
	for b.Sim.Now().Sub(began) < limit {
		b.Run(limit / 500)
		b.Sim.Data()
		if r.ended, _ = w.Ended(); r.ended {
			break
		}
	}
	_, at := w.Ended()
	r.took = (at - zero).Duration()
	r.step = w.Step()
	r.bad = w.Check()
	return r, nil
}

// beff is a line of the paper's Table II.
type beff struct {
	cuts            int
	deaf            bool
	limits          uint8
	through         ranRun     // random rings while the cables are cut
	ping            [3]float64 // µs one way: least, mean, most
	natural, random float64    // MB/s a process
	bad             error
}

// Sizes of the patterns.
const (
	beffRanks = 12
	beffBytes = 1 << 16
	beffSteps = 600 // of the run through the cuts
)

// beffOrder is a permutation of the ranks.
func beffOrder(r *rand.Rand) []int { return r.Perm(beffRanks) }

// run plays random rings while cables are cut, and then the patterns of b_eff.
func (x *beff) run(seed uint64, steps int) error {
	b, err := newMeshBed(seed, x.limits, x.deaf)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 11))
	rings := make([][]program.Step, beffRanks)
	for range 3 {
		for i, list := range program.Ring(beffOrder(r), beffBytes, steps/3) {
			rings[i] = append(rings[i], list...)
		}
	}
	if x.through, err = b.play(rings, x.cuts, 20*time.Millisecond, 3*time.Second); err != nil {
		return err
	}
	if x.bad = x.through.bad; !x.through.ended {
		return nil
	}
	one := func(order []int) (float64, error) {
		got, err := b.play(program.Ring(order, beffBytes, steps/10), 0, 0, time.Second)
		if err == nil && !got.ended {
			err = fmt.Errorf("a ring without cuts does not end")
		}
		return 2 * beffBytes * float64(steps/10) / got.took.Seconds() / 1e6, err
	}
	natural := make([]int, beffRanks)
	for i := range natural {
		natural[i] = i
	}
	if x.natural, err = one(natural); err != nil {
		return err
	}
	for range 5 {
		v, err := one(beffOrder(r))
		if err != nil {
			return err
		}
		x.random += v / 5
	}
	const times = 50
	x.ping = [3]float64{1e9, 0, 0}
	for peer := 1; peer < 6; peer++ {
		got, err := b.play(program.PingPong(6, 0, peer, 8, times), 0, 0, 100*time.Millisecond)
		if err != nil {
			return err
		}
		us := got.took.Seconds() * 1e6 / (2 * times)
		x.ping = [3]float64{min(x.ping[0], us), x.ping[1] + us/5, max(x.ping[2], us)}
	}
	return b.Engine.Check()
}

// nas is a line of the paper's Table III.
type nas struct {
	name      string
	ranks     int
	bytes     int           // of a block to each other rank, 0: it only computes
	times     int           // iterations
	compute   time.Duration // of one
	published float64       // per cent slower
	normal    time.Duration // published
	calm, cut ranRun
}

// nasRuns are the programs. Blocks are those of class B (2²⁵ keys of 4 bytes in each
// of ten iterations); the time to compute is what the published time leaves.
func nasRuns() []nas {
	const keys = 128 << 20
	return []nas{
		{name: "IS.B, 8 processes", ranks: 8, bytes: keys / 64, times: 10, compute: 119 * time.Millisecond, published: 79, normal: 1360 * time.Millisecond},
		{name: "IS.B, 16 processes", ranks: 16, bytes: keys / 256, times: 10, compute: 632 * time.Millisecond, published: 36, normal: 6435 * time.Millisecond},
		{name: "EP.B, 12 processes", ranks: 12, compute: 25800 * time.Millisecond, published: 0.57, normal: 25803 * time.Millisecond},
		{name: "IS, 8 processes, 20 iterations", ranks: 8, bytes: keys / 64, times: 20, compute: 119 * time.Millisecond},
	}
}

// run plays the program without a cut and with one. scale divides blocks and times.
func (n *nas) run(seed uint64, scale int) error {
	for _, cuts := range []int{0, 1} {
		b, err := newMeshBed(seed, hostLife, false)
		if err != nil {
			return err
		}
		compute := dataplane.FromDuration(n.compute) / dataplane.Time(scale)
		steps := program.Compute(n.ranks, 1024, compute)
		whole := n.compute
		if n.bytes > 0 {
			steps = program.AllToAll(n.ranks, n.bytes/scale, n.times, compute)
			whole *= time.Duration(n.times)
		}
		whole /= time.Duration(scale)
		got, err := b.play(steps, cuts, whole/3, 4*whole+2*time.Second)
		if err != nil {
			return err
		}
		if got.bad != nil {
			return fmt.Errorf("%s: %w", n.name, got.bad)
		}
		if cuts == 0 {
			n.calm = got
		} else {
			n.cut = got
		}
		if err := b.Engine.Check(); err != nil {
			return err
		}
	}
	return nil
}

// slower is by how many per cent a cut makes the program slower.
func (n *nas) slower() float64 { return 100 * (n.cut.took.Seconds()/n.calm.took.Seconds() - 1) }
