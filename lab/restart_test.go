package lab

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route/engine/minhop"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// restartOf ends a manager in order and starts one on its port, with its records, and if warm is set with
// what it published. between is called while none runs.
func restartOf(t *testing.T, c *Cluster, was *Manager, warm bool, between func()) *succession {
	t.Helper()
	must(t, c.RunUntil(3*time.Second, was.core.Settled))
	var s *subnet.Snapshot
	if warm {
		s = mirrorOf(t, was.Snap)
	}
	was.Stop()
	return succeed(t, c, was, was.Node, TrialConfig(), s, between)
}

// TestRestartWarm: a manager that is restarted answers before it has read the subnet. It sends the Sets of
// one that reads the subnet first, at the same time in the sweep: none to tables, and one to each host.
func TestRestartWarm(t *testing.T) {
	run := func(warm bool) *succession {
		c, was := serveUp(t, gen(t, "xgft", "2", "18,36", "1,18"), sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
		x := restartOf(t, c, was, warm, nil)
		if warm {
			must(t, c.RunUntil(time.Second, func() bool { return x.m.Snap != nil && x.m.Snap.Serves() }))
			if len(x.sets) > 0 || x.m.Up() {
				t.Errorf("when it answers it has sent %d Sets", len(x.sets))
			}
			if err := c.RunUntil(time.Second, func() bool { return len(told(x.m, sm.KindTakeover)) > 0 }); err != nil {
				t.Fatal(err)
			}
			if len(x.sets) > 0 {
				t.Errorf("the check of what it published sent %d Sets", len(x.sets))
			}
			if s := told(x.m, sm.KindTakeover)[0]; !strings.Contains(s, "published before its restart; 54 switches checked; 648 ports of hosts read") {
				t.Error(s)
			}
		}
		mustUp(t, c, x.m)
		if err := c.Check(x.m); err != nil {
			t.Error(err)
		}
		for _, a := range []ib.AttrID{smp.AttrLFT, smp.AttrMFT, smp.AttrPKeyTable, smp.AttrSLtoVL, smp.AttrVLArb} {
			if n := x.count(a); n != 0 {
				t.Errorf("%d Sets of attribute %v", n, a)
			}
		}
		for lid := range hostLIDs(was.Snap) {
			if x.told[lid] != 1 {
				t.Errorf("the port with LID %v was asked to register %d times", lid, x.told[lid])
			}
		}
		return x
	}
	cold, warm := run(false), run(true)
	warm.within(t, cold)
	cold.within(t, warm)
	t.Logf("first answer after %v cold, after %v warm", cold.served.Sub(cold.granted), warm.served.Sub(warm.granted))
	if warm.served >= cold.served {
		t.Error("what was published had no effect")
	}
}

// TestRestartOtherMaster: what another manager did while this one was stopped is found, and not served: on
// another port, where our own port names it; and on the same port, by the tables that it wrote.
func TestRestartOtherMaster(t *testing.T) {
	for _, same := range []bool{false, true} {
		run := func(warm bool) *succession {
			f := gen(t, "xgft", "2", "6,6", "1,6")
			c, was := serveUp(t, f, timed(1))
			return restartOf(t, c, was, warm, func() {
				node, cfg := cas(f)[20], TrialConfig()
				if same {
					node, cfg.Engines = was.Node, append(cfg.Engines[:0:0], minhop.Engine{})
				}
				other, err := c.Start(node, cfg, nil)
				must(t, err)
				mustUp(t, c, other)
				if same {
					other.Reroute(true)
					c.Run(2 * time.Second)
				}
				other.Stop()
			})
		}
		cold, warm := run(false), run(true)
		for _, x := range []*succession{cold, warm} {
			mustUp(t, x.c, x.m)
			if err := x.c.Check(x.m); err != nil {
				t.Error(err)
			}
		}
		warm.within(t, cold)
		if err := sameLIDs(cold.m.Snap, warm.m.Snap); err != nil {
			t.Error(err)
		}
		n := told(warm.m, sm.KindTakeover)
		if len(n) != 1 || strings.Contains(n[0], "another manager was master") == same {
			t.Errorf("same port %v: %v", same, n)
		}
		if !same && warm.served < cold.served {
			t.Errorf("it answered after %v, and %v if the subnet is read first", warm.served.Sub(warm.granted), cold.served.Sub(cold.granted))
		}
		if len(warm.told) != len(cas(warm.c.Fabric)) {
			t.Errorf("same port %v: %d hosts were asked to register", same, len(warm.told))
		}
	}
}

// TestRestartMovedLID: a host whose LID another program changed while the manager was stopped is shown as one
// that cannot be reached as soon as that is found, and then gets what a manager gives it that reads the
// subnet first.
func TestRestartMovedLID(t *testing.T) {
	f := gen(t, "xgft", "2", "6,6", "1,6")
	host := cas(f)[20]
	run := func(warm bool) *succession {
		c, was := serveUp(t, f, timed(1))
		n, err := c.Sim.Node(host)
		must(t, err)
		x := restartOf(t, c, was, warm, func() {
			e, err := c.Sim.Attach(host)
			must(t, err)
			defer e.Close()
			pi := c.Sim.PortInfo(n, 1)
			pi.ClearForSet()
			pi.LID = 4000
			var m ib.MAD
			smp.NewDR(&m, ib.MethodSet, smp.AttrPortInfo, 1, 0, nil)
			pi.Put(smp.Data(&m))
			e.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
			c.Run(time.Millisecond)
		})
		if now := c.Sim.PortInfo(n, 1).LID; now != 4000 {
			t.Fatalf("the host has LID %v", now)
		}
		if warm {
			must(t, c.RunUntil(time.Second, func() bool { return len(told(x.m, sm.KindTakeover)) > 0 }))
			if s := told(x.m, sm.KindTakeover)[0]; !strings.Contains(s, "1 port changed") {
				t.Error(s)
			}
			s := x.m.Snap
			if i := s.PortByPortGUID(f.Nodes[n].Ports[1].GUID); !s.Serves() || s.Up || s.Ports[i].State() == ib.StateActive {
				t.Errorf("after the check the port is shown as %v", s.Ports[i].State())
			}
		}
		must(t, c.RunUntil(20*time.Second, func() bool { return x.m.Up() && x.m.Idle() }))
		return x
	}
	cold, warm := run(false), run(true)
	warm.within(t, cold)
	if err := sameLIDs(cold.m.Snap, warm.m.Snap); err != nil {
		t.Error(err)
	}
}

// TestRestartCampaign: whatever happens while a manager is stopped, the subnet is in order afterward, and
// the manager writes what one writes that reads the subnet first.
func TestRestartCampaign(t *testing.T) {
	first, n := seeds(20, 1000)
	used, faults := 0, map[string]int{}
	for seed := first; seed < first+n; seed++ {
		k := RepairFabrics()[int(seed)%len(RepairFabrics())]
		f, err := k.Make(seed)
		must(t, err)
		run := func(warm bool) *succession {
			rng := rand.New(rand.NewPCG(seed, 0x78))
			sc := timed(seed)
			sc.Jitter = 0
			c, was := serveUp(t, f, sc)
			return restartOf(t, c, was, warm, func() {
				list := slices.Clone(warmFaults)
				for range 1 + rng.IntN(3) {
					at := rng.IntN(len(list))
					x := list[at]
					if at >= len(warmFaults)-2 {
						list = warmFaults[:len(warmFaults)-2] // cables can be exchanged once
					}
					if warm {
						faults[x.name]++
					}
					x.do(t, c, rng, was.Node)
				}
				c.Run(time.Duration(rng.IntN(3)) * time.Millisecond)
			})
		}
		cold, warm := run(false), run(true)
		for _, x := range []*succession{cold, warm} {
			mustUp(t, x.c, x.m)
			if err := x.c.RunUntil(20*time.Second, func() bool { return x.m.Up() && x.m.Idle() }); err != nil {
				t.Fatalf("seed %d: %s: %v\n%s", seed, k.Name, err, tail(x.m))
			}
			if err := x.c.Check(x.m); err != nil {
				t.Fatalf("seed %d: %s: %v\n%s", seed, k.Name, err, tail(x.m))
			}
		}
		if err := sameLIDs(cold.m.Snap, warm.m.Snap); err != nil {
			t.Fatalf("seed %d: %s: %v\n%s", seed, k.Name, err, tail(warm.m))
		}
		if warm.served < cold.served {
			used++
		}
		for w, k := range warm.sets {
			if have := cold.sets[w]; have == 0 && !harmless(w) || have < k && w.attr == smp.AttrLFT {
				t.Fatalf("seed %d: Set(%v) %#x was sent %d times, and %d times by a manager that read the subnet first: %x\n%s\n--- cold\n%s",
					seed, w.attr, w.mod, k, have, w.data, tail(warm.m), tail(cold.m))
			}
		}
	}
	t.Logf("%d of %d restarts were served by what was published before; %v", used, n, faults)
	if used < int(n)/3 {
		t.Errorf("only %d of %d", used, n)
	}
}
