package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/internal/etcdtest"
	"heddle/internal/need"
)

// TestCompactedWatch: etcd compacts its history under a follower. Its watch ends, and it goes on by
// number, from the snapshot.
func TestCompactedWatch(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	s, _ := openFaulty(t, cli, "/watched") // a snapshot every 7 entries
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	follower, _ := openFaulty(t, cli, "/watched")
	old := follower.position().seen + 1
	n := 0
	compacted := func() bool {
		_, err := cli.Get(patient(t), "/watched/term", clientv3.WithRev(old))
		return errors.Is(err, rpctypes.ErrCompacted)
	}
	limit := time.Now().Add(need.Patience)
	for !compacted() {
		if time.Now().After(limit) {
			t.Fatal("etcd is not compacted")
		}
		if err := s.Apply(key(n%9, "value")); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := follower.watch(patient(t), old); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("a watch from a revision that is compacted: %v", err)
	}
	ctx, cancel := context.WithCancel(patient(t))
	followed := make(chan error, 1)
	go func() { followed <- follower.Follow(ctx) }()
	if err := s.Apply(key(100, "last")); err != nil {
		t.Fatal(err)
	}
	n++
	awaitNumber(t, follower, uint64(n))
	cancel()
	<-followed
	want, _ := contents(t, s)
	got, m := contents(t, follower)
	if m.Number != uint64(n) {
		t.Errorf("%v; want entry %d", m, n)
	}
	same(t, got, want)
}

// awaitNumber waits until a follower has an entry by itself.
func awaitNumber(t testing.TB, s *Store, n uint64) {
	t.Helper()
	limit := time.After(need.Patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for s.position().Number < n {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("the follower has %v, not entry %d", s.position().Mark, n)
		}
	}
}

// TestWatchIsAHint: of what a watch brings only the next entry is used, complete. A gap, a piece or an
// older entry changes nothing.
func TestWatchIsAHint(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	s, _ := openFaulty(t, cli, "/hint")
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	follower, _ := openFaulty(t, cli, "/hint")
	for i := range 3 {
		if err := s.Apply(key(i, "value")); err != nil {
			t.Fatal(err)
		}
	}
	event := func(k string) *clientv3.Event {
		r, err := cli.Get(patient(t), k)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatal(k, err)
		}
		return &clientv3.Event{Type: clientv3.EventTypePut, Kv: r.Kvs[0]}
	}
	cut := event(follower.keys.entry(1))
	cut.Kv.Value = cut.Kv.Value[:20]
	for _, x := range []struct {
		what  string
		ev    *clientv3.Event
		known bool
		has   uint64 // afterward
	}{
		{"a gap", event(follower.keys.entry(2)), false, 0},
		{"an entry that is cut off", cut, false, 0},
		{"a piece", &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(follower.keys.piece(1, 1))}}, true, 0},
		{"the next one", event(follower.keys.entry(1)), true, 1},
		{"the same again", event(follower.keys.entry(1)), true, 1},
		{"another gap", event(follower.keys.entry(3)), false, 1},
		{"the next one", event(follower.keys.entry(2)), true, 2},
		{"another key", &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte("/hint/journal/x")}}, false, 2},
	} {
		known, err := follower.brought(patient(t), x.ev)
		if err != nil || known != x.known || follower.position().Number != x.has {
			t.Errorf("%s: known %v, %v, entry %d; want %v, entry %d", x.what, known, err, follower.position().Number, x.known, x.has)
		}
	}
	got, _ := contents(t, follower)
	want, _ := contents(t, s)
	same(t, got, want)
}

// TestDamage: a value that this program did not write is named, and nothing is changed.
func TestDamage(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	for _, x := range []struct{ key, value string }{
		{"/journal/0000000000000002", "short"},
		{"/journal/0000000000000003", "after a gap"},
		{"/journal/0000000000000001", "\x01\x00\x00\x00\x00\x00\x00\x2c" + string(make([]byte, 36))},
		{"/journal/x", ""},
		{"/snapshot", "{"},
		{"/snapshot", `{"version":1,"id":"00","length":5}`},
		{"/term", `{"version":9}`},
	} {
		prefix := "/damage" + randomID()
		s, _ := openFaulty(t, cli, prefix)
		if err := s.Claim(patient(t), 1); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(key(1, "value")); err != nil {
			t.Fatal(err)
		}
		if _, err := cli.Put(patient(t), prefix+x.key, x.value); err != nil {
			t.Fatal(err)
		}
		other := newStore(cli, s.opt)
		err := other.reading(patient(t), other.catchUp)
		if x.key == "/term" {
			err = other.Claim(patient(t), 2)
		} else if ce := (*CorruptError)(nil); !errors.As(err, &ce) {
			t.Errorf("%s: %v is no CorruptError", x.key, err)
		}
		if err == nil {
			t.Errorf("%s = %q was accepted", x.key, x.value)
		}
		if r, err := cli.Get(patient(t), prefix+x.key); err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != x.value {
			t.Errorf("%s was changed: %v", x.key, err)
		}
	}
}
