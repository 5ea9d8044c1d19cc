package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"heddle/api"
)

// TestStageText: the numbers of a stage of a plan, one and more.
func TestStageText(t *testing.T) {
	for want, s := range map[string]plannedStage{
		"1 LFT block, 1 entry turns packets around that are on the link, which are lost":                                            {LFT: 1, Back: 1},
		"2 LFT blocks, 3 entries turn packets around that are on the link, which are lost":                                          {LFT: 2, Back: 3},
		"1 LFT block that discards, 1 entry discards packets until a later stage or plan":                                           {LFT: 1, Discards: true, Withheld: 1},
		"2 LFT blocks that discard, 2 entries discard packets until a later stage or plan":                                          {LFT: 2, Discards: true, Withheld: 2},
		"1 SL2VL table, 1 MFT block, 1 SL2VL table discards what could close a cycle":                                               {SL2VL: 1, MFT: 1, Guards: 1},
		"7 SL2VL tables, 2 MFT blocks, 7 SL2VL tables discard what could close a cycle, then 2 s until packets in flight have left": {SL2VL: 7, MFT: 2, Guards: 7, Drain: 2},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPrintForeignTexts: node descriptions, which any host chooses, move no cells of tables, end no
// lines, and command no terminal.
func TestPrintForeignTexts(t *testing.T) {
	tables := func(d string) map[string]struct {
		body  any
		print func(w io.Writer, body []byte) error
	} {
		type row = struct {
			body  any
			print func(w io.Writer, body []byte) error
		}
		end, use := api.LinkEnd{GUID: "0x1", Description: d, Port: 1}, api.PortUse{GUID: "0x1", Description: d, Port: 1, Errors: map[string]uint64{"SymbolErrorCounter": 1}}
		use.Peer = &end
		place := &api.VMPlace{PortGUID: "0x1", Description: d}
		vm := api.VM{Name: "v", State: "migrating", Hypervisor: place, Dest: place}
		cc := api.Congestion{
			Mode: "act", Agents: 1, Nodes: []api.CongestionNode{{GUID: "0x1", Description: d}},
			Flows: []api.CongestionFlow{{At: api.FindingEnd{Description: d}, From: d, To: d}},
		}
		finding := api.FindingEnd{GUID: "0x1", Description: d, Port: 1}
		path := api.PathEnd{Description: d, GUID: "0x1"}
		return map[string]row{
			"congestion":      {cc, func(w io.Writer, b []byte) error { return printCongestion(w, b, true) }},
			"congestion node": {cc, printCongestionNode},
			"nodes":           {[]api.Node{{GUID: "0x1", Description: d}}, printNodes},
			"links":           {[]api.Link{{A: end, B: end}}, printLinks},
			"top":             {api.Counters{Ports: []api.PortUse{use}}, printTop},
			"errors":          {api.Counters{Ports: []api.PortUse{use}}, func(w io.Writer, b []byte) error { return printErrors(w, b, nil) }},
			"port":            {api.PortCounters{PortUse: use}, printPortCounters},
			"path":            {api.Path{From: path, To: path, Hops: []api.PathHop{{Description: d}, {Description: d, Out: 1}}}, printPath},
			"VM":              {vm, printVM},
			"VMs":             {[]api.VM{vm}, func(w io.Writer, _ []byte) error { return printVMs(w, []api.VM{vm}, "") }},
			"hypervisors":     {[]api.Hypervisor{{PortGUID: "0x1", Description: d}}, printHypervisors},
			"vports":          {[]api.VPort{{GUID: "0x1", Node: d, Description: d}}, printVPorts},
			"evacuation": {nil, func(w io.Writer, _ []byte) error {
				return (&evacuation{o: &vmOptions{}, steps: []evacuee{{Name: "v", To: d}}}).print(w)
			}},
			"repairs": {[]api.Repair{{Faults: []string{d}}}, printRepairs},
			"status":  {api.Status{Sweeps: 1, ActiveAt: d, Damped: []api.Damped{{Port: d}}}, func(w io.Writer, b []byte) error { return printStatus(w, b, "a") }},
			"hot spot": {nil, func(w io.Writer, _ []byte) error {
				printHotSpot(w, &api.HotSpot{Host: api.HotSpotEnd{FindingEnd: finding}, At: finding}, "act")
				return nil
			}},
			"finding": {nil, func(w io.Writer, _ []byte) error {
				_, err := io.WriteString(w, findingEnd(finding)+"\n")
				return err
			}},
		}
	}
	const evil = "a\tb\x1b[2J\rc\nd\u009b\u202e"
	harmless := tables("harmless")
	for what, x := range tables(evil) {
		text := func(v any, print func(w io.Writer, body []byte) error) string {
			body, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := print(&b, body); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return b.String()
		}
		got, want := text(x.body, x.print), text(harmless[what].body, harmless[what].print)
		if strings.ContainsAny(got, "\t\x1b\r\u009b\u202e") || strings.Count(got, "\n") != strings.Count(want, "\n") {
			t.Errorf("%s:\n%q", what, got)
		}
		if n := strings.Count(got, `a\tb\x1b[2J\rc\nd`); n == 0 || n != strings.Count(want, "harmless") {
			t.Errorf("%s: %d descriptions:\n%s\n%s", what, n, got, want)
		}
	}
	for _, s := range []string{"", "MF0;ibsw01:MSB7700/U1", "Überhost \"1\" \\ µ"} {
		if plain(s) != s {
			t.Errorf("%q is %q", s, plain(s))
		}
	}
}

// TestEmptyTables: a table without rows is a sentence, and has no head.
func TestEmptyTables(t *testing.T) {
	for want, show := range map[string]func(io.Writer, []byte) error{
		"no nodes: this manager has not read the fabric; 'heddle ctl status' shows its state": printNodes,
		"no links":                            printLinks,
		"no multicast groups":                 printGroups,
		"no services":                         printServices,
		"no subscriptions":                    printSubscriptions,
		"no link is drained or isolated":      printPortActions,
		"no sweep since the manager started":  printSweeps,
		"no changes were put aside":           printForks,
		"no hypervisors":                      printHypervisors,
		"no virtual ports":                    printVPorts,
		"no targets of webhooks (--webhooks)": printWebhooks,
		"no interface matches":                func(w io.Writer, _ []byte) error { return printVMs(w, nil, "no interface matches") },
		"no fault has broken a pair since the manager started": printRepairs,
		"no named tokens: 'heddle ctl token create' makes one": printTokens,
	} {
		var out strings.Builder
		if err := show(&out, []byte("[]")); err != nil || out.String() != want+"\n" {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
		if err := show(&out, []byte("{")); err == nil && want != "no interface matches" {
			t.Errorf("%s: damaged JSON is no error", want)
		}
	}
	var out strings.Builder
	if err := printMembers(&out, []byte(`{"rows":[]}`)); err != nil || out.String() != "the partition has no members\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
