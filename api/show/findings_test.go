package show

import (
	"slices"
	"testing"
	"time"

	"heddle/api"
	"heddle/mad"
	"heddle/perf/findings"
)

func TestFindings(t *testing.T) {
	end := findings.End{GUID: 1, Port: 3, Desc: "leaf"}
	f := findings.Finding{
		ID: 7, Rule: findings.BadCable, Severity: findings.Warning, Title: "a link has bit errors", Ends: []findings.End{end, {GUID: 2, Desc: "host"}},
		Since: mad.Time(time.Second), Opened: mad.Time(2 * time.Second),
		Evidence: []findings.Evidence{{End: end, What: "SymbolErrorCounter", Delta: 20, Since: mad.Time(time.Second), At: mad.Time(3 * time.Second)}},
	}
	closed := f
	closed.Closed, closed.Why = mad.Time(4*time.Second), findings.Healed
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := Findings(&findings.Report{Round: 5, Open: []findings.Finding{f}, Closed: []findings.Finding{closed}}, api.FindingsQuery{}, began)
	if got.Round != 5 || len(got.Open) != 1 || len(got.Closed) != 1 {
		t.Fatalf("%+v", got)
	}
	o, c := got.Open[0], got.Closed[0]
	if !o.Opened.Equal(began.Add(2*time.Second)) || o.Closed != nil || o.Ends[0].Port != 3 || o.Evidence[0].Delta != 20 || o.Evidence[0].Description != "leaf" {
		t.Errorf("%+v", o)
	}
	if c.Closed == nil || !c.Closed.Equal(began.Add(4*time.Second)) || c.Why != findings.Healed {
		t.Errorf("%+v", c)
	}
	want := `finding 7, bad_cable: a link has bit errors: "leaf" (0x0000000000000001) port 3, "host" (0x0000000000000002); ended: healed`
	if text := FindingText(&closed); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if none := Findings(nil, api.FindingsQuery{Limit: 1, Worst: true}, began); none.Open == nil || none.Closed == nil {
		t.Error("lists are null without counters")
	}
}

// TestFindingsOrder: the page gets a few, the worst and newest first, and the counts of all.
func TestFindingsOrder(t *testing.T) {
	r := &findings.Report{Round: 1}
	for i, s := range []findings.Severity{0, 1, 2, 1, 0, 2, 1} {
		r.Open = append(r.Open, findings.Finding{ID: uint64(i + 1), Severity: s})
		r.Closed = append(r.Closed, findings.Finding{ID: uint64(i + 20), Severity: s, Closed: 1})
	}
	ids := func(list []api.Finding) (ids []uint64) {
		for _, f := range list {
			ids = append(ids, f.ID)
		}
		return ids
	}
	for _, x := range []struct {
		q            api.FindingsQuery
		open, closed []uint64
	}{
		{api.FindingsQuery{}, []uint64{1, 2, 3, 4, 5, 6, 7}, []uint64{20, 21, 22, 23, 24, 25, 26}},
		{api.FindingsQuery{Worst: true}, []uint64{6, 3, 7, 4, 2, 5, 1}, []uint64{20, 21, 22, 23, 24, 25, 26}},
		{api.FindingsQuery{Worst: true, Limit: 3}, []uint64{6, 3, 7}, []uint64{24, 25, 26}},
		{api.FindingsQuery{Limit: 100}, []uint64{1, 2, 3, 4, 5, 6, 7}, []uint64{20, 21, 22, 23, 24, 25, 26}},
	} {
		got := Findings(r, x.q, time.Time{})
		if !slices.Equal(ids(got.Open), x.open) || !slices.Equal(ids(got.Closed), x.closed) || got.Counts != (api.FindingCounts{Critical: 2, Warning: 3, Info: 2}) {
			t.Errorf("%+v: %v, %v, %+v", x.q, ids(got.Open), ids(got.Closed), got.Counts)
		}
	}
	if r.Open[0].ID != 1 {
		t.Error("the report was changed")
	}
}
