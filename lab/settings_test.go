package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/settings"
	"heddle/sim"
)

// side is a port as a setting may tell it from others.
type side struct {
	pi            smp.PortInfo
	switchPort    bool // an external port of a switch
	port0         bool
	toSwitch, end bool // the far end is a switch; this is an end port
}

// TestSettingsOnTheWire: a setting is written to the ports and switches that it concerns, and
// to no others, and the next sweep has nothing to write.
func TestSettingsOnTheWire(t *testing.T) {
	between := func(s *side) bool { return s.switchPort && s.toSwitch }
	leaf := func(s *side) bool { return s.switchPort && !s.toSwitch }
	end := func(s *side) bool { return s.end }
	cabled := func(s *side) bool { return !s.port0 }
	sdrToDDR := ib.SpeedBitSDR | ib.SpeedBitDDR
	for _, c := range []struct {
		name, text string
		about      func(*side) bool
		field      func(*smp.PortInfo) any
		want       any
	}{
		{"hoq-life", "11", between, func(p *smp.PortInfo) any { return p.HOQLife }, uint8(11)},
		{"hoq-life", "0", between, func(p *smp.PortInfo) any { return p.HOQLife }, uint8(0)},
		{"leaf-hoq-life", "9", leaf, func(p *smp.PortInfo) any { return p.HOQLife }, uint8(9)},
		{"vl-stall-count", "0", between, func(p *smp.PortInfo) any { return p.VLStallCount }, uint8(0)},
		{"leaf-vl-stall-count", "2", leaf, func(p *smp.PortInfo) any { return p.VLStallCount }, uint8(2)},
		{"subnet-timeout", "0", end, func(p *smp.PortInfo) any { return p.SubnetTimeOut }, uint8(0)},
		{"sm-sl", "5", end, func(p *smp.PortInfo) any { return p.MasterSMSL }, ib.SL(5)},
		{"local-phy-errors", "0", end, func(p *smp.PortInfo) any { return p.LocalPhyErrors }, uint8(0)},
		{"overrun-errors", "15", end, func(p *smp.PortInfo) any { return p.OverrunErrors }, uint8(15)},
		{"subnet-prefix", "0xfe80000000001234", end, func(p *smp.PortInfo) any { return p.GidPrefix }, ib.SubnetPrefix(0xfe80000000001234)},
		{"m-key-lease", "60", end, func(p *smp.PortInfo) any { return p.MKeyLeasePeriod }, uint16(60)},
		{"lmc", "2", func(s *side) bool { return s.end && !s.port0 }, func(p *smp.PortInfo) any { return p.LMC }, uint8(2)},
		{"switch-lmc", "1", func(s *side) bool { return s.port0 }, func(p *smp.PortInfo) any { return p.LMC }, uint8(1)},
		{"max-mtu", "1024", cabled, func(p *smp.PortInfo) any { return p.NeighborMTU }, ib.MTU1024},
		{"max-vls", "2", cabled, func(p *smp.PortInfo) any { return p.OperationalVLs }, uint8(2)},
		{"link-width", "1x", cabled, func(p *smp.PortInfo) any { return p.LinkWidthEnabled }, ib.Width1x},
		{"link-width", "1x,12x", cabled, func(p *smp.PortInfo) any { return p.LinkWidthEnabled }, ib.Width1x},
		{"link-speed", "ddr", cabled, func(p *smp.PortInfo) any { return p.LinkSpeedEnabled }, sdrToDDR},
		{"link-speed-ext", "fdr", cabled, func(p *smp.PortInfo) any { return p.LinkSpeedExtEnabled }, ib.SpeedExtBitFDR},
		{"link-speed-ext", "fdr,ndr", cabled, func(p *smp.PortInfo) any { return p.LinkSpeedExtEnabled }, ib.SpeedExtBitFDR},
		{"link-speed-ext", "off", cabled, func(p *smp.PortInfo) any { return p.LinkSpeedExtEnabled }, ib.SpeedExtBitNone},
	} {
		t.Run(c.name+" "+c.text, func(t *testing.T) {
			before := sides(broughtUp(t, "", ""))
			n := 0
			for at, s := range sides(broughtUp(t, c.name, c.text)) {
				want := c.field(&before[at].pi)
				if c.about(s) {
					n++
					if want = c.want; c.field(&before[at].pi) == want {
						t.Fatalf("%s has %v without the setting, too", at, want)
					}
				}
				if got := c.field(&s.pi); got != want {
					t.Errorf("%s has %v, want %v", at, got, want)
				}
			}
			if n == 0 {
				t.Error("it is about no port")
			}
		})
	}
	for _, text := range []string{"0", "19", "31"} {
		c := broughtUp(t, "packet-life", text)
		for i := range c.Fabric.Nodes {
			if si, ok := c.Sim.SwitchInfo(i); ok && fmt.Sprint(si.LifeTimeValue) != text {
				t.Errorf("packet-life %s: switch %d has %d", text, i, si.LifeTimeValue)
			}
		}
	}
}

// TestMasksThatDoNotFit: widths and speeds that a port does not have, or that its peer
// does not have, change nothing, and take no link down.
func TestMasksThatDoNotFit(t *testing.T) {
	for _, c := range [][2]string{
		{"link-width", "12x"}, {"link-width", "all"}, {"link-speed", "all"}, {"link-speed-ext", "ndr"}, {"link-speed-ext", "all"}, {"link-width", "keep"},
	} {
		before, after := sides(broughtUp(t, "", "")), sides(broughtUp(t, c[0], c[1]))
		for at, s := range after {
			b := &before[at].pi
			if s.pi.LinkWidthEnabled != b.LinkWidthEnabled || s.pi.LinkSpeedEnabled != b.LinkSpeedEnabled || s.pi.LinkSpeedExtEnabled != b.LinkSpeedExtEnabled {
				t.Errorf("%v: %s has width %v, speeds %v and %v", c, at, s.pi.LinkWidthEnabled, s.pi.LinkSpeedEnabled, s.pi.LinkSpeedExtEnabled)
			}
		}
	}
}

// broughtUp is a subnet that a manager with one setting has brought up, and in which it
// has nothing left to write.
func broughtUp(t *testing.T, name, text string) *Cluster {
	t.Helper()
	v := settings.New()
	if name != "" {
		if err := v.Set(name, text, "here"); err != nil {
			t.Fatal(err)
		}
	}
	cfg := v.SM
	cfg.Engines = DefaultConfig().Engines
	f, err := fabrictest.Generate("xgft", []string{"2", "2,2", "1,2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, sim.Config{Seed: 1, EnhancedPort0: true}, cfg)
	c.Run(time.Second)
	writes, sent := m.Writes, m.Sent
	m.Sweep(false)
	c.Run(5 * time.Second)
	if m.Sent < sent+len(c.Fabric.Nodes) {
		t.Fatal("there was no sweep")
	}
	if m.Writes != writes {
		t.Errorf("%s %s: the next sweep wrote %d times", name, text, m.Writes-writes)
	}
	return c
}

// sides are all ports of a subnet that are cabled, or ports 0 of switches.
func sides(c *Cluster) map[string]*side {
	all := map[string]*side{}
	for i := range c.Fabric.Nodes {
		n := &c.Fabric.Nodes[i]
		isSwitch := n.IsSwitch()
		for p := range n.Ports {
			if p == 0 && !isSwitch || p > 0 && n.Ports[p].Peer.Node < 0 {
				continue
			}
			all[fmt.Sprintf("%s port %d", n.Desc, p)] = &side{
				pi: c.Sim.PortInfo(i, p), switchPort: isSwitch && p > 0, port0: p == 0, end: !isSwitch || p == 0,
				toSwitch: p > 0 && c.Fabric.Nodes[n.Ports[p].Peer.Node].IsSwitch(),
			}
		}
	}
	return all
}
