package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

// tablesTrue compares every lane and multicast table that the snapshot knows
// with what the device holds. It counts those known and those not.
func tablesTrue(c *Cluster, m *Manager) (known, not int, err error) {
	s := m.Snap
	wrong := func(ok, same bool, what string, args ...any) {
		switch {
		case !ok:
			not++
		case !same && err == nil:
			err = fmt.Errorf(what, args...)
		default:
			known++
		}
	}
	for i := range c.Fabric.Nodes {
		fn := &c.Fabric.Nodes[i]
		n := s.NodeByGUID(fn.GUID)
		if n < 0 {
			continue
		}
		ins := uint8(1)
		if fn.IsSwitch() {
			ins = uint8(fn.NumPorts + 1)
		}
		for out := range uint8(fn.NumPorts + 1) {
			if !fn.IsSwitch() && !s.NodePorts(n)[out].Known {
				continue
			}
			for in := range ins {
				t, ok := s.SLtoVL(n, in, out)
				held := c.Sim.SLtoVL(i, in, out)
				wrong(ok, t == held, "SLtoVL of %s from %d to %d is shown as %v and is %v", fn.ID, in, out, t, held)
			}
			for block := range uint8(4) {
				t, ok := s.VLArb(n, out, block+1)
				held := c.Sim.VLArb(i, int(out), int(block+1))
				wrong(ok, t == held, "VLArb block %d of %s port %d is shown as %v and is %v", block+1, fn.ID, out, t, held)
			}
		}
		for _, b := range s.MFTBlocks(n) {
			t, ok := s.MFT(n, b.Block, b.Position)
			held := c.Sim.MFTBlock(i, b.Block, b.Position)
			wrong(ok, t == held && t == *b.Masks, "MFT block %d position %d of %s is shown as %v and is %v", b.Block, b.Position, fn.ID, t, held)
		}
	}
	return known, not, err
}

// laneGets counts the SMPs that read lane tables while fn runs.
func laneGets(m *Manager, fn func()) (n int) {
	old := m.OnSend
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); (k.AttrID() == smp.AttrSLtoVL || k.AttrID() == smp.AttrVLArb) && k.Method() == ib.MethodGet {
			n++
		}
	}
	fn()
	m.OnSend = old
	return n
}

// TestReadTables: tables that the manager neither read nor wrote are unknown until a client
// requests them. Then they are read once, and sweeps do not wait for this.
func TestReadTables(t *testing.T) {
	f := gen(t, "fattree", "324")
	c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
	sw := -1
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			sw = i
			break
		}
	}
	n := m.Snap.NodeByGUID(f.Nodes[sw].GUID)
	ports := f.Nodes[sw].NumPorts + 1
	if _, ok := m.Snap.SLtoVL(n, 1, 2); ok {
		t.Fatal("a table is known that nobody read")
	}
	arbs := 0
	for _, p := range m.Snap.NodePorts(n) {
		arbs += min(int(p.Info.VLArbitrationLowCap), 1) + min(int(p.Info.VLArbitrationHighCap), 1)
	}
	before := m.Snap
	if got := laneGets(m, func() { m.ReadTables(f.Nodes[sw].GUID); c.Run(time.Second) }); got != ports*ports+arbs {
		t.Errorf("%d requests, want %d", got, ports*ports+arbs)
	}
	if _, ok := before.SLtoVL(n, 1, 2); ok {
		t.Error("a published snapshot was changed")
	}
	for in := range uint8(ports) {
		for out := range uint8(ports) {
			if _, ok := m.Snap.SLtoVL(n, in, out); !ok {
				t.Fatalf("SLtoVL from %d to %d is not known", in, out)
			}
		}
	}
	if _, _, err := tablesTrue(c, m); err != nil {
		t.Error(err)
	}
	if got := laneGets(m, func() { m.ReadTables(f.Nodes[sw].GUID); c.Run(time.Second) }); got != 0 {
		t.Errorf("%d requests for what is known", got)
	}
	// All of them, with a link that fails meanwhile.
	m.ReadTables()
	c.Run(time.Millisecond)
	r := cables(f)[7]
	failed := c.Sim.Now()
	_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
	down := func() bool {
		return m.Snap.Counts.LinksActive < m.Snap.Counts.Links || m.Snap.Counts.Links < before.Counts.Links
	}
	if err := c.RunUntil(10*time.Second, down); err != nil {
		t.Fatal(err)
	}
	if took := c.Sim.Now().Sub(failed); took > 200*time.Millisecond {
		t.Errorf("a link that failed while tables were read was seen after %v", took)
	}
	mustSettle(t, c, m, time.Minute)
	known, not, err := tablesTrue(c, m)
	if err != nil || not > 0 || known < 24*ports*ports {
		t.Errorf("%d tables known, %d not: %v", known, not, err)
	}
	c.Run(time.Second)
	if got := laneGets(m, func() { c.Run(time.Minute) }); got != 0 {
		t.Errorf("%d requests between sweeps", got)
	}
}

// TestTablesForgotten: what a switch held before it was reset is not shown any
// more.
func TestTablesForgotten(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
	guids, at := hosts(f)
	ep, err := c.Sim.Attach(f.Nodes[at[4]].ID)
	if err != nil {
		t.Fatal(err)
	}
	sw := int(f.Nodes[at[7]].Ports[1].Peer.Node)
	n := m.Snap.NodeByGUID(f.Nodes[sw].GUID)
	var k ib.MAD
	smp.NewLID(&k, ib.MethodSet, smp.AttrSLtoVL, smp.SLtoVLMod(1, 2), 0)
	foreign := smp.SLtoVL{3: 2, 7: 1}
	foreign.Put(smp.Data(&k))
	ep.Send(&mad.Packet{Addr: mad.Addr{LID: m.Snap.NodePorts(n)[0].LID}, Data: k[:]})
	c.Run(time.Second)
	m.ReadTables(f.Nodes[sw].GUID, f.Nodes[at[7]].GUID)
	c.Run(time.Second)
	if held, ok := m.Snap.SLtoVL(n, 1, 2); !ok || held != foreign {
		t.Fatalf("%v %v is shown, want %v", held, ok, foreign)
	}
	h := m.Snap.NodeByGUID(f.Nodes[at[7]].GUID)
	if _, ok := m.Snap.SLtoVL(h, 0, 1); !ok || m.Snap.PortByGUID(guids[7]) < 0 {
		t.Fatal("the table of a host was not read")
	}
	_ = c.Sim.NodeUp(f.Nodes[sw].ID)
	mustSettle(t, c, m, time.Minute)
	if held, ok := m.Snap.SLtoVL(m.Snap.NodeByGUID(f.Nodes[sw].GUID), 1, 2); ok {
		t.Errorf("%v is shown after the switch was reset", held)
	}
	if _, ok := m.Snap.SLtoVL(m.Snap.NodeByGUID(f.Nodes[at[7]].GUID), 0, 1); ok {
		t.Error("a table of a host is shown whose link went down and up")
	}
}

// TestTablesTrue: under any faults, every table in a snapshot equals what the device holds,
// with tables that need lanes and groups that come and go.
func TestTablesTrue(t *testing.T) {
	first, n := seeds(28, 300)
	engines := inForce{}
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 5))
		d := drawRouting(seed)
		f := d.fabric
		cfg := TrialConfig()
		d.apply(&cfg)
		cfg.RepathTime = 100 * time.Millisecond
		cfg.ReadLanes = pick(seed, "read lanes", 0, 32)
		cfg.QoS = pick(seed, "QoS", false, false, true)
		sc := sim.Config{Seed: seed, HopLatency: time.Microsecond, OptimizedSL2VL: pick(seed, "optimized", false, true)}
		c, m := bringUp(t, f, sc, cfg)
		d.watch(m)
		guids, _ := hosts(f)
		cab := cables(f)
		for round := range 6 {
			if rng.IntN(2) == 0 {
				m.SetGroups([]sm.Group{groupOf(0xC000+ib.LID(rng.IntN(100)), guids[rng.IntN(8):]...), groupOf(0xC064, guids[:3]...)})
			}
			if rng.IntN(2) == 0 {
				c.Sim.SetDrop(0.02)
			}
			r := cab[rng.IntN(len(cab))]
			id := f.Nodes[r.Node].ID
			switch rng.IntN(4) {
			case 0:
				_ = c.Sim.NodeUp(id) // a reboot
			case 1:
				m.ReadTables()
			default:
				_ = c.Sim.LinkDown(id, int(r.Port))
				c.Run(time.Duration(rng.IntN(3)) * 100 * time.Millisecond)
				_ = c.Sim.LinkUp(id, int(r.Port))
			}
			c.Run(time.Second)
			c.Sim.SetDrop(0)
			c.Run(3 * time.Second)
			if err := settled(c, m, time.Minute); err != nil {
				t.Fatalf("replay with HEDDLE_SEED=%d: %s: %v\n%s", seed, d.what, err, tail(m))
			}
			known, not, err := tablesTrue(c, m)
			if err != nil {
				t.Fatalf("replay with HEDDLE_SEED=%d: %s, round %d: %v\n%s", seed, d.what, round, err, tail(m))
			}
			if cfg.ReadLanes > 0 && not > 0 { // what did not answer is asked again
				c.Run(2 * time.Minute)
				_, not, err = tablesTrue(c, m)
			}
			if cfg.ReadLanes > 0 && not > 0 || err != nil {
				t.Errorf("replay with HEDDLE_SEED=%d: %s, round %d: %d tables known, %d not: %v\n%s", seed, d.what, round, known, not, err, tail(m))
			}
		}
		engines.add(d.inForce)
	}
	engines.check(t, n)
}
