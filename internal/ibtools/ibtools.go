// Package ibtools lets tests run the public InfiniBand programs (OpenSM,
// osmtest, infiniband-diags) against a simulator that serves ibsim's protocol,
// ours or Debian's, and contains the checks that a subnet manager and a
// simulator must pass together.
//
// Every program runs in a scratch directory of its own, in its own process
// group, under a time limit, and dies with the test process. Programs started
// in the background are stopped, newest first, when the test ends, and before
// the simulator if the Bench is made after it: OpenSM burns a whole processor
// once its simulator is gone.
package ibtools

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"heddle/internal/need"
	"heddle/internal/proc"
)

// Bench runs programs on one simulated fabric.
type Bench struct {
	Sock string // base of the simulator's socket names
	Dir  string // scratch directory
}

// New makes a bench for the simulator at a socket name. Make it after the
// simulator was started: cleanups run in the opposite order.
func New(t testing.TB, sock string) *Bench {
	t.Helper()
	return &Bench{Sock: sock, Dir: t.TempDir()}
}

// command prepares a program under ibsim-run; preload false starts it plainly,
// with the same environment.
func (b *Bench) command(dir, node string, env []string, preload bool, argv []string) *exec.Cmd {
	if preload {
		argv = append([]string{"ibsim-run"}, argv...)
	}
	all := []string{"IBSIM_SOCKNAME=" + b.Sock}
	if node != "" {
		all = append(all, "SIM_HOST="+node)
	}
	return proc.Command(dir, append(all, env...), argv[0], argv[1:]...)
}

// Run runs a program on a node under ibsim-run until it ends or the limit is
// reached.
func (b *Bench) Run(limit time.Duration, node string, argv ...string) proc.Result {
	return b.RunEnv(limit, node, nil, argv...)
}

// RunEnv is Run with further environment variables.
func (b *Bench) RunEnv(limit time.Duration, node string, env []string, argv ...string) proc.Result {
	return proc.Run(limit, b.command(b.Dir, node, env, true, argv))
}

// Start starts a program on a node under ibsim-run and stops it when the test
// ends.
func (b *Bench) Start(t testing.TB, node string, env []string, argv ...string) *proc.Proc {
	t.Helper()
	return b.launch(t, b.command(b.Dir, node, env, true, argv))
}

// StartPlain is Start without ibsim-run.
func (b *Bench) StartPlain(t testing.TB, env []string, argv ...string) *proc.Proc {
	t.Helper()
	return b.launch(t, b.command(b.Dir, "", env, false, argv))
}

func (b *Bench) launch(t testing.TB, c *exec.Cmd) *proc.Proc {
	t.Helper()
	p, err := proc.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// OpenSM starts OpenSM on a node and waits until the subnet is up. Its dumps
// and its log are in b.Dir/osm-NODE.
func (b *Bench) OpenSM(t testing.TB, node string, limit time.Duration, args ...string) *proc.Proc {
	t.Helper()
	need.Tool(t, "opensm")
	need.Tool(t, "ibsim-run")
	dir := filepath.Join(b.Dir, "osm-"+node)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Ignore the machine's configuration, and flush the log, which reports when
	// the subnet is up.
	conf := filepath.Join(dir, "opensm.conf")
	if err := os.WriteFile(conf, []byte("force_log_flush TRUE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"opensm", "-F", conf, "-d", "1", "-e", "-f", filepath.Join(dir, "osm.log"), "-D", "0x43"}, args...)
	p := b.Start(t, node, []string{"OSM_TMP_DIR=" + dir, "OSM_CACHE_DIR=" + dir}, argv...)
	if err := waitForFile(p, filepath.Join(dir, "osm.log"), "SUBNET UP", limit); err != nil {
		t.Fatal(err)
	}
	return p
}

// waitForFile waits until a file that a program writes contains text.
func waitForFile(p *proc.Proc, path, text string, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, _ := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("the program ended without writing %q to %s:\n%s\n%s", text, path, tail(string(b), 3000), p.Output())
		case <-timeout.C:
			return fmt.Errorf("the program did not write %q to %s within %v:\n%s\n%s", text, path, limit, tail(string(b), 3000), p.Output())
		}
	}
}

// Ibsim starts Debian's ibsim on a netlist, waits until it serves, and returns
// it with a bench for it.
func Ibsim(t testing.TB, netlist, sock string) (*Bench, *proc.Proc) {
	t.Helper()
	path := need.Tool(t, "ibsim")
	b := New(t, sock)
	p := b.StartPlain(t, nil, path, "-s", "-n", "-N", "20000", "-S", "4000", "-P", "300000", netlist)
	limit := time.NewTimer(need.Patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !Serving(sock) {
		select {
		case <-tick.C:
		case <-p.Done():
			t.Fatalf("ibsim ended:\n%s", p.Output())
		case <-limit.C:
			t.Fatalf("ibsim does not serve:\n%s", p.Output())
		}
	}
	return b, p
}

// Serving reports whether a simulator listens at a socket name.
func Serving(sock string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + sock + ":ctl\x00"}) == nil
}
