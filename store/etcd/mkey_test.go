package etcd_test

import (
	"context"
	"testing"

	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/store"
	"heddle/store/etcd"
	"heddle/store/journal"
)

// TestMKey: the M_Key of a port, which a manager needs on standby to look at the master's port, is the
// one of the last entry that the store knows. It waits for nobody: a store that does not follow has the
// older key, and all answer while etcd is away.
func TestMKey(t *testing.T) {
	c := etcdtest.Start(t, 1)
	o := options(c)
	s := open(t, o)
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	follower, still := open(t, o), open(t, o)
	ctx, cancel := context.WithCancel(patient(t))
	followed := make(chan error, 1)
	go func() { followed <- follower.Follow(ctx) }()
	defer func() {
		cancel()
		<-followed
	}()

	key := func(g, k int) store.Op { return store.Op{Kind: store.PutMKey, GUID: ib.GUID(g), MKey: ib.MKey(k)} }
	has := func(what string, x *etcd.Store, want map[ib.GUID]ib.MKey) {
		t.Helper()
		st, _, err := x.Followed()
		if err != nil || len(st.MKeys) != len(want) {
			t.Errorf("%s: %d keys, %v; want %d", what, len(st.MKeys), err, len(want))
		}
		for g := ib.GUID(1); g <= 4; g++ {
			k, ok := x.MKey(g)
			if w, there := want[g]; k != w || ok != there {
				t.Errorf("%s: port %v has %v (%v); want %v (%v)", what, g, k, ok, w, there)
			}
		}
	}
	none := map[ib.GUID]ib.MKey{}
	has("nothing was written", s, none)
	for _, x := range []struct {
		what string
		do   func() error
		want map[ib.GUID]ib.MKey
	}{
		{"two keys", func() error { return s.Apply([]store.Op{key(1, 0x11), key(2, 0)}) }, map[ib.GUID]ib.MKey{1: 0x11, 2: 0}},
		{"another key", func() error { return s.Apply([]store.Op{key(1, 0x12)}) }, map[ib.GUID]ib.MKey{1: 0x12, 2: 0}},
		{"a key was deleted", func() error { return s.Apply([]store.Op{{Kind: store.DeleteMKey, GUID: 2}}) }, map[ib.GUID]ib.MKey{1: 0x12}},
		{"the state was replaced", func() error {
			m, err := s.Last()
			if err != nil {
				return err
			}
			return s.Replace(&store.State{MKeys: []store.MKeyEntry{{GUID: 3, MKey: 0x33}}}, journal.Mark{Term: m.Term, Number: m.Number + 1})
		}, map[ib.GUID]ib.MKey{3: 0x33}},
	} {
		if err := x.do(); err != nil {
			t.Fatalf("%s: %v", x.what, err)
		}
		m, err := s.Last()
		if err != nil {
			t.Fatal(err)
		}
		if x.want[3] != 0 { // the watch does not bring another history; a read finds it
			if _, err := follower.Last(); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, x.what, func() bool {
			at, _ := follower.Synced()
			return at == m
		})
		has(x.what, s, x.want)
		has(x.what+", followed", follower, x.want)
		has(x.what+", not followed", still, none)
	}
	c.Kill(0)
	has("etcd is away", s, map[ib.GUID]ib.MKey{3: 0x33})
	has("etcd is away, followed", follower, map[ib.GUID]ib.MKey{3: 0x33})
}
