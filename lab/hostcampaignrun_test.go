package lab

import (
	"testing"
	"time"

	"heddle/mad"
	"heddle/sim/host/rc"
)

// hostSchedule runs one schedule of TestHostCampaign.
func hostSchedule(t *testing.T, seed uint64, sum *hostTally) {
	x := newHostTrial(t, seed, sum)
	for range 4 + x.r.IntN(6) {
		x.step(time.Duration(x.r.IntN(120)) * time.Millisecond)
		x.act()
	}
	if x.forget {
		x.rightAfterForgetting()
	} else {
		x.rightAfterLosses()
	}
	if t.Failed() {
		return
	}
	x.finish()
}

// changeTime is how long a connection may take to change when its host knows the new
// path: it is not ARMED in time, and then it drains with all its retries.
func (x *hostTrial) changeTime() time.Duration {
	timer := rc.AckTimeout(x.hc.Sender.Timeout).Duration()
	return x.hc.Repath.ArmLimit + x.hc.Repath.Hold + timer*time.Duration(x.hc.Sender.Retries+2)
}

// rightAfterForgetting: hosts forget notices that they have acknowledged until the subnet
// is at rest. They are right again after Refresh, and what the answer takes
// (docs/simulated-hosts.md).
func (x *hostTrial) rightAfterForgetting() {
	x.rest()
	x.forget = false
	const answer = 20 * time.Millisecond
	took := x.untilRight(x.hc.Refresh + answer + x.changeTime())
	x.sum.worstForgotten = max(x.sum.worstForgotten, took)
}

// rest runs until the manager has nothing to do.
func (x *hostTrial) rest() {
	for quiet := 0; quiet < 50; quiet++ {
		x.step(10 * time.Millisecond)
		if m := x.Manager; m.Dead || !m.Up() || !m.Idle() {
			quiet = 0
		}
		if x.Sim.Now() > mad.Time(2*time.Minute) {
			x.t.Errorf("the manager is not at rest: %+v", x.Manager.Status())
			return
		}
	}
}

// rightAfterLosses: datagrams are lost until now, or none were. All hosts are right again
// within signalBound (docs/signalling.md), though they ask for nothing by themselves.
func (x *hostTrial) rightAfterLosses() {
	x.wire = 0
	took := x.untilRight(signalBound)
	x.sum.worstLost = max(x.sum.worstLost, took)
}

// untilRight runs until all hosts are right and stay so, and returns how long that took.
func (x *hostTrial) untilRight(limit time.Duration) time.Duration {
	from := x.Sim.Now()
	last := from
	why := ""
	for x.Sim.Now().Sub(last) < 700*time.Millisecond {
		if w := x.wrong(); w != "" {
			last, why = x.Sim.Now(), w
		}
		if last.Sub(from) > limit {
			x.t.Errorf("not right after %v: %s", limit, why)
			break
		}
		x.step(5 * time.Millisecond)
	}
	return last.Sub(from)
}

// finish lets connections send what they have, and counts.
func (x *hostTrial) finish() {
	for _, s := range x.streams {
		s.Stop()
	}
	x.step(rc.AckTimeout(x.hc.Sender.Timeout).Duration()*time.Duration(x.hc.Sender.Retries+2) + 10*time.Millisecond)
	for _, s := range x.streams {
		n, _ := s.Sink.Got()
		x.sum.messages += n
		x.sum.repeats += s.Conn.QP().Count.Repeats
		if err := s.Check(); err != nil {
			x.t.Errorf("%s to %s: %v", s.from.Name, s.to.Name, err)
		}
		if st, _ := s.Failed(); st == rc.Success && (s.Acknowledged() != s.Posted() || n != s.Posted()) {
			x.t.Errorf("%s to %s: %d messages of %d acknowledged, %d came", s.from.Name, s.to.Name, s.Acknowledged(), s.Posted(), n)
		}
	}
	for _, h := range x.hosts {
		k := h.Handler.Count
		x.sum.changed += k.Changed
		x.sum.migrated += k.Migrated
		x.sum.drained += k.Drained
		x.sum.queries += k.Queries
		if err := x.RunUntil(signalBound, h.Handler.Idle); err != nil { // it repeats queries that were lost
			x.t.Errorf("%s: its handler is not idle: %+v", h.Name, k)
		}
	}
	if err := x.Engine.Check(); err != nil {
		x.t.Error(err)
	}
}
