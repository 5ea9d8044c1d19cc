package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/sa"
	"heddle/sm"
	"heddle/subnet"
)

// configure changes settings of a running manager.
func (m *Manager) configure(reroute bool, change func(*sm.Config)) {
	cfg := m.core.Config
	change(&cfg)
	m.shared.Configure(cfg, reroute, sa.Defaults())
}

// TestConfigure changes settings of a running manager one after the other, and looks for what follows
// in the subnet. Nothing restarts, and no LID moves.
func TestConfigure(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	c, m := bringUp(t, f, timed(1), TrialConfig())
	lids := c.Sim.LIDs()
	host, err := c.Sim.Node(m.Node)
	if err != nil {
		t.Fatal(err)
	}
	at := f.Nodes[host].Ports[1].Peer // the manager's leaf
	leaf := int(at.Node)
	up := 0 // its port to another switch
	for n, p := range f.Nodes[leaf].Ports {
		if n > 0 && p.Peer.Port > 0 && f.Nodes[p.Peer.Node].Type == ib.NodeSwitch {
			up = n
		}
	}
	own := func() smp.PortInfo { return c.Sim.PortInfo(host, 1) }
	trunk := func() smp.PortInfo { return c.Sim.PortInfo(leaf, up) }
	edge := func() smp.PortInfo { return c.Sim.PortInfo(leaf, int(at.Port)) }
	gets := func(attr ib.AttrID) func() int {
		n := 0
		m.OnSend = func(p *mad.Packet) {
			if x := (*ib.MAD)(p.Data[:ib.MADLen]); x.AttrID() == attr {
				n++
			}
		}
		return func() int { return n }
	}
	for _, x := range []struct {
		name    string
		reroute bool
		change  func(*sm.Config)
		done    func() bool
	}{
		{"hoq-life", false, func(c *sm.Config) { c.HOQLife = 13 }, func() bool { return trunk().HOQLife == 13 }},
		{"leaf-hoq-life", false, func(c *sm.Config) { c.LeafHOQLife = 12 }, func() bool { return edge().HOQLife == 12 }},
		{"vl-stall-count", false, func(c *sm.Config) { c.VLStallCount = 3 }, func() bool { return trunk().VLStallCount == 3 }},
		{"leaf-vl-stall-count", false, func(c *sm.Config) { c.LeafVLStallCount = 2 }, func() bool { return edge().VLStallCount == 2 }},
		{"subnet-timeout", false, func(c *sm.Config) { c.SubnetTimeOut = 17 }, func() bool { return own().SubnetTimeOut == 17 }},
		{"local-phy-errors", false, func(c *sm.Config) { c.LocalPhyErr = 5 }, func() bool { return own().LocalPhyErrors == 5 }},
		{"overrun-errors", false, func(c *sm.Config) { c.OverrunErr = 4 }, func() bool { return own().OverrunErrors == 4 }},
		{"link-width", false, func(c *sm.Config) { c.LinkWidth = ib.Width1x }, func() bool { return own().LinkWidthEnabled == ib.Width1x }},
		{"packet-life", false, func(c *sm.Config) { c.PacketLife = 15 }, func() bool { si, _ := c.Sim.SwitchInfo(leaf); return si.LifeTimeValue == 15 }},
		{"node-names", false, func(c *sm.Config) { c.Names = map[ib.GUID]string{f.Nodes[leaf].GUID: "the leaf"} }, func() bool {
			return m.Snap.Nodes[m.Snap.NodeByGUID(f.Nodes[leaf].GUID)].Desc == "the leaf"
		}},
		{"engine", true, func(c *sm.Config) { c.Engines, c.Explicit = []route.Engine{updn.Engine{}}, true }, func() bool { return m.Snap.Engine == "updn" }},
		{"qos", false, func(c *sm.Config) { c.QoS = true }, func() bool { return c.Sim.VLArb(leaf, up, 1)[1].Weight > 0 }},
		{"priority", false, func(c *sm.Config) { c.Priority = 9 }, func() bool { return m.Status().Priority == 9 && m.Snap.Priority == 9 }},
	} {
		if x.done() {
			t.Errorf("%s: it is so already", x.name)
		}
		m.configure(x.reroute, x.change)
		mustSettle(t, c, m, 20*time.Second)
		if !x.done() {
			t.Errorf("%s did not take effect", x.name)
		}
	}
	// Sweeps come at other times from now on.
	sent := gets(smp.AttrSwitchInfo)
	m.configure(false, func(c *sm.Config) { c.SweepInterval = 0 })
	c.Run(30 * time.Second)
	if n := sent(); n > 0 {
		t.Errorf("without light sweeps %d switches are asked", n)
	}
	m.configure(false, func(c *sm.Config) { c.SweepInterval = 100 * time.Millisecond })
	c.Run(10 * time.Second)
	if n := sent(); n < 50*c.Fabric.Count(ib.NodeSwitch) {
		t.Errorf("with 10 light sweeps a second %d switches are asked in 10 s", n)
	}
	full := m.core.FullSweeps
	m.configure(false, func(c *sm.Config) { c.FullInterval = time.Second })
	c.Run(10 * time.Second)
	if n := m.core.FullSweeps - full; n < 8 {
		t.Errorf("%d full sweeps in 10 s", n)
	}
	for n, l := range c.Sim.LIDs() {
		if lids[n] != l {
			t.Errorf("the LID of port %v was %v, is %v", n, lids[n], l)
		}
	}
	if m.Stopped || !m.Up() {
		t.Error("the manager has ended")
	}
}

// TestConfigureNothing: settings as they are cause no sweep and no request.
func TestConfigureNothing(t *testing.T) {
	c, m := bringUp(t, gen(t, "xgft", "2", "4,4", "1,4"), timed(1), TrialConfig())
	c.Run(5 * time.Second)
	sweeps, writes := m.Status().Sweeps, m.Writes
	m.configure(false, func(*sm.Config) {})
	c.Run(10 * time.Second)
	if s := m.Status().Sweeps; s != sweeps || m.Writes != writes {
		t.Errorf("%d sweeps and %d writes follow", s-sweeps, m.Writes-writes)
	}
}

// TestPriorityLive: the standby whose priority is raised above the master's gets the subnet by a
// handover, at once, and gives it back when its priority is lowered; nobody restarts.
func TestPriorityLive(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	c, err := NewCluster(f, timed(2))
	if err != nil {
		t.Fatal(err)
	}
	names := cas(f)
	a, err := c.Start(names[0], TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Start(names[5], TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	master, err := oneMaster(c, 60*time.Second, a, b)
	if err != nil {
		t.Fatal(err)
	}
	other := a
	if master == a {
		other = b
	}
	c.Run(5 * time.Second)
	lids := c.Sim.LIDs()
	for _, p := range []uint8{10, 0} {
		other.configure(false, func(c *sm.Config) { c.Priority = p })
		want := other
		if p == 0 {
			other.configure(false, func(c *sm.Config) { c.Priority = 0 })
			master.configure(false, func(c *sm.Config) { c.Priority = 5 })
			want = master
		}
		now, err := oneMaster(c, 10*time.Second, a, b)
		if err != nil || now != want {
			t.Fatalf("priority %d: %v\n%s", p, err, tail(want))
		}
	}
	for n, l := range c.Sim.LIDs() {
		if lids[n] != l {
			t.Errorf("the LID of port %v was %v, is %v", n, lids[n], l)
		}
	}
}

// TestInactive: a manager that is started inactive writes nothing and takes part in no election, answers
// as NotActive, and becomes master when it is made active.
func TestInactive(t *testing.T) {
	c, err := NewCluster(gen(t, "xgft", "2", "4,4", "1,4"), timed(3))
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.Inactive, cfg.Priority = true, 15
	m, err := c.Start(cas(c.Fabric)[0], cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Run(time.Minute)
	if m.State() != subnet.NotActive || m.Sent > 0 || len(activePorts(c)) > 0 {
		t.Fatalf("%v, %d packets sent", m.State(), m.Sent)
	}
	other, err := c.Start(cas(c.Fabric)[5], TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustSettle(t, c, other, time.Minute)
	if m.Writes > 0 || other.State() != subnet.Master {
		t.Fatalf("%d writes, the other one is %v", m.Writes, other.State())
	}
	m.configure(false, func(c *sm.Config) { c.Inactive = false })
	if now, err := oneMaster(c, time.Minute, m, other); err != nil || now != m {
		t.Fatalf("it is not master with the higher priority: %v\n%s", err, tail(m))
	}
}
