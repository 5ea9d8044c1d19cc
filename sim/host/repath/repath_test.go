package repath

import (
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/saclient"
)

// fixture is hosts on one switch with two lanes, an SA that answers what it is told
// to, and a handler for each host.
type fixture struct {
	t     *testing.T
	e     *dataplane.Engine
	a     []*adapter.Adapter
	h     []*Handler
	sa    []*answers
	round [][]Round
}

// answers is the SA as one host sees it.
type answers struct {
	f      *fixture
	self   int
	sl     map[int]ib.SL // of the path to each host
	dead   bool
	none   bool // it knows no path
	hidden int  // to this host, 0: to all
	asked  int
	wild   int
	wait   []func(now mad.Time)
}

func gid(i int) ib.GID { return ib.MakeGID(1, ib.GUID(100+i)) }

func (x *answers) record(to int) wire.PathRecord {
	return wire.PathRecord{SGID: gid(x.self), DGID: gid(to), DLID: x.f.a[to].LID(), SL: x.sl[to], MTU: 4}
}

// Paths implements SA. Answers come at the next step of the fixture.
func (x *answers) Paths(_ mad.Time, q *wire.PathRecord, mask wire.CompMask, one bool, done func(mad.Time, []wire.PathRecord, error)) {
	x.asked++
	var list []wire.PathRecord
	for to := range x.f.a {
		if to != x.self && !x.none && (x.hidden == 0 || to != x.hidden) && (!mask.Has(wire.PathCompDGID) || q.DGID == gid(to)) {
			list = append(list, x.record(to))
		}
	}
	if !one {
		x.wild++
	}
	var err error
	if x.dead {
		list, err = nil, mad.ErrTimeout
	}
	x.wait = append(x.wait, func(now mad.Time) { done(now, list, err) })
}

func newFixture(t *testing.T, hosts int, c Config) *fixture {
	t.Helper()
	top := &dataplane.Topology{}
	for range hosts {
		top.Nodes = append(top.Nodes, dataplane.Node{Name: "host", Ports: 1})
	}
	top.Nodes = append(top.Nodes, dataplane.Node{Name: "switch", Switch: true, Ports: hosts})
	for i := range hosts {
		top.Links = append(top.Links, dataplane.Link{
			A: fabric.Ref{Node: int32(i), Port: 1}, B: fabric.Ref{Node: int32(hosts), Port: uint8(i + 1)},
			Rate: dataplane.LinkRate(ib.Width4x, ib.SpeedQDR), Delay: dataplane.DefaultCable,
		})
	}
	p := dataplane.NewPlain(top, 2)
	for i := range hosts {
		p.SetRoute(int32(hosts), p.Attr[i][1].LID, uint8(i+1))
	}
	dc := dataplane.Defaults()
	dc.Lanes = 2
	e, err := dataplane.New(top, p, dc)
	must(t, err)
	f := &fixture{t: t, e: e, round: make([][]Round, hosts)}
	for i := range hosts {
		a, err := adapter.New(e, i)
		must(t, err)
		x := &answers{f: f, self: i, sl: map[int]ib.SL{}}
		h := New(c, x, a, func() ib.GID { return gid(i) })
		h.Done = func(r *Round) { f.round[i] = append(f.round[i], *r) }
		f.a, f.sa, f.h = append(f.a, a), append(f.sa, x), append(f.h, h)
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stream connects two hosts.
func (f *fixture) stream(from, to int) (*program.Stream, *program.Sink, *adapter.Connection) {
	return f.paced(from, to, 0)
}

// paced connects two hosts; between messages are gaps.
func (f *fixture) paced(from, to int, gap dataplane.Time) (*program.Stream, *program.Sink, *adapter.Connection) {
	s, k := &program.Stream{Bytes: 5000, Depth: 4, Gap: gap}, &program.Sink{}
	c, d, err := program.Pair(f.a[from], f.a[to], adapter.Options{MTU: 2048, Window: 16, AckEvery: 4}, rc.Sender{Timeout: 8, Retries: 7, RNRRetries: 7},
		rc.Path{DLID: f.a[to].LID()}, rc.Path{DLID: f.a[from].LID()}, s, k)
	must(f.t, err)
	c.SetPeer(gid(to))
	d.SetPeer(gid(from))
	s.Run(c)
	return s, k, c
}

func (f *fixture) now() mad.Time { return mad.Time(f.e.Now().Duration()) }

// run runs for d, handlers and data plane.
func (f *fixture) run(d time.Duration) {
	end := f.now().Add(d)
	for {
		t := end
		for i := range f.h {
			t = min(t, f.h[i].NextTimer())
			if len(f.sa[i].wait) > 0 {
				t = min(t, f.now().Add(time.Microsecond))
			}
		}
		f.e.Run(dataplane.FromDuration(time.Duration(max(t, f.now()))))
		for i := range f.h {
			list := f.sa[i].wait
			f.sa[i].wait = nil
			for _, answer := range list {
				answer(f.now())
			}
			if f.h[i].NextTimer() <= f.now() {
				f.h[i].Expire(f.now())
			}
		}
		if t >= end {
			return
		}
	}
}

// repathed is notice 69 for paths from host i; to: of one path, with its values if
// whole; -1: of all.
func (f *fixture) repathed(i, to int, whole bool) *saclient.Report {
	r := &saclient.Report{At: f.now()}
	mask := wire.PathCompSGID
	r.Path.SGID = gid(i)
	if to >= 0 {
		mask |= wire.PathCompDGID | wire.PathCompDLID
		r.Path = f.sa[i].record(to)
		if !whole {
			r.Path.MTU = 0
		}
	}
	r.Notice.Notice = smp.NewTrap(smp.TrapRePath, smp.ProducerClassManager, 1, smp.DetailPath{ComponentMask: uint64(mask)})
	return r
}

// TestRounds: what a notice costs in queries and in looks at queue pairs, by what it
// says and by how the handler finds queue pairs.
func TestRounds(t *testing.T) {
	for _, c := range []struct {
		name                         string
		to                           int
		whole, walk                  bool
		asked, wild, looked, changed int
	}{
		{"all paths", -1, false, false, 1, 1, 4, 1},
		{"one path, to be asked for", 2, false, false, 1, 0, 2, 1},
		{"one path with its values", 2, true, false, 0, 0, 2, 1},
		{"one path, the list walked", 2, true, true, 0, 0, 4, 1},
		{"a path that nobody uses", 4, false, false, 0, 0, 0, 0},
		{"a path that is the same", 1, false, false, 1, 0, 1, 0},
	} {
		cfg := Defaults()
		cfg.Walk = c.walk
		f := newFixture(t, 5, cfg)
		f.stream(0, 1)
		_, _, two := f.stream(0, 2)
		f.stream(0, 3)
		_, _, also := f.stream(0, 2)
		must(t, also.Do(func(q *rc.QP, _ rc.Time) error { return q.Drain() }))
		f.run(100 * time.Microsecond)
		must(t, also.Do(func(q *rc.QP, _ rc.Time) error { return q.SetPath(rc.Path{DLID: f.a[2].LID(), SL: 1}) }))
		must(t, also.Do(func(q *rc.QP, _ rc.Time) error { return q.Resume() }))
		f.sa[0].sl[2] = 1
		f.h[0].Notice(f.now(), f.repathed(0, c.to, c.whole))
		f.h[0].Notice(f.now(), f.repathed(1, 2, true)) // of another port
		f.run(20 * time.Millisecond)
		k, x := f.h[0].Count, f.sa[0]
		if x.asked != c.asked || x.wild != c.wild || int(k.Looked) != c.looked || int(k.Changed) != c.changed {
			t.Errorf("%s: %d queries, %d of them for all, %d looked at, %d changed; want %+v", c.name, x.asked, x.wild, k.Looked, k.Changed, c)
		}
		if c.changed > 0 && two.QP().Path().SL != 1 {
			t.Errorf("%s: the queue pair has %+v", c.name, two.QP().Path())
		}
		if !f.h[0].Idle() || len(f.round[0]) != 1 {
			t.Fatalf("%s: %d rounds, idle %v", c.name, len(f.round[0]), f.h[0].Idle())
		}
		costs, r := cfg.Costs, f.round[0][0]
		if r.Look != time.Duration(c.looked)*costs.Look || r.Change != time.Duration(c.changed)*costs.Change ||
			r.End.Sub(r.Notice) < r.Query+r.Look+r.Change {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestBothEnds: if both ends hear of their paths, the connection migrates and both
// have theirs; if one does, it drains. Nothing is lost either way.
func TestBothEnds(t *testing.T) {
	for _, both := range []bool{true, false} {
		f := newFixture(t, 2, Defaults())
		s, k, c := f.stream(0, 1)
		f.run(100 * time.Microsecond)
		f.sa[0].sl[1], f.sa[1].sl[0] = 1, 1
		f.h[0].Notice(f.now(), f.repathed(0, 1, true))
		if both {
			f.run(50 * time.Microsecond)
			f.h[1].Notice(f.now(), f.repathed(1, 0, true))
		}
		f.run(20 * time.Millisecond)
		x, y := f.h[0].Count, f.h[1].Count
		if both && (x.Migrated != 1 || y.Migrated != 1 || x.Drained+y.Drained != 0) || !both && (x.Drained != 1 || x.LateArmed != 1) {
			t.Errorf("both %v: %+v and %+v", both, x, y)
		}
		if c.QP().Path().SL != 1 {
			t.Errorf("both %v: %+v", both, c.QP().Path())
		}
		must(t, k.Check(s))
		if n, _ := k.Got(); n < 1000 {
			t.Errorf("both %v: %d messages", both, n)
		}
	}
}

// TestNewest: a second notice while a connection changes wins.
func TestNewest(t *testing.T) {
	for _, m := range []Method{ByMigration, ByDraining} {
		for _, list := range [][]ib.SL{{1, 0, 1}, {1, 0}} {
			cfg := Defaults()
			cfg.Method = m
			f := newFixture(t, 2, cfg)
			s, k, c := f.stream(0, 1)
			f.run(100 * time.Microsecond)
			for _, sl := range list {
				f.sa[0].sl[1] = sl
				f.h[0].Notice(f.now(), f.repathed(0, 1, true))
				f.run(700 * time.Microsecond)
			}
			f.run(20 * time.Millisecond)
			if c.QP().Path().SL != list[len(list)-1] || !f.h[0].Idle() {
				t.Errorf("%v %v: %+v", m, list, c.QP().Path())
			}
			must(t, k.Check(s))
		}
	}
}

// TestNewestValues: of two notices that wait, the newer says whether its values are
// those of the path.
func TestNewestValues(t *testing.T) {
	var w wanted
	w.add(1, gid(1), &wire.PathRecord{DLID: 7})
	w.add(2, gid(1), nil)
	if _, ok := w.known[gid(1)]; ok || len(w.gids) != 1 || w.since != 1 {
		t.Errorf("%+v", w)
	}
	w.add(3, gid(1), &wire.PathRecord{DLID: 8})
	if w.known[gid(1)].DLID != 8 {
		t.Errorf("%+v", w)
	}
}

// TestSilentSA: a query that is not answered is made again.
func TestSilentSA(t *testing.T) {
	cfg := Defaults()
	cfg.Retry = 30 * time.Millisecond
	f := newFixture(t, 2, cfg)
	_, _, c := f.stream(0, 1)
	f.sa[0].sl[1], f.sa[0].dead = 1, true
	f.h[0].Notice(f.now(), f.repathed(0, -1, false))
	f.run(20 * time.Millisecond)
	if f.h[0].Idle() || f.h[0].Count.FailedQueries != 1 || c.QP().Path().SL != 0 {
		t.Fatalf("%+v", f.h[0].Count)
	}
	f.sa[0].dead = false
	f.run(cfg.Retry)
	if c.QP().Path().SL != 1 || !f.h[0].Idle() {
		t.Errorf("%+v, path %+v", f.h[0].Count, c.QP().Path())
	}
}

// TestOtherAlternate: the peer has another alternate path loaded while a queue pair is
// being changed. It ends with the path that the SA tells.
func TestOtherAlternate(t *testing.T) {
	for wait := range 12 {
		f := newFixture(t, 2, Defaults())
		s, k, c := f.stream(0, 1)
		back := f.a[1].Connections()[0]
		rearm := func(c *adapter.Connection, to int) {
			must(t, c.Do(func(q *rc.QP, _ rc.Time) error { return q.Rearm(rc.Path{DLID: f.a[to].LID()}) }))
		}
		f.sa[0].sl[1] = 1
		f.h[0].Notice(f.now(), f.repathed(0, 1, true))
		f.run(time.Millisecond)
		rearm(back, 0)
		f.run(time.Duration(10*wait) * time.Microsecond)
		rearm(c, 1) // as by a LAP
		f.run(20 * time.Millisecond)
		if c.QP().Path().SL != 1 || !f.h[0].Idle() {
			t.Errorf("after %d steps: %+v, %+v", wait, c.QP().Path(), f.h[0].Count)
		}
		must(t, k.Check(s))
	}
}

// TestInService: a GID that is back is asked for only if a queue pair is connected to
// it; the others cost one notice.
func TestInService(t *testing.T) {
	f := newFixture(t, 3, Defaults())
	_, _, c := f.stream(0, 1)
	f.sa[0].sl[1] = 1
	for _, i := range []int{2, 1} {
		r := &saclient.Report{At: f.now()}
		r.Notice.Notice = smp.NewTrap(smp.TrapGIDInService, smp.ProducerClassManager, 1, smp.DetailGID{GID: gid(i)})
		f.h[0].Notice(f.now(), r)
		f.run(time.Millisecond)
		if want := 2 - i; f.sa[0].asked != want {
			t.Errorf("%d queries after the notice of host %d", f.sa[0].asked, i)
		}
	}
	f.run(20 * time.Millisecond)
	if c.QP().Path().SL != 1 {
		t.Errorf("%+v", c.QP().Path())
	}
}

// TestSingle: notices that wait are taken together, or in a round for each.
func TestSingle(t *testing.T) {
	for _, single := range []bool{false, true} {
		cfg := Defaults()
		cfg.Single, cfg.Walk = single, true
		f := newFixture(t, 3, cfg)
		f.stream(0, 1)
		f.stream(0, 2)
		f.run(100 * time.Microsecond)
		for range 4 {
			f.h[0].Notice(f.now(), f.repathed(0, 1, true))
		}
		f.run(20 * time.Millisecond)
		want := map[bool]int{false: 1, true: 4}[single]
		if len(f.round[0]) != want || int(f.h[0].Count.Looked) != 2*want || !f.h[0].Idle() {
			t.Errorf("single %v: %d rounds, %d looked at", single, len(f.round[0]), f.h[0].Count.Looked)
		}
	}
}
