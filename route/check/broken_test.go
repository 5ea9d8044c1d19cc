package check_test

import (
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
)

func tables(t *testing.T, e route.Engine, g *fabric.Graph) *route.Tables {
	t.Helper()
	tb, err := e.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// line is three switches in a row with a CA on each: LIDs 1–3 are the CAs',
// 4–6 the switches'. Port 1 of switch 0 and 2 of switch 1 lead right.
func line(t *testing.T) (*fabric.Graph, *route.Tables) {
	b := &routetest.Net{}
	b.Switches(3)
	b.Link(0, 1)
	b.Link(1, 2)
	for s := range 3 {
		b.Host(s, 1)
	}
	g := b.Graph()
	return g, tables(t, minhop.Engine{}, g)
}

func TestSoundTables(t *testing.T) {
	g, tb := line(t)
	r := check.Verify(g, tb, check.Options{})
	if r.Err() != nil || r.DisconnectedPairs != 0 || len(r.Failures) != 0 || len(r.Cycles) != 0 {
		t.Errorf("%+v", r)
	}
	// Paths 1→2, 1→3, 2→1, 2→3, 3→1, 3→2; two of them over each channel.
	if r.Paths != 6 || r.MaxHops != 2 || r.AvgHops != 8.0/6 || r.MaxChannelLoad != 2 || r.AvgChannelLoad != 2 || r.VLsUsed != 1 {
		t.Errorf("%+v", r)
	}
}

func TestUnreachablePairs(t *testing.T) {
	g, tb := line(t)
	tb.LFT[1][3] = route.Drop
	r := check.Verify(g, tb, check.Options{})
	want := []check.Failure{{Kind: check.DeadEnd, LID: 3, Switch: 1, Entry: route.Drop, Pairs: 4}}
	if r.OK() || r.UnreachablePairs != 4 || !slices.Equal(r.Failures, want) {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.Err().Error(), "4 unreachable pairs") {
		t.Error(r.Err())
	}
}

func TestPortWithoutCable(t *testing.T) {
	g, tb := line(t)
	tb.LFT[0][3] = 77
	r := check.Verify(g, tb, check.Options{})
	if r.UnreachablePairs != 2 || r.Failures[0].Kind != check.DeadEnd || r.Failures[0].Entry != 77 {
		t.Errorf("%+v", r)
	}
}

func TestLoop(t *testing.T) {
	g, tb := line(t)
	tb.LFT[1][3] = tb.LFT[1][1] // back to switch 0
	r := check.Verify(g, tb, check.Options{})
	want := []check.Failure{{Kind: check.Loop, LID: 3, Switch: 0, Entry: 1, Pairs: 4}}
	if r.Loops != 1 || r.UnreachablePairs != 4 || !slices.Equal(r.Failures, want) {
		t.Errorf("%+v", r)
	}
	if r.CreditCycles != 1 {
		t.Errorf("a loop is a credit cycle, too: %+v", r)
	}
}

func TestLoopOfUnownedLID(t *testing.T) {
	g, tb := line(t)
	g.LIDOwner[3] = fabric.NoLID
	tb.LFT[1][3] = tb.LFT[1][1]
	if r := check.Verify(g, tb, check.Options{}); r.Loops != 1 || r.UnreachablePairs != 0 || r.OK() {
		t.Errorf("%+v", r)
	}
}

func TestWrongDelivery(t *testing.T) {
	g, tb := line(t)
	tb.LFT[1][3] = tb.LFT[1][2] // to the CA on switch 1
	r := check.Verify(g, tb, check.Options{})
	if r.UnreachablePairs != 4 || r.Failures[0].Kind != check.WrongPort || r.Failures[0].Switch != 1 {
		t.Errorf("%+v", r)
	}
	g, tb = line(t)
	tb.LFT[2][3] = 0 // to the switch itself
	r = check.Verify(g, tb, check.Options{})
	if r.UnreachablePairs != 5 || r.Failures[0].Kind != check.WrongPort || r.Failures[0].Switch != 2 {
		t.Errorf("%+v", r)
	}
}

func TestLIDAboveTop(t *testing.T) {
	g, tb := line(t)
	tb.TopLID = 5
	r := check.Verify(g, tb, check.Options{})
	if r.UnreachablePairs != 5 || r.Failures[0].LID != 6 {
		t.Errorf("LIDs above LinearFDBTop are dropped whatever the table says: %+v", r)
	}
	tb.TopLID = 6
	tb.LFT[0] = tb.LFT[0][:3]
	if r := check.Verify(g, tb, check.Options{}); r.OK() || r.Failures[0].LID != 3 || r.Failures[0].Switch != 0 {
		t.Errorf("a row that ends early: %+v", r)
	}
	tb.LFT[0] = nil
	if r := check.Verify(g, tb, check.Options{}); r.OK() {
		t.Error("a row that is not known")
	}
}

func TestBeyondCapacity(t *testing.T) {
	g, tb := line(t)
	g.Switches[1].LinearFDBCap = 3
	if r := check.Verify(g, tb, check.Options{}); r.OK() || r.Failures[0].LID != 3 || r.Failures[0].Switch != 1 {
		t.Errorf("%+v", r)
	}
}

// TestRing: clockwise routes on a ring of four close a cycle, and the report
// explains each of its edges.
func TestRing(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(4)
	for s := range 4 {
		b.Link(s, (s+1)%4)
	}
	for s := range 4 {
		b.Host(s, 1)
	}
	g := b.Graph()
	tb := route.New("clockwise", 4, g.TopLID)
	for s := range int32(4) {
		for l := ib.LID(1); l <= g.TopLID; l++ {
			e := g.EndPorts[g.LIDOwner[l]]
			tb.LFT[s][l] = e.Port
			for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
				if e.Switch != s && c.To == (s+1)%4 {
					tb.LFT[s][l] = c.OutPort
				}
			}
		}
	}
	r := check.Verify(g, tb, check.Options{})
	if r.UnreachablePairs != 0 || r.Loops != 0 || r.CreditCycles != 1 || r.CreditCyclesSwitch != 0 || len(r.Cycles) != 1 {
		t.Fatalf("%+v", r)
	}
	c := r.Cycles[0]
	if len(c.Edges) != 4 || c.SwitchOnly {
		t.Fatalf("%+v", c)
	}
	for i, e := range c.Edges {
		if e.In.Switch != int32(i) || e.Out.Switch != int32(i+1)%4 || len(e.Path) < 2 {
			t.Errorf("edge %d: %+v", i, e)
		}
	}
	if s := c.String(g); strings.Count(s, "waits for") != 4 || !strings.Contains(s, "0x0000000000200003 port") {
		t.Error(s)
	}
}

// TestSwitchOnly: the roots of a fat tree reach each other by a turn at the
// bottom that no CA's packet makes; that is reported apart.
func TestSwitchOnly(t *testing.T) {
	g := routetest.Tree(6, 6).Graph()
	r := check.Verify(g, tables(t, minhop.Engine{}, g), check.Options{})
	if !r.OK() || r.CreditCyclesSwitch == 0 || len(r.Cycles) == 0 || !r.Cycles[0].SwitchOnly {
		t.Errorf("%+v", r)
	}
}

func TestTorusByMinHop(t *testing.T) {
	g := routetest.Torus(8, 8, 1).Graph()
	r := check.Verify(g, tables(t, minhop.Engine{}, g), check.Options{})
	if r.UnreachablePairs != 0 || r.CreditCycles == 0 || r.OK() {
		t.Errorf("%+v", r)
	}
	if r := check.Verify(g, tables(t, updn.Engine{}, g), check.Options{}); !r.OK() {
		t.Errorf("%+v", r)
	}
}

func TestWorkersAgree(t *testing.T) {
	g := routetest.Torus(10, 10, 3).Graph()
	tb := tables(t, minhop.Engine{}, g)
	for i := range 40 { // holes and loops
		tb.LFT[i][7*i+1] = byte(i % 8)
	}
	want := check.Verify(g, tb, check.Options{Workers: 1})
	for w := 2; w <= 8; w++ {
		got := check.Verify(g, tb, check.Options{Workers: w})
		sameVerdict(t, got, want)
		if !slices.Equal(got.Failures, want.Failures) || len(got.Cycles) != len(want.Cycles) || len(got.Failures) == 0 {
			t.Errorf("%d workers: %+v, want %+v", w, got.Failures, want.Failures)
		}
	}
}

func TestNoSwitches(t *testing.T) {
	b := &routetest.Net{}
	b.Host(-1, 1)
	b.Host(-1, 1)
	g := b.Graph()
	r := check.Verify(g, route.New("x", 0, 2), check.Options{Workers: 4})
	if !r.OK() || r.DisconnectedPairs != 2 {
		t.Errorf("%+v", r)
	}
	for _, e := range []route.Engine{minhop.Engine{}, updn.Engine{}} {
		if tb := tables(t, e, g); len(tb.LFT) != 0 {
			t.Errorf("%s: %d rows", e.Name(), len(tb.LFT))
		}
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }

// oneLane makes SL-to-VL tables that put everything between switches on one lane.
func oneLane(g *fabric.Graph, lane ib.VL) *route.Lanes {
	l := &route.Lanes{Rows: make([][16]ib.VL, 1)}
	for sl := range l.Rows[0] {
		l.Rows[0][sl] = lane
	}
	for s := range g.Switches {
		k := int(g.Switches[s].NumPorts) + 1
		l.Stride = append(l.Stride, uint16(k))
		l.Index = append(l.Index, make([]uint8, k*k))
	}
	return l
}

func TestBadLane(t *testing.T) {
	g, tb := line(t)
	tb.Lanes = oneLane(g, 2)
	tb.NumVLs = 3
	if r := check.Verify(g, tb, check.Options{}); !r.OK() || r.VLsUsed != 1 {
		t.Errorf("%+v", r)
	}
	c := g.PortChannel[1][2] // to switch 2
	g.Channels[c].VLs = 2
	r := check.Verify(g, tb, check.Options{})
	if r.OK() || len(r.Failures) == 0 || r.Failures[0] != (check.Failure{Kind: check.BadLane, LID: 3, Switch: 1, Entry: 2, Pairs: 4}) {
		t.Errorf("%+v", r)
	}
	tb.Lanes = oneLane(g, 15) // discarded at every link, also to hosts
	if r := check.Verify(g, tb, check.Options{}); r.OK() || r.UnreachablePairs != 30-3 {
		t.Errorf("%+v", r)
	}
}

// TestMalformed: tables that cannot be read are refused, not walked.
func TestMalformed(t *testing.T) {
	for what, c := range map[string]func(g *fabric.Graph, tb *route.Tables){
		"rows":             func(g *fabric.Graph, tb *route.Tables) { tb.LFT = tb.LFT[:2] },
		"service levels":   func(g *fabric.Graph, tb *route.Tables) { tb.SL = tb.SL[:8] },
		"classes for":      func(g *fabric.Graph, tb *route.Tables) { tb.Class = tb.Class[:3] },
		"is of class":      func(g *fabric.Graph, tb *route.Tables) { tb.Class[2] = 3 },
		"of class -2":      func(g *fabric.Graph, tb *route.Tables) { tb.Class[2] = -2 },
		"service level 16": func(g *fabric.Graph, tb *route.Tables) { tb.SL[4] = 16 },
		"strides":          func(g *fabric.Graph, tb *route.Tables) { tb.Lanes = oneLane(g, 0); tb.Lanes.Stride = nil },
		"entries with":     func(g *fabric.Graph, tb *route.Tables) { tb.Lanes = oneLane(g, 0); tb.Lanes.Index[1] = nil },
		"stride 2":         func(g *fabric.Graph, tb *route.Tables) { tb.Lanes = oneLane(g, 0); tb.Lanes.Stride[1] = 2 },
		"number 1 of 1":    func(g *fabric.Graph, tb *route.Tables) { tb.Lanes = oneLane(g, 0); tb.Lanes.Index[1][0] = 1 },
		"lane 16":          func(g *fabric.Graph, tb *route.Tables) { tb.Lanes = oneLane(g, 16) },
		"claim 1 data":     func(g *fabric.Graph, tb *route.Tables) { tb.SL[1] = 1; g.Channels[0].VLs = 2 },
		"group 0x0001": func(g *fabric.Graph, tb *route.Tables) {
			tb.Multicast = &route.Multicast{Trees: []route.Tree{{MLID: 1}}}
		},
		"ports of 0": func(g *fabric.Graph, tb *route.Tables) {
			tb.Multicast = &route.Multicast{Trees: []route.Tree{{MLID: 0xC000, Switches: []int32{0}}}}
		},
		"switch 3 at": func(g *fabric.Graph, tb *route.Tables) {
			tb.Multicast = &route.Multicast{Trees: []route.Tree{{MLID: 0xC000, Switches: []int32{3}, Ports: make([][4]uint64, 1)}}}
		},
	} {
		g, tb := line(t)
		for c := range g.Channels {
			g.Channels[c].VLs = 1
		}
		tb.SwitchClasses(g)
		tb.SL = make([]ib.SL, 9)
		if r := check.Verify(g, tb, check.Options{}); !r.OK() {
			t.Fatal(r.Err())
		}
		c(g, tb)
		r := check.Verify(g, tb, check.Options{Workers: 2})
		if r.OK() || !strings.Contains(r.Err().Error(), what) {
			t.Errorf("%s: %v", what, r.Err())
		}
	}
}
