package manager2003

import (
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/route"
	"heddle/route/check"
	"heddle/sim"
)

func irregular(t testing.TB, n int, seed uint64) *fabric.Fabric {
	t.Helper()
	f, err := fabric.Generate(fabric.Irregular{Switches: n, Hosts: 1, Seed: seed}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func simulated(t testing.TB, f *fabric.Fabric, seed uint64) (*sim.Subnet, *Manager) {
	t.Helper()
	s, err := sim.New(f, sim.Config{
		Seed: seed, HopLatency: 3 * time.Microsecond, SMALatency: 10 * time.Microsecond, NoTraps: true,
		DirectStates: true,
		LinearFDBCap: 1024, MTUCap: 1, VLCap: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	at := ""
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			at = f.Nodes[i].ID
			break
		}
	}
	m, err := New(s, at, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// counts are the switches, hosts, and cables between switches and to hosts of what
// was discovered.
func counts(g *fabric.Graph) (n, hosts, cables int) {
	n, cables = len(g.Switches), len(g.Channels)/2
	return n, len(g.EndPorts) - n, cables
}

// asInReport compares the SMPs of a change with the pseudo-code of §2.2 and with whole
// tables at 4-port switches. The pseudo-code asks the far end of every port; hosts but the
// manager's own cannot be asked through.
func asInReport(t *testing.T, c *Change) {
	t.Helper()
	n, h, e := counts(c.Graph)
	for _, x := range []struct {
		what      string
		got, want int
	}{
		{"NodeInfo", c.NodeInfos, 1 + 2*e + 2*h - (h - 1)},
		{"PortInfo", c.PortInfos, 5*n + h},
		{"LIDs", c.LIDs, n + h},
		{"ports down", c.Downs, 2 * (e + h)},
		{"blocks", c.Blocks, 16 * n},
		{"ports up", c.Ups, 2 * (e + h)},
		{"lost", c.Lost, 0},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d SMPs, the pseudo-code has %d", x.what, x.got, x.want)
		}
	}
}

// TestAssimilation: every switch is removed and added. Each is noticed within a sweep, costs
// the SMPs of the pseudo-code, and afterward the devices hold the tables, which are clean.
func TestAssimilation(t *testing.T) {
	for _, seed := range need.Seeds(4, 40) {
		f := irregular(t, []int{8, 16, 8, 24}[seed%4], seed)
		s, m := simulated(t, f, seed)
		m.Start()
		settle := func(want int) *Change {
			s.RunUntil(s.Now().Add(300 * time.Millisecond))
			if len(m.Changes) != want || m.Busy() {
				t.Fatalf("seed %d: %d changes, want %d: %+v open %d", seed, len(m.Changes), want, m.now, m.open)
			}
			c := &m.Changes[want-1]
			asInReport(t, c)
			holds(t, s, f, c)
			return c
		}
		settle(1)
		done := 1
		var own int32
		for i := range f.Nodes {
			if f.Nodes[i].ID == f.Nodes[0].ID && !f.Nodes[i].IsSwitch() {
				own = f.Nodes[i].Ports[1].Peer.Node
			}
		}
		for i := range f.Nodes {
			if !f.Nodes[i].IsSwitch() || int32(i) == own {
				continue
			}
			for _, apply := range []func(string) error{s.NodeDown, s.NodeUp} {
				at := s.Now()
				if err := apply(f.Nodes[i].ID); err != nil {
					t.Fatal(err)
				}
				done++
				c := settle(done)
				if d := c.Noticed.Sub(at); d <= 0 || d > 101*time.Millisecond {
					t.Errorf("seed %d: noticed after %v", seed, d)
				}
			}
		}
	}
}

// holds compares the switches with the tables of a change, and has those proved.
func holds(t *testing.T, s *sim.Subnet, f *fabric.Fabric, c *Change) {
	t.Helper()
	if r := check.Verify(c.Graph, c.Tables, check.Options{}); r.CreditCycles > 0 || r.CreditCyclesSwitch > 0 ||
		r.Loops > 0 {
		t.Errorf("the tables are not clean: %v", r.Err())
	}
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			continue
		}
		k := slices.IndexFunc(c.Graph.Switches, func(n fabric.SwitchNode) bool { return n.GUID == f.Nodes[i].GUID })
		if k < 0 {
			continue
		}
		table := s.LFT(i, nil)
		for l := ib.LID(1); l < 1024; l++ {
			if got, want := table[l], c.Tables.Entry(int32(k), l); got != want {
				t.Fatalf("%s, LID %d: port %d, want %d", f.Nodes[i].ID, l, got, want)
			}
		}
		for p := 1; p <= f.Nodes[i].NumPorts; p++ {
			if st := s.PortInfo(i, p).PortState; st != ib.StateDown && st != ib.StateActive {
				t.Fatalf("%s port %d is %v", f.Nodes[i].ID, p, st)
			}
		}
	}
}

// TestRule: where a port down leads to a destination no route goes up, no route goes
// up after it went down, and of ports that are as good the lowest is taken.
func TestRule(t *testing.T) {
	for _, seed := range need.Seeds(30, 500) {
		f := irregular(t, 8+int(seed%4)*8, seed)
		if err := fabric.AssignLIDs(f, 1); err != nil {
			t.Fatal(err)
		}
		g, err := f.Graph(fabric.GraphOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tb, err := Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r := check.Verify(g, tb, check.Options{}); !r.OK() || r.CreditCyclesSwitch > 0 {
			t.Fatalf("seed %d: %v", seed, r.Err())
		}
		pos := make([]int, len(g.Switches))
		for i, s := range levels(g) {
			pos[s] = i
		}
		for d := range g.Switches {
			lid := g.EndPorts[g.Switches[d].EndPort].LID
			onlyDown := make([]bool, len(pos)) // a way that only goes down leads to d
			onlyDown[d] = true
			for range pos {
				for _, c := range g.Channels {
					onlyDown[c.From] = onlyDown[c.From] || onlyDown[c.To] && pos[c.To] > pos[c.From]
				}
			}
			for s := range g.Switches {
				if s == d {
					continue
				}
				c := g.Channels[g.PortChannel[s][tb.Entry(int32(s), lid)]]
				if up := pos[c.To] < pos[s]; up == onlyDown[s] {
					t.Fatalf("seed %d: switch %d to %d: up is %v, a way down exists: %v", seed, s, d, up, onlyDown[s])
				}
			}
		}
	}
}

// TestOrder is Figure 3: every node is asked as soon as the answer of the one before it
// has come, and what was visited is not explored again.
func TestOrder(t *testing.T) {
	var b fabric.Builder
	h0 := b.AddCA("H0", 1)
	var sw [3]int
	for i := range sw {
		sw[i] = b.AddSwitch([]string{"S0", "S1", "S2"}[i], 4)
	}
	h1, h2 := b.AddCA("H1", 1), b.AddCA("H2", 1)
	b.Connect(h0, 1, sw[0], 1)
	b.Connect(sw[0], 2, sw[1], 1)
	b.Connect(sw[0], 3, sw[2], 1)
	b.Connect(sw[1], 2, sw[2], 2)
	b.Connect(sw[1], 3, h1, 1)
	b.Connect(sw[2], 3, h2, 1)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s, m := simulated(t, f, 1)
	answered := map[string]bool{}
	asked := 0
	m.OnNode = func(path []byte, answer bool) {
		if answer {
			answered[string(path)] = true
			return
		}
		asked++
		if len(path) > 0 && !answered[string(path[:len(path)-1])] {
			t.Errorf("%v is asked before the node in front of it has answered", path)
		}
	}
	m.Start()
	s.RunUntil(s.Now().Add(50 * time.Millisecond))
	if len(m.Changes) != 1 {
		t.Fatal("the subnet was not activated")
	}
	asInReport(t, &m.Changes[0])
	if asked != 1+2*3+3+1 {
		t.Errorf("%d Get(NodeInfo)", asked)
	}
}
