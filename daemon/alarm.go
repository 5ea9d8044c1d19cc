package daemon

import (
	"time"

	"heddle/mad"
)

// alarm is the timer of a core's loop: one deadline, which replaces the one before.
type alarm struct {
	timer *time.Timer
	due   mad.Time
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
	a.timer.Reset(max(0, due.Sub(now)))
}

// rang records that the deadline has passed.
func (a *alarm) rang() { a.due = mad.Never }

// bell wakes a goroutine: once rung it stays rung until one receives from it.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
