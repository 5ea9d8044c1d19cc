package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
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

// TestCongestionRedirectOne: a switch that answers Gets, and redirects Sets or the reading of its log to
// itself. Each redirection begins the visit anew. There are few of them all the same, and the next visit
// comes after a pause.
func TestCongestionRedirectOne(t *testing.T) {
	for _, attr := range []ib.AttrID{cc.AttrSwitchCongestionSetting, cc.AttrCongestionLog} {
		t.Run(fmt.Sprintf("attribute 0x%04x", uint16(attr)), func(t *testing.T) {
			cfg := ccConfig(congestion.Act)
			cfg.Interval, cfg.Logs = 10*time.Second, time.Second
			b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
			away := b.f.Nodes[slices.IndexFunc(b.f.Nodes, func(n fabric.Node) bool { return n.IsSwitch() })].Name()
			if attr != cc.AttrCongestionLog { // a Set that is redirected is not carried out
				if err := b.c.Sim.SetCCA(away, &sim.CCA{RefuseSets: ib.StatusInvalidField, RefuseSetsOf: attr}); err != nil {
					t.Fatal(err)
				}
			}
			own, n := ib.LID(0), 0
			b.m.OnReceive = func(p *mad.Packet) {
				m := (*ib.MAD)(p.Data)
				if m.Class() != ib.ClassCC || m.AttrID() != attr || attr != cc.AttrCongestionLog && m.Status() == 0 {
					return
				}
				if own == 0 {
					own = p.Addr.LID
				}
				if p.Addr.LID == own {
					redirectTo(m, cc.Data(m), cc.ClassVersion, own)
					n++
				}
			}
			b.start()
			b.c.Run(5 * time.Minute)
			if st := b.m.CongestionStatus(); n < 5 || n > 60 || st.Managed != 23 || st.Without != 1 {
				t.Errorf("%d redirections, %+v\n%s", n, st, b.lines())
			}
		})
	}
}

// redirectTo makes an answer a redirection to the agent of a port.
func redirectTo(m *ib.MAD, data []byte, version uint8, lid ib.LID) {
	m.SetStatus(ib.StatusRedirect)
	clear(data)
	v := ib.ClassPortInfo{BaseVersion: 1, ClassVersion: version, RedirectLID: lid, RedirectQP: 1, RedirectPKey: ib.PKeyDefaultFull}
	v.Put(data)
}
