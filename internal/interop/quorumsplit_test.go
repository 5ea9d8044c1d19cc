package interop

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/sim"
)

// TestQuorumSplit: the subnet falls into two parts with managers in each, which all reach etcd. Each part
// gets a master that answers; the one that won the term stores changes, the other one refuses them. When the
// parts meet, one is master and has the term, and what was acknowledged meanwhile is there.
func TestQuorumSplit(t *testing.T) {
	need.Long(t)
	b := testNet{name: "tree", gen: []string{"xgft", "2", "2,6", "1,2"}}.build(t)
	c := b.countSets(t)
	x := newTrioOn(t, &b, c.sock, etcdtest.Start(t, 3), "--etcd-wait", "500ms")
	for i := range 3 {
		x.start(i)
	}
	x.settled(-1)
	// The third manager is on the second leaf.
	leaf := &b.fab.Nodes[b.fab.Nodes[b.fab.Find(b.cas[2])].Ports[1].Peer.Node]
	cut := func(down bool) {
		c.d.Do(func(s *sim.Subnet) {
			do := s.LinkUp
			if down {
				do = s.LinkDown
			}
			for p := 1; p < len(leaf.Ports); p++ {
				if q := leaf.Ports[p].Peer; q.Node >= 0 && b.fab.Nodes[q.Node].IsSwitch() {
					if err := do(leaf.ID, p); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	hosts := [2]*joiner{b.joiner(t, c.sock, b.cas[4]), b.joiner(t, c.sock, b.cas[3])} // one in each part
	queries := watchLID(t, c.sock, b.cas[5], b.portGUID(b.cas[6]), 0)
	queries.answered(t)
	id := uint64(0)
	join := func(j *joiner) bool {
		a := j.member(ib.MethodSet, id)
		return a != nil && a.Status() == 0
	}
	for round := range 3 {
		at := time.Now()
		cut(true)
		var first, second string
		await(t, "a master in each part, one of them with the term", func() bool {
			states := [3]string{}
			for i := range 3 {
				if h, ok := x.ha(i); ok {
					states[i] = h.State
				}
			}
			first, second = states[0], states[2]
			if first == "follower" {
				first = states[1]
			}
			return first == "term" && second == "refused" || first == "refused" && second == "term"
		})
		t.Logf("round %d: the parts have masters after %v: %s and %s", round, time.Since(at).Round(time.Millisecond), first, second)
		owner := 0
		if second == "term" {
			owner = 1
		}
		began := id
		for range 20 {
			id++
			await(t, "the part with the term acknowledges a join", func() bool { return join(hosts[owner]) })
			if join(hosts[1-owner]) {
				t.Fatal("the part without the term acknowledged a join")
			}
			queries.answered(t)
		}
		healed := time.Now()
		cut(false)
		x.settled(-1)
		t.Logf("round %d: one master has the term %v after the parts met", round, time.Since(healed).Round(time.Millisecond))
		for k := began + 1; k <= id; k++ {
			hosts[owner].leave(k)
		}
	}
	if n := hosts[0].left + hosts[1].left; n != int(id) {
		t.Errorf("%d joins were acknowledged, %d of them are lost", id, int(id)-n)
	}
}
