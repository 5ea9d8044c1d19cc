package interop

import (
	"path/filepath"
	"strings"
	"testing"

	"heddle/internal/need"
)

// TestCongestionTools: unmodified ibccconfig writes what unmodified ibccquery reads, at
// the congestion control agents of a simulated switch and adapter.
func TestCongestionTools(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "ibccquery")
	need.Tool(t, "ibccconfig")
	dir := t.TempDir()
	sock := socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "torus,3x3", "--api", need.Addr(t), "--socket", sock,
		"--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)
	tool := func(args string) []string {
		return append([]string{"attach", "host-1@" + sock, "--"}, strings.Fields(args)...)
	}
	const adapter, sw = "1", "17"
	entries := strings.Repeat(" 1:46", 64)
	for _, x := range []struct{ set, get, want string }{
		{"", "CI " + adapter, "ControlTableCap:.................2"},
		{"", "CI " + sw, "ControlTableCap:.................0"},
		{"", "CP " + sw, "ClassVersion:....................2"},
		{"", "CL " + sw, "LogType:.........................1"},
		{"", "CL " + adapter, "LogType:.........................2"},
		{"", "TI " + adapter, "Timestamp:"},
		{"SS " + sw + " 0x1F 0x1FFFFFFFFF 0x2 0xF 8 0 0:0 5", "SS " + sw, "1fffffffff\n"},
		{"SS " + sw + " 0x10 0x0 0x0 0x0 0 0 0:0 7", "SS " + sw, "Threshold:.......................0x0f\n"},
		{"", "SS " + sw, "Marking_Rate:....................7\n"},
		{"SP " + sw + " 3 1 0 7 9 11", "SP " + sw + " 3", "Cong_Parm_Marking_Rate:..........11\n"},
		{"CS " + adapter + " 1 0x4 150 1 2 3", "CS " + adapter, "SL:..............................2\nCCTI_Timer:......................150\n"},
		{"CT " + adapter + " 127 1" + entries, "CT " + adapter, "CCT_Multiplier:..................46\n"},
		{"CK " + adapter + " 0xabc 1 0 0", "CK " + adapter, "CC_Key:..........................0x0000000000000000\n"},
		{"", "-c 0xabc CK " + adapter, "CC_Key:..........................0x0000000000000abc\n"},
		{"-c 0xabc CS " + adapter + " 0 0x1 99 1 2 3", "CS " + adapter, "CCTI_Timer:......................99\n"},
	} {
		if x.set != "" {
			must(t, upTime, dir, nil, heddle, tool("ibccconfig "+x.set)...)
		}
		if out := must(t, upTime, dir, nil, heddle, tool("ibccquery "+x.get)...); !strings.Contains(out, x.want) {
			t.Errorf("ibccquery %s: no %q in\n%s", x.get, x.want, out)
		}
	}
}
