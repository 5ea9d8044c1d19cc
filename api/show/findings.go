package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/api"
	"heddle/perf/findings"
)

// Findings is /v1/findings. began is when the manager's time was 0; a nil report: nothing was
// looked for.
func Findings(r *findings.Report, q api.FindingsQuery, began time.Time) api.Findings {
	out := api.Findings{Open: []api.Finding{}, Closed: []api.Finding{}}
	if r == nil {
		return out
	}
	out.Round, out.Missed = r.Round, r.Missed
	open, closed := r.Open, r.Closed
	for i := range open {
		*[]*int{&out.Counts.Info, &out.Counts.Warning, &out.Counts.Critical}[open[i].Severity]++
	}
	if q.Worst {
		open = slices.SortedFunc(slices.Values(open), func(a, b findings.Finding) int {
			return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.ID, a.ID))
		})
	}
	if q.Limit > 0 {
		open, closed = open[:min(len(open), q.Limit)], closed[max(0, len(closed)-q.Limit):]
	}
	for i := range open {
		out.Open = append(out.Open, finding(&open[i], began))
	}
	for i := range closed {
		out.Closed = append(out.Closed, finding(&closed[i], began))
	}
	return out
}

func finding(f *findings.Finding, began time.Time) api.Finding {
	at := func(t time.Duration) time.Time { return began.Add(t).UTC() }
	x := api.Finding{
		ID: f.ID, Rule: f.Rule, Severity: f.Severity.String(), Title: f.Title, Do: f.Do, More: f.More,
		Since: at(time.Duration(f.Since)), Opened: at(time.Duration(f.Opened)), Why: f.Why, Action: f.Action, Ends: []api.FindingEnd{}, Evidence: []api.Evidence{},
	}
	if f.Closed != 0 {
		t := at(time.Duration(f.Closed))
		x.Closed = &t
	}
	for _, e := range f.Ends {
		x.Ends = append(x.Ends, findingEnd(e))
	}
	for _, e := range f.Evidence {
		x.Evidence = append(x.Evidence, api.Evidence{
			FindingEnd: findingEnd(e.End), What: e.What, Delta: e.Delta, Rate: e.Rate, Value: e.Value, Limit: e.Limit, Text: e.Text,
			Since: at(time.Duration(e.Since)), At: at(time.Duration(e.At)),
		})
	}
	return x
}

func findingEnd(e findings.End) api.FindingEnd {
	return api.FindingEnd{GUID: e.GUID.String(), Port: int(e.Port), Description: e.Desc}
}

// FindingText is a finding in a line, as events tell it.
func FindingText(f *findings.Finding) string {
	var s strings.Builder
	s.WriteString(fmt.Sprintf("finding %d, %s: %s", f.ID, f.Rule, f.Title))
	for i, e := range f.Ends {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		s.WriteString(fmt.Sprintf("%s%q (%v)", sep, e.Desc, e.GUID))
		if e.Port != 0 {
			s.WriteString(fmt.Sprintf(" port %d", e.Port))
		}
	}
	if f.More > 0 {
		s.WriteString(fmt.Sprintf(" and %d more", f.More))
	}
	if f.Closed != 0 {
		s.WriteString("; ended: " + f.Why)
	}
	return s.String()
}
