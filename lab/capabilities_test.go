package lab

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/subnet"
)

// TestCapabilityTrap counts what the manager of 648 hosts sends because of one trap 144 about
// capabilities: when a second manager starts, which is then known as standby, and when it ends.
func TestCapabilityTrap(t *testing.T) {
	f := gen(t, "xgft", "2", "18,36", "1,18")
	c, err := NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.SweepInterval = time.Minute // no light sweep meanwhile
	m, err := c.Start(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	var sent map[string]int
	m.OnSend = func(p *mad.Packet) {
		if x := (*ib.MAD)(p.Data); x.Class().IsSMP() {
			sent[fmt.Sprintf("%v %#x", x.Method(), int(x.AttrID()))]++
		}
	}
	host := cas(f)[100]
	other, err := c.Attach(host, TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Run(2 * time.Second)
	sweeps := m.Status().Sweeps
	for _, step := range []struct {
		name string
		do   func() error
		done func() bool
		want map[string]int
	}{
		{
			"a manager starts", other.Start, func() bool { return len(m.Snap.SMs) == 1 },
			map[string]int{"TrapRepress 0x2": 1, "Get 0x15": 1, "Get 0x20": 1},
		},
		{
			"it ends", func() error { other.Stop(); return nil }, func() bool { return len(m.Snap.SMs) == 0 },
			map[string]int{"TrapRepress 0x2": 1, "Get 0x15": 1},
		},
	} {
		sent = map[string]int{}
		began, gen := c.Sim.Now(), m.Snap.Gen
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(10*time.Second, step.done); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: known after %v", step.name, c.Sim.Now().Sub(began))
		c.Run(2 * time.Second)       // the agent holds its next trap back
		delete(sent, "GetResp 0x20") // answers to the polls of the other one
		t.Logf("%s: %v, %d snapshots", step.name, sent, m.Snap.Gen-gen)
		if !maps.Equal(sent, step.want) {
			t.Errorf("%s: sent %v, want %v", step.name, sent, step.want)
		}
		i := slices.IndexFunc(m.Snap.Ports, func(p *subnet.Port) bool { return p.GUID == other.Status().PortGUID && p.Known })
		if is := m.Snap.Ports[i].Info.CapabilityMask.Has(ib.CapIsSM); is != (len(m.Snap.SMs) == 1) {
			t.Errorf("%s: IsSM is published as %v", step.name, is)
		}
	}
	if n := m.Status().Sweeps - sweeps; n != 0 {
		t.Errorf("%d sweeps", n)
	}
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}
