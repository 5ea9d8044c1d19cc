package daemon

import (
	"context"
	"testing"
	"time"

	"heddle/mad"
)

// TestAlarmNaps: short times are not left to the runtime's timers, which would round them up.
func TestAlarmNaps(t *testing.T) {
	a := newAlarm()
	a.nap = newNap()
	const now = mad.Time(time.Second)
	for _, c := range []struct {
		wait time.Duration
		nap  bool
	}{{-time.Second, true}, {500 * time.Microsecond, true}, {shortest - 1, true}, {shortest, false}, {time.Hour, false}} {
		a.set(now, now.Add(c.wait))
		select {
		case wait := <-a.nap.next:
			if !c.nap || wait != max(0, c.wait) {
				t.Errorf("in %v: a nap of %v", c.wait, wait)
			}
		default:
			if c.nap {
				t.Errorf("in %v: no nap", c.wait)
			}
		}
		if runs := a.timer.Stop(); runs == c.nap {
			t.Errorf("in %v: the timer runs: %v", c.wait, runs)
		}
		a.rang()
	}
}

// TestNapRings: each nap that is asked for ends with a ring, asking twice is no fault, and a
// context ends it.
func TestNapRings(t *testing.T) {
	n := newNap()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		n.run(ctx)
		close(done)
	}()
	for range 3 {
		n.ask(time.Microsecond)
		n.ask(0)
		<-n.bell
	}
	cancel()
	<-done
}
