// Package proc runs programs for a test, a benchmark, or a testbed on one machine.
// Each runs in its own process group, has its output collected, and dies with this
// process, however that ends.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// foreign are the variables that affect InfiniBand tools.
var foreign = []string{"LD_PRELOAD", "SIM_HOST", "SIM_SET_ISSM", "IBSIM_SOCKNAME", "IBSIM_SERVER_NAME", "IBSIM_SERVER_PORT"}

// Command prepares a program in dir with further environment variables. The
// rest of the environment is this process' own without what changes
// InfiniBand tools and without HEDDLE_* settings; daemons in /usr/sbin are found too.
func Command(dir string, env []string, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		ours := strings.HasPrefix(key, "HEDDLE_") && key != "HEDDLE_RUNTIME_DIR"
		if !slices.Contains(foreign, key) && !ours && key != "PATH" {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	c.Env = append(c.Env, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = time.Minute // for what has the output open after the program's end, on a busy machine
	return c
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

// Launch starts a command whose input and output the caller has set up. With Pdeathsig in its
// SysProcAttr it dies with this process.
func Launch(c *exec.Cmd) error {
	err := make(chan error)
	starter() <- func() { err <- c.Start() }
	return <-err
}

// Result is what a program printed and how it ended.
type Result struct {
	Out  string // standard output and error
	Code int    // exit status; -1: killed
	Took time.Duration
	Err  error // it did not start, or did not end in time
}

// Run runs a command to its end, or kills it at the limit.
func Run(limit time.Duration, c *exec.Cmd) Result {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	begin := time.Now()
	if err := Launch(c); err != nil {
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
	In    io.WriteCloser // its standard input
	Begin time.Time      // when it was started

	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read after done

	mu   sync.Mutex
	out  []byte        // guarded by mu
	more chan struct{} // closed and replaced when out grows; guarded by mu
}

// Start starts a command in the background.
func Start(c *exec.Cmd) (*Proc, error) {
	p := &Proc{cmd: c, done: make(chan struct{}), more: make(chan struct{})}
	c.Stdout, c.Stderr = p, p
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.In, p.Begin = in, time.Now()
	if err := Launch(c); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = c.Wait()
	}()
	return p, nil
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

// Output is the program's output so far.
func (p *Proc) Output() string {
	s, _ := p.look(0)
	return s
}

func (p *Proc) look(from int) (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.out[min(from, len(p.out)):]), p.more
}

// WaitFor waits until the program has printed text.
func (p *Proc) WaitFor(text string, limit time.Duration) error {
	_, err := p.Await(regexp.QuoteMeta(text), 0, limit)
	return err
}

// Await waits until the program's output, from offset from on, matches a
// regular expression, and returns the offset after the match.
func (p *Proc) Await(re string, from int, limit time.Duration) (int, error) {
	r := regexp.MustCompile(re)
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for ended := false; ; {
		s, more := p.look(from)
		if m := r.FindStringIndex(s); m != nil {
			return from + m[1], nil
		}
		if ended {
			return 0, fmt.Errorf("%s ended (%v) without printing %q:\n%s", p.cmd.Path, p.err, re, p.Output())
		}
		select {
		case <-more:
		case <-p.done:
			ended = true
		case <-timeout.C:
			return 0, fmt.Errorf("%s did not print %q within %v:\n%s", p.cmd.Path, re, limit, p.Output())
		}
	}
}

// Done is closed when the program has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Err is how the program ended; it waits for that.
func (p *Proc) Err() error {
	<-p.done
	return p.err
}

// Pid is the process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal to the program.
func (p *Proc) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Stop interrupts the program; see StopWith.
func (p *Proc) Stop() { p.StopWith(syscall.SIGINT, 2*time.Second) }

// StopWith sends a signal to the program and its children, and kills them if
// the program has not ended after the grace.
func (p *Proc) StopWith(s syscall.Signal, grace time.Duration) {
	_ = syscall.Kill(-p.Pid(), s)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		p.Kill()
	}
}

// Kill kills the program and its children immediately.
func (p *Proc) Kill() {
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	<-p.done
}

// PeakMiB is the most memory the program held, once it has ended.
func (p *Proc) PeakMiB() float64 {
	<-p.done
	if ru, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		return float64(ru.Maxrss) / 1024
	}
	return 0
}
