package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm"
	"heddle/subnet"
)

// TestPartnerIsNotAsked: a manager whose mastership was granted does not ask its partner's SMInfo.
// One that was stopped still has IsSM and would keep the first sweep waiting.
func TestPartnerIsNotAsked(t *testing.T) {
	for _, partner := range []bool{false, true} {
		f := gen(t, "torus", "3x3")
		hosts := cas(f)
		c, err := NewCluster(f, timed(1))
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Start(hosts[0], pollConfig(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, a.Up); err != nil {
			t.Fatal(err)
		}
		cfg := pollConfig(5)
		cfg.Granted = true
		if partner {
			cfg.Partner = a.ep.PortGUID()
		}
		b, err := c.Attach(hosts[1], cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		b.OnSend = func(p *mad.Packet) {
			if m := (*ib.MAD)(p.Data); m.AttrID() == smp.AttrSMInfo && m.Method() == ib.MethodGet {
				asked++
			}
		}
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, b.Up); err != nil {
			t.Fatal(err)
		}
		if (asked == 0) != partner {
			t.Errorf("with partner %v: %d requests", partner, asked)
		}
	}
}

// TestPartnerPriority: the active manager of a pair whose priority is lowered goes on although its
// partner's is higher, and hands over to a third manager that ranks above it; raised, it gets the subnet
// back.
func TestPartnerPriority(t *testing.T) {
	hosts := cas(gen(t, "torus", "3x3"))
	c, err := NewCluster(gen(t, "torus", "3x3"), timed(1))
	if err != nil {
		t.Fatal(err)
	}
	// Its SMInfo is that of a manager on standby, as a partner's.
	partner, err := c.Attach(hosts[1], pollConfig(9), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pollConfig(9)
	cfg.Granted, cfg.Partner = true, partner.ep.PortGUID()
	a, err := c.Start(hosts[0], cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, cond func() bool) {
		t.Helper()
		if err := c.RunUntil(time.Minute, cond); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, tail(a))
		}
	}
	until("it is up", a.Up)
	if err := partner.Start(); err != nil {
		t.Fatal(err)
	}
	until("its partner is standby", func() bool { return partner.State() == subnet.Standby && a.Idle() })
	set := func(priority uint8) { a.configure(false, func(c *sm.Config) { c.Priority = priority }) }
	sweeps := a.Status().Sweeps
	set(1)
	c.Run(5 * time.Second)
	if st := a.Status(); st.State != subnet.Master || st.Priority != 1 || st.Sweeps == sweeps {
		t.Fatalf("with a partner that ranks above it: %v, priority %d, %d sweeps", st.State, st.Priority, st.Sweeps-sweeps)
	}
	partner.Kill() // it has no part in what follows
	third, err := c.Start(hosts[2], pollConfig(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	until("the third one is standby", func() bool { return third.State() == subnet.Standby && a.Idle() })
	set(0)
	until("the third one is master", func() bool { return third.Up() && a.State() == subnet.Standby })
	set(2)
	until("it has the subnet again", func() bool { return a.Up() && third.State() == subnet.Standby })
}
