package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/store"
	"heddle/store/etcd"
	"heddle/store/journal"
)

// load has some goroutines call Apply, each with keys of its own, until end is called.
type load struct {
	s     *etcd.Store
	stop  chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	wrote map[ib.GUID]bool // true: acknowledged; false: refused
	count atomic.Int64     // of acknowledged ones
}

func startLoad(s *etcd.Store, goroutines int) *load {
	l := &load{s: s, stop: make(chan struct{}), wrote: map[ib.GUID]bool{}}
	for g := range goroutines {
		l.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				at := g<<32 + i + 1
				err := s.Apply(put(at))
				l.mu.Lock()
				l.wrote[ib.GUID(at)] = err == nil
				l.mu.Unlock()
				if err == nil {
					l.count.Add(1)
					continue
				}
				select { // the next ones are refused at once
				case <-l.stop:
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	return l
}

// await waits until n more changes have been acknowledged.
func (l *load) await(t testing.TB, n int64) {
	t.Helper()
	until := l.count.Load() + n
	eventually(t, fmt.Sprintf("%d more changes", n), func() bool { return l.count.Load() >= until })
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// check compares what was acknowledged and refused with a state.
func (l *load) check(t testing.TB, s *etcd.Store) {
	t.Helper()
	st, _, err := s.Contents()
	if err != nil {
		t.Fatal(err)
	}
	has := map[ib.GUID]bool{}
	for _, k := range st.MKeys {
		has[k.GUID] = true
	}
	for g, acknowledged := range l.wrote {
		if has[g] != acknowledged {
			t.Fatalf("key %v: acknowledged %v, stored %v", g, acknowledged, has[g])
		}
	}
}

// unlessShort skips what takes several seconds: three members that die and come back.
func unlessShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("three members of etcd are not for a short run")
	}
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.After(need.Patience)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatal("this did not happen: " + what)
		}
	}
}

func win(t testing.TB, s *etcd.Store, guid ib.GUID) journal.Mark {
	t.Helper()
	had, err := s.Win(patient(t), guid, "test")
	if err != nil {
		t.Fatal(err)
	}
	return had
}

// TestLeaderKilled: changes go on when a member dies, or hangs, and nothing is lost.
func TestLeaderKilled(t *testing.T) {
	unlessShort(t)
	c := etcdtest.Start(t, 3)
	o := options(c)
	s, other := open(t, o), open(t, o)
	win(t, s, 1)
	following, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- other.Follow(following) }()
	l := startLoad(s, 8)
	for range 2 {
		l.await(t, 100)
		leader := c.AwaitLeader()
		c.Kill(leader)
		l.await(t, 100)
		c.Restart(leader)
		c.AwaitLeader()
	}
	leader := c.AwaitLeader()
	c.Stop(leader)
	l.await(t, 100)
	c.Continue(leader)
	l.await(t, 100)
	l.end()
	for g, acknowledged := range l.wrote {
		if !acknowledged {
			t.Errorf("%v was refused, although a majority was there all the time", g)
		}
	}
	l.check(t, s)
	l.check(t, other)
	stop()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestQuorumLost: without a majority changes are refused and reads fail; when it is back both go on.
// What was refused has no effect.
func TestQuorumLost(t *testing.T) {
	unlessShort(t)
	c := etcdtest.Start(t, 3)
	o := options(c)
	o.Wait = 300 * time.Millisecond
	s := open(t, o)
	win(t, s, 1)
	l := startLoad(s, 4)
	l.await(t, 50)
	c.Kill(0)
	c.Kill(2)
	eventually(t, "the store notices that etcd is away", func() bool { return s.Away() != nil })
	if err := s.Apply(put(1 << 60)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a majority: %v", err)
	}
	if _, err := s.Load(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Load without a majority: %v", err)
	}
	c.Restart(0)
	l.await(t, 50)
	l.end()
	eventually(t, "what was in doubt is settled", func() bool { return s.Away() == nil })
	o.Wait = need.Patience
	l.check(t, open(t, o))
}

// TestSuperseded: who lost the term can never write again, before it wins anew.
func TestSuperseded(t *testing.T) {
	c := etcdtest.Start(t, 1)
	o := options(c)
	a, b := open(t, o), open(t, o)
	if err := a.Apply(put(1)); !errors.Is(err, etcd.ErrNoTerm) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a term: %v", err)
	}
	if had := win(t, a, 1); had != (journal.Mark{}) {
		t.Errorf("before the first term: %v", had)
	}
	if err := a.Apply(put(1)); err != nil {
		t.Fatal(err)
	}
	had := win(t, b, 2)
	if had.Number != 2 || had.Term != (journal.Term{Number: 1, Owner: 1}) {
		t.Errorf("before the second term: %v", had)
	}
	for range 2 {
		if err := a.Apply(put(2)); !errors.Is(err, etcd.ErrSuperseded) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("superseded: %v", err)
		}
	}
	if err := a.SetNote([]byte("x")); !errors.Is(err, etcd.ErrSuperseded) {
		t.Errorf("SetNote: %v", err)
	}
	if err := a.Replace(&store.State{}, journal.Mark{}); !errors.Is(err, etcd.ErrSuperseded) {
		t.Errorf("Replace: %v", err)
	}
	if err := b.Apply(put(3)); err != nil {
		t.Fatal(err)
	}
	if v, err := a.Vacant(patient(t)); err != nil || v {
		t.Errorf("vacant: %v, %v", v, err)
	}
	if err := b.Resign(patient(t)); err != nil {
		t.Fatal(err)
	}
	if v, err := a.Vacant(patient(t)); err != nil || !v {
		t.Errorf("vacant: %v, %v", v, err)
	}
	if err := b.Apply(put(4)); !errors.Is(err, etcd.ErrNoTerm) {
		t.Errorf("after Resign: %v", err)
	}
	if had := win(t, a, 1); had.Number != 4 || had.Term != (journal.Term{Number: 2, Owner: 2}) {
		t.Errorf("before the third term: %v", had)
	}
	st, err := a.Load()
	if err != nil || len(st.MKeys) != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	// The term alone counts: the next owner has not written anything yet.
	if err := b.Claim(patient(t), 2); err != nil {
		t.Fatal(err)
	}
	if err := a.Apply(put(5)); !errors.Is(err, etcd.ErrSuperseded) {
		t.Errorf("after a Claim: %v", err)
	}
	if st, err := b.Load(); err != nil || len(st.MKeys) != 2 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestFull: a data base that is full refuses changes, with advice, and goes on when it has room.
func TestFull(t *testing.T) {
	c := etcdtest.Start(t, 1, "--quota-backend-bytes", fmt.Sprint(4<<20))
	o := options(c)
	o.Wait = 300 * time.Millisecond
	s := open(t, o)
	win(t, s, 1)
	cli := c.Client()
	rev := int64(0)
	eventually(t, "the data base is full", func() bool { // of the history of another program
		r, err := cli.Put(patient(t), "/others", strings.Repeat("x", 900<<10))
		if err == nil {
			rev = r.Header.Revision
		}
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	if err := s.Apply(put(1)); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "is full") || !strings.Contains(err.Error(), "docs/ha.md") {
		t.Errorf("full: %v", err)
	}
	c.Ctl("compact", fmt.Sprint(rev))
	c.Ctl("defrag")
	c.Ctl("alarm", "disarm")
	eventually(t, "changes go on", func() bool { return s.Apply(put(2)) == nil })
	if st, err := s.Load(); err != nil || len(st.MKeys) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestSnapshots: the journal stays short, and a follower that is behind it gets the state all the same.
func TestSnapshots(t *testing.T) {
	c := etcdtest.Start(t, 1)
	o := options(c)
	o.SnapshotEvery = 50
	s, behind := open(t, o), open(t, o)
	win(t, s, 1)
	trimmed := func() bool {
		_, err := s.Entries(1, 1)
		if err != nil && !errors.Is(err, journal.ErrTrimmed) {
			t.Fatal(err)
		}
		return err != nil
	}
	n := 0
	eventually(t, "the first entries are deleted", func() bool {
		for range 30 {
			n++
			if err := s.Apply(put(n)); err != nil {
				t.Fatal(err)
			}
		}
		return trimmed()
	})
	for name, x := range map[string]*etcd.Store{"the writer": s, "a follower": behind, "a new one": open(t, o)} {
		st, m, err := x.Contents()
		if err != nil || len(st.MKeys) != n || m.Number != uint64(n+1) {
			t.Errorf("%s: %d keys, %v, %v; want %d", name, len(st.MKeys), m, err, n)
		}
	}
	if list, err := s.Entries(uint64(n), 1<<20); err != nil || len(list) != 2 {
		t.Errorf("the last entries: %d, %v", len(list), err)
	}
}

// TestLargeEntry: one Apply of several MiB is one entry, also in a watch, and in a snapshot.
func TestLargeEntry(t *testing.T) {
	c := etcdtest.Start(t, 1)
	o := options(c)
	o.SnapshotEvery = 4
	s, other := open(t, o), open(t, o)
	win(t, s, 1)
	following, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- other.Follow(following) }()
	big := make([]byte, 5<<20)
	for i := range big {
		big[i] = byte(i * i >> 8)
	}
	for i := range 6 {
		if err := s.Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TablePartitions, Key: []byte{byte(i)}, Value: big[i:]}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []*etcd.Store{s, other, open(t, o)} {
		st, err := x.Load()
		if err != nil || len(st.Records) != 6 {
			t.Fatalf("%v", err)
		}
		for i, r := range st.Records {
			if string(r.Value) != string(big[i:]) {
				t.Errorf("record %d differs", i)
			}
		}
	}
	stop()
	<-followed
}

// TestRestored: when a backup is restored under a running manager, it refuses changes and says why;
// what the backup holds is what all have then.
func TestRestored(t *testing.T) {
	unlessShort(t)
	c := etcdtest.Start(t, 3)
	o := options(c)
	s := open(t, o)
	var log strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	other := open(t, o)
	win(t, s, 1)
	for i := range 20 {
		if err := s.Apply(put(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	backup := c.Backup()
	for i := range 10 {
		if err := s.Apply(put(100 + i)); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := other.Load(); err != nil || len(st.MKeys) != 30 {
		t.Fatalf("%v", err)
	}
	c.Restore(backup)
	if err := s.Apply(put(200)); !errors.Is(err, etcd.ErrForked) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("after the restore: %v", err)
	}
	for _, x := range []*etcd.Store{s, other} {
		if st, m, err := x.Contents(); err != nil || len(st.MKeys) != 20 || m.Number != 21 {
			t.Errorf("%d keys, %v, %v", len(st.MKeys), m, err)
		}
	}
	if text := log.String(); strings.Count(text, "was a backup restored?") != 1 || !strings.Contains(text, "entry 31") {
		t.Errorf("a follower of which etcd lacks entries says: %s", text)
	}
	if had := win(t, s, 1); had.Number != 21 {
		t.Errorf("won after %v", had)
	}
	if err := s.Apply(put(200)); err != nil {
		t.Fatal(err)
	}
	if st, err := other.Load(); err != nil || len(st.MKeys) != 21 {
		t.Errorf("%v", err)
	}
}
