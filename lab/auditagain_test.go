package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// TestAuditAgain: a block that had to be sent twice is read again later, because an old copy
// may be delivered late. A read that is not answered is repeated.
func TestAuditAgain(t *testing.T) {
	f := gen(t, "torus", "3x3")
	cfg := TrialConfig()
	cfg.SweepInterval = time.Hour
	c, m := bringUp(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: time.Microsecond}, cfg)
	c.Run(10 * time.Second)
	lose := func(percent float64) {
		for port := 1; port <= 5; port++ {
			if err := c.Sim.SetPortError("sw-2-2", port, percent, smp.AttrLFT); err != nil {
				t.Fatal(err)
			}
		}
	}
	lose(100)
	once := true
	m.OnSend = func(p *mad.Packet) {
		if mm := (*ib.MAD)(p.Data); once && mm.Method() == ib.MethodSet && mm.AttrID() == smp.AttrLFT {
			once = false
			c.Sim.After(5*time.Millisecond, func() { lose(0) })
		}
	}
	if err := c.Sim.LinkDown("sw-2-2", 1); err != nil {
		t.Fatal(err)
	}
	c.Run(time.Second)
	if once || !m.Idle() {
		t.Fatal("no table was written")
	}
	if err := c.Check(m); err != nil {
		t.Fatal(err)
	}
	n, err := c.Sim.Node("sw-2-2")
	if err != nil {
		t.Fatal(err)
	}
	c.Sim.SetLFT(n, c.Sim.LIDs()[0].LID, 255) // the old copy
	if c.Check(m) == nil {
		t.Fatal("the old copy does no harm")
	}
	c.Run(3 * time.Second)
	lose(100)
	c.Run(4 * time.Second) // the time of the audit is in here
	lose(0)
	c.Run(10 * time.Second)
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}
