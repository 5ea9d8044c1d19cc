package interop

import (
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"heddle/internal/need"
)

// TestCountersOfTraffic: unmodified perfquery and ibqueryerrors show what packets of a service level
// do on the lanes of a port, in each of the attributes that they ask for.
func TestCountersOfTraffic(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "perfquery")
	need.Tool(t, "ibqueryerrors")
	dir := t.TempDir()
	sock := socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--traffic", "shift:5,sl=2", "--api", need.Addr(t), "--socket", sock,
		"--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)
	ask := func(args ...string) string {
		return must(t, upTime, dir, nil, heddle, append([]string{"attach", "host-1@" + sock, "--"}, args...)...)
	}
	value := func(text, name string) int {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + name + `:\.+((?:0x)?[0-9a-f]+)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in\n%s", name, text)
		}
		n, err := strconv.ParseInt(m[1], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	// LID 1 is the manager's host. Its port on the switch has packets of SL 2 only, and datagrams.
	deadline := time.Now().Add(upTime)
	for value(ask("perfquery", "-X", "1", "1"), "XmtDataSL2") == 0 || value(ask("perfquery", "-S", "1", "1"), "RcvDataSL2") == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the counters by service level do not move")
		}
	}
	for _, x := range []struct {
		option, moves, stays string
	}{
		{"-X", "XmtDataSL2", "XmtDataSL3"},
		{"-S", "RcvDataSL2", "RcvDataSL1"},
		{"--vloppackets", "PortVLOpPackets2", "PortVLOpPackets1"},
		{"--vlopdata", "PortVLOpData2", "PortVLOpData7"},
		{"--oprcvcounters", "PortOpRcvPkts", ""},
		{"-c", "Tick", "SampleStatus"},
		{"--vlxmitcounters", "", "PortVLXmitWait15"},
		{"--vlxmitflowctlerrors", "", "PortVLXmitFlowCtlUpdateErrors2"},
		{"--swportvlcong", "", "SWPortVLCongestion2"},
		{"-T", "", "SyncHeaderErrorCounter"},
	} {
		out := ask("perfquery", x.option, "1", "1")
		if x.moves != "" && value(out, x.moves) == 0 {
			t.Errorf("perfquery %s: %s is 0", x.option, x.moves)
		}
		if x.stays != "" && value(out, x.stays) != 0 {
			t.Errorf("perfquery %s: %s is not 0", x.option, x.stays)
		}
	}
	// 22 ns on links of EDR are 57 times 10 bits.
	if tick := value(ask("perfquery", "-c", "1", "1"), "Tick"); tick != 56 {
		t.Errorf("Tick %d, want 56", tick)
	}
	words, bySL := value(ask("perfquery", "-x", "1", "1"), "PortXmitData"), value(ask("perfquery", "-X", "1", "1"), "XmtDataSL2")
	if bySL < 519 || bySL > 2*words {
		t.Errorf("PortXmitData %d, %d of them of SL 2", words, bySL)
	}
	// A Set with -R clears what its mask names.
	ask("perfquery", "-X", "-R", "1", "1")
	if n := value(ask("perfquery", "-X", "1", "1"), "XmtDataSL2"); n >= bySL {
		t.Errorf("XmtDataSL2 %d after a reset at %d", n, bySL)
	}
	if out := ask("ibqueryerrors", "--threshold-file", "/dev/null", "-s", "PortXmitDiscards"); !regexp.MustCompile(`\d+ ports checked`).MatchString(out) {
		t.Errorf("ibqueryerrors:\n%s", out)
	}
}
