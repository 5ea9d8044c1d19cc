package process_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heddle/daemon/process"
	"heddle/internal/etcdmodel"
	"heddle/mad"
	"heddle/store"
	"heddle/store/etcd"
)

// TestQuorumRedeems: what a master without the term has promised, and the store does not have when it is
// back, is written before the next cores read it; nothing if the store has what the cores know, or if
// another manager was master meanwhile. A master with the term promises nothing.
func TestQuorumRedeems(t *testing.T) {
	record := store.Record{Table: store.TableServices, Key: []byte("key"), Value: []byte("value")}
	for _, meanwhile := range []string{"nothing", "withdrawn", "standby"} {
		t.Run(meanwhile, func(t *testing.T) {
			r := newReign(t)
			r.s.other(1, false)
			r.s.state.Records = []store.Record{record}
			if _, err := r.m.Store.Load(); err != nil {
				t.Fatal(err)
			}
			r.s.with(func() { r.s.away = true })
			if err := r.m.Lead(false); err != nil {
				t.Fatal(err)
			}
			if !r.m.Promises.Unsure() {
				t.Fatal("the SA is not told that the store may have something else")
			}
			r.m.Promises.Promise([]store.Record{record})
			want := 0
			switch meanwhile {
			case "withdrawn":
				withdraw(r.s)
				want = 1
			case "standby":
				r.m.Led()
				if err := r.m.Lead(false); err != nil {
					t.Fatal(err)
				}
				withdraw(r.s)
			}
			r.s.with(func() { r.s.away = false })
			if meanwhile == "nothing" {
				await(t, "changes are stored", func() bool { return r.m.Store.Apply(nil) == nil })
			} else {
				_ = r.m.Port.Recv(&mad.Packet{}) // which ends the cores
				r.s.with(func() {
					if len(r.s.applied) != want {
						t.Errorf("%d records are written before the cores end, want %d", len(r.s.applied), want)
					}
				})
				r.restarted()
			}
			if r.m.Promises.Unsure() {
				t.Error("a master with the term is unsure")
			}
			r.s.with(func() {
				if len(r.s.applied) != want {
					t.Errorf("%d records are written, want %d", len(r.s.applied), want)
				}
			})
			if again, _ := r.q.Ended(r.m, errors.New("end")); again {
				t.Error("cores that ended by themselves are started anew")
			}
		})
	}
}

// withdraw has another manager take back what it stored last.
func withdraw(s *terms) {
	s.with(func() {
		s.state.Records = nil
		s.last.Number++
	})
}

// TestPromiseKept: the last change of a master reaches etcd, and its answer does not reach the master, which
// refuses the change and undoes it later. Another manager, for which etcd is away meanwhile, has followed it,
// becomes master, and answers what rests on it. When etcd is back, it is stored again.
func TestPromiseKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := store.Record{Table: store.TableServices, Key: []byte("key"), Value: []byte("value")}
		stored := func(s *etcd.Store) bool {
			st, _, err := s.Contents()
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(st.Records, func(r store.Record) bool { return string(r.Key) == "key" })
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cluster := etcdmodel.New(1)
		first, second := cluster.Client(), cluster.Client()
		var cut atomic.Bool // the answer to the next entry of the first one is lost
		cluster.OnWrite = func(by *etcdmodel.Client, puts map[string]string) {
			for key := range puts {
				if by == first && strings.Contains(key, "/journal/") && cut.CompareAndSwap(true, false) {
					first.Cut(true)
				}
			}
		}
		open := func(c *etcdmodel.Client) *etcd.Store {
			s, err := etcd.Over(ctx, c, etcd.Options{Wait: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		old, s := open(first), open(second)
		defer old.Close()
		defer s.Close()
		if _, err := old.Win(ctx, 2, "first"); err != nil {
			t.Fatal(err)
		}
		port := &port{closed: make(chan struct{})}
		q := &process.Quorum{Single: process.Single{Open: func(context.Context) (mad.Transport, error) { return port, nil }}, Terms: s, Wait: time.Second}
		ran := make(chan error, 1)
		go func() { ran <- q.Run(ctx) }()

		cut.Store(true)
		if err := old.Apply([]store.Op{{Kind: store.PutRecord, Record: record}}); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("the change of the first master: %v", err)
		}
		if !stored(s) {
			t.Fatal("it did not reach etcd")
		}
		m, err := q.Await(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Store.Load(); err != nil {
			t.Fatal(err)
		}
		second.Cut(true)
		if err := m.Lead(false); err != nil || !m.Promises.Unsure() {
			t.Fatalf("%v, unsure %v", err, m.Promises.Unsure())
		}
		m.Promises.Promise([]store.Record{record})
		first.Cut(false)
		<-time.After(10 * time.Second)
		if stored(old) {
			t.Fatal("the first master did not undo its change")
		}
		second.Cut(false)
		_ = m.Port.Recv(&mad.Packet{}) // the cores are to be started anew
		if !stored(s) {
			t.Error("what hosts were told is lost")
		}
		m.Led()
		_, _ = q.Ended(m, errors.New("stale"))
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
