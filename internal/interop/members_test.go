package interop

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/internal/need"
)

// TestMembersSeenByTools: after a member is added or removed, smpquery and saquery show the P_Key at the
// port, at the index where it is, and no other port has it. A dry run changes nothing.
func TestMembersSeenByTools(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "smpquery")
	need.Tool(t, "saquery")
	dir := t.TempDir()
	addr, token, sock := need.Addr(t), filepath.Join(dir, "token"), socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "kary,2,3", "--api", addr, "--socket", sock, "--token-file", token)
	up.await("SUBNET UP\n", 0, upTime)
	ctl := func(args ...string) string {
		return must(t, upTime, dir, nil, heddle, append(append([]string{"ctl", "partitions"}, args...), "--api", addr, "--token-file", token)...)
	}
	settled := func() {
		t.Helper()
		var p api.Partitions
		for end := time.Now().Add(need.Patience); !p.Settled; getJSON(t, "http://"+addr+"/v1/partitions", &p) {
			if time.Now().After(end) {
				t.Fatalf("not settled: %+v", p)
			}
		}
	}
	lid := func(host string) string {
		out := must(t, upTime, dir, nil, heddle, "attach", host+"@"+sock, "--", "smpquery", "-D", "portinfo", "0")
		for l := range strings.Lines(out) {
			if v, ok := strings.CutPrefix(l, "Lid:"); ok {
				return strings.Trim(v, ".\n")
			}
		}
		t.Fatalf("no LID in %s", out)
		return ""
	}
	// tool runs a tool at a host, which is in no partition of the test.
	tool := func(args ...string) string {
		return must(t, upTime, dir, nil, heddle, append([]string{"attach", "host-1@" + sock, "--"}, args...)...)
	}
	at := map[string]string{"host-2": lid("host-2"), "host-3": lid("host-3"), "host-4": lid("host-4")}
	want := func(when string, keys map[string]string) {
		t.Helper()
		settled()
		for host, l := range at {
			// The first row of a table of 8 columns.
			if out := tool("smpquery", "pkeys", l); !strings.Contains(out, "  0: "+keys[host]+" 0x0000") {
				t.Errorf("%s: %s has\n%s, want %s", when, host, out, keys[host])
			}
			rec := tool("saquery", "--smkey", "1", "PKTR", l)
			for k := range strings.FieldsSeq(keys[host]) {
				if !strings.Contains(rec, k) {
					t.Errorf("%s: the SA does not show %s at %s:\n%s", when, k, host, rec)
				}
			}
		}
	}
	none := "0xffff"
	want("before", map[string]string{"host-2": none, "host-3": none, "host-4": none})
	ctl("create", "tenant", "host-2", "--as", "full", "--pkey", "0x0123")
	ctl("add-member", "tenant", "host-3")
	if out := ctl("add-member", "tenant", "host-4", "--dry-run"); !strings.Contains(out, "none to limited: host-4") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("%s", out)
	}
	want("two members", map[string]string{"host-2": "0xffff 0x8123", "host-3": "0xffff 0x0123", "host-4": none})
	ctl("add-member", "0x0123", "host-3", "--as", "both")
	ctl("remove-member", "tenant", "host-2")
	want("one is left", map[string]string{"host-2": none, "host-3": "0xffff 0x0123 0x8123", "host-4": none})
	ctl("delete", "tenant")
	want("after", map[string]string{"host-2": none, "host-3": none, "host-4": none})
}
