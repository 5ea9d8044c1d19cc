package election

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

var states = map[string]smp.SMState{
	"notactive": smp.SMNotActive, "discovering": smp.SMDiscovering, "standby": smp.SMStandby, "master": smp.SMMaster,
}

// TestTranscripts: managers have GUIDs and priorities; each decision is printed.
func TestTranscripts(t *testing.T) {
	names := [...]string{Lead: "lead", HandOver: "hand over to", AwaitMaster: "await the handover of", FollowMaster: "follow the master", FollowHigher: "follow, as it starts,"}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			manager := func(s string) (m smp.SMInfo) {
				var guid uint64
				var prio uint8
				var state string
				if _, err := fmt.Sscanf(strings.ReplaceAll(s, ":", " "), "%d %d %s", &guid, &prio, &state); err != nil {
					d.Fatalf(t, "%q: %v", s, err)
				}
				st, ok := states[state]
				if !ok {
					d.Fatalf(t, "no state %q", state)
				}
				return smp.SMInfo{GUID: ib.GUID(guid), Priority: prio, SMState: st}
			}
			var b strings.Builder
			switch d.Cmd {
			case "decide": // us=GUID:priority:state [partner=GUID], a line for each other
				var us string
				var partner uint64
				d.ScanArgs(t, "us", &us)
				d.MaybeScanArgs(t, "partner", &partner)
				own := &Own{Info: manager(us), TookOver: d.HasArg("took-over"), Partner: ib.GUID(partner)}
				var others []Other
				for l := range strings.Lines(d.Input) {
					others = append(others, Other{Info: manager(strings.TrimSpace(l))})
				}
				what, who := Decide(own, others)
				b.WriteString(names[what])
				if who != nil {
					fmt.Fprintf(&b, " %d", who.Info.GUID)
				}
				b.WriteByte('\n')
			case "accepts": // a line for each state, with the signals that it takes from a master and a standby
				for st := subnet.NotActive; st <= subnet.Master; st++ {
					fmt.Fprintf(&b, "%v:", st)
					for _, from := range []string{"master", "standby"} {
						var list []string
						for k, name := range []string{"HANDOVER", "ACKNOWLEDGE", "DISABLE", "STANDBY", "DISCOVER"} {
							if Accepts(st, uint32(k+1), states[from]) {
								list = append(list, name)
							}
						}
						fmt.Fprintf(&b, " from a %s %v", from, list)
					}
					b.WriteByte('\n')
				}
			default:
				d.Fatalf(t, "no such command")
			}
			return b.String()
		})
	})
}

// TestTrusts: who has another SM_Key is another subnet's manager, unless we have none.
func TestTrusts(t *testing.T) {
	for _, k := range []struct {
		own, other uint64
		want       bool
	}{{0, 0, true}, {0, 7, true}, {7, 7, true}, {7, 0, false}, {7, 8, false}} {
		own := &Own{Info: smp.SMInfo{SMKey: k.own}}
		if got := own.Trusts(&smp.SMInfo{SMKey: k.other}); got != k.want {
			t.Errorf("%+v: %v", k, got)
		}
	}
}
