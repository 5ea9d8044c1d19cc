package lab

import (
	"errors"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// packetTime is what a 2 KiB packet takes on the links of slowLinks.
const packetTime = (2048 + dataplane.OverheadRC) * 4 * time.Nanosecond

// tree16 is a tree of 16 hosts with slow links.
func tree16(t testing.TB) *fabric.Fabric {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	slowLinks(f)
	return f
}

// saturate has every host send all it can, on one service level.
func saturate(t testing.TB, c *Cluster, seed uint64, to func(host, hosts int) dataplane.Destination) *dataplane.Engine {
	t.Helper()
	dc := dataplane.Defaults()
	dc.Seed, dc.Checks = seed, true
	e, err := c.Sim.StartData(dc, dataplane.DefaultCable)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.NumHosts() {
		if _, err := e.AddStream(dataplane.Stream{Src: i, To: to(i, e.NumHosts()), Bytes: 2048 + dataplane.OverheadRC}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func anywhere(int, int) dataplane.Destination { return dataplane.ToAny() }

// roundTrips sends Get(NodeInfo) from the manager's host along the path of every node, once each
// gap, and returns how long each answer took, and over how many links.
func roundTrips(t testing.TB, c *Cluster, m *Manager, gap time.Duration) (took []time.Duration, links []int) {
	t.Helper()
	ep, err := c.Sim.Attach(m.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	for _, path := range directed(c.Fabric, ep.NodeIndex()) {
		var q ib.MAD
		smp.NewDR(&q, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
		done := false
		ep.OnPacket = func(p *mad.Packet) { done = true }
		sent := c.Sim.Now()
		ep.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: q[:]})
		if err := c.RunUntil(time.Second, func() bool { return done }); err != nil {
			t.Fatalf("no answer along %v: %v", path, err)
		}
		took, links = append(took, c.Sim.Now().Sub(sent)), append(links, 2*len(path))
		c.Run(gap)
	}
	return took, links
}

// directed lists a shortest directed route from a node to every other.
func directed(f *fabric.Fabric, from int) (paths [][]byte) {
	at := map[int][]byte{from: {}}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		if len(at[n]) > 0 {
			paths = append(paths, at[n])
		}
		if n != from && !f.Nodes[n].IsSwitch() {
			continue
		}
		for p := 1; p <= f.Nodes[n].NumPorts; p++ {
			peer := f.Nodes[n].Ports[p].Peer
			if _, seen := at[int(peer.Node)]; peer.Port != 0 && !seen {
				at[int(peer.Node)] = append(append([]byte(nil), at[n]...), byte(p))
				queue = append(queue, int(peer.Node))
			}
		}
	}
	return paths
}

// TestSMPsUnderLoad: SMPs are on VL15. However full the data lanes are, one waits at each link for
// the packet that is being sent and for no other.
func TestSMPsUnderLoad(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		c, m := bringUp(t, tree16(t), sim.Config{Seed: seed}, DefaultConfig())
		e := saturate(t, c, seed, anywhere)
		const wire = dataplane.BytesMAD * 4 * time.Nanosecond
		gap := 17*time.Microsecond + time.Duration(seed)*time.Nanosecond // in no step with packets
		var worst, sum time.Duration
		n := 0
		for range 4 {
			took, links := roundTrips(t, c, m, gap)
			for i, d := range took {
				// Each hop has its wire and 10 ns of cable; times are rounded up to nanoseconds.
				late := d - time.Duration(links[i])*(wire+10*time.Nanosecond)
				if late < 0 || late > time.Duration(links[i])*(packetTime+time.Nanosecond) {
					t.Errorf("seed %d: %v over %d links: %v more than the wire takes", seed, d, links[i], late)
				}
				sum += late
				worst = max(worst, late/time.Duration(links[i]))
				n += links[i]
			}
		}
		mean := sum / time.Duration(n)
		t.Logf("seed %d: an SMP waits %v at a link, at most %v (mean over a path); a packet takes %v", seed, mean, worst, packetTime)
		if mean < packetTime/10 {
			t.Errorf("seed %d: SMPs wait only %v at a link: is there load?", seed, mean)
		}
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestBringUpUnderLoad: a manager takes over a fabric whose data lanes are full, and repairs it when
// a cable fails. With all datagrams apart from packets it does not do so much faster.
func TestBringUpUnderLoad(t *testing.T) {
	first, n := seeds(1, 30)
	for seed := first; seed < first+n; seed++ {
		var ups [2]time.Duration
		for i, carriage := range []sim.Carriage{sim.Apart, sim.OnLanes} {
			f := tree16(t)
			c, old := bringUp(t, f, sim.Config{Seed: seed, SMALatency: 5 * time.Microsecond, Carriage: carriage}, DefaultConfig())
			e := saturate(t, c, seed, anywhere)
			c.Run(2 * time.Millisecond)
			old.Kill()
			began := c.Sim.Now()
			m, err := c.Start(f.Nodes[e.HostPort(5).Node].ID, DefaultConfig(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.RunUntil(time.Minute, m.Up); err != nil {
				t.Fatalf("seed %d, %v: %v", seed, carriage, err)
			}
			ups[i] = c.Sim.Now().Sub(began)
			if err := c.Check(m); err != nil {
				t.Errorf("seed %d, %v: %v", seed, carriage, err)
			}
			cut := cables(f)[seed%uint64(len(cables(f)))]
			if err := c.Sim.LinkDown(f.Nodes[cut.Node].ID, int(cut.Port)); err != nil {
				t.Fatal(err)
			}
			err = errors.New("not idle")
			for range 50 { // a step of settled is too much traffic
				c.Run(10 * time.Millisecond)
				if m.Up() && m.Idle() {
					if err = c.Check(m); err == nil {
						break
					}
				}
			}
			if err != nil {
				t.Errorf("seed %d, %v: after a cable failed: %v", seed, carriage, err)
			}
			if err := e.Check(); err != nil {
				t.Error(err)
			}
			if lost := c.Sim.Stats().Drops[sim.DropQueue]; lost > 0 {
				t.Errorf("seed %d, %v: %d SMPs found a VL15 buffer full", seed, carriage, lost)
			}
		}
		t.Logf("seed %d: up in %v with SMPs apart, %v with SMPs on VL15", seed, ups[0], ups[1])
		if ups[1] > ups[0]+10*time.Millisecond {
			t.Errorf("seed %d: full lanes delay the manager by %v", seed, ups[1]-ups[0])
		}
	}
}

// TestRepairOfDeadlock: packets wait for each other in a circle, so nothing moves on the data lanes,
// and a host's question to the SA is not answered. The manager reads and repairs the tables of all
// switches nevertheless, and when the packets have become too old, the SA answers again.
func TestRepairOfDeadlock(t *testing.T) {
	f := ring8()
	slowLinks(f)
	c, m := upWithSA(t, f, sim.Config{Seed: 1, SMALatency: 5 * time.Microsecond}, TrialConfig())
	for _, n := range switches(f) {
		for _, e := range c.Sim.LIDs() {
			if own := f.Nodes[n].Ports[1].Peer; e.Node != n && e.Node != int(own.Node) {
				c.Sim.SetLFT(n, e.LID, 2)
			}
		}
	}
	e := saturate(t, c, 1, func(h, hosts int) dataplane.Destination { return dataplane.To((h + 3) % hosts) })
	if err := c.RunUntil(time.Second, func() bool { return e.Deadlock() != nil }); err != nil {
		t.Fatalf("no deadlock: %v", err)
	}
	k, err := c.Client(f.Nodes[e.HostPort(4).Node].ID)
	if err != nil {
		t.Fatal(err)
	}
	var q ib.MAD
	wire.New(&q, ib.MethodGet, wire.AttrClassPortInfo, 0, 0)
	if _, err := k.Ask(100*time.Millisecond, &q); err == nil {
		t.Error("the SA answered through lanes that stand still")
	}
	before := c.Sim.Stats()
	began := c.Sim.Now()
	m.Sweep(true)
	if err := settled(c, m, 30*time.Second); err != nil {
		t.Fatalf("%v\n%s", err, tail(m))
	}
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
	after := c.Sim.Stats()
	t.Logf("repaired in %v with %d requests", c.Sim.Now().Sub(began), after.SMPs-before.SMPs)
	if _, err := k.Ask(time.Second, &q); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// TestPathQueryUnderLoad: what a host's path query takes on an idle fabric, where data takes its
// lane, and where GMPs have a lane of their own.
func TestPathQueryUnderLoad(t *testing.T) {
	ask := func(seed uint64, loaded, ownLane bool) (mean, worst time.Duration) {
		cfg := DefaultConfig()
		lanes := uint8(1)
		if ownLane {
			cfg.QoS, cfg.SMSLAuto, cfg.MasterSMSL, lanes = true, false, 1, 2
		}
		c, m := upWithSA(t, tree16(t), sim.Config{Seed: seed, VLCap: lanes}, cfg)
		if loaded {
			saturate(t, c, seed, anywhere)
			c.Run(5 * time.Millisecond) // until the buffers are full
		} else if _, err := c.Sim.StartData(dataplane.Defaults(), dataplane.DefaultCable); err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range c.Fabric.Nodes {
			if x := &c.Fabric.Nodes[i]; x.IsSwitch() || x.ID == m.Node {
				continue
			}
			k, err := c.Client(c.Fabric.Nodes[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			ep := k.Endpoint()
			var q ib.MAD
			wire.New(&q, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompDLID|wire.PathCompSLID)
			(&wire.PathRecord{DLID: m.ep.LID(), SLID: ep.LID()}).Put(wire.Data(&q))
			from := c.Sim.Now()
			if _, err := k.Ask(time.Second, &q); err != nil {
				t.Fatalf("loaded %v, own lane %v: node %d: %v", loaded, ownLane, i, err)
			}
			took := c.Sim.Now().Sub(from)
			mean += took
			worst = max(worst, took)
			n++
			k.Close()
		}
		return mean / time.Duration(n), worst
	}
	first, n := seeds(2, 20)
	for seed := first; seed < first+n; seed++ {
		idle, idleWorst := ask(seed, false, false)
		full, fullWorst := ask(seed, true, false)
		own, ownWorst := ask(seed, true, true)
		t.Logf("seed %d: a path query takes %v (worst %v) idle, %v (%v) under full load, %v (%v) on a lane of its own",
			seed, idle, idleWorst, full, fullWorst, own, ownWorst)
		if full < 20*idle {
			t.Errorf("seed %d: full lanes slow a query from %v to %v only", seed, idle, full)
		}
		// On an own lane a query waits at each of up to 8 links for a packet under way and, as lanes take
		// turns, for no more.
		if ownWorst > idleWorst+8*2*packetTime || own >= full/4 {
			t.Errorf("seed %d: on a lane of its own %v, worst %v; behind data %v", seed, own, ownWorst, full)
		}
	}
}

// upWithSA is serveUp with a configuration.
func upWithSA(t testing.TB, f *fabric.Fabric, sc sim.Config, cfg sm.Config) (*Cluster, *Manager) {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Attach(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	return c, m
}
