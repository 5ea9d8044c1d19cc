package main

import (
	"encoding/json"
	"strings"
	"testing"

	"heddle/api"
)

// TestPrintStatus: the first line says which manager was asked, and where the active one is; what a
// standby does not know is left out.
func TestPrintStatus(t *testing.T) {
	for _, c := range []struct {
		s     api.Status
		asked string
		want  string
	}{
		{
			api.Status{State: "STANDBY", Phase: "paired", Port: "umad:mlx5_0/1", PortGUID: "0x1", LID: 7, Priority: 3, Master: "0x2", ActiveAt: "b:7480"},
			"a:7480, found without --api",
			`manager a:7480, found without --api; it is not active, the active one is at b:7480
state STANDBY (paired)
port umad:mlx5_0/1 0x1 LID 7 priority 3
master 0x2
`,
		},
		{
			api.Status{State: "STANDBY", Phase: "starting", PortGUID: "0x1"},
			"a:7480",
			"manager a:7480\nstate STANDBY (starting)\nport 0x1 priority 0\n",
		},
		{
			api.Status{State: "MASTER", Phase: "idle", SubnetUp: true, PortGUID: "0x1", LID: 1, CAs: 1, LIDs: 1, EndPorts: 1, Sweeps: 1, SMPsSent: 2},
			"a:7480",
			`manager a:7480
state MASTER, SUBNET UP (idle)
port 0x1 LID 1 priority 0
nodes 0 switches, 1 CA, 0 routers
links 0, 0 active
LIDs 1 given to 1 port
problems 0
sweeps 1 full, 0 light
SA 0 requests, 0 answered
kept 0 groups with 0 members, 0 services, 0 subscriptions
partitions 0, state not yet known
SMPs 2 sent, 0 retried, 0 timed out
`,
		},
	} {
		body, err := json.Marshal(c.s)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := printStatus(&b, body, c.asked); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for l := range strings.Lines(b.String()) {
			got.WriteString(strings.Join(strings.Fields(l), " ") + "\n")
		}
		if got.String() != c.want {
			t.Errorf("got\n%s\nwant\n%s", got.String(), c.want)
		}
	}
}
