package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"heddle/api"
)

func TestPrintFindings(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := api.FindingEnd{GUID: "0x1", Port: 3, Description: "leaf"}
	open := api.Finding{
		ID: 2, Rule: "bad_cable", Severity: "warning", Title: "a link has bit errors", Do: "Reseat it.", Since: at,
		Ends:     []api.FindingEnd{end, {GUID: "0x2", Description: "host"}},
		Evidence: []api.Evidence{{FindingEnd: end, What: "SymbolErrorCounter", Delta: 40, Rate: 4, Limit: 10}},
	}
	ended := open
	ended.ID, ended.Closed, ended.Why = 1, &at, "healed"
	ended.Event, ended.Cause = 17, 12
	waits := open
	waits.Rule, waits.Title = "congestion", "a port waits"
	waits.Evidence = []api.Evidence{{FindingEnd: end, What: "PortXmitWait", Delta: 4000, Value: 1.0 / 3, Limit: 0.3, Text: "33 % of the time"}}
	for _, x := range []struct {
		f    api.Findings
		all  bool
		want string
	}{
		{api.Findings{}, false, "no findings: no round of port counters has been evaluated yet\n"},
		{api.Findings{Note: "this manager is not the master"}, false, "no findings: this manager is not the master\n"},
		{api.Findings{Round: 1, Closed: []api.Finding{ended}}, false, "no findings\n"},
		{api.Findings{Round: 1, Open: []api.Finding{open}, Closed: []api.Finding{ended}}, false, `2 warning bad_cable: a link has bit errors, since 2026-01-02T03:04:05Z
    at "leaf" (0x1) port 3
    at "host" (0x2)
    SymbolErrorCounter of "leaf" (0x1) port 3: +40, last 4 per second (limit 10)
    Reseat it.
`},
		{api.Findings{Round: 1, Open: []api.Finding{waits}}, false, `2 warning congestion: a port waits, since 2026-01-02T03:04:05Z
    at "leaf" (0x1) port 3
    at "host" (0x2)
    PortXmitWait of "leaf" (0x1) port 3: +4000, 0.333 (limit 0.3): 33 % of the time
    Reseat it.
`},
		{api.Findings{Round: 1, Closed: []api.Finding{ended}}, true, `1 warning bad_cable: a link has bit errors, since 2026-01-02T03:04:05Z
    at "leaf" (0x1) port 3
    at "host" (0x2)
    SymbolErrorCounter of "leaf" (0x1) port 3: +40, last 4 per second (limit 10)
    cause: event 12 ('heddle ctl events --cause 12')
    ended 2026-01-02T03:04:05Z: healed
`},
	} {
		body, err := json.Marshal(x.f)
		if err != nil {
			t.Fatal(err)
		}
		var w strings.Builder
		if err := printFindings(&w, body, x.all); err != nil || w.String() != x.want {
			t.Errorf("%v: got\n%s\nwant\n%s", err, w.String(), x.want)
		}
	}
}
