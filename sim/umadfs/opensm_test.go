package umadfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/sim"
)

// records runs saquery and counts the dumps it prints.
func (l *lab) records(node, what, title string) int {
	l.t.Helper()
	return strings.Count(l.run(0, node, "saquery", what), title)
}

// TestOpenSM: unmodified OpenSM brings the subnet up, and its tables arrive whole at a
// client on another node and at one on OpenSM's own adapter.
func TestOpenSM(t *testing.T) {
	t.Parallel()
	tool(t, "opensm", "saquery", "sminfo", "ibstat", "smpquery")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	for _, node := range []string{"H2", "H1"} {
		if n := l.records(node, "NR", "NodeRecord dump"); n != 8 {
			t.Errorf("%s sees %d node records, want 8", node, n)
		}
		if n := l.records(node, "PR", "PathRecord dump"); n != 64 {
			t.Errorf("%s sees %d path records, want 64", node, n)
		}
		if n := l.records(node, "PIR", "PortInfoRecord dump"); n < 8 {
			t.Errorf("%s sees %d PortInfo records", node, n)
		}
	}
	if out := l.run(0, "H5", "sminfo"); !strings.Contains(out, "SMINFO_MASTER") || !strings.Contains(out, strings.TrimLeft(l.guid("H1").String()[2:], "0")) {
		t.Errorf("sminfo: %s", out)
	}
	if out := l.run(0, "H1", "ibstat"); !strings.Contains(out, "State: Active") {
		t.Errorf("ibstat:\n%s", out)
	}
	// A second OpenSM on the same port is refused its methods.
	j := l.opensm("H1")
	<-j.done
	if out := j.log.String(); !strings.Contains(out, "Perhaps another instance of OpenSM is already running") {
		t.Errorf("a second opensm on the same port ended with status %d:\n%s", j.code, tail(out, 2000))
	}
}

// TestFailover: two OpenSMs elect one master; when it is killed, the other takes over,
// so IsSM and the port's agents ended with it.
func TestFailover(t *testing.T) {
	t.Parallel()
	tool(t, "opensm", "sminfo")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	conf := filepath.Join(l.dir, "opensm.conf")
	if err := os.WriteFile(conf, []byte("sminfo_polling_timeout 500\npolling_retry_number 2\nsm_priority 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := l.opensm("H1", "-F", conf, "-p", "9")
	a.wait("SUBNET UP", need.Patience)
	b := l.opensm("H4", "-F", conf)
	b.wait("STANDBY", need.Patience)
	if out := l.run(0, "H2", "sminfo"); !strings.Contains(out, "priority 9") {
		t.Errorf("before: %s", out)
	}
	a.stop() // SIGTERM lets it hand over
	b.wait("MASTER", need.Patience)
	c := l.opensm("H1", "-F", conf, "-p", "9")
	c.wait("SUBNET UP", need.Patience)
	c.kill()
	b.waitN("Entering MASTER", 2, need.Patience)
	if out := l.run(0, "H2", "sminfo"); !strings.Contains(out, "priority 3") || !strings.Contains(out, "SMINFO_MASTER") {
		t.Errorf("after: %s", out)
	}
}

// flow runs one of osmtest's flows and returns its output.
func (l *lab) flow(node, flow string, args ...string) string {
	l.t.Helper()
	argv := append([]string{
		"osmtest", "-f", flow, "-i", filepath.Join(l.dir, "osmtest.dat"),
		"-l", filepath.Join(l.dir, "osmtest.log"), "-g", l.guid(node).String(),
	}, args...)
	out := l.run(0, node, argv...)
	if strings.Contains(out, "FAIL") || !strings.Contains(out, "PASS") {
		l.t.Errorf("osmtest -f %s:\n%s", flow, tail(out, 3000))
	}
	return out
}

// TestOsmtest: osmtest's flows pass with OpenSM as the SM, from OpenSM's own
// node and from another one.
func TestOsmtest(t *testing.T) {
	t.Parallel()
	need.Tool(t, "osmtest")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	l.flow("H1", "c")
	inv, err := os.ReadFile(filepath.Join(l.dir, "osmtest.dat"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(inv), "DEFINE_NODE"); n != 8 {
		t.Errorf("%d nodes in the inventory, want 8", n)
	}
	if n := strings.Count(string(inv), "DEFINE_PATH"); n < 36 {
		t.Errorf("%d paths in the inventory", n)
	}
	// Two Sets that OpenSM drops cost four tries of -t each.
	l.flow("H1", "v", "-t", "300")
	l.flow("H2", "v", "-t", "300")
	l.flow("H2", "m")
	l.flow("H2", "q")
	l.flow("H2", "s")
}

// TestOsmtestLong: all flows and stress levels.
func TestOsmtestLong(t *testing.T) {
	need.Long(t)
	need.Tool(t, "osmtest")
	for _, args := range [][]string{
		{"e"},
		{"t"},
		{"m", "-M", "2"},
		{"m", "-M", "3"},
		{"m", "-M", "4"},
		{"v", "-G"},
		{"s", "-G"},
		{"f", "-s", "1"},
		{"f", "-s", "2"},
		{"f", "-s", "3"},
		{"f", "-s", "4"},
		{"a"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			l := newLab(t, smallNet(t), sim.Config{Seed: 1})
			l.limit = 10 * time.Minute
			l.opensm("H1").wait("SUBNET UP", need.Patience)
			l.flow("H2", "c")
			l.flow("H2", args[0], args[1:]...)
		})
	}
}

// TestLoss: the emulated kernel repeats requests and segments on a lossy fabric, so
// everything arrives.
func TestLoss(t *testing.T) {
	t.Parallel()
	tool(t, "opensm", "saquery")
	l := newLab(t, smallNet(t), sim.Config{Seed: 7, Drop: 0.01})
	l.opensm("H1", "--maxsmps", "4", "--retries", "9", "-t", "100").wait("SUBNET UP", need.Patience)
	for i := range 3 {
		// A lost segment costs the kernel's 2 s; the default time-out of 1 s
		// would end first.
		out := l.run(0, "H2", "saquery", "-t", "15000", "PR")
		if n := strings.Count(out, "PathRecord dump"); n != 64 {
			t.Errorf("query %d: %d path records, want 64", i, n)
		}
	}
}

// TestUserNamespace: an ordinary user can attach where user namespaces are
// allowed. The test binary is copied to where that user can run it.
func TestUserNamespace(t *testing.T) {
	t.Parallel()
	tool(t, "smpquery")
	if os.Geteuid() != 0 {
		t.Log("running as an ordinary user: every test of this package shows it")
		return
	}
	// udev makes the device 0666; without its rules only root can open it.
	if fi, err := os.Stat("/dev/fuse"); err == nil && fi.Mode().Perm()&0o006 != 0o006 {
		need.Missing(t, "fuse-for-users", fmt.Sprintf("/dev/fuse is %v: an ordinary user cannot open it", fi.Mode().Perm()))
	}
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "heddle-nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "test")
	if out, err := exec.Command("cp", exe, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(copied, 0o755)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
	defer cancel()
	for _, c := range [][]string{{"smpquery", "-D", "nodedesc", "0"}, {"sh", "-c", "id -u; ls /dev/infiniband"}} {
		cmd := exec.CommandContext(ctx, copied, append([]string{l.name, "H3"}, c...)...)
		cmd.Dir = dir
		cmd.Env = append(l.env, childEnv+"=attach")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "user and mount namespace") {
			need.Missing(t, "userns", string(out))
		}
		if want := map[string]string{"smpquery": "host3", "sh": "0\nissm0\numad0\n"}[c[0]]; err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", c[0], err, out)
		}
	}
}

func init() { children["attach"] = attachChild }

// attachChild attaches as whoever runs it: SOCKET NODE COMMAND…
func attachChild() int {
	os.Unsetenv(childEnv)
	code, err := Attach(context.Background(), os.Args[2], os.Args[1], os.Args[3:], Stdio{Out: os.Stdout, Err: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

// TestWithoutTracing: if the callers' memory cannot be written, ENOSPC becomes EIO with
// a filled buffer, which OpenSM, osmtest and transport/umad understand.
func TestWithoutTracing(t *testing.T) {
	t.Parallel()
	need.Tool(t, "osmtest")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	l.server.pidns = "" // as if the callers' thread ids meant nothing here
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	l.run(0, "H3", l.self("client")...)
	l.flow("H2", "c")
}

// TestNets: OpenSM brings up larger fabrics, and the SA's whole tables arrive,
// above the size where the kernel splits reads and writes.
func TestNets(t *testing.T) {
	tool(t, "opensm", "saquery")
	for _, c := range []struct {
		kind   string
		params []string
		long   bool
	}{
		{"mport", []string{"8", "3"}, false},
		{"torus", []string{"8x8"}, false},
		{"irregular", []string{"32"}, false},
		{"mport", []string{"12", "3"}, true},
		{"xgft", []string{"2;18,36;1,18"}, true},
		{"dragonfly", []string{"4", "2", "2"}, false},
	} {
		t.Run(c.kind+" "+strings.Join(c.params, " "), func(t *testing.T) {
			if c.long {
				need.Long(t)
			}
			f, err := fabrictest.Generate(c.kind, c.params, 1)
			if err != nil {
				t.Fatal(err)
			}
			l := newLab(t, f, sim.Config{Seed: 1})
			l.limit = 2 * need.Patience
			start := time.Now()
			l.opensm(f.Nodes[0].ID).wait("SUBNET UP", 2*need.Patience)
			t.Logf("%d nodes: SUBNET UP after %v", len(f.Nodes), time.Since(start).Round(time.Millisecond))
			host := f.Nodes[len(f.Nodes)/3].ID
			if n := strings.Count(l.run(0, host, "saquery", "-t", "60000", "NR"), "NodeRecord dump"); n != len(f.Nodes) {
				t.Errorf("%d node records, want %d", n, len(f.Nodes))
			}
			// Every pair of nodes has a path: 64 bytes each, in one message.
			start = time.Now()
			want := len(f.Nodes) * len(f.Nodes)
			if n := strings.Count(l.run(0, host, "saquery", "-t", "60000", "PR"), "PathRecord dump"); n != want {
				t.Errorf("%d path records, want %d", n, want)
			}
			t.Logf("%d path records, %d bytes, in %v", want, want*64, time.Since(start).Round(time.Millisecond))
		})
	}
}
