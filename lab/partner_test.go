package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
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
