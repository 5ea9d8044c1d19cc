package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/sim"
)

// TestCongestionRedirect: a switch whose agent is elsewhere, as ClassPortInfo or the status of answers
// says, gets its settings there. When the agent is at the switch again it is found again.
func TestCongestionRedirect(t *testing.T) {
	for _, byStatus := range []bool{false, true} {
		t.Run(fmt.Sprintf("by status %v", byStatus), func(t *testing.T) {
			cfg := ccConfig(congestion.Act)
			cfg.Interval, cfg.Logs = 10*time.Second, time.Second
			b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
			var away, to string
			for i := range b.f.Nodes {
				switch n := &b.f.Nodes[i]; {
				case n.IsSwitch() && away == "":
					away = n.Name()
				case n.IsSwitch():
					to = n.Name()
				}
			}
			there := 0
			model := func(x sim.CCA) {
				x.Request = func(m *ib.MAD) {
					if m.AttrID() == cc.AttrSwitchCongestionSetting && m.Method() == ib.MethodSet {
						there++
					}
				}
				if err := b.c.Sim.SetCCA(away, &x); err != nil {
					t.Fatal(err)
				}
			}
			model(sim.CCA{RedirectTo: to, RedirectQP: 77, RedirectByStatus: byStatus})
			b.start()
			b.settled(time.Minute)
			if st := b.m.CongestionStatus(); st.Managed != 24 || there != 1 {
				t.Errorf("%d settings at the agent that is redirected to, %+v\n%s", there, st, b.lines())
			}
			if n := b.told(congestion.KindRedirect); n != 1 || !strings.Contains(b.lines(), "QP 77") {
				t.Errorf("notices:\n%s", b.lines())
			}
			model(sim.CCA{RefuseSets: ib.StatusInvalidField}) // which nothing needs
			b.c.Run(time.Minute)
			if st := b.m.CongestionStatus(); st.Managed != 24 || st.Differs != 0 || b.told(congestion.KindRedirect) != 1 {
				t.Errorf("back: %+v\n%s", st, b.lines())
			}
		})
	}
}

// TestCongestionRedirectNowhere: a switch that redirects to a port that there is not, or in a circle,
// counts as one without congestion control, is reported once, and keeps nobody waiting.
func TestCongestionRedirectNowhere(t *testing.T) {
	for _, circle := range []bool{false, true} {
		t.Run(fmt.Sprintf("circle %v", circle), func(t *testing.T) {
			cfg := ccConfig(congestion.Act)
			b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
			own := ib.LID(0)
			away := -1
			for i := range b.f.Nodes {
				if b.f.Nodes[i].IsSwitch() {
					away = i
					break
				}
			}
			err := b.c.Sim.SetCCA(b.f.Nodes[away].Name(), &sim.CCA{Refuse: ib.StatusRedirect, Request: func(m *ib.MAD) {
				v := cc.ClassPortInfo{BaseVersion: 1, ClassVersion: cc.ClassVersion, RedirectLID: 0x3333, RedirectQP: 5}
				if circle {
					v.RedirectLID, v.RedirectQP = own, 1
				}
				clear(cc.Data(m)) // which the answer has, too
				v.Put(cc.Data(m))
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.m.Start(); err != nil {
				t.Fatal(err)
			}
			if err := b.c.RunUntil(time.Minute, func() bool {
				for _, l := range b.c.Sim.LIDs() {
					if l.Node == away {
						own = l.LID
					}
				}
				return b.m.Up()
			}); err != nil {
				t.Fatal(err)
			}
			b.c.Run(time.Minute)
			if st := b.m.CongestionStatus(); st.Managed != 23 || st.Without != 1 || st.Pending != 0 || st.Differs != 0 {
				t.Errorf("%+v\n%s", st, b.lines())
			}
			want := "which the subnet does not have"
			if circle {
				want = "redirects more than 4 times"
			}
			n := strings.Count(b.lines(), want)
			if n != 1 {
				t.Errorf("%d notices of %q:\n%s", n, want, b.lines())
			}
		})
	}
}
