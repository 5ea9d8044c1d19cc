package etcd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/internal/storetest"
	"heddle/store"
	"heddle/store/etcd"
	"heddle/store/journal"
)

var prefixes atomic.Int64

// options are those of a Store with keys of its own.
func options(c *etcdtest.Cluster) etcd.Options {
	return etcd.Options{Endpoints: c.Endpoints(), Prefix: fmt.Sprintf("/test%d", prefixes.Add(1)), Name: "test", Wait: need.Patience}
}

func open(t testing.TB, o etcd.Options) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(patient(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), need.Patience)
	t.Cleanup(cancel)
	return ctx
}

// TestConformance: the suites that all stores pass, on one member.
func TestConformance(t *testing.T) {
	c := etcdtest.Start(t, 1)
	used := map[string]etcd.Options{}
	again := func(t *testing.T) journal.Store {
		o, ok := used[t.Name()]
		if !ok {
			o = options(c)
			used[t.Name()] = o
		}
		s := open(t, o)
		if err := s.Claim(patient(t), 1); err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, func(t *testing.T) store.Store { return again(t) })
	storetest.RunJournal(t, again)
}

func put(i int) []store.Op {
	return []store.Op{{Kind: store.PutMKey, GUID: ib.GUID(i), MKey: ib.MKey(i)}}
}
