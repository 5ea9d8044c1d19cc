package show

import (
	"testing"
	"time"

	"heddle/mad"
	"heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/subnet"
)

func TestHotSpots(t *testing.T) {
	end := func(name string) hotspot.End { return hotspot.End{Node: 1, Port: 1, Desc: name, GUID: 2, LID: 3} }
	h := hotspot.HotSpot{
		ID: 7, Host: end("host-5"), At: end("leaf"), Since: mad.Time(time.Second), Opened: mad.Time(2 * time.Second), Lane: 1, Wait: 0.2, Behind: true,
		Contributors: []hotspot.Contributor{{Host: end("host-1"), Since: mad.Time(time.Second), Known: true}, {Host: end("host-3")}},
		Victims:      []hotspot.Victim{{Host: end("host-2"), Via: end("leaf")}},
	}
	ended := h
	ended.Closed, ended.Why = mad.Time(4*time.Second), hotspot.Ended
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &dftree.Plan{Mode: dftree.Act, SL: 7, Spots: []dftree.Spot{{ID: 7, Paths: 2}}}
	slow := subnet.NewSlowPaths(7, []subnet.PortPair{{From: 8, To: 2}, {From: 9, To: 2}, {From: 8, To: 3}})
	got := HotSpots(&hotspot.Report{Round: 5, Open: []hotspot.HotSpot{h}, Closed: []hotspot.HotSpot{ended}, Missed: 3}, p, slow, began, 0)
	if got.Round != 5 || got.Mode != "act" || got.SL != 7 || len(got.Open) != 1 || len(got.Closed) != 1 || got.Missed != 3 || got.Slow != 3 {
		t.Fatalf("%+v", got)
	}
	o, c := &got.Open[0], &got.Closed[0]
	if !o.Since.Equal(began.Add(time.Second)) || o.Closed != nil || !o.Behind || o.Paths != 2 || o.Contributors[0].Description != "host-1" || o.Contributors[0].LID != 3 || o.Victims[0].Via.Description != "leaf" {
		t.Errorf("%+v", o)
	}
	if c.Closed == nil || !c.Closed.Equal(began.Add(4*time.Second)) || c.Paths != 0 {
		t.Errorf("%+v", c)
	}
	base := `hot spot 7: "host-5" is sent more than it takes, fed by "host-1", perhaps "host-3", on lane 1`
	for _, x := range []struct {
		h    *hotspot.HotSpot
		p    *dftree.Plan
		want string
	}{
		{&h, nil, base},
		{&h, p, base + "; 2 paths move to service level 7"},
		{&h, &dftree.Plan{SL: 7, Spots: p.Spots}, base + "; with --dftree act 2 paths would move to service level 7"},
		{&h, &dftree.Plan{Spots: []dftree.Spot{{ID: 7, Refused: "links have one lane"}}}, base + "; its paths do not move: links have one lane"},
		{&ended, p, `hot spot 7, "host-5": ended`},
	} {
		if text := HotSpotText(x.h, x.p); text != x.want {
			t.Errorf("got %s, want %s", text, x.want)
		}
	}
	if none := HotSpots(nil, nil, nil, began, 0); none.Open == nil || none.Closed == nil || none.SL != -1 || none.Mode != "off" {
		t.Errorf("%+v", none)
	}
}

// TestHotSpotPaths: with act the paths of a hot spot are those that the SA answers with; otherwise those
// that would move.
func TestHotSpotPaths(t *testing.T) {
	r := &hotspot.Report{Round: 1, Open: []hotspot.HotSpot{{ID: 7, Host: hotspot.End{GUID: 2}}}}
	slow := subnet.NewSlowPaths(7, []subnet.PortPair{{From: 8, To: 2}, {From: 8, To: 3}})
	for _, x := range []struct {
		mode dftree.Mode
		slow *subnet.SlowPaths
		want int
	}{{dftree.Act, slow, 1}, {dftree.Act, nil, 0}, {dftree.Observe, nil, 5}} {
		p := &dftree.Plan{Mode: x.mode, Spots: []dftree.Spot{{ID: 7, Paths: 5}}}
		if got := HotSpots(r, p, x.slow, time.Time{}, 0); got.Open[0].Paths != x.want || got.Slow != x.slow.Len() {
			t.Errorf("%v: %d paths of %d", x.mode, got.Open[0].Paths, got.Slow)
		}
	}
}

// TestHotSpotsLimit: a limit holds for hot spots and for what each lists, what is left out is counted,
// and it costs what is shown.
func TestHotSpotsLimit(t *testing.T) {
	some := func(scale int) *hotspot.Report {
		r := &hotspot.Report{Round: 1}
		for i := range 5 {
			x := hotspot.HotSpot{
				ID: uint64(i), Contributors: make([]hotspot.Contributor, 2*i*scale), MoreContributors: 1, Victims: make([]hotspot.Victim, i), MoreVictims: 10,
			}
			r.Open, r.Closed = append(r.Open, x), append(r.Closed, x)
		}
		return r
	}
	p := &dftree.Plan{}
	h := HotSpots(some(1), p, nil, time.Time{}, 0)
	if h.Count != 5 || len(h.Open) != 5 || len(h.Open[4].Contributors) != 8 || h.Open[4].MoreContributors != 1 || h.Open[4].More != 10 {
		t.Errorf("without a limit: %+v", h)
	}
	h = HotSpots(some(1), p, nil, time.Time{}, 3)
	if h.Count != 5 || len(h.Open) != 3 || h.Open[0].ID != 2 || len(h.Closed) != 3 {
		t.Fatalf("%+v", h)
	}
	if x := h.Open[2]; len(x.Contributors) != 3 || x.MoreContributors != 6 || len(x.Victims) != 3 || x.More != 11 {
		t.Errorf("%+v", x)
	}
	if x := h.Open[0]; len(x.Contributors) != 3 || x.MoreContributors != 2 || len(x.Victims) != 2 || x.More != 10 {
		t.Errorf("%+v", x)
	}
	small, large := some(1), some(1000)
	cost := func(r *hotspot.Report) float64 {
		return testing.AllocsPerRun(10, func() { HotSpots(r, p, nil, time.Time{}, 3) })
	}
	if a, b := cost(small), cost(large); b > a+5 {
		t.Errorf("%v allocations, and %v of a thousand times as many hosts", a, b)
	}
}
