package etcd

import (
	"errors"
	"testing"

	"heddle/internal/etcdtest"
	"heddle/store"
	"heddle/store/journal"
)

// TestReplaceAndSnapshot: a snapshot of the state before, which is written while the state is replaced,
// neither brings that back nor takes pieces of the new one.
func TestReplaceAndSnapshot(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	s, f := openFaulty(t, cli, "/replace")
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(key(1, "before")); err != nil {
		t.Fatal(err)
	}
	before, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	at, guard, old := s.position().Mark, s.guard(), s.head
	// One that is complete but for its head, when the state is replaced.
	head, err := s.writeSnapshot(patient(t), before, at, guard)
	if err != nil {
		t.Fatal(err)
	}
	m := store.NewMemory()
	if err := m.Apply(key(2, "new")); err != nil {
		t.Fatal(err)
	}
	state, err := m.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(state, journal.Mark{Number: at.Number + 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.commitHead(patient(t), head, append(guard, s.stillHead(old)), s.replaceHead(head)); !errors.Is(err, errLost) {
		t.Errorf("a late snapshot: %v", err)
	}
	if err := s.saveSnapshot(patient(t), before, at, guard, old); !errors.Is(err, errLost) {
		t.Errorf("a snapshot of the state before: %v", err)
	}
	// A snapshot becomes the newest one when Replace has written its pieces.
	other := newStore(cli, s.opt)
	other.claim = s.claim
	pieces := 0
	f.set(func(writes bool) fault {
		if writes {
			pieces++
		}
		if pieces == 2 { // no piece, but the head
			pieces++
			h, err := other.writeSnapshot(patient(t), state, journal.Mark{Number: at.Number + 1}, s.guard())
			if err == nil {
				_, err = other.commitHead(patient(t), h, append(s.guard(), s.stillHead(s.head)), s.replaceHead(h))
			}
			if err != nil {
				t.Error(err)
			}
		}
		return passes
	})
	if err := s.Replace(before, journal.Mark{Number: at.Number + 2}); !errors.Is(err, errLost) {
		t.Errorf("Replace during a snapshot: %v", err)
	}
	for _, x := range []*Store{s, newStore(cli, s.opt)} {
		if got, _ := contents(t, x); len(got) != 1 || got["2"] != "new" {
			t.Errorf("%v", got)
		}
	}
}
