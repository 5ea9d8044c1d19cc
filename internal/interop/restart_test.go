package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/flood"
	"heddle/internal/need"
	"heddle/sim"
	"heddle/sim/ibsimd"
	"heddle/sim/live"
	"heddle/subnet/checkpoint"
)

// TestRestartWithLanes: a manager that finds its own multi-lane routes installed does
// not change them. It does not assume that hosts use other service levels, which would
// drop packets.
func TestRestartWithLanes(t *testing.T) {
	need.Tool(t, "smpquery")
	dir := t.TempDir()
	net := must(t, upTime, dir, nil, heddle, "topo", "gen", "torus", "5x5")
	if err := os.WriteFile(filepath.Join(dir, "net"), []byte(net), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"dor", "dfsssp"} {
		sock := socketName()
		sim := start(t, dir, nil, heddle, "sim", "--netlist", "net", "--socket", sock)
		sim.await("READY\n", 0, upTime)
		args := []string{"sm", "--api", "", "--once", "--port", "ibsim:host-1@" + sock, "--engine", engine, "--state", filepath.Join(dir, engine)}
		must(t, upTime, dir, nil, heddle, args...)
		out := must(t, upTime, dir, nil, heddle, append(args, "--log-level", "info")...)
		if !strings.Contains(out, "SUBNET UP") || !strings.Contains(out, " 0 LFT blocks sent, 0 ports armed,") || strings.Contains(out, "kind=routed") {
			t.Errorf("%s: the second start changed something:\n%s", engine, tail(out))
		}
	}
}

// TestRestartAnswers: a manager that is stopped by SIGTERM answers clients after its next start before it has
// read the subnet, which here takes as long as a host does not answer. One that is killed leaves nothing to
// answer from, and with other partitions it is not used.
func TestRestartAnswers(t *testing.T) {
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	net, err := sim.New(b.fab, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := live.New(net)
	t.Cleanup(d.Close)
	sock := serve(t, d, ibsimd.Options{SockName: socketName()})
	state := filepath.Join(b.dir, "state")
	file := filepath.Join(state, checkpoint.FileName)
	manager := func(more ...string) program {
		return start(t, b.dir, nil, heddle, append([]string{
			"sm", "--api", "", "--api-socket", filepath.Join(b.dir, "api"), "--port", "ibsim:" + b.cas[0] + "@" + sock,
			"--state", state, "--log-level", "info", "--smp-timeout", "1h",
		}, more...)...)
	}
	left := func() bool {
		_, err := os.Lstat(file)
		return err == nil
	}
	slow := func(q *sim.Quirks) {
		t.Helper()
		var err error
		if d.Do(func(s *sim.Subnet) { err = s.SetQuirks(b.cas[5], q) }); err != nil {
			t.Fatal(err)
		}
	}

	m := manager()
	m.await("SUBNET UP\n", 0, upTime)
	_ = m.stop(syscall.SIGKILL)
	if left() {
		t.Error("a manager that was killed left a checkpoint")
	}
	m = manager()
	m.await("SUBNET UP\n", 0, upTime)
	if s := m.Output(); strings.Contains(s, "kind=takeover") || strings.Contains(s, "kind=checkpoint") {
		t.Errorf("without a checkpoint:\n%s", tail(s))
	}
	// leave ends a manager of a subnet that is up. It leaves no checkpoint in the middle of a sweep, which
	// the trap of its port may ask for.
	leave := func() {
		t.Helper()
		for try := 1; ; try++ {
			if err := m.stop(syscall.SIGTERM); err != nil {
				t.Fatalf("%v\n%s", err, tail(m.Output()))
			}
			if left() {
				return
			}
			if !strings.Contains(m.Output(), "under way") || try == 20 {
				t.Fatalf("no checkpoint:\n%s", tail(m.Output()))
			}
			m = manager()
			m.await("SUBNET UP\n", 0, upTime)
		}
	}
	leave()

	slow(&sim.Quirks{Slow: time.Hour})
	m = manager()
	m.await("DISCOVERING to MASTER", 0, upTime)
	if left() {
		t.Error("the manager answers, and its checkpoint is still there")
	}
	var f struct{ flood.Figures }
	out := must(t, upTime, b.dir, nil, heddle, "flood", "--json", "--timeout", "20s", "--port", "ibsim:"+b.cas[1]+"@"+sock, "--queries", "1000")
	if err := json.Unmarshal([]byte(out), &f); err != nil || f.Answered != 1000 || f.Errors != 0 {
		t.Errorf("%v: %s", err, tail(out))
	}
	t.Run("saquery", func(t *testing.T) {
		var lids [2]string
		d.Do(func(s *sim.Subnet) {
			for i := range lids {
				n := slices.IndexFunc(b.fab.Nodes, func(n fabric.Node) bool { return n.ID == b.cas[2+i] })
				lids[i] = fmt.Sprint(uint16(s.PortInfo(n, 1).LID))
			}
		})
		got := must(t, upTime, b.dir, []string{"IBSIM_SOCKNAME=" + sock, "SIM_HOST=" + b.cas[2]}, "ibsim-run",
			need.Tool(t, "saquery"), "-t", "5000", "--slid", lids[0], "--dlid", lids[1], "PR")
		if n := strings.Count(got, "PathRecord dump"); n != 1 {
			t.Errorf("saquery has %d paths:\n%s", n, tail(got))
		}
	})
	if s := m.Output(); strings.Contains(s, "SUBNET UP") || strings.Contains(s, "kind=sweep_end") {
		t.Errorf("the subnet was read, although a host has not answered:\n%s", tail(s))
	}
	if err := m.stop(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, tail(m.Output()))
	}
	if left() {
		t.Error("a manager that had not read the subnet left a checkpoint")
	}
	slow(nil)
	m = manager()
	m.await(" 0 LFT blocks sent, 0 ports armed,", 0, upTime)

	leave()
	partitions := filepath.Join(b.dir, "partitions.conf")
	if err := os.WriteFile(partitions, []byte("Default=0x7fff, ipoib : ALL=full ;\nblue=0x2 : ALL=full ;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m = manager("--partitions", partitions)
	m.await("the partitions are others", 0, upTime)
	m.await("SUBNET UP\n", 0, upTime)
	if s := m.Output(); strings.Contains(s, "kind=takeover") {
		t.Errorf("with other partitions:\n%s", tail(s))
	}
	leave()
	m = manager("--partitions", partitions)
	m.await("published before its restart", 0, upTime)
	m.await("SUBNET UP\n", 0, upTime)
}
