package hotspot

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/mad"
	"heddle/perf"
	"heddle/route/engine/ftree"
	"heddle/subnet"
)

// loaded is a round in which all ports wait, but those before hosts that are not in hot.
type loaded struct {
	now mad.Time
	at  []ib.GUID // by port: the host before which it is; 0: none
	hot map[ib.GUID]bool
}

func (x *loaded) Len() int                            { return len(x.at) }
func (x *loaded) At(int32) mad.Time                   { return x.now }
func (x *loaded) Elapsed(int32) time.Duration         { return period }
func (x *loaded) Use(i int32, _ perf.Counter) float64 { return 0.3 }
func (x *loaded) Details(int32) *perf.Details         { return nil }

func (x *loaded) WaitShare(i int32) float64 {
	if g := x.at[i]; g != 0 && x.hot != nil && !x.hot[g] {
		return 0
	}
	return 0.7
}

// full is a fat tree of that many hosts in which every port waits. hot are the hosts that wait less
// than they are sent; nil: all.
func full(tb testing.TB, hosts int) (*subnet.Snapshot, *loaded, []ib.GUID) {
	tb.Helper()
	f, err := fabrictest.Generate("fattree", []string{fmt.Sprint(hosts)}, 1)
	if err != nil {
		tb.Fatal(err)
	}
	s := snaptest.New(tb, f, ftree.Engine{}, 8)
	x := &loaded{at: make([]ib.GUID, len(s.Ports)), now: mad.Time(time.Hour)}
	var guids []ib.GUID
	for e := range s.Graph.EndPorts {
		if p := &s.Graph.EndPorts[e]; p.Type != ib.NodeSwitch {
			x.at[s.PortIndex(subnet.Ref{Node: s.SwitchNode[p.Switch], Port: p.Port})] = p.GUID
			guids = append(guids, p.GUID)
		}
	}
	return s, x, guids
}

func sum(r *Report) (n int) {
	for i := range r.Open {
		n += len(r.Open[i].Contributors)
	}
	return n
}

// TestFullFabric: where every host feeds every other one a few hot spots open, and the report says
// that there are more. One hot spot that all feed, and nine, have room for all.
func TestFullFabric(t *testing.T) {
	s, x, guids := full(t, 648)
	c := New(Defaults(), nil)
	for range 4 {
		x.now = x.now.Add(period)
		r := c.step(s, x.now, period, x).Report
		if n := sum(r); n > 8192 || len(r.Open) > 20 || r.Missed < 600 || len(r.Open)+r.Missed != 648 {
			t.Fatalf("%d hot spots, %d contributors, %d missed", len(r.Open), n, r.Missed)
		}
		last := &r.Open[len(r.Open)-1]
		if len(r.Open[0].Contributors) != 647 || len(last.Contributors)+last.MoreContributors != 647 || last.MoreContributors == 0 || len(last.Victims) != 0 {
			t.Fatalf("%d contributors, %d and %d more", len(r.Open[0].Contributors), len(last.Contributors), last.MoreContributors)
		}
	}
	// What has ended keeps a few.
	x.hot = map[ib.GUID]bool{}
	x.now = x.now.Add(period)
	r := c.step(s, x.now, period, x).Report
	if len(r.Open) != 0 || r.Missed != 0 || len(r.Closed) == 0 {
		t.Fatalf("%d are open, %d missed", len(r.Open), r.Missed)
	}
	for i := range r.Closed {
		if h := &r.Closed[i]; len(h.Contributors) != maxClosedFeeders || h.MoreContributors != 647-maxClosedFeeders {
			t.Errorf("%d contributors, %d more", len(h.Contributors), h.MoreContributors)
		}
	}
	for _, n := range []int{1, 9} {
		c = New(Defaults(), nil)
		x.hot = map[ib.GUID]bool{}
		for k := range n {
			x.hot[guids[k*70]] = true
		}
		r := c.step(s, x.now, period, x).Report
		if len(r.Open) != n || sum(r) != n*647 || r.Missed != 0 {
			t.Errorf("%d hot spots, %d contributors, %d missed", len(r.Open), sum(r), r.Missed)
		}
	}
}

// TestTracksDoNotCount: hosts whose hot spots have ended take no room.
func TestTracksDoNotCount(t *testing.T) {
	s, x, guids := full(t, 648)
	c := New(Defaults(), nil)
	for round := range 20 {
		x.hot = map[ib.GUID]bool{}
		for k := range 9 {
			x.hot[guids[round*9+k]] = true
		}
		x.now = x.now.Add(period)
		if r := c.step(s, x.now, period, x).Report; len(r.Open) != 9 || r.Missed != 0 {
			t.Fatalf("round %d: %d open, %d missed, %d tracks", round, len(r.Open), r.Missed, len(c.tracks))
		}
	}
}

// TestMostFirst: where there are more than have room, those that wait most open.
func TestMostFirst(t *testing.T) {
	s, x, guids := full(t, 648)
	last := guids[len(guids)-1]
	y := &waitsMore{x, last}
	r := New(Defaults(), nil).step(s, x.now, period, y).Report
	if r.Open[0].Host.GUID != last {
		t.Errorf("%v is first, not %v", r.Open[0].Host.GUID, last)
	}
}

// waitsMore is loaded, and the port before a host waits all the time.
type waitsMore struct {
	*loaded
	host ib.GUID
}

func (x *waitsMore) WaitShare(i int32) float64 {
	if x.at[i] == x.host {
		return 1
	}
	return x.loaded.WaitShare(i)
}

func BenchmarkFull(b *testing.B) {
	for _, hosts := range []int{648, 2916, 11664} {
		s, x, guids := full(b, hosts)
		for _, hot := range []int{1, hosts / 40, hosts} {
			b.Run(fmt.Sprintf("%d of %d", hot, hosts), func(b *testing.B) {
				x.hot = map[ib.GUID]bool{}
				for k := range hot {
					x.hot[guids[k]] = true
				}
				c := New(Defaults(), func(src, dst ib.LID) (may, known bool) { return true, false })
				b.ReportAllocs()
				var r *Report
				for b.Loop() {
					x.now = x.now.Add(period)
					r = c.step(s, x.now, period, x).Report
				}
				b.ReportMetric(float64(len(r.Open)), "open")
				b.ReportMetric(float64(sum(r)), "contributors")
			})
		}
	}
}
