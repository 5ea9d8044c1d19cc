package repath

import (
	"testing"
	"time"

	"heddle/agent/generation"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
	"heddle/sim/host/saclient"
)

// history is an SA with generations.
type history struct {
	*answers
	gen     uint64
	changed map[int]uint64 // generation of the last change of the path to a host
	lost    map[int]bool
	refuse  bool
	changes int // queries
}

// Changes implements Changer.
func (x *history) Changes(_ mad.Time, _ ib.GID, gen uint64, done func(mad.Time, []wire.PathChangeRecord, error)) {
	x.changes++
	if x.refuse {
		x.wait = append(x.wait, func(now mad.Time) { done(now, nil, &saclient.StatusError{Status: 0x000C}) })
		return
	}
	list := []wire.PathChangeRecord{{Generation: x.gen, Head: true, All: !generation.Same(gen, x.gen)}}
	for to, g := range x.changed {
		if !list[0].All && g > gen {
			list = append(list, wire.PathChangeRecord{Generation: x.gen, Lost: x.lost[to], Path: x.record(to)})
		}
	}
	x.wait = append(x.wait, func(now mad.Time) { done(now, list, nil) })
}

func (x *history) set(to int, sl ib.SL) {
	x.gen++
	x.sl[to], x.changed[to] = sl, x.gen
}

// withHistory gives host 0 of a fixture an SA with generations.
func withHistory(f *fixture, c Config) *history { return withHistoryAt(f, 0, c) }

// withHistoryAt is withHistory for any host.
func withHistoryAt(f *fixture, host int, c Config) *history {
	x := &history{answers: f.sa[host], gen: 7<<32 | 1, changed: map[int]uint64{}, lost: map[int]bool{}}
	f.h[host] = New(c, x, f.a[host], func() ib.GID { return gid(host) })
	return x
}

// TestGenerations: what each event costs in queries, and that the queue pair has its path.
func TestGenerations(t *testing.T) {
	f := newFixture(t, 4, Defaults())
	x := withHistory(f, Defaults())
	f.stream(0, 1)
	_, _, c := f.stream(0, 2)
	report := func(to int, before, after uint64) *saclient.Report {
		r := f.repathed(0, to, to >= 0)
		r.Before, r.Generation = before, after
		return r
	}
	for _, s := range []struct {
		name           string
		do             func()
		sl             ib.SL
		wild, one, chg int // queries: for all paths, for one, for changes
	}{
		{"the first look", func() { f.h[0].Refresh(f.now()) }, 0, 1, 0, 1},
		{"nothing changed", func() { f.h[0].Refresh(f.now()) }, 0, 0, 0, 1},
		{"a notice was lost", func() { x.set(2, 1); f.h[0].Refresh(f.now()) }, 1, 0, 0, 1},
		{"a notice with values", func() { g := x.gen; x.set(2, 0); f.h[0].Notice(f.now(), report(2, g, x.gen)) }, 0, 0, 0, 0},
		{"a notice of another path after one that was lost", func() {
			x.set(2, 1)
			g := x.gen
			x.set(1, 1)
			f.h[0].Notice(f.now(), report(1, g, x.gen))
		}, 1, 0, 0, 1},
		{"one of two notices of a generation", func() {
			g := x.gen
			x.set(2, 0)
			x.set(1, 0)
			f.h[0].Notice(f.now(), report(1, g, x.gen))
		}, 1, 0, 0, 0},
		{"the next look", func() { f.h[0].Refresh(f.now()) }, 0, 0, 0, 1},
		{"any path", func() { x.set(2, 1); f.h[0].Notice(f.now(), report(-1, x.gen-1, x.gen)) }, 1, 0, 0, 1},
		{"a notice from before the last answer", func() {
			x.sl[2] = 0
			r := report(2, x.gen-1, x.gen)
			x.sl[2] = 1
			f.h[0].Notice(f.now(), r)
		}, 1, 0, 0, 0},
		{"another manager", func() { x.gen, x.sl[2] = 9<<32|1, 1; f.h[0].Refresh(f.now()) }, 1, 1, 0, 1},
		{"one without generations", func() { x.refuse, x.sl[2] = true, 0; f.h[0].Refresh(f.now()) }, 0, 1, 0, 1},
		{"the same once more", func() { x.sl[2] = 1; f.h[0].Refresh(f.now()) }, 1, 1, 0, 0},
		{"one with them", func() { x.refuse = false; f.h[0].Restart(); f.h[0].Refresh(f.now()) }, 1, 0, 0, 1},
	} {
		wild, all, chg := x.wild, x.asked, x.changes
		s.do()
		f.run(20 * time.Millisecond)
		if c.QP().Path().SL != s.sl || x.wild-wild != s.wild || x.asked-all-s.wild != s.one || x.changes-chg != s.chg || !f.h[0].Idle() {
			t.Errorf("%s: level %d, %d queries for all paths, %d more, %d for changes", s.name, c.QP().Path().SL, x.wild-wild, x.asked-all-s.wild, x.changes-chg)
		}
	}
	// A connection that is made with a path from before is asked for.
	f.stream(0, 3)
	x.sl[3] = 1
	f.h[0].Refresh(f.now())
	f.run(20 * time.Millisecond)
	if l := f.a[0].Connections(); l[2].QP().Path().SL != 1 {
		t.Errorf("a new connection keeps %+v", l[2].QP().Path())
	}
}

// TestSilentAfterGeneration: the SA tells its generation, and does not answer the query for
// all paths. The handler asks for all again, not for changes since.
func TestSilentAfterGeneration(t *testing.T) {
	cfg := Defaults()
	cfg.Retry = 5 * time.Millisecond
	f := newFixture(t, 2, cfg)
	x := withHistory(f, cfg)
	_, _, c := f.stream(0, 1)
	x.sl[1], x.dead = 1, true
	f.h[0].Refresh(f.now())
	f.run(2 * time.Millisecond)
	x.dead = false
	f.run(20 * time.Millisecond)
	if c.QP().Path().SL != 1 || !f.h[0].Idle() {
		t.Errorf("%+v, %+v", c.QP().Path(), f.h[0].Count)
	}
}

// gone is a notice about a GID, or an UnPath.
func (f *fixture) gone(trap uint16, to int) *saclient.Report {
	if trap == smp.TrapUnPath {
		r := f.repathed(0, to, false)
		r.Notice.Notice = smp.NewTrap(trap, smp.ProducerClassManager, 1, smp.DetailPath{ComponentMask: uint64(wire.PathCompSGID | wire.PathCompDGID | wire.PathCompDLID)})
		return r
	}
	r := &saclient.Report{At: f.now()}
	r.Notice.Notice = smp.NewTrap(trap, smp.ProducerClassManager, 1, smp.DetailGID{GID: gid(to)})
	return r
}

// TestAway: the path to a peer is gone for longer than the retries take. A connection that
// was told when nothing was under way begins nothing, and goes on when the path is back,
// by a notice, by another path, or by itself. One that was not told ends, as does one that
// was told too late.
func TestAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		gone   uint16 // trap, 0: no notice
		late   bool
		back   uint16 // trap, 0: none comes
		failed bool
	}{
		{"nobody tells", 0, false, smp.TrapGIDInService, true},
		{"out of service, in service", smp.TrapGIDOutOfService, false, smp.TrapGIDInService, false},
		{"out of service, then nothing", smp.TrapGIDOutOfService, false, 0, false},
		{"unpath, repath", smp.TrapUnPath, false, smp.TrapRePath, false},
		{"unpath, then nothing", smp.TrapUnPath, false, 0, false},
		{"told when packets are under way", smp.TrapUnPath, true, smp.TrapRePath, true},
	} {
		cfg := Defaults()
		cfg.Retry = 10 * time.Millisecond
		f := newFixture(t, 2, cfg)
		s, k, conn := f.paced(0, 1, 50*dataplane.Microsecond)
		f.run(3 * time.Millisecond)
		f.sa[0].none = true
		cut := func() { f.e.CutLink(f.e.HostPort(1)) }
		if c.late {
			cut()
			f.run(time.Millisecond)
		}
		if c.gone != 0 {
			f.h[0].Notice(f.now(), f.gone(c.gone, 1))
			f.run(200 * time.Microsecond)
		}
		if !c.late {
			cut()
		}
		f.run(50 * time.Millisecond) // the retries take 8.4 ms
		f.e.RestoreLink(f.e.HostPort(1))
		f.sa[0].none = false
		f.sa[0].sl[1] = 1
		switch c.back {
		case smp.TrapRePath:
			f.h[0].Notice(f.now(), f.repathed(0, 1, true))
		case smp.TrapGIDInService:
			f.h[0].Notice(f.now(), f.gone(c.back, 1))
		}
		n, _ := k.Got()
		f.run(30 * time.Millisecond)
		m, _ := k.Got()
		st, _ := s.Failed()
		if (st != rc.Success) != c.failed || (m > n) == c.failed || !c.failed && (conn.QP().Path().SL != 1 || conn.QP().State() != rc.ReadyToSend) {
			t.Errorf("%s: %v, %v, %+v, %d messages and %d later, %+v", c.name, st, conn.QP().State(), conn.QP().Path(), n, m-n, f.h[0].Count)
		}
		if !c.failed && (f.h[0].Count.Suspended != 1 || f.h[0].Count.Resumed != 1) {
			t.Errorf("%s: %+v", c.name, f.h[0].Count)
		}
		must(t, k.Check(s))
	}
}

// TestLostRecord: a path that the SA tells as lost suspends, and one that it no longer lists.
func TestLostRecord(t *testing.T) {
	for _, listed := range []bool{true, false} {
		f := newFixture(t, 3, Defaults())
		x := withHistory(f, Defaults())
		_, _, c := f.stream(0, 1)
		_, _, other := f.stream(0, 2)
		f.h[0].Refresh(f.now())
		f.run(20 * time.Millisecond)
		if listed {
			x.set(1, 0)
			x.lost[1] = true
		} else {
			x.refuse, x.hidden = true, 1
		}
		f.h[0].Refresh(f.now())
		f.run(20 * time.Millisecond)
		if c.QP().State() != rc.SendQueueDrain || other.QP().State() != rc.ReadyToSend {
			t.Errorf("listed %v: %v and %v", listed, c.QP().State(), other.QP().State())
		}
		x.hidden, x.lost[1] = 0, false
		f.h[0].Notice(f.now(), f.repathed(0, 1, true))
		f.run(20 * time.Millisecond)
		if c.QP().State() != rc.ReadyToSend {
			t.Errorf("listed %v: %v, %+v", listed, c.QP().State(), f.h[0].Count)
		}
	}
}
