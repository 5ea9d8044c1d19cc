package flood_test

import (
	"container/heap"
	"math"
	"slices"
	"testing"
	"time"

	"heddle/flood"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*math.Abs(want) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

// TestLoad: W synchronous instances keep a single-server SA busy, and each query waits
// for the others.
func TestLoad(t *testing.T) {
	for _, window := range []int{1, 16, 961} {
		w := newTestbed(t, 1, flood.Config{})
		l := flood.NewLoad(w.flooders[0], window, 5000, 0)
		w.run(l, mad.Never)
		tally := l.Tally()
		if tally.Answered() != 5000 || tally.Errors() != 0 || w.asked != 5000 {
			t.Fatalf("window %d: %d answered, %d errors, %d asked; want 5000, 0, 5000", window, tally.Answered(), tally.Errors(), w.asked)
		}
		if w.most[0] != window {
			t.Errorf("window %d: %d in flight at most", window, w.most[0])
		}
		f := flood.FiguresOf(&tally)
		if window == 1 {
			near(t, "rate", f.QPS, 1e6/110, 0.001)
			near(t, "response time", f.Mean, 110, 0.001)
			near(t, "spread", f.StdDev+1, 1, 0.001)
			continue
		}
		near(t, "rate", f.QPS, 1e6/100, 0.01)
		near(t, "longest response time", f.Max, float64(window)*100, 0.1)
		near(t, "median response time", f.Median, float64(window)*100, 0.1)
	}
}

// TestLoadEnds: a load ends when its time is over, and queries in flight then do not
// count; instances without a quota stop too.
func TestLoadEnds(t *testing.T) {
	w := newTestbed(t, 1, flood.Config{})
	l := flood.NewLoad(w.flooders[0], 4, 0, 10*time.Millisecond)
	w.run(l, mad.Never)
	tally := l.Tally()
	if got := tally.To.Sub(tally.From); got != 10*time.Millisecond {
		t.Errorf("took %v", got)
	}
	if n := tally.Answered(); n != 99 { // the first answer comes after 110 us, then one every 100
		t.Errorf("%d answered", n)
	}
	before := w.asked
	for len(w.events) > 0 {
		w.now = w.events[0].at
		heap.Pop(&w.events).(event).do()
	}
	if w.asked != before || !w.flooders[0].Idle() {
		t.Errorf("%d queries asked after the end", w.asked-before)
	}
}

// TestAlgorithm1 compares the experiment with the paper's Algorithm 1.
func TestAlgorithm1(t *testing.T) {
	run := func() ([]flood.Round, *testbed) {
		w := newTestbed(t, 3, flood.Config{Seed: 5, Dots: 50})
		x := flood.NewExperiment(flood.Plan{Instances: 2, Rounds: 4, RoundTime: 100 * time.Millisecond}, w.flooders[0], w.flooders[1:])
		w.run(x, mad.Never)
		return x.Rounds(), w
	}
	rounds, w := run()
	if len(rounds) != 4 {
		t.Fatalf("%d rounds, want 4", len(rounds))
	}
	if w.most[0] != 1 {
		t.Errorf("the SIF had %d queries in flight, want never more than 1", w.most[0])
	}
	if w.most[1] != 6 || w.most[2] != 6 {
		t.Errorf("the MIFs had %d and %d queries in flight, want 6 in the last round", w.most[1], w.most[2])
	}
	var end mad.Time
	for i := range rounds {
		r := &rounds[i]
		want := 1 + 4*i
		if r.Number != i+1 || r.Instances != want || r.Cut {
			t.Errorf("round %d: number %d, %d instances, cut %v; want %d instances", i+1, r.Number, r.Instances, r.Cut, want)
		}
		if d := r.SIF.To.Sub(r.SIF.From); d != 100*time.Millisecond {
			t.Errorf("round %d measured for %v", i+1, d)
		}
		if r.Spawning <= 0 || r.SIF.From.Sub(end) != r.Spawning {
			t.Errorf("round %d: spawning took %v, and %v passed from the end of the round before", i+1, r.Spawning, r.SIF.From.Sub(end))
		}
		end = r.SIF.To
		if i == 0 {
			if m := r.MIF(); m.Answered() != 0 {
				t.Errorf("the MIFs asked %d queries in the first round", m.Answered())
			}
			near(t, "rate of the SIF alone", r.SIF.QPS(), 1e6/110, 0.01)
			continue
		}
		total := r.Total()
		near(t, "total rate", total.QPS(), 1e4, 0.01)
		near(t, "share of the SIF", r.SIF.QPS()*float64(want), 1e4, 0.05)
		if n := len(r.SIF.Dots); n != 50 {
			t.Errorf("round %d has %d dots, want 50", i+1, n)
		}
		for _, d := range r.SIF.Dots {
			if d.At < r.SIF.From || d.At > r.SIF.To {
				t.Errorf("a dot at %d is not of round %d", d.At, i+1)
			}
		}
		if len(r.MIFs[0].Dots) > 0 && &r.MIFs[0].Dots[0] == &r.SIF.Dots[0] {
			t.Error("dots are shared")
		}
	}
	again, _ := run()
	for i := range rounds {
		a, b := flood.FiguresOfRound(&rounds[i]), flood.FiguresOfRound(&again[i])
		if a.SIF.QPS != b.SIF.QPS || a.Total.StdDev != b.Total.StdDev || !slices.Equal(rounds[i].SIF.Dots, again[i].SIF.Dots) {
			t.Errorf("round %d differs in a second run with the same seed", i+1)
		}
	}
}

// TestManyInstances: the 961 instances of the paper's last round.
func TestManyInstances(t *testing.T) {
	w := newTestbed(t, 6, flood.Config{Timeout: 10 * time.Second})
	x := flood.NewExperiment(flood.Plan{Instances: 192, Rounds: 2, RoundTime: time.Second}, w.flooders[0], w.flooders[1:])
	w.run(x, mad.Never)
	r := x.Rounds()[1]
	if r.Instances != 961 {
		t.Fatalf("%d instances, want 961", r.Instances)
	}
	total := r.Total()
	near(t, "total rate", total.QPS(), 1e4, 0.01)
	near(t, "response time of the SIF", float64(r.SIF.Response.Mean()), 961*1e5, 0.01)
}

// TestInterruptedRound: the measurements of an interrupted round are kept.
func TestInterruptedRound(t *testing.T) {
	w := newTestbed(t, 2, flood.Config{})
	x := flood.NewExperiment(flood.Plan{Instances: 1, Rounds: 3, RoundTime: 100 * time.Millisecond}, w.flooders[0], w.flooders[1:])
	w.run(x, mad.Time(150*time.Millisecond))
	rounds := x.Rounds()
	if len(rounds) != 2 || rounds[0].Cut || !rounds[1].Cut {
		t.Fatalf("%d rounds, want a whole one and one that was cut", len(rounds))
	}
	if s := rounds[1].SIF.Seconds(); s < 0.049 || s > 0.05 {
		t.Errorf("the second round was measured for %g s", s)
	}
	if _, done := x.Step(w.now); !done {
		t.Error("the program goes on after it was cut")
	}
}

// TestOutcomes: each outcome of a query is counted separately, and its instance
// continues.
func TestOutcomes(t *testing.T) {
	for _, q := range []flood.Query{flood.PathByGID, flood.PathByLID, flood.NodeByLID} {
		w := newTestbed(t, 1, flood.Config{Target: flood.Target{Query: q}, Timeout: 20 * time.Millisecond})
		w.fate = func(n int, m *ib.MAD) bool {
			switch n % 10 {
			case 1:
				m.SetStatus(ib.StatusBusy)
			case 2:
				m.SetStatus(ib.StatusSANoRecords)
			case 3:
				sa.Data(m)[0] ^= 1 // LID of a NodeRecord
				sa.Data(m)[10] ^= 1
				sa.Data(m)[41] ^= 1
			case 4:
				return false
			}
			return true
		}
		l := flood.NewLoad(w.flooders[0], 3, 1000, 0)
		w.run(l, mad.Never)
		got := l.Tally()
		if got.Busy != 100 || got.Refused != 100 || got.Wrong != 100 || got.Timeouts != 100 || got.Answered() != 600 || got.Errors() != 400 {
			t.Errorf("%v: busy %d, refused %d, wrong %d, timeouts %d, answered %d", q, got.Busy, got.Refused, got.Wrong, got.Timeouts, got.Answered())
		}
		if got.Statuses[ib.StatusSANoRecords] != 100 {
			t.Errorf("%v: statuses %v", q, got.Statuses)
		}
	}
}

// TestSilentSA: instances count as populated when their first query has timed out, so a
// dead SA does not stop the rounds.
func TestSilentSA(t *testing.T) {
	w := newTestbed(t, 2, flood.Config{Timeout: 10 * time.Millisecond})
	w.fate = func(int, *ib.MAD) bool { return false }
	x := flood.NewExperiment(flood.Plan{Instances: 5, Rounds: 3, RoundTime: 50 * time.Millisecond}, w.flooders[0], w.flooders[1:])
	w.run(x, mad.Never)
	if n := len(x.Rounds()); n != 3 {
		t.Fatalf("%d rounds, want 3", n)
	}
	r := x.Rounds()[2]
	total := r.Total()
	if total.Answered() != 0 || total.Timeouts < 4*11 {
		t.Errorf("%d answered, %d timeouts", total.Answered(), total.Timeouts)
	}
	if f := flood.FiguresOf(&total); f.Mean != 0 || f.Max != 0 || f.QPS != 0 || f.P99 != 0 {
		t.Errorf("figures of no answers: %+v", f)
	}
}

func TestQueries(t *testing.T) {
	for _, name := range flood.Queries() {
		q, err := flood.ParseQuery(name)
		if err != nil || q.String() != name {
			t.Errorf("%s: %v, %v", name, q, err)
		}
	}
	if _, err := flood.ParseQuery("everything"); err == nil {
		t.Error("a query that is none was taken")
	}
	own := flood.End{GID: ib.MakeGID(ib.DefaultSubnetPrefix, 0x11), LID: 3}
	end := flood.End{GID: ib.MakeGID(ib.DefaultSubnetPrefix, 0x22), LID: 4}
	ask := func(q flood.Query) (m ib.MAD) {
		f := flood.New(flood.Config{Target: flood.Target{SA: mad.Addr{LID: 1}, Own: own, Query: q, Ends: []flood.End{end}}})
		f.Spawn(0, 1)
		f.Poll(0, func(p *mad.Packet) { m = *(*ib.MAD)(p.Data) })
		return m
	}
	mask := func(m *ib.MAD) sa.CompMask {
		var h sa.Header
		if err := h.Decode(m[:]); err != nil {
			t.Fatal(err)
		}
		return h.ComponentMask
	}
	var r sa.PathRecord
	m := ask(flood.PathByGID)
	if err := r.Decode(sa.Data(&m)); err != nil || r.SGID != own.GID || r.DGID != end.GID || r.NumbPath != 1 || m.Method() != ib.MethodGet || m.Class() != ib.ClassSA {
		t.Errorf("path by GID: %+v, %v", r, err)
	}
	if c := mask(&m); !c.Has(sa.PathCompSGID|sa.PathCompDGID|sa.PathCompNumbPath) || c.Any(sa.PathCompSLID|sa.PathCompDLID) {
		t.Errorf("path by GID: component mask %#x", c)
	}
	m = ask(flood.PathByLID)
	if err := r.Decode(sa.Data(&m)); err != nil || r.SLID != 3 || r.DLID != 4 || !mask(&m).Has(sa.PathCompSLID|sa.PathCompDLID) {
		t.Errorf("path by LID: %+v, %v", r, err)
	}
	m = ask(flood.NodeByLID)
	if mask(&m) != sa.NodeCompLID || m[sa.DataOffset+1] != 4 || m.AttrID() != sa.AttrNodeRecord {
		t.Errorf("node by LID: %x", m[:])
	}
	m = ask(flood.ClassInfo)
	if m.AttrID() != sa.AttrClassPortInfo {
		t.Errorf("ClassPortInfo: %x", m[:])
	}
}

// FuzzReceive: after any packets, every instance has exactly one query in progress.
func FuzzReceive(f *testing.F) {
	var m ib.MAD
	sa.New(&m, ib.MethodGetResp, sa.AttrPathRecord, 0, 0)
	m.SetTID(2)
	f.Add(m[:], uint16(saLID), false)
	f.Add(m[:30], uint16(1), true)
	f.Fuzz(func(t *testing.T, b []byte, lid uint16, failed bool) {
		w := newTestbed(t, 1, flood.Config{Timeout: time.Millisecond})
		fl := w.flooders[0]
		fl.Open(0)
		fl.Spawn(0, 3)
		out := 0
		send := func(p *mad.Packet) { out++ }
		fl.Poll(0, send)
		p := mad.Packet{Addr: mad.Addr{LID: ib.LID(lid), QP: 1}, LocalQP: 1, Data: b}
		if failed {
			p.Status = mad.Failed
		}
		fl.Receive(10, &p)
		fl.Poll(10, send)
		ended, _ := fl.Counted()
		if uint64(out) != 3+ended || ended > 1 {
			t.Fatalf("%d queries sent, %d ended", out, ended)
		}
		fl.Expire(mad.Time(time.Second))
		fl.Poll(mad.Time(time.Second), send)
		if after, _ := fl.Counted(); after != ended+3 || uint64(out) != 3+after {
			t.Fatalf("%d queries sent, %d ended", out, after)
		}
	})
}
