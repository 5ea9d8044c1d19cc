package repath

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
)

// TestArrived: a queue pair goes with its machine from host 0 to host 2, and back, while the handler
// of the one drains or suspends it. The handler of the other takes it to the path from there, and the
// first leaves it alone.
func TestArrived(t *testing.T) {
	cfg := Defaults()
	cfg.Method, cfg.Retry = ByDraining, time.Millisecond
	for _, c := range []struct {
		name string
		do   func(f *fixture)
	}{
		{"at work", func(*fixture) {}},
		{"being drained", func(f *fixture) { f.h[0].Notice(f.now(), f.repathed(0, 1, true)) }},
		{"suspended", func(f *fixture) {
			f.sa[0].none = true
			f.h[0].Refresh(f.now())
			f.run(time.Millisecond / 2)
		}},
	} {
		f := newFixture(t, 3, cfg)
		for i, sl := range []ib.SL{1, 0, 1} {
			withHistoryAt(f, i, cfg).sl[1] = sl
		}
		s, k := &program.Stream{Bytes: 5000, Depth: 4, Limit: 1}, &program.Sink{}
		o := adapter.Options{MTU: 2048, Window: 16, AckEvery: 4, QPN: adapter.FirstGuest}
		conn, err := f.a[0].Connect(o, s)
		must(t, err)
		o.QPN = 0
		peer, err := f.a[1].Connect(o, k)
		must(t, err)
		conn.SetPeer(gid(1))
		send := rc.Sender{Timeout: 8, Retries: 7, RNRRetries: 7}
		must(t, peer.Start(rc.Connect{RemoteQPN: conn.QPN(), Path: rc.Path{DLID: f.a[0].LID()}}, send))
		must(t, conn.Start(rc.Connect{RemoteQPN: peer.QPN(), Path: rc.Path{DLID: f.a[1].LID()}}, send))
		for _, to := range []int{2, 0, 2} {
			if c.do(f); c.name == "being drained" {
				f.run(30 * time.Microsecond)
			}
			conn.Detach()
			must(t, conn.Attach(f.a[to], 0))
			f.sa[0].none = false
			f.sa[to].sl[1] = ib.SL(1 - to/2) // 0 at host 2, 1 at host 0
			f.h[to].Arrived(f.now(), conn)
			f.run(20 * time.Millisecond)
			if q := conn.QP(); q.State() != rc.ReadyToSend || q.Path().SL != f.sa[to].sl[1] || !f.h[0].Idle() || !f.h[2].Idle() {
				t.Errorf("%s, at host %d: %v with %+v, the SA tells level %d", c.name, to, q.State(), q.Path(), f.sa[to].sl[1])
			}
		}
	}
}

// TestMigratedByPeer: the peer migrates when this end has an alternate path that was loaded for tables
// long past. The handler takes the queue pair back to the path that the SA tells.
func TestMigratedByPeer(t *testing.T) {
	for _, method := range []Method{ByMigration, ByDraining} {
		cfg := Defaults()
		cfg.Method = method
		f := newFixture(t, 2, cfg)
		s, k, c := f.paced(0, 1, 100*dataplane.Microsecond)
		f.a[0].OnMigrated = func(c *adapter.Connection) {
			f.sa[0].wait = append(f.sa[0].wait, func(now mad.Time) { f.h[0].Migrated(now, c) })
		}
		f.run(time.Millisecond)
		d := f.a[1].Connections()[0]
		old := rc.Path{DLID: c.QP().Path().DLID, SL: 1}
		must(t, c.Do(func(q *rc.QP, _ rc.Time) error { return q.Rearm(old) }))
		must(t, d.Do(func(q *rc.QP, _ rc.Time) error { return q.Rearm(q.Path()) }))
		f.run(time.Millisecond)
		must(t, d.Do(func(q *rc.QP, now rc.Time) error { return q.Migrate(now) }))
		f.run(time.Millisecond)
		if c.QP().Count.Migrations == 0 {
			t.Fatal("this end does not follow")
		}
		f.run(20 * time.Millisecond)
		if p := c.QP().Path(); p.SL != 0 || c.QP().State() != rc.ReadyToSend || !f.h[0].Idle() {
			t.Errorf("%v: %v with %+v, %+v", method, c.QP().State(), p, f.h[0].Count)
		}
		must(t, k.Check(s))
	}
}
