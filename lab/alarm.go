package lab

import (
	"heddle/mad"
	"heddle/sim"
)

// Alarm has something called when it is due: at the earliest time that it has named, and at no
// other, however often it is set.
type Alarm struct {
	sim    *sim.Subnet
	at     mad.Time // mad.Never: not set
	next   func() mad.Time
	expire func(now mad.Time)
}

// NewAlarm makes an alarm that calls expire when next says so.
func NewAlarm(s *sim.Subnet, next func() mad.Time, expire func(now mad.Time)) *Alarm {
	return &Alarm{sim: s, at: mad.Never, next: next, expire: expire}
}

// Set has it called, if it is not called before anyway. Call it when what is due may have changed.
func (a *Alarm) Set() {
	t := max(a.next(), a.sim.Now())
	if a.at <= t {
		return
	}
	a.at = t
	a.sim.At(t, func() {
		if a.at != t {
			return // an earlier one has come in between
		}
		a.at = mad.Never
		a.expire(t)
		a.Set()
	})
}
