package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route/engine/nue"
	"heddle/route/engine/updn"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// slowLinks makes all links 1X SDR, so that a second of traffic has fewer packets.
func slowLinks(f *fabric.Fabric) {
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			f.Nodes[i].Ports[p].Width, f.Nodes[i].Ports[p].Speed = ib.Width1x, ib.SpeedSDR
		}
	}
}

// load saturates a cluster: each host sends to random hosts, at the service levels that the
// manager tells at that moment.
func load(t testing.TB, c *Cluster, m *Manager, seed uint64) *dataplane.Engine {
	t.Helper()
	dc := dataplane.Defaults()
	dc.Seed, dc.Checks = seed, true
	l, err := Load(c, m, dc)
	if err != nil {
		t.Fatal(err)
	}
	e := l.Engine
	for i := range e.NumHosts() {
		if _, err := e.AddStream(dataplane.Stream{Src: i, To: dataplane.ToAny(), Bytes: 2048 + dataplane.OverheadRC, Queue: dataplane.OwnQueue}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// TestChangesUnderLoad: links fail and return at random under every engine while all hosts send as
// much as they can. Packets never wait for each other in a circle, none loops until it is too old,
// and everything that is lost is lost for a reason that a failed link has.
func TestChangesUnderLoad(t *testing.T) {
	first, n := seeds(8, 500)
	cs := campaigns()
	changes, delivered := 0, uint64(0)
	var lost [dataplane.NumCauses]uint64
	for seed := first; seed < first+n; seed++ {
		k := cs[int(seed)%len(cs)]
		f := k.fabrics(t, int(seed)/len(cs))
		slowLinks(f)
		e, m, made, err := underLoad(t, k, f, seed, sm.TransitionStrict)
		changes += made
		st := e.Stats()
		delivered += st.Delivered
		for i, n := range st.Dropped {
			lost[i] += n
		}
		if err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d: %s: %v\n%s", seed, k.engine.Name(), err, tail(m))
		}
	}
	t.Logf("%d changes, %d packets delivered, lost: %v", changes, delivered, lost)
	if delivered == 0 || changes == 0 || lost[dataplane.Inactive] == 0 {
		t.Error("no traffic, or no failed link that carried any")
	}
}

// TestRepairsUnderLoad: under the policy of availability packets wait for each other in a circle
// only after a plan that announced it, and the subnet carries traffic again in the end.
func TestRepairsUnderLoad(t *testing.T) {
	first, n := seeds(8, 500)
	cs := campaigns()
	plans, changes := 0, 0
	for seed := first; seed < first+n; seed++ {
		k := cs[int(seed)%len(cs)]
		f := k.fabrics(t, int(seed)/len(cs))
		slowLinks(f)
		_, m, made, err := underLoad(t, k, f, seed, sm.TransitionAvailability)
		changes += made
		if announced(m) {
			plans++
		}
		if err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d: %s: %v\n%s", seed, k.engine.Name(), err, tail(m))
		}
	}
	t.Logf("%d changes, %d of %d runs had a plan that announced a circle", changes, plans, n)
}

// announced reports whether a plan said that packets may wait for each other.
func announced(m *Manager) bool {
	return slices.ContainsFunc(m.Notices, func(n sm.Notice) bool { return n.Report != nil && n.Report.Risk != nil })
}

// TestCircleUnderLoad: on a ring whose switches send everything clockwise, packets soon wait for
// each other, and the witness is the ring. So what TestChangesUnderLoad looks for can be found.
func TestCircleUnderLoad(t *testing.T) {
	f := ring8()
	slowLinks(f)
	c, m := bringUp(t, f, timed(1), TrialConfig())
	mustUp(t, c, m)
	m.Kill()
	for i, n := range switches(f) {
		for _, e := range c.Sim.LIDs() {
			if own := f.Nodes[n].Ports[1].Peer; e.Node != n && e.Node != int(own.Node) {
				c.Sim.SetLFT(n, e.LID, 2)
			}
		}
		if next := f.Nodes[n].Ports[2].Peer; int(next.Node) != switches(f)[(i+1)%8] {
			t.Fatalf("port 2 of switch %d leads to %v", i, next)
		}
	}
	e := load(t, c, m, 1)
	for range 100 {
		if c.Run(time.Millisecond); e.Deadlock() != nil {
			break
		}
	}
	d := e.Deadlock()
	if d == nil || len(d.Cycle) != 8 {
		t.Fatalf("the ring of 8 switches was not found: %v", d)
	}
	for _, w := range d.Cycle {
		if w.Out.Port != 2 || w.In.Port != 3 {
			t.Errorf("%+v is not on the way clockwise", w)
		}
	}
}

func underLoad(t testing.TB, k campaign, f *fabric.Fabric, seed uint64, policy sm.Transition) (e *dataplane.Engine, m *Manager, changes int, err error) {
	rng := rand.New(rand.NewPCG(seed, 23))
	cfg := TrialConfig()
	cfg.Engines = append(cfg.Engines[:0:0], k.engine, nue.Engine{})
	if k.engine.Name() == "nue" {
		cfg.Engines[1] = updn.Engine{}
	}
	cfg.RepathTime, cfg.DampHold = 0, 0 // hosts learn of other service levels at once
	cfg.Transition = policy
	c, m := bringUp(t, f, timed(seed), cfg)
	if err := settled(c, m, 30*time.Second); err != nil {
		return nil, m, 0, err
	}
	e = load(t, c, m, seed)
	cab := cables(f)
	var down []fabric.Ref
	for range 5 {
		if len(down) > 0 && rng.IntN(3) == 0 {
			for _, r := range down {
				_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
			}
			down = nil
		} else {
			r := cab[rng.IntN(len(cab))]
			_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
			down = append(down, r)
		}
		changes++
		for range 2 + rng.IntN(40) {
			c.Run(time.Millisecond)
			if d := e.Deadlock(); d != nil {
				if !announced(m) {
					return e, m, changes, fmt.Errorf("%v", d)
				}
				e.ForgetDeadlock()
			}
		}
	}
	for _, r := range down {
		_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
	}
	if err := settled(c, m, 30*time.Second); err != nil {
		return e, m, changes, err
	}
	if err := e.Check(); err != nil {
		return e, m, changes, err
	}
	st := e.Stats()
	for _, why := range []dataplane.Cause{dataplane.Stalled, dataplane.NoLane, dataplane.TooLong} {
		if st.Dropped[why] > 0 {
			return e, m, changes, fmt.Errorf("%d packets lost: %v", st.Dropped[why], why)
		}
	}
	// Where many flows share what is left of a torus, one in many packets waits for 500 others and
	// is too old; packets that go round, or that wait for each other, are many.
	if old := st.Dropped[dataplane.HeadOfQueue] + st.Dropped[dataplane.Expired]; old > st.Delivered/10_000 && !announced(m) {
		return e, m, changes, fmt.Errorf("%d packets lost because they waited, %d delivered", old, st.Delivered)
	}
	return e, m, changes, nil
}
