package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"heddle/internal/proc"
)

// EndSignal ends managers, simulators and attached programs.
const EndSignal = syscall.SIGTERM

// stopLimit is how long a program may take to end after a signal.
const stopLimit = 20 * time.Second

// ErrLimit is the error of a wait that took too long.
var ErrLimit = errors.New("limit")

// A Program is measured, or serves one that is.
type Program struct{ *proc.Proc }

// Launch starts a program with further environment.
func Launch(dir string, env []string, name string, args ...string) (*Program, error) {
	p, err := proc.Start(proc.Command(dir, env, name, args...))
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Await returns the time from the start to the moment the output has text.
func (p *Program) Await(text string, limit time.Duration) (time.Duration, error) {
	err := p.WaitFor(text, limit-time.Since(p.Begin))
	took := time.Since(p.Begin)
	switch {
	case err == nil:
		return took, nil
	case took >= limit:
		return limit, ErrLimit
	}
	return 0, errors.New(Last(err.Error()))
}

// Stop ends the program and returns the most memory it held, in MiB.
func (p *Program) Stop(sig syscall.Signal) float64 {
	p.StopWith(sig, stopLimit)
	return p.PeakMiB()
}

// Kill kills programs, also those that are stopped. Those that were not started are nil.
func Kill(list ...*Program) {
	for _, p := range list {
		if p != nil {
			p.StopWith(syscall.SIGKILL, stopLimit)
		}
	}
}

// End ends programs with EndSignal, one after the other. Those that were not started are nil.
func End(list ...*Program) {
	for _, p := range list {
		if p != nil {
			p.StopWith(EndSignal, stopLimit)
		}
	}
}

// Output runs a program to its end, with further environment.
func Output(dir string, env []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, Last(errOut.String()))
	}
	return out, nil
}

// Last is the end of a text.
func Last(s string) string { return s[max(0, len(s)-2000):] }

// Tail is the end of what programs printed.
func Tail(list ...*Program) string {
	var text strings.Builder
	for i, p := range list {
		if p != nil {
			fmt.Fprintf(&text, "manager %d:\n%s\n", i, Last(p.Output()))
		}
	}
	return text.String()
}
