package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"heddle/sm"
)

// terminal is standard error: log lines and, on a terminal, one line of
// progress below them.
type terminal struct {
	w     io.Writer
	shows bool // standard error is a terminal

	mu   sync.Mutex
	line string // the progress line; guarded by mu
}

func newTerminal(cmd *cobra.Command) *terminal {
	w := cmd.ErrOrStderr()
	return &terminal{w: w, shows: onTerminal(w)}
}

const eraseLine = "\r\x1b[K"

// Write writes a log line above the line of progress.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line == "" {
		return t.w.Write(b)
	}
	io.WriteString(t.w, eraseLine)
	n, err := t.w.Write(b)
	io.WriteString(t.w, t.line)
	return n, err
}

// clear removes the line of progress.
func (t *terminal) clear() { t.show("") }

func (t *terminal) show(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line == t.line {
		return
	}
	t.line = line
	io.WriteString(t.w, eraseLine+line)
}

// progress returns the function that shows a manager's progress; nil: no
// terminal.
func (t *terminal) progress() func(sm.Status) {
	if !t.shows {
		return nil
	}
	return func(s sm.Status) { t.show(progressLine(s)) }
}

// progressLine describes the progress of a sweep; it is empty between sweeps.
func progressLine(s sm.Status) string {
	if s.Phase == sm.PhaseIdle || s.Phase == sm.PhaseLight {
		return ""
	}
	line := s.Phase.String()
	if s.Todo > 0 {
		line = fmt.Sprintf("%s %d of %d", line, s.Done, s.Todo)
	}
	return fmt.Sprintf("%s, %d SMPs sent, %d in flight", line, s.Sent, s.InFlight)
}
