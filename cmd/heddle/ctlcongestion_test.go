package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"heddle/api"
)

// TestPrintCongestion: the state, nodes with something to say, at most some of them, and flows.
func TestPrintCongestion(t *testing.T) {
	node := api.CongestionNode{
		GUID: "0x2", Description: "leaf", LID: 9, State: "managed", Differs: []string{"SwitchCongestionSetting"}, Key: "none", Events: 7, Marking: true,
		Ports: []int{3}, Held: &api.CongestionSettings{Switch: &api.SwitchCongestion{Threshold: 15, PacketSize: 8, VictimPorts: []int{1}}},
		Wanted: &api.CongestionSettings{
			Switch: &api.SwitchCongestion{Threshold: 4, PacketSize: 8, Ports: []api.PortCongestion{{Port: 2, Threshold: 9}}},
			CA:     &api.CACongestion{Control: "qp", Levels: []api.SLCongestion{{SLs: []int{0, 1}, Timer: 100, Increase: 1}}, Limit: 1, Table: []string{"0:0", "3:77"}},
		},
	}
	state := api.Congestion{
		Mode: "observe", Senders: 16, Agents: 3, Managed: 2, Silent: 1, Differs: 1, Requests: 12, Marks: 7, Nodes: []api.CongestionNode{node},
		Flows: []api.CongestionFlow{{Log: "switch", At: api.FindingEnd{Description: "leaf"}, From: "host-3", FromLID: 3, ToLID: 5, Count: 2, Last: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
	}
	many := state
	for range congestionLines + 2 {
		many.Nodes = append(many.Nodes, node)
	}
	for _, x := range []struct {
		what string
		c    api.Congestion
		node bool
		all  bool
		want []string
	}{
		{"off", api.Congestion{Mode: "off"}, false, false, []string{"mode off: nothing is read or written"}},
		{"a standby", api.Congestion{Mode: "act"}, false, false, []string{"is this manager the master"}},
		{"state", state, false, false, []string{
			"mode observe: 2 of 3 agents have congestion control (without it 0, silent 1", "7 marked packets",
			"0x2 leaf  0     9    managed  none  7, marks at ports [3]  SwitchCongestionSetting", "leaf  host-3 (LID 3)  LID 5  0   2       03:04:05",
		}},
		{"many", many, false, false, []string{"and 3 more: see --all\n"}},
		{"a node", state, true, false, []string{
			"differs in SwitchCongestionSetting", "held: threshold 15, packets of 512 bytes and more, marking rate 0, victim ports [1]\n",
			"; port 2: threshold 9", "wanted: SL [0 1]: timer 102.4 µs, increase 1", "wanted table: 0:0,3:77\n",
		}},
	} {
		body, err := json.Marshal(x.c)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if x.node {
			err = printCongestionNode(&b, body)
		} else {
			err = printCongestion(&b, body, x.all)
		}
		for _, want := range x.want {
			if err != nil || !strings.Contains(b.String(), want) {
				t.Errorf("%s: %v, no %q in\n%s", x.what, err, want, b.String())
			}
		}
	}
	body, _ := json.Marshal(many)
	var b strings.Builder
	if err := printCongestion(&b, body, true); err != nil || strings.Count(b.String(), "0x2 leaf") != congestionLines+3 {
		t.Errorf("%v\n%s", err, b.String())
	}
}
