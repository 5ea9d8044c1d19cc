package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// heddle is the binary under test, built once.
var heddle string

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "heddle-interop-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
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

// A proc is a program that runs beside the test until it is stopped.
type proc struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}
	err  error

	mu   sync.Mutex
	out  bytes.Buffer  // standard output and error; guarded by mu
	more chan struct{} // closed when out has grown; guarded by mu
}

// start runs a program with extra environment in dir and stops it when the
// test ends. It dies with the test process.
func start(t *testing.T, dir string, env []string, name string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, name: filepath.Base(name), cmd: exec.Command(name, args...), done: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	started := make(chan error)
	go func() {
		// Pdeathsig fires when the thread that forked ends: keep it.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	return p
}

// environ is this process' environment without what would change the tools.
func environ() []string {
	var out []string
	for _, kv := range os.Environ() {
		switch key, _, _ := strings.Cut(kv, "="); key {
		case "LD_PRELOAD", "IBSIM_SOCKNAME", "SIM_HOST", "SIM_SET_ISSM":
		default:
			if !strings.HasPrefix(key, "HEDDLE_") {
				out = append(out, kv)
			}
		}
	}
	return out
}

// Write collects output.
func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(b)
	close(p.more)
	p.more = make(chan struct{})
	return len(b), nil
}

func (p *proc) output() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String(), p.more
}

// await waits until the output matches, from offset from on, and returns the
// offset behind the match.
func (p *proc) await(re string, from int, limit time.Duration) int {
	p.t.Helper()
	r := regexp.MustCompile(re)
	deadline := time.After(limit)
	for {
		s, more := p.output()
		if m := r.FindStringIndex(s[min(from, len(s)):]); m != nil {
			return from + m[1]
		}
		select {
		case <-more:
		case <-p.done:
			if s, _ := p.output(); !r.MatchString(s[min(from, len(s)):]) {
				p.t.Fatalf("%s ended (%v) without saying %q:\n%s", p.name, p.err, re, tail(s))
			}
		case <-deadline:
			p.t.Fatalf("%s did not say %q within %v:\n%s", p.name, re, limit, tail(s))
		}
	}
}

// stop sends a signal and waits; a program that does not end is killed.
func (p *proc) stop(sig syscall.Signal) {
	syscall.Kill(-p.cmd.Process.Pid, sig)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// run runs a program to its end and returns what it printed.
func run(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done within %v: %w", limit, ctx.Err())
	}
	return string(out), err
}

// must is run that fails the test on an error.
func must(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := run(t, limit, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, tail(out))
	}
	return out
}

func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

// freeAddr is an address of loopback that nobody uses now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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
