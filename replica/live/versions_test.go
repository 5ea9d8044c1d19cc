package live

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"heddle/replica"
	"heddle/replica/wire"
	"heddle/store"
	"heddle/store/journal"
)

// TestVersions: managers whose versions overlap are a pair. Others are none, and say which one is
// older; they hear each other, so the standby does not take over from an active manager.
func TestVersions(t *testing.T) {
	stream := func(from, to uint8) wire.Versions {
		return wire.Versions{Stream: journal.Range{Oldest: from, Newest: to}, Journal: journal.Versions()}
	}
	t.Run("mixed", func(t *testing.T) {
		b := newTestbed(t, 2)
		b.versions = [2]wire.Versions{stream(1, 1), stream(1, 2)}
		a := b.begin()
		// What a backup of the active manager has, of whatever version: all, with its last entry.
		if s, at, err := a.pair().Store().(interface {
			Contents() (*store.State, journal.Mark, error)
		}).Contents(); err != nil || len(s.LIDs) == 0 || at.Number < 2 || at.Term.Number == 0 {
			t.Errorf("the store of the managers: %v, %v", at, err)
		}
		a.kill() // the other version takes over, whichever it is
		b.put("two")
		a.start()
		b.paired()
	})
	t.Run("apart", func(t *testing.T) {
		b := newTestbed(t, 2)
		b.versions = [2]wire.Versions{stream(1, 1), stream(1, 1)}
		a := b.begin()
		o := a.other()
		o.kill()
		b.put("alone") // there is no standby
		b.versions[o.i] = stream(2, 2)
		var told [2]atomic.Int32
		for i := range told {
			b.notice[i] = func(n replica.Notice) {
				if n.Kind == replica.NoticeVersions && errors.Is(n.Err, wire.ErrVersions) {
					told[i].Add(1)
				}
			}
		}
		o.start()
		b.eventually("it says why they are no pair", func() bool {
			st := o.pair().Status()
			return told[o.i].Load() == 1 && strings.Contains(st.StreamError, "version 1 of the stream, this one version 2; that one is older: upgrade it")
		})
		b.eventually("it hears the active one", func() bool {
			st := o.pair().Status()
			return st.Signs[replica.Fabric] >= 0 && st.PeerRole == replica.Active
		})
		if o.active.Load() || !a.active.Load() {
			t.Error("the standby took over from a manager that it hears")
		}
		if told[o.i].Load() != 1 {
			t.Errorf("it was said %d times", told[o.i].Load())
		}
		b.eventually("the active one says it too", func() bool {
			return strings.Contains(a.pair().Status().StreamError, "this one is older: upgrade it")
		})
		o.kill()
		b.versions[o.i] = stream(1, 2)
		o.start()
		b.paired()
		if got := a.pair().Status().StreamError; got != "" {
			t.Errorf("in a pair the active one says %q", got)
		}
	})
}

// TestOlderPeer: what a partner of an older version cannot store is refused as long as it copies this
// manager's journal. A manager without a partner stores it; then the older one is no partner any more, and both say
// why.
func TestOlderPeer(t *testing.T) {
	b := newTestbed(t, 2)
	b.versions[0] = wire.Own()
	b.versions[1] = wire.Own()
	b.versions[1].Journal.Newest = 1
	a := b.begin()
	if a.i != 0 { // the older one is to be the standby
		if err := a.pair().Handover(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.eventually("the newer one is active", func() bool { return b.paired() == b.site[0] })
		a = b.site[0]
	}
	token := func() error {
		return a.pair().Store().Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TableTokens, Key: []byte("t"), Value: []byte("v")}}})
	}
	if err := token(); !errors.Is(err, ErrOlderPeer) {
		t.Fatalf("a partner that cannot store it: %v", err)
	}
	if err := a.put("what it knows"); err != nil || b.paired() != a {
		t.Fatalf("after the refusal: %v", err)
	}
	o := a.other()
	o.kill()
	b.eventually("it stores it alone", func() bool { return token() == nil })
	o.start()
	b.eventually("it says why they are no pair", func() bool {
		st := a.pair().Status()
		return st.State == Alone && strings.Contains(st.StreamError, "version 1 of the journal, and what is stored here needs version 2; that one is older: upgrade it")
	})
	if o.active.Load() {
		t.Error("the older one is active")
	}
	if err := a.put("alone"); err != nil {
		t.Error(err)
	}
	o.kill()
	b.versions[1] = wire.Own()
	o.start()
	if got := b.paired(); got != a {
		t.Errorf("after its upgrade manager %d is active", got.i)
	}
	if err := token(); err != nil {
		t.Error(err)
	}
}

// TestTimeOfLeases: a manager that takes over goes on with the time of the other one, whatever its own
// clock says.
func TestTimeOfLeases(t *testing.T) {
	b := newTestbed(t, 2)
	for i, skew := range []time.Duration{time.Hour, -time.Hour} {
		b.clock[i] = func() int64 { return time.Now().Add(skew).UnixNano() }
	}
	a, epoch := b.begin(), time.Now()
	wall := func(x *site) (at int64) {
		done := make(chan struct{})
		x.pair().post(func() { at = x.pair().Wall() - int64(time.Since(epoch)); close(done) })
		<-done
		return at
	}
	near := func(x *site, want int64) bool { return time.Duration(wall(x)-want).Abs() < time.Second }
	was := wall(a)
	b.eventually("the standby knows the time", func() bool { return near(a.other(), was) })
	a.kill()
	b.put("after the takeover")
	if !near(a.other(), was) {
		t.Errorf("the time went from %d to %d", was, wall(a.other()))
	}
	b.clock[a.i] = func() int64 { return 1e18 } // it was set meanwhile
	a.start()
	b.paired()
	b.eventually("the standby knows the time", func() bool { return near(a, was) })
}
