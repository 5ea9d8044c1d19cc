package replica

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/access"
	"heddle/store"
)

// opsOf is a store that hands on what is written.
type opsOf struct {
	store.Store
	ops []store.Op
}

func (o *opsOf) Apply(ops []store.Op) error {
	o.ops = append(o.ops, ops...)
	return nil
}

// change has a site's managers store operations, with a record by which the world knows the change.
func (s *site) change(ops []store.Op) uint64 {
	s.w.nextID++
	rec := store.Record{Table: store.TableServices, Key: key(s.w.nextID), Value: []byte{byte(s.i)}}
	s.step(Change{ID: s.w.nextID, Wall: int64(s.unix()), Ops: append(ops, store.Op{Kind: store.PutRecord, Record: rec})})
	return s.w.nextID
}

// TestRevokedToken: a token that the active manager created is accepted by both, and one that it
// revoked is refused by both, within a second of the request; also after a takeover.
func TestRevokedToken(t *testing.T) {
	const limit = time.Second
	worst := time.Duration(0)
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		w.quiet = false // the disks and the network are late by chance
		rng := rand.NewPCG(seed, 9)
		random := rand.NewChaCha8([32]byte{byte(seed)})
		var registry [2]*access.Registry
		for i, s := range w.site {
			r := new(access.Registry)
			f := access.Follower{Registry: r}
			registry[i] = r
			var poll func()
			poll = func() {
				if s.core != nil {
					if err := f.Poll(s.disk); err != nil {
						w.fail("manager %d cannot follow: %v", i, err)
					}
				}
				w.at(access.PollTime, poll)
			}
			w.at(time.Duration(rng.Uint64()%uint64(access.PollTime)), poll)
		}
		accepted := func(text string, want bool) func() bool {
			return func() bool {
				for _, r := range registry {
					if _, err := r.Authenticate(text, time.Unix(1000, 0)); (err == nil) != want {
						return false
					}
				}
				return true
			}
		}
		// soon runs until something holds, and measures how long that takes.
		soon := func(what string, ok func() bool) {
			begun := w.now
			for !ok() {
				if w.now.Sub(begun) > limit {
					w.fail("seed %d: %s takes longer than %v", seed, what, limit)
				}
				w.run(w.now.Add(time.Millisecond))
			}
			worst = max(worst, w.now.Sub(begun))
		}
		var made access.Registry
		create := func(name string) string {
			var out opsOf
			text, _, err := made.Create(&out, access.NewToken{Name: name, Role: access.Admin}, random, time.Unix(1, 0))
			if err != nil {
				t.Fatal(err)
			}
			a.change(out.ops)
			return text
		}
		revoke := func(name string) {
			var out opsOf
			if _, err := made.Revoke(&out, name); err != nil {
				t.Fatal(err)
			}
			a.change(out.ops)
		}
		one, two := create("one"), create("two")
		soon("creating", func() bool { return accepted(one, true)() && accepted(two, true)() })
		revoke("one")
		soon("revoking", accepted(one, false))
		if !accepted(two, true)() {
			w.fail("the other token is refused")
		}
		// The standby takes over, and knows what it knew.
		a.crash()
		a = a.other()
		w.until("the takeover", func() bool { return a.core.role == Active })
		for i, r := range registry {
			if _, err := r.Authenticate(two, time.Unix(1000, 0)); err != nil {
				w.fail("manager %d refuses a valid token after the takeover: %v", i, err)
			}
		}
	}
	t.Logf("the longest took %v", worst)
}
