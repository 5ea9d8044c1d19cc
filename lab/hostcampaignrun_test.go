package lab

import (
	"testing"
	"time"

	"heddle/sim/host/rc"
)

// hostSchedule runs one schedule of TestHostCampaign.
func hostSchedule(t *testing.T, seed uint64, sum *hostTally) {
	x := newHostTrial(t, seed, sum)
	for range 4 + x.r.IntN(6) {
		x.step(x.pause())
		x.act()
	}
	x.endMigration()
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
	return x.hc.Repath.ArmLimit + x.hc.Repath.Hold + x.retryTime()
}

// retryTime is how long a connection repeats at most, and then some.
func (x *hostTrial) retryTime() (d time.Duration) {
	for _, s := range x.streams {
		d = max(d, rc.AckTimeout(s.sender.Timeout).Duration()*time.Duration(s.sender.Retries+2))
	}
	return d
}

// rightAfterForgetting: hosts forget notices that they have acknowledged. They are right
// after Refresh, and what the answer takes (docs/simulated-hosts.md), counted from when
// the SA answers differently for the last time, and no guard keeps datagrams from it.
func (x *hostTrial) rightAfterForgetting() {
	const answer = 2*queryTimeout + 20*time.Millisecond // the last query may have been lost
	took := x.untilRight(x.hc.Refresh + answer + x.changeTime())
	x.sum.worstForgotten = max(x.sum.worstForgotten, took)
	x.forget = false
}

// rightAfterLosses: datagrams are lost until now, or none were. All hosts are right again
// within signalBound (docs/signalling.md), though they ask for nothing by themselves.
func (x *hostTrial) rightAfterLosses() {
	x.wire = 0
	from := x.Sim.Now()
	x.untilRight(signalBound)
	took := x.Sim.Now().Sub(from) - rightTime
	if took > signalBound {
		x.t.Errorf("not right after %v", took)
	}
	x.sum.worstLost = max(x.sum.worstLost, took)
}

// rightTime is how long hosts have to be right.
const rightTime = 700 * time.Millisecond

// untilRight runs until all hosts are right and stay so, and returns the longest that they
// were not since the SA answered differently.
func (x *hostTrial) untilRight(limit time.Duration) (worst time.Duration) {
	from, told, bad := x.Sim.Now(), "", x.Sim.Now()
	end := x.Sim.Now().Add(2 * signalBound)
	for x.Sim.Now().Sub(max(from, bad)) < rightTime {
		now := x.Sim.Now()
		answers, wrong := x.answers()
		if answers != told || answers == "" {
			told, from = answers, now
		}
		if wrong != "" {
			bad = now
			worst = max(worst, now.Sub(from))
		}
		if worst > limit || now > end {
			x.t.Errorf("not right after %v: %s", limit, wrong)
			break
		}
		x.step(5 * time.Millisecond)
	}
	return worst
}

// finish lets connections send what they have, and counts.
func (x *hostTrial) finish() {
	for _, s := range x.streams {
		s.Stop()
	}
	x.step(x.retryTime() + 10*time.Millisecond)
	for _, s := range x.streams {
		n, _ := s.Sink.Got()
		x.sum.messages += n
		x.sum.repeats += s.Conn.QP().Count.Repeats
		if err := s.Check(); err != nil {
			x.t.Errorf("%s: %v", s.name, err)
		}
		if st, _ := s.Failed(); st == rc.Success && (s.Acknowledged() != s.Posted() || n != s.Posted()) {
			x.t.Errorf("%s: %d messages of %d acknowledged, %d came", s.name, s.Acknowledged(), s.Posted(), n)
		}
	}
	for _, h := range x.hosts {
		k := h.Handler.Count
		x.sum.changed += k.Changed
		x.sum.migrated += k.Migrated
		x.sum.drained += k.Drained
		x.sum.queries += k.Queries
		x.sum.suspended += k.Suspended
		x.sum.resumed += k.Resumed
		if err := x.RunUntil(signalBound, h.Handler.Idle); err != nil { // it repeats queries that were lost
			x.t.Errorf("%s: its handler is not idle: %+v", h.Name, k)
		}
	}
	if err := x.Engine.Check(); err != nil {
		x.t.Error(err)
	}
	x.checkMachine()
	if w := guardsLeft(x.Cluster, x.Manager); w != "" {
		x.t.Error(w)
	}
}
