package umadfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/sim"
	"heddle/sim/live"
)

// A umad client must never run in the process that serves its device: the Go
// runtime would wait in the kernel for an answer of its own process. So code
// under test that is a client runs in a copy of the test binary; childEnv says
// what it is to do.
const childEnv = "HEDDLE_UMADFS_TEST_CHILD"

var children = map[string]func() int{}

// suiteRun runs the tests that the command line names, in a child.
var suiteRun func() int

func TestMain(m *testing.M) {
	// The runtime may move main to any thread, and what a thread loses at exec
	// must not matter: so the stage never runs on the first one here.
	runtime.LockOSThread()
	staged := make(chan struct{})
	go func() { defer close(staged); Stage() }()
	<-staged
	runtime.UnlockOSThread()
	suiteRun = m.Run
	if what, ok := os.LookupEnv(childEnv); ok {
		run := children[what]
		if run == nil {
			fmt.Fprintln(os.Stderr, "no such child:", what)
			os.Exit(2)
		}
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// smallNet is two switches with three hosts each, two cables between them;
// host 6 has two ports.
func smallNet(t testing.TB) *fabric.Fabric {
	t.Helper()
	b := new(fabric.Builder)
	s0, s1 := b.AddSwitch("S0", 8), b.AddSwitch("S1", 8)
	b.Connect(s0, 7, s1, 7)
	b.Connect(s0, 8, s1, 8)
	for i := range 6 {
		ports := 1
		if i == 5 {
			ports = 2
		}
		h := b.AddCA(fmt.Sprintf("H%d", i+1), ports)
		b.Node(h).Desc = fmt.Sprintf("host%d", i+1)
		b.Connect(h, 1, []int{s0, s1}[i/3], i%3+1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lab is a simulator that serves virtual devices.
type lab struct {
	t      testing.TB
	name   string
	server *Server
	driver *live.Driver
	dir    string
	env    []string
	limit  time.Duration // for one command
}

func newLab(t testing.TB, f *fabric.Fabric, c sim.Config) *lab {
	t.Helper()
	need.FUSE(t)
	s, err := sim.New(f, c)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, dir: t.TempDir(), driver: live.New(s), limit: need.Patience}
	l.name = fmt.Sprintf("umadfs-test-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(l.dir)))
	l.server, err = Listen(l.driver, l.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.server.Close()
		l.driver.Close()
	})
	l.env = append(os.Environ(), "OSM_TMP_DIR="+l.dir, "OSM_CACHE_DIR="+l.dir, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	// Can this machine mount at all?
	if code, err := l.command("", nil, "true").Run(t.Context()); err != nil || code != 0 {
		if _, ok := errors.AsType[*CannotError](err); ok {
			need.Missing(t, "fuse", err.Error())
		}
		t.Fatalf("attach: exit status %d, %v", code, err)
	}
	return l
}

func (l *lab) command(node string, out *bytes.Buffer, argv ...string) *Command {
	c := &Command{Nodes: strings.Split(node, ","), Socket: l.name, Argv: argv, Env: l.env}
	if out != nil {
		c.Out, c.Err = out, out
	}
	return c
}

// run runs a command on a node and returns its output; it must end within a
// time limit with status want.
func (l *lab) run(want int, node string, argv ...string) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), l.limit)
	defer cancel()
	var out bytes.Buffer
	code, err := l.command(node, &out, argv...).Run(ctx)
	if err != nil || code != want {
		l.t.Fatalf("%s on %s: exit status %d (want %d), %v\n%s", strings.Join(argv, " "), node, code, want, err, tail(out.String(), 4000))
	}
	return out.String()
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

// job is a command in the background.
type job struct {
	l      *lab
	name   string
	log    *watcher
	cancel context.CancelFunc
	done   chan struct{}
	code   int
	err    error
	pid    atomic.Int64
}

// start runs a command in the background; it is ended with the test.
func (l *lab) start(node string, argv ...string) *job {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{l: l, name: argv[0], log: newWatcher(), cancel: cancel, done: make(chan struct{})}
	c := l.command(node, nil, argv...)
	c.Out, c.Err = j.log, j.log
	c.Started = func(pid int) { j.pid.Store(int64(pid)) }
	go func() {
		defer close(j.done)
		j.code, j.err = c.Run(ctx)
		j.log.end()
	}()
	l.t.Cleanup(j.stop)
	return j
}

func (j *job) stop() {
	j.cancel()
	<-j.done
}

// wait waits until the output holds text.
func (j *job) wait(text string, limit time.Duration) {
	j.l.t.Helper()
	j.waitN(text, 1, limit)
}

// waitN waits until the output holds text n times.
func (j *job) waitN(text string, n int, limit time.Duration) {
	j.l.t.Helper()
	if !j.log.wait(text, n, limit) {
		j.l.t.Fatalf("%s did not say %q %d times within %v:\n%s", j.name, text, n, limit, tail(j.log.String(), 4000))
	}
}

// kill ends the command as nothing it can catch.
func (j *job) kill() {
	j.l.t.Helper()
	if err := syscall.Kill(int(j.pid.Load()), syscall.SIGKILL); err != nil {
		j.l.t.Errorf("kill %s: %v", j.name, err)
	}
	<-j.done
}

// opensm starts OpenSM on a node, whose port GUID it gets, and waits for the
// subnet to be up.
func (l *lab) opensm(node string, args ...string) *job {
	l.t.Helper()
	path := need.Tool(l.t, "opensm")
	dir, err := os.MkdirTemp(l.dir, "opensm")
	if err != nil {
		l.t.Fatal(err)
	}
	argv := append([]string{
		"env", "OSM_TMP_DIR=" + dir, "OSM_CACHE_DIR=" + dir,
		path, "-g", l.guid(node).String(), "-f", "-", "--console", "off", "-s", "0", "-y",
	}, args...)
	return l.start(node, argv...)
}

func (l *lab) guid(node string) (g ib.GUID) {
	l.t.Helper()
	l.driver.Do(func(s *sim.Subnet) {
		e, err := s.Attach(node)
		if err != nil {
			l.t.Error(err)
			return
		}
		g = e.PortGUID()
		e.Close()
	})
	return g
}

// self makes a command line that runs this test binary as a child.
func (l *lab) self(what string, args ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	return append([]string{"env", childEnv + "=" + what, exe}, args...)
}

// tool skips the test if a program is missing.
func tool(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath("/usr/sbin/" + n); err != nil {
			need.Tool(t, n)
		}
	}
}
