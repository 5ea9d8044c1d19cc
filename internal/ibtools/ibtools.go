// Package ibtools lets tests run the public InfiniBand programs (OpenSM,
// osmtest, infiniband-diags) against a simulator that serves ibsim's protocol,
// ours or Debian's, and holds the list of checks that a subnet manager and a
// simulator have to pass together.
//
// Every program runs in a scratch directory of its own, in its own process
// group, under a time limit, and dies with the test process. Programs started
// in the background are stopped, newest first, when the test ends, and before
// the simulator if the Bench is made after it: OpenSM burns a whole processor
// once its simulator is gone.
package ibtools

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
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"heddle/internal/need"
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

// starter runs functions on one thread that lives as long as the process. The
// kernel kills a child with Pdeathsig when the thread that made it ends.
var starter = sync.OnceValue(func() chan<- func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

func start(c *exec.Cmd) error {
	err := make(chan error)
	starter() <- func() { err <- c.Start() }
	return <-err
}

// command prepares a program under ibsim-run; preload false starts it plainly,
// with the same environment.
func (b *Bench) command(dir, node string, env []string, preload bool, argv []string) *exec.Cmd {
	if preload {
		argv = append([]string{"ibsim-run"}, argv...)
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = dir
	for _, kv := range os.Environ() {
		switch k, _, _ := strings.Cut(kv, "="); k {
		case "LD_PRELOAD", "SIM_HOST", "SIM_SET_ISSM", "IBSIM_SOCKNAME", "IBSIM_SERVER_NAME", "IBSIM_SERVER_PORT":
		default:
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "IBSIM_SOCKNAME="+b.Sock, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if node != "" {
		c.Env = append(c.Env, "SIM_HOST="+node)
	}
	c.Env = append(c.Env, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = 2 * time.Second
	return c
}

// Result is what a program printed and how it ended.
type Result struct {
	Out  string // standard output and error
	Code int    // exit status; -1: killed
	Took time.Duration
	Err  error // it did not start, or did not end in time
}

// Run runs a program on a node under ibsim-run until it ends or the limit is
// reached.
func (b *Bench) Run(limit time.Duration, node string, argv ...string) Result {
	return b.RunEnv(limit, node, nil, argv...)
}

// RunEnv is Run with further environment variables.
func (b *Bench) RunEnv(limit time.Duration, node string, env []string, argv ...string) Result {
	var out bytes.Buffer
	c := b.command(b.Dir, node, env, true, argv)
	c.Stdout, c.Stderr = &out, &out
	begin := time.Now()
	if err := start(c); err != nil {
		return Result{Code: -1, Err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	err := c.Wait()
	stop()
	r := Result{Out: out.String(), Code: c.ProcessState.ExitCode(), Took: time.Since(begin)}
	switch _, isExit := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		r.Err = fmt.Errorf("did not end within %v", limit)
	case err != nil && !isExit:
		r.Err = err
	}
	return r
}

// Proc is a program in the background.
type Proc struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	out  []byte        // guarded by mu
	more chan struct{} // closed and replaced when out grows; guarded by mu
}

// Write implements io.Writer: the program's output ends here.
func (p *Proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = append(p.out, b...)
	close(p.more)
	p.more = make(chan struct{})
	return len(b), nil
}

// Output is what it has printed so far.
func (p *Proc) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.out)
}

// WaitFor waits until the program has printed text.
func (p *Proc) WaitFor(text string, limit time.Duration) error {
	timeout := time.After(limit)
	for {
		p.mu.Lock()
		found, more := bytes.Contains(p.out, []byte(text)), p.more
		p.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-more:
		case <-p.done:
			if strings.Contains(p.Output(), text) {
				return nil
			}
			return fmt.Errorf("%s ended without printing %q:\n%s", p.cmd.Path, text, p.Output())
		case <-timeout:
			return fmt.Errorf("%s did not print %q within %v:\n%s", p.cmd.Path, text, limit, p.Output())
		}
	}
}

// Done is closed when the program has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the program.
func (p *Proc) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Stop interrupts the program and kills it and its children if it has not
// ended after two seconds.
func (p *Proc) Stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(2 * time.Second):
		p.Kill()
	}
}

// Kill kills the program and its children at once.
func (p *Proc) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// Start starts a program on a node under ibsim-run and stops it when the test
// ends.
func (b *Bench) Start(t testing.TB, node string, env []string, argv ...string) *Proc {
	t.Helper()
	return b.launch(t, b.command(b.Dir, node, env, true, argv))
}

// StartPlain is Start without ibsim-run.
func (b *Bench) StartPlain(t testing.TB, env []string, argv ...string) *Proc {
	t.Helper()
	return b.launch(t, b.command(b.Dir, "", env, false, argv))
}

func (b *Bench) launch(t testing.TB, c *exec.Cmd) *Proc {
	t.Helper()
	p := &Proc{cmd: c, done: make(chan struct{}), more: make(chan struct{})}
	c.Stdout, c.Stderr = p, p
	if err := start(c); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = c.Wait()
	}()
	t.Cleanup(p.Stop)
	return p
}

// OpenSM starts OpenSM on a node and waits until the subnet is up. Its dumps
// and its log are in b.Dir/osm-NODE.
func (b *Bench) OpenSM(t testing.TB, node string, limit time.Duration, args ...string) *Proc {
	t.Helper()
	need.Tool(t, "opensm")
	need.Tool(t, "ibsim-run")
	dir := filepath.Join(b.Dir, "osm-"+node)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// No configuration of the machine, only defaults; and a log that is not
	// held back in a buffer, for it is where the subnet is said to be up. and a log that can be
	// waited for.
	conf := filepath.Join(dir, "opensm.conf")
	if err := os.WriteFile(conf, []byte("force_log_flush TRUE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"opensm", "-F", conf, "-d", "1", "-e", "-f", filepath.Join(dir, "osm.log"), "-D", "0x43"}, args...)
	p := b.Start(t, node, []string{"OSM_TMP_DIR=" + dir, "OSM_CACHE_DIR=" + dir}, argv...)
	if err := p.WaitForFile(filepath.Join(dir, "osm.log"), "SUBNET UP", limit); err != nil {
		t.Fatal(err)
	}
	return p
}

// WaitForFile waits until a file that the program writes contains text.
func (p *Proc) WaitForFile(path, text string, limit time.Duration) error {
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
		case <-p.done:
			return fmt.Errorf("%s ended without writing %q to %s:\n%s\n%s", p.cmd.Path, text, path, tail(string(b), 3000), p.Output())
		case <-timeout.C:
			return fmt.Errorf("%s did not write %q to %s within %v:\n%s\n%s", p.cmd.Path, text, path, limit, tail(string(b), 3000), p.Output())
		}
	}
}

// Pid is the process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Ibsim starts Debian's ibsim on a netlist, waits until it serves, and returns
// it with a bench for it.
func Ibsim(t testing.TB, netlist, sock string) (*Bench, *Proc) {
	t.Helper()
	path := need.Tool(t, "ibsim")
	b := New(t, sock)
	p := b.StartPlain(t, nil, path, "-s", "-n", "-N", "20000", "-S", "4000", "-P", "300000", netlist)
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !Serving(sock) {
		select {
		case <-tick.C:
		case <-p.done:
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
