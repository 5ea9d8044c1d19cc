package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/engine/updn"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
)

// thesisMesh is the 3×2 mesh with a host at each switch: the cable of port 2 of S2 leads to S5.
func thesisMesh(t testing.TB, ring bool) *fabric.Fabric {
	t.Helper()
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	var sw [7]int
	for i := 1; i <= 6; i++ {
		sw[i] = b.AddSwitch("S"+string(rune('0'+i)), 4)
		b.Connect(sw[i], 1, b.AddCA("H"+string(rune('0'+i)), 1), 1)
	}
	if !ring {
		b.Connect(sw[2], 2, sw[5], 2)
	}
	for i := 1; i <= 6; i++ {
		b.Connect(sw[i], 3, sw[i%6+1], 4)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// levelOf is the level that all end ports have for datagrams to the manager.
func levelOf(t testing.TB, c *Cluster, m *Manager) ib.SL {
	t.Helper()
	first := true
	var level ib.SL
	for i := range m.Snap.Ports {
		if p := m.Snap.Ports[i]; p.EndPort >= 0 {
			ep, err := c.Sim.AttachPort(m.Snap.Nodes[p.Node].Desc, int(p.Num))
			if err != nil {
				t.Fatal(err)
			}
			if sl := ep.PortInfo().MasterSMSL; first {
				level, first = sl, false
			} else if sl != level {
				t.Errorf("%s has level %d, others %d", m.Snap.Nodes[p.Node].Desc, sl, level)
			}
		}
	}
	return level
}

// TestManagerLevel: the manager's datagrams have a level on a lane that no path uses, if the engine
// uses levels and there is one, and keep it.
func TestManagerLevel(t *testing.T) {
	lash := []route.Engine{lash.Engine{}}
	for _, x := range []struct {
		name string
		ring bool
		caps uint8 // code of VLCap
		set  func(cfg *sm.Config)
		want ib.SL
		says string
	}{
		{"one lane of eight is used", false, 4, func(*sm.Config) {}, 7, "use service level 7"},
		{"two lanes of eight are used", true, 4, func(*sm.Config) {}, 7, "use service level 7"},
		{"two lanes of four are used", true, 3, func(*sm.Config) {}, 3, "use service level 3"},
		{"both lanes are used", true, 2, func(*sm.Config) {}, 0, "all 2 lanes are in use"},
		{"there is one lane", false, 1, func(*sm.Config) {}, 0, ""},
		{"levels are classes", false, 4, func(cfg *sm.Config) { cfg.QoS = true }, 0, "with QoS"},
		{"the engine has no levels", false, 4, func(cfg *sm.Config) { cfg.Engines = []route.Engine{updn.Engine{}} }, 0, ""},
		{"a level is named", false, 4, func(cfg *sm.Config) { cfg.SMSLAuto, cfg.MasterSMSL = false, 5 }, 5, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, err := NewCluster(thesisMesh(t, x.ring), sim.Config{Seed: 1, HopLatency: time.Microsecond, VLCap: x.caps})
			if err != nil {
				t.Fatal(err)
			}
			cfg := TrialConfig()
			cfg.Engines, cfg.Explicit, cfg.SMSLAuto = lash, true, true
			x.set(&cfg)
			m, err := c.Start("H1", cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.RunUntil(time.Minute, func() bool { return m.Up() && m.Idle() }); err != nil {
				t.Fatal(err)
			}
			if got := levelOf(t, c, m); got != x.want {
				t.Errorf("level %d, want %d", got, x.want)
			}
			var said strings.Builder
			for _, n := range m.Notices {
				if n.Kind == sm.KindManagerLevel {
					said.WriteString(n.Text)
				}
			}
			if (said.String() == "") != (x.says == "") || !strings.Contains(said.String(), x.says) {
				t.Errorf("said %q, want %q", said.String(), x.says)
			}
			if err := c.Sim.LinkDown("S1", 3); err != nil {
				t.Fatal(err)
			}
			c.Run(10 * time.Second)
			if got := levelOf(t, c, m); got != x.want {
				t.Errorf("level %d after a cut", got)
			}
			// The next manager finds ports that are Active, with the level of this one.
			m.Kill()
			cfg.SMSLAuto, cfg.MasterSMSL = !cfg.SMSLAuto, 2
			asked := 0
			if m, err = c.Attach("H1", cfg, m.Store); err != nil {
				t.Fatal(err)
			}
			h, err := c.Sim.Attach("H4")
			if err != nil {
				t.Fatal(err)
			}
			h.OnReregister = func() { asked++ }
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			if err := c.RunUntil(time.Minute, func() bool { return m.Up() && m.Idle() }); err != nil {
				t.Fatal(err)
			}
			want := ib.SL(2)
			if cfg.SMSLAuto {
				want = 7
			}
			if got := levelOf(t, c, m); got != want || asked == 0 {
				t.Errorf("the next manager: level %d, want %d; %d requests to register again", got, want, asked)
			}
		})
	}
}

// TestReportsPassGuards: while guards keep a level from some turns, every host gets its Reports and
// answers at once. With the manager's datagrams on that level one host does not.
func TestReportsPassGuards(t *testing.T) {
	for _, auto := range []bool{true, false} {
		c, err := NewCluster(thesisMesh(t, false), sim.Config{Seed: 1, HopLatency: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		cfg := ProductionConfig(RepairChain{})
		cfg.Engines, cfg.Explicit, cfg.SMSLAuto = []route.Engine{lash.Engine{}}, true, auto
		sac := sa.Defaults()
		sac.Signal = sa.SignalHybrid
		m, err := c.Attach("S1", cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		m.ServeSA(sac, sa.Options{})
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, func() bool { return m.Up() && m.Idle() }); err != nil {
			t.Fatal(err)
		}
		var hosts []*pathUser
		for _, n := range caNames(c.Fabric) {
			hosts = append(hosts, newPathUser(t, c, n, false))
		}
		for _, h := range hosts {
			for _, d := range hosts {
				if d != h {
					h.peers = append(h.peers, d.gid)
				}
			}
			h.subscribe()
			h.askAll()
		}
		c.Run(2 * time.Second)
		heard := map[*pathUser]int{}
		for _, h := range hosts {
			heard[h] = h.heard()
		}
		if err := c.Sim.LinkDown("S2", 2); err != nil {
			t.Fatal(err)
		}
		c.Run(time.Second)
		deaf := 0
		for _, h := range hosts {
			if h.heard() == heard[h] || h.wrong(m) != "" {
				deaf++
			}
		}
		if want := map[bool]int{true: 0, false: 1}[auto]; deaf != want {
			t.Errorf("auto %v: %d hosts have old paths after 1 s, want %d", auto, deaf, want)
		}
	}
}
