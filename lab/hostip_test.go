package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/mad"
	"heddle/sa"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/saclient"
	"heddle/sm"
)

// inOrder checks that the bytes of a stream come once and in order.
func inOrder(t *testing.T, r *ipoib.Receiver) {
	var next uint64
	r.OnBytes = func(_ mad.Time, from uint64, n int) {
		if from != next || n <= 0 {
			t.Errorf("%d bytes at %d where %d must come", n, from, next)
		}
		next = from + uint64(n)
	}
}

// slowIP are streams of a host in a campaign: quick timers, and 50 Mb/s.
func slowIP() ipoib.TCP {
	return ipoib.TCP{
		Segment: 64000, Window: 1 << 17, Rate: 50e6,
		RTOMin: 5 * time.Millisecond, RTOMax: 100 * time.Millisecond, RTOInitial: 50 * time.Millisecond,
	}
}

// TestHostIP: hosts find each other by ARP on the broadcast group, over the lanes of the data plane;
// a reroute to other service levels leaves their streams whole, and their cached paths are those
// that the SA tells.
func TestHostIP(t *testing.T) {
	b := newHostbed(t, meshOfSix(t), 1, HostDefaults(), quickStrict)
	var ips []*HostIP
	for i, h := range b.hosts {
		ips = append(ips, h.IP(ipoib.IP(i+1), ipoib.Defaults(), 0))
	}
	b.Run(300 * time.Millisecond) // the tables of the group
	var list []*ipoib.Receiver
	for i := range ips {
		_, r := ips[i].Stream(ips[(i+2)%6], uint16(i), 0, slowIP())
		inOrder(t, r)
		list = append(list, r)
	}
	b.Run(50 * time.Millisecond)
	if err := b.Sim.LinkDown("S2", 2); err != nil {
		t.Fatal(err)
	}
	b.Run(600 * time.Millisecond)
	replaced := uint64(0)
	for i, r := range list {
		was := r.Got()
		b.Run(50 * time.Millisecond)
		if b.Sim.Data(); r.Got() < was+200_000 {
			t.Errorf("stream %d: %d bytes, %d more in 50 ms at 50 Mb/s; %+v", i, was, r.Got()-was, ips[i].Device().Count)
		}
	}
	for _, x := range ips {
		replaced += x.Device().Count.Replaced
	}
	b.checkIPPaths(t, ips)
	if replaced == 0 {
		t.Error("no path changed: this proves little")
	}
}

// checkIPPaths compares the cached paths of interfaces with those that the SA tells.
func (b *hostbed) checkIPPaths(t *testing.T, ips []*HostIP) {
	t.Helper()
	for i, x := range ips {
		for j, h := range b.hosts {
			p, ok := x.Device().PathTo(h.GID())
			if !ok || i == j {
				continue
			}
			want, err := b.hosts[i].Resolve(h)
			if err != nil {
				t.Error(err)
			} else if p.DLID != want.DLID || p.SL != want.SL {
				t.Errorf("%s to %s: %+v, the SA says %+v", b.hosts[i].Name, h.Name, p, want)
			}
		}
	}
}

// succeed starts a manager with the store of the dead one, at the switch at the other end of the
// mesh or again at the first.
func (b *hostbed) succeed(t *testing.T, change func(*sm.Config)) {
	node := "S4"
	if b.Manager.Node == node {
		node = "S1"
	}
	m, err := b.Attach(node, lashManager(change), b.Manager.Store)
	if err != nil {
		t.Fatal(err)
	}
	m.JobTime = LoadedJob
	m.ServeSA(SAConfig(0), sa.Options{})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	b.Manager = m
}

// TestHostIPCampaign: cables fail and come back, service levels change, hosts lose notices, managers
// die and have a successor. All bytes come once, in order; and when the faults have ended, each
// stream goes on within the lifetime of a path, a query, the longest timer, and two requests.
func TestHostIPCampaign(t *testing.T) {
	short := 6
	if testing.Short() {
		short = 2
	}
	first, n := seeds(short, 300)
	var lost, kills, replaced, repeated uint64
	for seed := first; seed < first+n; seed++ {
		r := rand.New(rand.NewPCG(seed, 8))
		policy := []sm.Transition{sm.TransitionStrict, sm.TransitionAvailability}[r.IntN(2)]
		change := func(c *sm.Config) {
			quickStrict(c)
			c.Transition, c.SweepInterval = policy, 50*time.Millisecond
			c.MasterSMSL = 3 // a free level: guards keep no datagrams of the SA from hosts
		}
		hc := HostDefaults()
		hc.MAD = mad.Config{Timeout: queryTimeout, MaxTimeout: 2 * queryTimeout, Retries: 4}
		const query = 9 * queryTimeout // with all repetitions
		b := newHostbed(t, meshOfSix(t), seed, hc, change)
		cfg := ipoib.Defaults()
		cfg.Lifetime, cfg.Reachable, cfg.Retry = 300*time.Millisecond, 500*time.Millisecond, 50*time.Millisecond
		var ips []*HostIP
		lossy := true
		for k, h := range b.hosts {
			ips = append(ips, h.IP(ipoib.IP(k+1), cfg, 0))
			h.OnReport = func(*saclient.Report) bool {
				if lossy && r.IntN(3) == 0 {
					lost++
					return false
				}
				return true
			}
		}
		b.Run(300 * time.Millisecond)
		var list []*ipoib.Receiver
		var senders []*ipoib.Sender
		for k := range ips {
			s, x := ips[k].Stream(ips[(k+1+r.IntN(5))%6], uint16(k), 0, slowIP())
			inOrder(t, x)
			list, senders = append(list, x), append(senders, s)
		}
		down := -1
		for range 4 + r.IntN(4) {
			b.Run(time.Duration(r.IntN(120)) * time.Millisecond)
			switch {
			case r.IntN(8) == 0 && !b.Manager.Dead:
				kills++
				b.Manager.Kill()
				b.Run(time.Duration(r.IntN(30)) * time.Millisecond)
				b.succeed(t, change)
			case down >= 0:
				if err := b.Sim.LinkUp(meshCables[down].node, meshCables[down].port); err != nil {
					t.Fatal(err)
				}
				down = -1
			default:
				down = r.IntN(len(meshCables))
				if err := b.Sim.LinkDown(meshCables[down].node, meshCables[down].port); err != nil {
					t.Fatal(err)
				}
			}
		}
		lossy = false
		b.Run(500 * time.Millisecond)
		if err := b.RunUntil(time.Minute, func() bool { return b.Manager.Up() && b.Manager.Idle() }); err != nil {
			t.Fatal(err)
		}
		b.Sim.Data()
		var was []uint64
		for _, x := range list {
			was = append(was, x.Got())
		}
		b.Run(cfg.Lifetime + query + slowIP().RTOMax + 2*cfg.Retry)
		b.Sim.Data()
		for k, x := range list {
			if x.Got() == was[k] || senders[k].Acked() > x.Got() || x.Got() > senders[k].Sent() {
				t.Errorf("stream %d: %d bytes, %d before, %d acknowledged; %+v %+v", k, x.Got(), was[k], senders[k].Acked(), senders[k].Count, ips[k].Device().Count)
			}
			repeated += senders[k].Count.Repeated
			replaced += ips[k].Device().Count.Replaced
		}
		if err := b.Engine.Check(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", seed)
		}
	}
	t.Logf("%d schedules: %d notices lost, %d managers died, %d paths replaced, %d segments repeated", n, lost, kills, replaced, repeated)
	if n >= 6 && (lost == 0 || kills == 0 || replaced == 0 || repeated == 0) {
		t.Error("the schedules miss something")
	}
}
