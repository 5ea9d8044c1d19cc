package main

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

// A program is measured, or serves one that is.
type program struct{ *proc.Proc }

// launch starts a program with further environment.
func launch(dir string, env []string, name string, args ...string) (*program, error) {
	p, err := proc.Start(proc.Command(dir, env, name, args...))
	if err != nil {
		return nil, err
	}
	return &program{p}, nil
}

var errLimit = errors.New("limit")

// await returns the time from the start to the moment the output has text.
func (p *program) await(text string, limit time.Duration) (time.Duration, error) {
	err := p.WaitFor(text, limit-time.Since(p.Begin))
	took := time.Since(p.Begin)
	switch {
	case err == nil:
		return took, nil
	case took >= limit:
		return limit, errLimit
	}
	return 0, errors.New(last(err.Error()))
}

// stop ends the program and returns the most memory it held, in MiB.
func (p *program) stop(sig syscall.Signal) float64 {
	p.StopWith(sig, 20*time.Second)
	return p.PeakMiB()
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
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, last(errOut.String()))
	}
	return out, nil
}

func last(s string) string { return s[max(0, len(s)-2000):] }

// endSignal ends managers, simulators and attached programs.
const endSignal = syscall.SIGTERM

// childrenTime is the processor time of the programs that have ended and been
// waited for, those that they have waited for included.
func childrenTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
