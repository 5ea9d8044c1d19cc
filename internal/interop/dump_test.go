package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/internal/need"
)

// TestDumpAsOpenSM: 'ctl perf dump --opensm' and --mach print what the performance manager of Debian's
// OpenSM has dumped on the same fabric: the same ports in the same order, the same errors, and the
// same lines; times and traffic differ.
func TestDumpAsOpenSM(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "opensm")
	dir := t.TempDir()
	sock := socketName()
	net := filepath.Join(dir, "net")
	if err := os.WriteFile(net, []byte(must(t, upTime, dir, nil, heddle, "topo", "gen", "mport", "4", "2")), 0o644); err != nil {
		t.Fatal(err)
	}
	sim := start(t, dir, nil, heddle, "sim", "--netlist", net, "--socket", sock)
	sim.await("READY", 0, upTime)
	dump := filepath.Join(dir, "dump")
	conf := fmt.Sprintf("perfmgr TRUE\nperfmgr_sweep_time_s 1\nperfmgr_log_errors FALSE\nevent_db_dump_file %s\nlog_file %s\n", dump, filepath.Join(dir, "log"))
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	osm := start(t, dir, nil, heddle, "attach", "host-1@"+sock, "--", "opensm", "-F", filepath.Join(dir, "conf"), "--console", "local")
	osm.await("Entering MASTER state", 0, upTime)
	dumped := func(command, want string) (text string) {
		t.Helper()
		eventually(t, command+" has "+want, func() bool {
			fmt.Fprintln(osm.In, command)
			b, _ := os.ReadFile(dump)
			text = string(b)
			return strings.Contains(text, want)
		})
		return text
	}
	dumped("perfmgr dump_counters", "active TRUE port 4")
	for _, c := range []string{
		`"sw-1-1"[1] PortCounters.SymbolErrorCounter=7`, `"sw-1-1"[1] PortCounters.PortXmitDiscards=11`, `"host-5"[1] PortCounters.PortRcvErrors=9`,
		`"sw-1-2"[3] PortCounters.VL15Dropped=5`, `"sw-2-1"[2] PortCounters.LocalLinkIntegrityErrors=3`, `"sw-2-2"[4] PortCounters.LinkDownedCounter=2`,
	} {
		fmt.Fprintln(sim.In, "performanceset "+c)
	}
	people := dumped("perfmgr dump_counters", "link_downed          : 2")
	for _, line := range []string{"symbol_err_cnt       : 7", "rcv_err              : 9", "vl15_dropped         : 5", "link_integrity_err   : 3"} {
		people = dumped("perfmgr dump_counters", line)
	}
	mach := dumped("perfmgr dump_counters mach", "\nName\tGUID")
	if err := osm.stop(syscall.SIGINT); err != nil {
		t.Logf("OpenSM ended with %v", err)
	}

	addr := need.Addr(t)
	sm := start(t, dir, nil, heddle, "sm", "--port", "ibsim:host-1@"+sock, "--state", filepath.Join(dir, "state"), "--perf", "500ms", "--api", addr)
	sm.await("SUBNET UP\n", 0, upTime)
	ours := func(option string) string {
		text, err := run(t, upTime, dir, nil, heddle, "ctl", "perf", "dump", option, "--api", addr)
		if err != nil && !strings.Contains(text, "the first round of reading port counters") { // 503 until it has ended
			t.Fatalf("ctl perf dump %s: %v\n%s", option, err, text)
		}
		return withoutTraffic(text)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	limit := time.Now().Add(upTime)
	for option, theirs := range map[string]string{"--opensm": people, "--mach": mach} {
		a, b := ours(option), withoutTraffic(theirs)
		for ; a != b && time.Now().Before(limit); a = ours(option) { // not all agents have been read yet
			<-tick.C
		}
		if a != b {
			t.Errorf("%s: ours is\n%s\nOpenSM's is\n%s", option, a, b)
		} else if len(a) < 1000 || !strings.Contains(a, "11") {
			t.Errorf("%s is too little:\n%s", option, a)
		}
	}
}

var (
	dumpTimes   = regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d \d{4}`)
	dumpTraffic = regexp.MustCompile(`(?m)^( +\w+_(?:data|pkts) +:) \d+ \(\d+\.\d{3}[KMGTPE]?(B?)\)$`)
	machTraffic = regexp.MustCompile(`(?m)(?:\t\d+){8}$`)
)

// withoutTraffic is a dump without times and traffic.
func withoutTraffic(dump string) string {
	dump = dumpTimes.ReplaceAllString(dump, "TIME")
	dump = dumpTraffic.ReplaceAllString(dump, "$1 N $2")
	return machTraffic.ReplaceAllString(dump, "\ttraffic")
}
