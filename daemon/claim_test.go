package daemon_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"heddle/daemon"
	"heddle/mad"
)

// taken is a port that another process holds for the first few attempts to claim it.
type taken struct {
	mad.Transport
	left atomic.Int32 // < 0: without end
}

var errTaken = errors.New("somebody has it")

func (p *taken) SetIsSM(on bool) error {
	if on && p.left.Load() != 0 {
		p.left.Add(-1)
		return errTaken
	}
	return p.Transport.SetIsSM(on)
}

// TestClaimWaits: a manager that is restarted before the port of the killed one is released
// waits for the port, and says so.
func TestClaimWaits(t *testing.T) {
	p := &taken{}
	p.left.Store(3)
	r := newRigWith(t, func(c *daemon.Config) { p.Transport, c.Port, c.ClaimWait = c.Port, p, time.Minute }, "xgft", "2", "2,2", "1,2")
	r.awaitUp()
	if p.left.Load() != 0 {
		t.Errorf("%d claims left", p.left.Load())
	}
	told := 0
	r.d.FlushEvents()
	events, _ := r.d.Events(0)
	for _, e := range events {
		if strings.Contains(e.Message, "the port is claimed") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d notices say that the port is awaited", told)
	}
}

// TestClaimFails: the wait for a port that another manager keeps is bounded.
func TestClaimFails(t *testing.T) {
	p := &taken{}
	p.left.Store(-1)
	r := newRigWith(t, func(c *daemon.Config) { p.Transport, c.Port, c.ClaimWait = c.Port, p, 120*time.Millisecond }, "xgft", "2", "2,2", "1,2")
	err := <-r.end
	close(r.end)
	if !errors.Is(err, daemon.ErrBusy) || !errors.Is(err, errTaken) || !strings.Contains(err.Error(), "after 120ms") || p.left.Load() > -2 {
		t.Errorf("%v after %d claims", err, -p.left.Load()-1)
	}
}
