package logs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRecent: the last lines are kept, at the level of the log, in one line each, within the bounds.
func TestRecent(t *testing.T) {
	var r Recent
	level := new(slog.LevelVar)
	log := slog.New(r.Handler(level))
	if len(r.Lines()) != 0 {
		t.Errorf("%q before the first line", r.Lines())
	}
	x := slog.NewRecord(time.Date(2026, 11, 28, 15, 4, 5, 67e6, time.FixedZone("", 3600)), slog.LevelWarn, "two\nlines", 0)
	x.AddAttrs(slog.String("node", "sw 1"), slog.Int("port", 7))
	if err := log.Handler().Handle(context.Background(), x); err != nil {
		t.Fatal(err)
	}
	log.Debug("not logged")
	if got, want := r.Lines(), "2026-11-28T14:04:05.067Z WARN two\\nlines node=\"sw 1\" port=7\n"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	level.Set(slog.LevelDebug)
	log.With("kind", "x").Debug("logged")
	if got := r.Lines(); len(got) != 2 || !strings.HasSuffix(got[1], " DEBUG logged kind=x\n") {
		t.Errorf("%q", got)
	}

	for i := range 3 * recentLines {
		log.Info(fmt.Sprint("number ", i))
		if i == recentLines/2 || i == 2*recentLines+1 { // before and after the first move
			if got := r.Lines(); !strings.HasSuffix(got[len(got)-1], fmt.Sprintf(" number %d\n", i)) || len(got) != min(i+3, recentLines) {
				t.Errorf("after %d: %d lines to %q", i, len(got), got[len(got)-1])
			}
		}
	}
	if got := r.Lines(); len(got) != recentLines || !strings.HasSuffix(got[0], fmt.Sprintf(" number %d\n", 2*recentLines)) || cap(r.lines) > 3*recentLines {
		t.Errorf("%d lines from %q, room for %d", len(got), got[0], cap(r.lines))
	}

	for range 1000 {
		log.Info(strings.Repeat("é", recentLine))
	}
	got, n := r.Lines(), 0
	for _, l := range got {
		n += len(l)
		if len(l) > recentLine || !strings.HasSuffix(l, "é\n") {
			t.Fatalf("a line of %d bytes", len(l))
		}
	}
	if n > recentBytes || n < recentBytes-recentLine || n != r.bytes {
		t.Errorf("%d bytes in %d lines, counted %d", n, len(got), r.bytes)
	}
}
