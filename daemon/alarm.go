package daemon

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"heddle/mad"
)

// alarm is the timer of a core's loop: one deadline, which replaces the one before.
type alarm struct {
	timer *time.Timer
	due   mad.Time
	nap   *nap // for short times; nil: the timer alone
}

func newAlarm() alarm {
	a := alarm{timer: time.NewTimer(time.Hour), due: mad.Never}
	a.timer.Stop()
	return a
}

// set makes due the deadline; mad.Never: none.
func (a *alarm) set(now, due mad.Time) {
	if due == a.due {
		return
	}
	a.due = due
	if due == mad.Never {
		a.timer.Stop()
		return
	}
	wait := max(0, due.Sub(now))
	if a.nap != nil && wait < shortest {
		a.timer.Stop()
		a.nap.ask(wait)
		return
	}
	a.timer.Reset(wait)
}

// rang records that the deadline has passed.
func (a *alarm) rang() { a.due = mad.Never }

// shortest is the shortest time for timers of the runtime. It waits in milliseconds, so all that is
// due in one of them would be done at once: two of 2,000 Reports in a second, and the queries that
// follow them.
const shortest = 2 * time.Millisecond

// nap waits for short times, more exactly than the runtime's timers.
type nap struct {
	bell bell // rung at the end
	next chan time.Duration
}

func newNap() *nap { return &nap{bell: newBell(), next: make(chan time.Duration, 1)} }

// ask asks for a ring after a time. If another one is asked for already, that is enough: the loop
// asks again when it has rung.
func (n *nap) ask(wait time.Duration) {
	select {
	case n.next <- wait:
	default:
	}
}

// run naps until ctx ends.
func (n *nap) run(ctx context.Context) {
	runtime.LockOSThread() // until its end: no other goroutine is to have its slack
	// The kernel may wake a thread 50 µs late, unless it asks for less.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	for {
		select {
		case <-ctx.Done():
			return
		case wait := <-n.next:
			pause(wait)
			n.bell.ring()
		}
	}
}

// pause blocks the calling thread for a short time.
func pause(wait time.Duration) {
	for end := time.Now().Add(wait); wait > 0; wait = time.Until(end) {
		t := unix.NsecToTimespec(int64(wait))
		_ = unix.Nanosleep(&t, nil) // a signal ends it early
	}
}

// bell wakes a goroutine: once rung it stays rung until one receives from it.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
