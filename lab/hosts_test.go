package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sim/host/program"
	"heddle/sim/host/repath"
	hv "heddle/sim/hypervisor"
	"heddle/sm"
	"heddle/vm"
)

// meshOfSix is the 3×2 mesh of W. L. Guay's thesis: S1 S2 S3 in a row, S6 S5 S4
// below, a host at each. S7, with the manager, hangs on S1.
func meshOfSix(t testing.TB) *fabric.Fabric {
	t.Helper()
	return meshWith(t)
}

// meshWith is meshOfSix with a further host V1, V2, … at each of some switches but S2 and S5.
func meshWith(t testing.TB, more ...int) *fabric.Fabric {
	t.Helper()
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	var host, sw [7]int
	for i := 1; i <= 6; i++ {
		host[i] = b.AddCA(fmt.Sprintf("H%d", i), 1)
	}
	var further []int
	for _, i := range more {
		further = append(further, b.AddCA(fmt.Sprintf("V%d", i), 1))
	}
	for i := 1; i <= 6; i++ {
		sw[i] = b.AddSwitch(fmt.Sprintf("S%d", i), 5)
		b.Connect(sw[i], 1, host[i], 1)
	}
	b.Connect(sw[2], 2, sw[5], 2)
	for k, i := range more {
		b.Connect(sw[i], 2, further[k], 1)
	}
	for i := 1; i <= 6; i++ {
		b.Connect(sw[i], 3, sw[i%6+1], 4)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// hostbed is a loaded subnet under lash with hosts.
type hostbed struct {
	*Loaded
	hosts []*Host
}

func newHostbed(t testing.TB, f *fabric.Fabric, seed uint64, hc HostConfig, change func(*sm.Config)) *hostbed {
	t.Helper()
	return newHostbedSA(t, f, seed, hc, SAConfig(0), change)
}

// newHostbedSA is newHostbed with a configuration of the SA.
func newHostbedSA(t testing.TB, f *fabric.Fabric, seed uint64, hc HostConfig, sac sa.Config, change func(*sm.Config)) *hostbed {
	t.Helper()
	return newHostbedOf(t, f, seed, hc, sac, change, 0)
}

// newHostbedOf is newHostbedSA with a manager of addresses and, on hosts V1, V2, …, hypervisors for
// a way to migrate; 0: without.
func newHostbedOf(
	t testing.TB, f *fabric.Fabric, seed uint64, hc HostConfig, sac sa.Config, change func(*sm.Config), way hv.Way,
) *hostbed {
	t.Helper()
	c, err := NewCluster(f, sim.Config{Seed: seed, HopLatency: LoadedHop, SMALatency: LoadedSMA, VLCap: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; way != 0 && n.ID[0] == 'V' {
			if err := c.addHypervisor(n, way); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := c.Attach("S1", lashManager(change), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(sac, sa.Options{})
	if way != 0 {
		m.ServeVMs(vm.Config{})
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(upLimit, func() bool { return m.Up() && m.Idle() }); err != nil {
		t.Fatal(err)
	}
	m.JobTime = LoadedJob
	dc := dataplane.Defaults()
	dc.Seed = seed
	l, err := Load(c, m, dc)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := l.StartHosts(hc)
	if err != nil {
		t.Fatal(err)
	}
	return &hostbed{l, hosts}
}

// lashManager is the configuration of a manager that routes with lash.
func lashManager(change func(*sm.Config)) sm.Config {
	cfg := ProductionConfig(RepairChain{})
	cfg.Engines, cfg.Explicit = []route.Engine{lash.Engine{}}, true
	cfg.DampHold = 0
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// named is the host at a node.
func (b *hostbed) named(name string) *Host {
	for _, h := range b.hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// sixStreams is the traffic of the thesis: on the ring each goes two hops clockwise.
func (b *hostbed) sixStreams(t testing.TB) (list []*Stream) {
	t.Helper()
	for _, f := range [][2]int{{1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 1}, {6, 2}} {
		s, err := b.named(fmt.Sprintf("H%d", f[0])).Stream(b.named(fmt.Sprintf("H%d", f[1])), program.Stream{Bytes: 1 << 16, Depth: 4})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// quickStrict is the strict policy with waits of a thousandth of the product's: no ring
// locks on the way, whenever hosts repath in time.
func quickStrict(c *sm.Config) {
	c.Transition, c.RepathTime, c.ImproveDelay = sm.TransitionStrict, 20*time.Millisecond, 40*time.Millisecond
	// With a level of their own Reports come while guards are in place. Then queue pairs on a guarded
	// path are drained, because no packet takes them to ARMED; the tests are about both ways.
	c.SMSLAuto = false
	c.PacketLife, c.HOQLife, c.LeafHOQLife = 8, 8, 6
}

// TestHostsRepath: a cable of the mesh fails; LASH takes a second lane for the ring;
// the manager's notices bring hosts to change the service levels of connections
// while they are used. All messages arrive, no connection ends, and each then has
// the service level that the SA tells.
func TestHostsRepath(t *testing.T) {
	for _, c := range []struct {
		name   string
		method repath.Method
		cm     bool
	}{
		{"each end rearms by itself", repath.ByMigration, false},
		{"alternate paths by LAP", repath.ByMigration, true},
		{"draining", repath.ByDraining, false},
		{"draining, connected by REQ", repath.ByDraining, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			hc := HostDefaults()
			hc.Repath.Method, hc.CM = c.method, c.cm
			if c.cm {
				hc.Repath.ArmLimit = 150 * time.Millisecond // streams that the cut stopped send after 67 ms
			}
			b := newHostbed(t, meshOfSix(t), 1, hc, quickStrict)
			streams := b.sixStreams(t)
			b.Run(2 * time.Millisecond)
			if err := b.Sim.LinkDown("S2", 2); err != nil {
				t.Fatal(err)
			}
			b.Run(600 * time.Millisecond)
			changed, migrated, drained, late := 0, 0, 0, 0
			for i, s := range streams {
				if err := s.Check(); err != nil {
					t.Errorf("stream %d: %v", i, err)
				}
				if st, at := s.Failed(); st != 0 {
					t.Errorf("stream %d: %v at %v", i, st, at)
				}
				n, _ := s.Sink.Got()
				b.Run(2 * time.Millisecond)
				if m, _ := s.Sink.Got(); m == n {
					t.Errorf("stream %d stands still", i)
				}
			}
			for _, h := range b.hosts {
				changed += int(h.Handler.Count.Changed)
				migrated += int(h.Handler.Count.Migrated)
				drained += int(h.Handler.Count.Drained)
				late += int(h.Handler.Count.LateArmed)
				if !h.Handler.Idle() {
					t.Errorf("%s: its handler is not idle: %+v", h.Name, h.Handler.Count)
				}
				if h.Handler.Count.RePaths == 0 {
					t.Errorf("%s: %+v", h.Name, h.Handler.Count)
				}
			}
			if changed == 0 || (migrated > 0 && late == 0) != (c.cm && c.method == repath.ByMigration) {
				t.Errorf("%d paths are changed, %d by migration, %d by draining, %d of them not ARMED in time", changed, migrated, drained, late)
			}
			for i, s := range streams {
				from, to := b.hostOf(s.Conn.Adapter().LID()), b.hostOf(s.Back.Adapter().LID())
				p, err := from.Resolve(to)
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Conn.QP().Path(); got != p {
					t.Errorf("stream %d uses %+v, the SA says %+v", i, got, p)
				}
			}
			if err := b.Engine.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func (b *hostbed) hostOf(lid ib.LID) *Host {
	for _, h := range b.hosts {
		if h.Adapter.LID() == lid {
			return h
		}
	}
	return nil
}

// TestHostsDeaf: hosts that subscribe to nothing keep their paths.
func TestHostsDeaf(t *testing.T) {
	hc := HostDefaults()
	hc.Deaf = true
	b := newHostbed(t, meshOfSix(t), 1, hc, nil)
	streams := b.sixStreams(t)
	var was []uint8
	for _, s := range streams {
		was = append(was, uint8(s.Conn.QP().Path().SL))
	}
	b.Run(2 * time.Millisecond)
	if err := b.Sim.LinkDown("S2", 2); err != nil {
		t.Fatal(err)
	}
	b.Run(20 * time.Millisecond)
	for i, s := range streams {
		if uint8(s.Conn.QP().Path().SL) != was[i] {
			t.Errorf("stream %d: %+v", i, s.Conn.QP().Path())
		}
		if err := s.Check(); err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
	}
	for _, h := range b.hosts {
		if h.Handler.Count.Notices != 0 {
			t.Errorf("%s gets notices", h.Name)
		}
	}
}
