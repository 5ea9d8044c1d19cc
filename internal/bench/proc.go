package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A program that is measured, or that serves one that is.
type program struct {
	cmd   *exec.Cmd
	begin time.Time
	done  chan struct{}
	in    io.WriteCloser

	mu   sync.Mutex
	out  bytes.Buffer  // guarded by mu
	more chan struct{} // guarded by mu
}

// launch starts a program with further environment, its output collected.
func launch(dir string, env []string, name string, args ...string) (*program, error) {
	p := &program{cmd: exec.Command(name, args...), done: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig fires when the forking thread ends
		p.begin = time.Now()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(b)
	close(p.more)
	p.more = make(chan struct{})
	return len(b), nil
}

func (p *program) output() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String(), p.more
}

var errLimit = errors.New("limit")

// await returns the time from the start to the moment the output has text.
func (p *program) await(text string, limit time.Duration) (time.Duration, error) {
	deadline := time.After(limit - time.Since(p.begin))
	for {
		s, more := p.output()
		if strings.Contains(s, text) {
			return time.Since(p.begin), nil
		}
		select {
		case <-more:
		case <-p.done:
			if s, _ := p.output(); !strings.Contains(s, text) {
				return 0, fmt.Errorf("%s ended without saying %q:\n%s", p.cmd.Path, text, last(s))
			}
		case <-deadline:
			return limit, errLimit
		}
	}
}

// stop ends the program and returns the most memory it held, in MiB.
func (p *program) stop(sig syscall.Signal) float64 {
	p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		<-p.done
	}
	if ru, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		return float64(ru.Maxrss) / 1024
	}
	return 0
}

// output runs a program to its end, with further environment.
func output(dir string, env []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, last(errOut.String()))
	}
	return out, nil
}

func last(s string) string { return s[max(0, len(s)-2000):] }
