package incident

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
)

// TestFindCauses: the index of causes by place finds what a look at all causes finds, from the newest
// to the oldest.
func TestFindCauses(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := []string{linkDown, linkUp, nodeGone, "trap", "finding_opened", "finding_closed", sweepStart, sweepEnd, "vm_up"}
	found := 0
	for range 20 {
		c := New()
		now := time.Unix(1, 0)
		for number := uint64(1); number < 2000; {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(3*time.Second)))
			f := &Fact{Kind: kinds[rng.IntN(len(kinds))], At: now, Node: ib.GUID(rng.IntN(200)), Port: rng.IntN(5) - 1}
			if f.Node%3 == 0 {
				f.Peer, f.PeerPort = ib.GUID(rng.IntN(200)), rng.IntN(4)
			}
			if rng.IntN(4) == 0 {
				f.Subject = string(rune('a' + rng.IntN(26)))
			}
			number += uint64(len(c.Step(f, number)))
			e := &Event{Fact: *f}
			at := e.places()
			got, want := c.causes.find(e, at), findAll(c.causes.list, e, at)
			if got != want {
				t.Fatalf("seed %d, fact %d: found %+v, want %+v", seed, number, got, want)
			}
			if got != nil {
				found++
			}
		}
		if len(c.causes.list) != maxCauses {
			t.Fatalf("%d causes", len(c.causes.list))
		}
		indexed := 0
		for p, list := range c.causes.at {
			indexed += len(list)
			for _, k := range list {
				if k.dropped || !slices.Contains(k.places, p) {
					t.Fatalf("%v has %+v", p, k)
				}
			}
		}
		for _, k := range c.causes.list {
			indexed -= len(k.places)
		}
		if indexed != 0 {
			t.Errorf("the index has %d places too many", indexed)
		}
	}
	if found < 1000 {
		t.Errorf("only %d facts have an earlier cause", found)
	}
}

// findAll is causes.find without an index.
func findAll(list []*cause, e *Event, at []place) *cause {
	for _, k := range slices.Backward(list) {
		if findings[e.Kind] {
			if e.At.Sub(k.last) > laterTime {
				continue
			}
		} else if e.At.Sub(k.last) > quietTime || e.At.Sub(k.began) > longTime {
			continue
		}
		for _, p := range at {
			if slices.Contains(k.places, p) || slices.Contains(k.places, place{p.node, -1}) {
				return k
			}
		}
	}
	return nil
}
