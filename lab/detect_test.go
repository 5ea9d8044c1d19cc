package lab

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sim"
	"heddle/sm"
)

// detection kills and revives parts of a subnet and measures when its manager has
// a routing job for a graph without them.
type detection struct {
	t   *testing.T
	c   *Cluster
	m   *Manager
	rng *rand.Rand
}

// silentConfig is a manager with the default timeouts, which a dead switch costs 3 s.
func silentConfig(interval time.Duration) sm.Config {
	cfg := DefaultConfig()
	cfg.SweepInterval = interval
	cfg.PacketLife, cfg.HOQLife, cfg.LeafHOQLife = 10, 10, 10 // short drains
	cfg.DampHold = 0
	return cfg
}

func newDetection(t *testing.T, f *fabric.Fabric, sc sim.Config, cfg sm.Config) *detection {
	t.Helper()
	sc.HopLatency, sc.SMALatency, sc.Jitter = time.Microsecond, 5*time.Microsecond, 2*time.Microsecond
	sc.Seed = 1
	c, m := bringUp(t, f, sc, cfg)
	return &detection{t: t, c: c, m: m, rng: rand.New(rand.NewPCG(1, 2))}
}

// mortal is a switch, or a link named by one of its ports.
type mortal struct {
	node int
	port int // 0: the node
}

func (d *detection) name(p mortal) string {
	if p.port == 0 {
		return d.c.Fabric.Nodes[p.node].ID
	}
	return fmt.Sprintf("%s[%d]", d.c.Fabric.Nodes[p.node].ID, p.port)
}

func (d *detection) kill(p mortal) {
	id := d.c.Fabric.Nodes[p.node].ID
	var err error
	if p.port == 0 {
		err = d.c.Sim.NodeDown(id)
	} else {
		err = d.c.Sim.LinkDown(id, p.port)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *detection) revive(p mortal) {
	id := d.c.Fabric.Nodes[p.node].ID
	var err error
	if p.port == 0 {
		err = d.c.Sim.NodeUp(id)
	} else {
		err = d.c.Sim.LinkUp(id, p.port)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// avoids reports whether no entry for a LID of a node that can be reached leads into a part.
func (d *detection) avoids(t *route.Tables, p mortal) bool {
	f := d.c.Fabric
	reach := d.c.reachable(d.m)
	var list []int // the rows are in ascending order of GUIDs
	for _, n := range switches(f) {
		if reach[f.Nodes[n].GUID] {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Compare(f.Nodes[a].GUID, f.Nodes[b].GUID) })
	if t == nil || t.Switches() != len(list) {
		return false
	}
	there := map[ib.LID]bool{}
	for _, e := range d.c.Sim.LIDs() {
		there[e.LID] = reach[f.Nodes[e.Node].GUID]
	}
	for i, n := range list {
		for l, e := range t.Row(int32(i)) {
			if !there[ib.LID(l)] || e == 0 || e == route.Drop || int(e) > f.Nodes[n].NumPorts {
				continue
			}
			if p.port == 0 && int(f.Nodes[n].Ports[e].Peer.Node) == p.node || p.port != 0 && n == p.node && int(e) == p.port {
				return false
			}
		}
	}
	return true
}

// says reports whether a packet is a trap of a switch next to a part.
func (d *detection) says(q *mad.Packet, p mortal) bool {
	var n smp.Notice
	m := (*ib.MAD)(q.Data)
	if len(q.Data) < ib.MADLen || m.Method() != ib.MethodTrap || n.Decode(smp.Data(m)) != nil {
		return false
	}
	i := d.m.Snap.PortByLID(n.IssuerLID)
	if i < 0 {
		return false
	}
	f := d.c.Fabric
	at := f.FindGUID(d.m.Snap.Nodes[d.m.Snap.Ports[i].Node].Info.NodeGUID)
	if at == p.node {
		return true
	}
	for k := 1; k <= f.Nodes[p.node].NumPorts; k++ {
		if x := &f.Nodes[p.node].Ports[k]; x.Cabled() && int(x.Peer.Node) == at && (p.port == 0 || p.port == k) {
			return true
		}
	}
	return false
}

// measure kills a part and returns how long it takes, from then and from the first trap
// on, until tables without it are computed. If no trap arrives, as its path leads through
// the part, heard is what took is.
func (d *detection) measure(p mortal, limit time.Duration) (took, heard time.Duration, ok bool) {
	d.t.Helper()
	jobs := 0
	d.m.OnJob = func(r *sm.JobResult) {
		if d.avoids(r.Tables, p) {
			jobs++
		}
	}
	began := d.c.Sim.Now()
	first := mad.Never
	d.m.OnReceive = func(q *mad.Packet) {
		if d.says(q, p) {
			first = min(first, d.c.Sim.Now())
		}
	}
	defer func() { d.m.OnJob, d.m.OnReceive = nil, nil }()
	d.kill(p)
	err := d.c.RunUntil(limit, func() bool { return jobs > 0 })
	now := d.c.Sim.Now()
	if first == mad.Never {
		first = began
	}
	return now.Sub(began), now.Sub(first), err == nil
}

// calm waits until the subnet is whole again, and until no switch counts as one whose
// traps keep coming.
func (d *detection) calm(what string) {
	d.t.Helper()
	var err error
	for range 1000 {
		d.c.Run(500 * time.Millisecond)
		if err = d.c.Check(d.m); err == nil && d.m.Up() && d.m.Idle() && len(d.m.Snap.Problems) == 0 {
			d.c.Run(6 * time.Second)
			return
		}
	}
	d.t.Fatalf("%s: not whole again: %v\n%s", what, err, tail(d.m))
}

// parts lists the switches but the manager's and a sample of the links between
// switches.
func (d *detection) parts(most int) (list []mortal) {
	f := d.c.Fabric
	own := f.Nodes[f.Find(d.m.Node)].Ports[1].Peer.Node
	for _, n := range switches(f) {
		if n != int(own) {
			list = append(list, mortal{node: n})
		}
	}
	cab := cables(f)
	for _, r := range cab {
		list = append(list, mortal{int(r.Node), int(r.Port)})
	}
	d.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), most)]
}

var detectNets = [][]string{
	{"fattree", "324"}, {"xgft", "3", "3,3,3", "1,3,3"}, {"torus", "4x4"}, {"mesh", "3x4"}, {"irregular", "16"}, {"hypercube", "4"}, {"dragonfly", "4", "2", "2"},
}

// TestSilentDeath: switches and links die without a trap at any moment, also in the
// middle of a light sweep. Tables without them are computed within one light-sweep
// interval and 100 ms.
func TestSilentDeath(t *testing.T) {
	for _, n := range detectNets {
		t.Run(strings.Join(n, " "), func(t *testing.T) {
			const interval = time.Second
			d := newDetection(t, gen(t, n[0], n[1:]...), sim.Config{NoTraps: true}, silentConfig(interval))
			d.all(interval, interval+100*time.Millisecond, 0)
		})
	}
}

// all kills and revives many parts, one after the other. Each has to be noticed within
// limit, and within trapLimit of a trap if one arrives.
func (d *detection) all(interval, limit, trapLimit time.Duration) {
	d.t.Helper()
	var worst, sum time.Duration
	list := d.parts(20)
	late := 0
	for _, p := range list {
		d.moment(interval)
		took, heard, ok := d.measure(p, 30*time.Second)
		if worst = max(worst, took); !ok || took > limit || heard < took && heard > trapLimit {
			late++
			d.t.Errorf("%s: %v, and %v after a trap", d.name(p), took, heard)
		}
		sum += took
		d.c.Run(time.Second)
		d.revive(p)
		d.calm(d.name(p))
	}
	d.t.Logf("%d parts: mean %v, worst %v, late %d", len(list), sum/time.Duration(len(list)), worst, late)
}

// alive reports whether a part is one that the manager can reach now.
func (d *detection) alive(p mortal) bool {
	f, reach := d.c.Fabric, d.c.reachable(d.m)
	return reach[f.Nodes[p.node].GUID] && (p.port == 0 || reach[f.Nodes[f.Nodes[p.node].Ports[p.port].Peer.Node].GUID])
}

// moment goes to a random moment: of the interval, or of a light sweep.
func (d *detection) moment(interval time.Duration) {
	if d.rng.IntN(2) == 0 {
		d.c.Run(time.Duration(d.rng.Int64N(int64(interval))))
		return
	}
	if err := d.c.RunUntil(2*interval, func() bool { return d.m.Status().Phase == sm.PhaseLight }); err != nil {
		d.t.Fatal(err)
	}
	d.c.Run(time.Duration(d.rng.Int64N(int64(time.Millisecond))))
}

// TestTrapDuringLightSweep: traps come at every moment of a subnet that is never
// without a light sweep for long. Tables without the dead part are computed when the
// traps have settled.
func TestTrapDuringLightSweep(t *testing.T) {
	for _, n := range detectNets {
		t.Run(strings.Join(n, " "), func(t *testing.T) {
			const interval = 100 * time.Millisecond
			d := newDetection(t, gen(t, n[0], n[1:]...), sim.Config{}, silentConfig(interval))
			d.all(interval, interval+100*time.Millisecond, 65*time.Millisecond)
		})
	}
}

// TestFaultDuringRepair: while the tables of a first fault are being changed, with the waits of
// the default lifetimes, a second and a third one happen. Each gets a routing job of its own
// without delay.
func TestFaultDuringRepair(t *testing.T) {
	for _, traps := range []bool{true, false} {
		for _, n := range detectNets {
			t.Run(fmt.Sprintf("%s traps=%v", strings.Join(n, " "), traps), func(t *testing.T) {
				const interval = 300 * time.Millisecond
				cfg := silentConfig(interval)
				cfg.PacketLife, cfg.HOQLife, cfg.LeafHOQLife = 14, 14, 14 // 67 ms: drains of some seconds
				d := newDetection(t, gen(t, n[0], n[1:]...), sim.Config{NoTraps: !traps}, cfg)
				d.m.JobTime = 20 * time.Millisecond
				var times []time.Duration
				midway := map[sm.Phase]int{}
				for range 8 {
					three := d.parts(3)
					for i, p := range three {
						if !d.alive(p) {
							continue
						}
						if i > 0 {
							midway[d.m.Status().Phase]++
						}
						took, heard, ok := d.measure(p, 10*time.Second)
						if times = append(times, heard); !ok || took > interval+100*time.Millisecond || heard < took && heard > 65*time.Millisecond {
							t.Errorf("%s, fault %d of %v: %v, and %v after a trap\n%s", d.name(p), i, three, took, heard, tail(d.m))
						}
						d.c.Run(time.Duration(d.rng.Int64N(int64(100 * time.Millisecond))))
					}
					for _, p := range three {
						d.revive(p)
					}
					d.calm(fmt.Sprint(three))
				}
				slices.Sort(times)
				t.Logf("median %v, worst %v; the second and third came in %v", times[len(times)/2], times[len(times)-1], midway)
			})
		}
	}
}

// TestStormOfFaults: links fail and return faster than tables can be changed. At least one of
// nine consecutive sweeps is completed, and in the end the subnet is whole.
func TestStormOfFaults(t *testing.T) {
	cfg := silentConfig(300 * time.Millisecond)
	cfg.PacketLife, cfg.HOQLife, cfg.LeafHOQLife = 14, 14, 14
	d := newDetection(t, gen(t, "torus", "4x4"), sim.Config{}, cfg)
	d.m.JobTime = 20 * time.Millisecond
	links := cables(d.c.Fabric)
	began := d.c.Sim.Now()
	for d.c.Sim.Now().Sub(began) < 20*time.Second {
		r := links[d.rng.IntN(len(links))]
		p := mortal{int(r.Node), int(r.Port)}
		d.kill(p)
		d.c.Run(time.Duration(d.rng.Int64N(int64(60 * time.Millisecond))))
		d.revive(p)
	}
	broken, row, whole := 0, 0, 0
	for i := range d.m.Notices {
		switch r := d.m.Notices[i].Report; {
		case d.m.Notices[i].Kind != sm.KindSweepEnd:
		case r.Broken:
			broken++
			if row++; row > 8 {
				t.Fatalf("%d sweeps in a row were broken off", row)
			}
		default:
			row = 0
			whole++
		}
	}
	t.Logf("%d sweeps broken off, %d carried through", broken, whole)
	if broken == 0 || whole < 10 {
		t.Errorf("%d sweeps broken off, %d carried through: this proves little", broken, whole)
	}
	d.calm("after the storm")
}
