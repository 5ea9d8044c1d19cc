package show

import (
	"testing"
	"time"

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
	got := Findings(&findings.Report{Round: 5, Open: []findings.Finding{f}, Closed: []findings.Finding{closed}}, began)
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
	if none := Findings(nil, began); none.Open == nil || none.Closed == nil {
		t.Error("lists are null without counters")
	}
}
