package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heddle/internal/faultdisk"
	"heddle/internal/need"
	"heddle/internal/proc"
)

// heddle is the binary under test, built once.
var heddle string

func TestMain(m *testing.M) {
	faultdisk.Stage(nil)
	if os.Getenv(listenerEnv) != "" {
		listenForReports()
		return
	}
	if os.Getenv(hostileEnv) != "" {
		sendNonsense()
		return
	}
	code := func() int {
		dir, err := os.MkdirTemp("", "heddle-interop-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		os.Setenv("HEDDLE_RUNTIME_DIR", filepath.Join(dir, "run")) // not this user's own
		heddle = filepath.Join(dir, "heddle")
		build := exec.Command("go", "build", "-o", heddle, "heddle/cmd/heddle")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building heddle:", err)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

// A program runs beside the test until it is stopped.
type program struct {
	*proc.Proc
	t *testing.T
}

// start runs a program with further environment in dir and stops it when the
// test ends.
func start(t *testing.T, dir string, env []string, name string, args ...string) program {
	t.Helper()
	atHand(t, name, args)
	p, err := proc.Start(proc.Command(dir, env, name, args...))
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(p.Kill)
	return program{p, t}
}

// await waits until the output matches, from offset from on, and returns the
// offset behind the match.
func (p program) await(re string, from int, limit time.Duration) int {
	p.t.Helper()
	at, err := p.Await(re, from, limit)
	if err != nil {
		p.t.Fatal(tail(err.Error()))
	}
	return at
}

// stop sends a signal, waits, and returns how the program ended.
func (p program) stop(sig syscall.Signal) error {
	p.StopWith(sig, upTime)
	return p.Err()
}

// run runs a program to its end and returns what it printed.
func run(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	atHand(t, name, args)
	r := proc.Run(limit, proc.Command(dir, env, name, args...))
	if r.Err == nil && r.Code != 0 {
		r.Err = fmt.Errorf("exit status %d", r.Code)
	}
	return r.Out, r.Err
}

// must is run that fails the test on an error. Programs under ibsim-run have no timers: heddle sim tells
// them after 800 ms that nobody answered. Where the manager got no processor for that long, they ask again.
func must(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := run(t, limit, dir, env, name, args...)
	for try := 1; try < 5 && err != nil && name == "ibsim-run" && strings.Contains(out, "Connection timed out"); try++ {
		t.Logf("%s: a request timed out; once more", strings.Join(args, " "))
		out, err = run(t, limit, dir, env, name, args...)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, tail(out))
	}
	return out
}

// atHand skips t where a program of the distribution is missing.
func atHand(t *testing.T, name string, args []string) {
	t.Helper()
	if !strings.Contains(name, "/") {
		need.Tool(t, name)
	}
	if name == "ibsim-run" {
		atHand(t, args[0], nil)
	}
}

func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

var sockets struct {
	mu sync.Mutex
	n  int
}

// socketName is a name for a simulator that no other test uses.
func socketName() string {
	sockets.mu.Lock()
	defer sockets.mu.Unlock()
	sockets.n++
	return fmt.Sprintf("hdl%d-%d", os.Getpid(), sockets.n)
}
