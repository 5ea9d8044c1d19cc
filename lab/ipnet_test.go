package lab

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/saclient"
	"heddle/subnet"
	"heddle/vm"
)

// star is a switch with n servers A, B, C … and the manager's node.
func star(t testing.TB, n int) *fabric.Fabric {
	t.Helper()
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedQDR}
	sw := b.AddSwitch("S1", n+1)
	m := b.AddCA("M", 1)
	b.Connect(sw, n+1, m, 1)
	for i := range n {
		b.Connect(sw, i+1, b.AddCA(string(rune('A'+i)), 1), 1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// newIPNet brings up a star of n servers.
func newIPNet(t testing.TB, n int, cfg IPConfig, sc sa.Config) *IPNet {
	t.Helper()
	c, err := NewCluster(star(t, n), sim.Config{Seed: 1, HopLatency: LoadedHop, SMALatency: LoadedSMA})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Attach("M", TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i := range n {
		nodes = append(nodes, string(rune('A'+i)))
	}
	net, err := NewIPNet(c, m, cfg, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(sc, sa.Options{})
	m.ServeVMs(vm.Defaults())
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(upLimit, func() bool { return m.Up() && m.Idle() }); err != nil {
		t.Fatal(err)
	}
	m.JobTime = LoadedJob
	if err := net.Subscribe(); err != nil {
		t.Fatal(err)
	}
	return net
}

// TestGuestMoves: a VM that sends to a peer moves to another server, with its interface away for 4 s.
// Where its LID changes, the stream goes on at the next end of its timer if the peer gets a notice,
// relayed by the privileged domain of its server, or its path is too old, and never otherwise. VMs
// whose LID moves along need no notice.
func TestGuestMoves(t *testing.T) {
	for _, c := range []struct {
		name     string
		model    sim.Model
		kind     subnet.LIDKind
		change   func(*IPConfig)
		reports  uint64 // at the peer's server
		from, to time.Duration
	}{
		{"notice", sim.SharedPort, subnet.SharedLID, nil, 1, 6100 * time.Millisecond, 6500 * time.Millisecond},
		{
			"notice, each VM subscribes", sim.VPorts, subnet.SharedLID, func(c *IPConfig) { c.Subscriber = SubscribeGuests }, 0,
			6100 * time.Millisecond, 6500 * time.Millisecond,
		},
		{"no notice", sim.SharedPort, subnet.SharedLID, func(c *IPConfig) { c.IPoIB.Deaf = true }, 1, 50 * time.Second, 60 * time.Second},
		{
			"no subscription", sim.SharedPort, subnet.SharedLID, func(c *IPConfig) { c.Subscriber = SubscribeNobody }, 0,
			50 * time.Second, 60 * time.Second,
		},
		{
			"no notice, lifetime", sim.SharedPort, subnet.SharedLID, func(c *IPConfig) { c.IPoIB.Deaf, c.IPoIB.Lifetime = true, 20*time.Second }, 1,
			25400 * time.Millisecond, 26 * time.Second,
		},
		{"vSwitch", sim.VSwitch, subnet.OwnLID, nil, 0, 6100 * time.Millisecond, 6500 * time.Millisecond},
		{"VPort with a LID", sim.VPorts, subnet.OwnLID, nil, 0, 6100 * time.Millisecond, 6500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := IPDefaults()
			cfg.Model, cfg.LIDKind = c.model, c.kind
			if c.change != nil {
				c.change(&cfg)
			}
			n := newIPNet(t, 3, cfg, SAConfig(0))
			a, b := n.guest(t, 0, 1), n.guest(t, 1, 1)
			tcp := ipoib.TCPDefaults()
			tcp.Rate = 100e6
			s, r := a.Stream(b, 1, 0, tcp)
			var next uint64
			r.OnBytes = func(_ mad.Time, from uint64, n int) {
				if from != next {
					t.Errorf("bytes at %d where %d must come", from, next)
				}
				next = from + uint64(n)
			}
			n.Run(3 * time.Second) // the first ARP request may come before the tables of the group
			heard := n.Servers[1].Client.Count.Reports
			r.Gap(n.Sim.Now())
			if err := a.Migrate(n.Servers[2], 2, 4*time.Second); err != nil {
				t.Fatal(err)
			}
			n.Run(50 * time.Second)
			if gap := r.Gap(n.Sim.Now()); gap < c.from || gap > c.to {
				t.Errorf("%v without a byte, want %v to %v; %+v, peer %+v", gap, c.from, c.to, s.Count, b.Device().Count)
			}
			if a.On() != n.Servers[2] || !a.Ready() || a.Back.Sub(a.Away) > 4010*time.Millisecond {
				t.Errorf("%v, ready %v after %v", a.On(), a.Ready(), a.Back.Sub(a.Away))
			}
			if got := n.Servers[1].Client.Count.Reports - heard; got != c.reports {
				t.Errorf("the peer's server gets %d notices", got)
			}
		})
	}
}

// guest adds a VM on a function of server i.
func (n *IPNet) guest(t testing.TB, i, function int) *Guest {
	t.Helper()
	g, err := n.AddGuest(fmt.Sprintf("vm%d", len(n.Guests)), n.Servers[i], function)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// noticeTally counts what the SA sends and receives about subscriptions and notices.
type noticeTally struct{ sets, answers, reports, responses int }

func (n *IPNet) count() *noticeTally {
	k := &noticeTally{}
	n.Manager.OnReceive = func(p *mad.Packet) { k.add(p, &k.sets, &k.responses) }
	n.Manager.WatchSA(func(p *mad.Packet) { k.add(p, &k.answers, &k.reports) })
	return k
}

func (k *noticeTally) add(p *mad.Packet, inform, notice *int) {
	if m := (*ib.MAD)(p.Data); m.Class() == ib.ClassSA {
		switch m.AttrID() {
		case wire.AttrInformInfo:
			*inform++
		case wire.AttrNotice:
			*notice++
		}
	}
}

// TestNoticePerServer: with subscriptions of servers, a migration takes one Report per server that
// must know, a new VM and one that restarts none; where VMs with ports of their own subscribe, one
// per VM. (Paper VI, algorithm 1 and equations 1 to 4.)
func TestNoticePerServer(t *testing.T) {
	const servers, vms = 4, 3
	for _, c := range []struct {
		name   string
		model  sim.Model
		sub    Subscriber
		signal sa.Signal
		sets   int
		want   int
	}{
		{"servers, all", sim.SharedPort, SubscribeServers, sa.SignalHybrid, servers, servers},
		{"VMs, all", sim.VPorts, SubscribeGuests, sa.SignalHybrid, servers * vms, servers * vms},
		{"VMs of shared ports", sim.SharedPort, SubscribeGuests, sa.SignalHybrid, servers * vms, servers},
		{"servers, repath", sim.SharedPort, SubscribeServers, sa.SignalRepath, servers, servers},
		{"VMs, repath", sim.VPorts, SubscribeGuests, sa.SignalRepath, servers * vms, servers*vms - 1}, // it does not need its own path
		{"servers, targeted", sim.SharedPort, SubscribeServers, sa.SignalTargeted, servers, 2},
		{"VMs, targeted", sim.VPorts, SubscribeGuests, sa.SignalTargeted, servers * vms, 2 * vms}, // they share LIDs
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := IPDefaults()
			cfg.Model, cfg.Subscriber = c.model, c.sub
			sc := SAConfig(0)
			sc.Signal = c.signal
			n := newIPNet(t, servers, cfg, sc)
			k := n.count()
			for f := range vms {
				for i := range servers {
					n.guest(t, i, 1+f)
				}
			}
			if c.sub == SubscribeServers {
				k.sets, k.answers = k.sets+servers, k.answers+servers // before the count began
			}
			n.Run(3 * time.Second)
			if k.sets != c.sets || k.answers != c.sets {
				t.Errorf("%+v, want %d subscriptions", *k, c.sets)
			}
			for i, a := range n.Guests {
				a.Stream(n.Guests[(i+1)%len(n.Guests)], uint16(i), 100_000, ipoib.TCPDefaults())
			}
			n.Run(time.Second)
			event := func(what string, want int) {
				t.Helper()
				n.Run(3 * time.Second)
				if k.reports != want || k.responses != want {
					t.Errorf("%s: %+v, want %d Reports", what, *k, want)
				}
				*k = noticeTally{}
			}
			must := func(errs ...error) {
				t.Helper()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
			*k = noticeTally{}
			g := n.Guests[0]
			must(g.Unplug())
			n.Run(time.Second)
			must(g.Plug(g.On(), 1))
			event("restarts, address stays", 0)
			must(g.Unplug(), n.Do(vm.Detach{Name: g.Name}))
			n.Run(time.Second)
			must(g.Plug(g.On(), 1), n.Do(vm.Attach{Name: g.Name, At: g.Place()}))
			event("restarts, address removed", 0)
			must(g.Migrate(n.Servers[1], 7, time.Second))
			event("migrates", c.want)
			if c.signal == sa.SignalTargeted {
				return // by now others know it
			}
			must(g.Unplug(), n.Do(vm.Detach{Name: g.Name}))
			n.Run(time.Second)
			must(g.Plug(n.Servers[2], 7), n.Do(vm.Attach{Name: g.Name, At: g.Place()}))
			event("GUID deleted, and set elsewhere", c.want)
			if c.sub == SubscribeServers {
				n.guest(t, 3, 9)
				event("a new VM", 0)
			}
		})
	}
}

// TestLostReports: a Report that is lost is repeated after the time that the subscription names, then after
// twice that; the stream
// goes on at the next end of its timer.
func TestLostReports(t *testing.T) {
	for lost := range 4 {
		n := newIPNet(t, 3, IPDefaults(), SAConfig(0))
		a, b := n.guest(t, 0, 1), n.guest(t, 1, 1)
		tcp := ipoib.TCPDefaults()
		tcp.Rate = 100e6
		_, r := a.Stream(b, 1, 0, tcp)
		n.Run(time.Second)
		r.Gap(n.Sim.Now())
		left, at := lost, mad.Time(0)
		n.Servers[1].Lose = func() bool { left--; return left >= 0 }
		n.Servers[1].OnReport = func(*saclient.Report) bool { at = n.Sim.Now(); return true }
		if err := a.Migrate(n.Servers[2], 2, 4*time.Second); err != nil {
			t.Fatal(err)
		}
		n.Run(30 * time.Second)
		const wait = 4096 * time.Nanosecond << 16 // that the subscription asks for
		bound := wait<<lost - wait
		if late := at.Sub(a.Back); late < bound-time.Millisecond || late > bound+10*time.Millisecond {
			t.Errorf("%d lost: the notice comes after %v, want %v", lost, late, bound)
		}
		const want = 6200 * time.Millisecond // 5.9 s at the latest, and then the timer
		if gap := r.Gap(n.Sim.Now()); gap < want || gap > want+100*time.Millisecond {
			t.Errorf("%d lost: %v without a byte, want %v", lost, gap, want)
		}
	}
}
