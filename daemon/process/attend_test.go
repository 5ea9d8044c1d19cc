package process

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"heddle/store"
)

// silentTerms is a store that does not answer, or whose term is lost.
type silentTerms struct {
	Terms
	holds bool
}

func (s *silentTerms) Away() error                  { return nil }
func (s *silentTerms) Attend(context.Context) error { return store.ErrUnavailable }
func (s *silentTerms) Holds() bool                  { return s.holds }

// TestAttendLog: a store that says that the term is lost has answered.
func TestAttendLog(t *testing.T) {
	for _, holds := range []bool{true, false} {
		var log bytes.Buffer
		q := &Quorum{Terms: &silentTerms{holds: holds}, Log: slog.New(slog.NewTextHandler(&log, nil))}
		q.attend(t.Context())
		if said := strings.Contains(log.String(), "does not answer"); said != holds {
			t.Errorf("the term is held: %v: the log says %q", holds, log.String())
		}
	}
}
