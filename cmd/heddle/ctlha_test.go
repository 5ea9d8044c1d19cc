package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"heddle/api"
)

// TestPrintHA: who is active, what the two have, and what is wrong, without columns of zeros.
func TestPrintHA(t *testing.T) {
	show := func(h api.HA) string {
		t.Helper()
		b, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printHA(&out, b); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for l := range strings.Lines(out.String()) {
			text.WriteString(strings.Join(strings.Fields(l), " ") + "\n")
		}
		return text.String()
	}
	for _, c := range []struct{ got, want string }{
		{show(api.HA{Mode: "single", State: "single", Active: true}), "role active, without a partner\n"},
		{
			show(api.HA{Mode: "pair", State: "alone", Active: true, Why: "the active manager was silent", Pair: &api.Pair{
				PortGUID: "0x1", Term: 2, TermOwner: "0x1", Entry: 9, PeerEntry: 7, LagEntries: 2, LagSeconds: 3, Synced: 3, Peer: "b:7482", PeerGUID: "0x2", PeerLID: 4,
				Stream: -1, Fabric: 2.5, StreamError: "connection refused", PortUsable: true, SMOfPort: 3, Entries: 1, Commit: 0.0012, Takeovers: 1, Answering: 0.25, Forks: 1,
				DiskError: "no space", Differ: []string{"hoq-life", "qos"}, Priority: 3, PeerPriority: 2, ForksDeleted: 4,
			}}),
			`role active, alone: the active manager was silent
term 2 of 0x1
entry 9 here, 7 there
lag 2 entries for 3.0 s
partner last heard 2.5 s ago, standby then, at b:7482, port GUID 0x2, LID 4
priority 3, the partner has 2: give both the same, heddle ctl ha priority
settings these differ, give both managers the same: hoq-life, qos
last sync 3.0 s ago
heard over TCP not since the start, in the subnet 2.5 s ago
stream down: connection refused
port 0x1, usable, its SM is LID 3
written 1 entry, 1.20 ms each until it counts
takeovers 1, the last one in 0.25 s
forks 1 file, 4 older deleted: heddle ctl ha forks
disk no space
`,
		},
		{
			show(api.HA{Mode: "pair", State: "paired", ActiveAt: "b:7480", Pair: &api.Pair{PortGUID: "0x1", Peer: "b:7482", PeerGUID: "0x2", PeerActive: true, Connected: true}}),
			`role standby, paired
active b:7480
term 0 of
entry 0 here, 0 there
partner active at b:7482, port GUID 0x2, LID 0
priority 0
last sync 0.0 s ago
heard over TCP 0.0 s ago, in the subnet 0.0 s ago
stream up
warm not yet: a takeover reads the subnet before it answers
port 0x1, down, its SM is LID 0
`,
		},
		{
			show(api.HA{Mode: "pair", State: "stale", Pair: &api.Pair{PortGUID: "0x1", Peer: "b:7482", PeerGUID: "0x2", PeerActive: true, Stream: 1.3, Fabric: 1.34, PortUsable: true, SMOfPort: 9, Held: true, Master: "0x3", MasterText: "0x3 is master"}}),
			`role standby, stale
term 0 of
entry 0 here, 0 there
partner last heard 1.3 s ago, active then, at b:7482, port GUID 0x2, LID 0
priority 0
last sync 0.0 s ago
heard over TCP 1.3 s ago, in the subnet 1.3 s ago
stream down
port 0x1, usable, its SM is LID 9
master this manager does not take over: 0x3 is master
`,
		},
	} {
		if c.got != c.want {
			t.Errorf("got\n%s\nwant\n%s", c.got, c.want)
		}
	}
}
