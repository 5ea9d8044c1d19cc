package logs

import (
	"log/slog"
	"strings"
	"sync"
)

// Bounds of a Recent.
const (
	recentLines = 4096
	recentBytes = 1 << 20
	recentLine  = 8 << 10 // bytes of a line
)

// recentTime has milliseconds, as the text on standard error.
const recentTime = "2006-01-02T15:04:05.000Z07:00"

// Recent keeps the last lines of a log in memory: 4,096 of them, at most 1 MiB.
type Recent struct {
	mu    sync.Mutex
	lines []string // the oldest first, before them those that were dropped since the last move; guarded by mu
	first int      // the oldest that is kept; guarded by mu
	bytes int      // of those that are kept; guarded by mu
}

// Handler returns a handler that keeps each line at or above a level.
func (r *Recent) Handler(level slog.Leveler) slog.Handler {
	return &handler{level: level, write: r.keep}
}

func (r *Recent) keep(l *line) error {
	text := l.time.UTC().Format(recentTime) + " " + l.level.String() + " " + l.String()
	text = cut(strings.ReplaceAll(text, "\n", `\n`), recentLine-1) + "\n"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, text)
	r.bytes += len(text)
	for r.bytes > recentBytes || len(r.lines)-r.first > recentLines {
		r.bytes -= len(r.lines[r.first])
		r.lines[r.first] = ""
		r.first++
	}
	if r.first > recentLines {
		r.lines = append(r.lines[:0:0], r.lines[r.first:]...)
		r.first = 0
	}
	return nil
}

// Lines returns the lines that are kept, the oldest first. Each ends with a line end.
func (r *Recent) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines[r.first:]...)
}
