package lab

import (
	"testing"
	"time"

	"heddle/congestion"
	"heddle/ib"
	"heddle/mad"
	"heddle/perf"
	"heddle/sim"
)

// TestAgentLevel: requests of the performance manager and of the congestion control manager go on the
// level of the manager's datagrams, away from data.
func TestAgentLevel(t *testing.T) {
	for _, level := range []ib.SL{0, 5} {
		f := gen(t, "xgft", "2", "4,4", "1,4")
		c, err := NewCluster(f, sim.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		cfg := TrialConfig()
		cfg.SMSLAuto, cfg.MasterSMSL = false, level
		m, err := c.Attach(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := map[ib.Class]map[ib.SL]int{ib.ClassCC: {}, ib.ClassPerf: {}}
		m.OnSend = func(p *mad.Packet) {
			if n := sent[ib.Class(p.Data[1])]; n != nil {
				n[p.Addr.SL]++
			}
		}
		m.ServeCongestion(ccConfig(congestion.Act))
		pc := perf.Defaults()
		pc.Period = time.Second
		m.ServeCounters(pc)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, func() bool {
			s := m.CongestionStatus()
			return m.Up() && m.Round() != nil && s.Managed == 24 && s.Differs == 0
		}); err != nil {
			t.Fatal(err)
		}
		for class, n := range sent {
			if len(n) != 1 || n[level] == 0 {
				t.Errorf("level %d: requests of class %v by level: %v", level, class, n)
			}
		}
	}
}
