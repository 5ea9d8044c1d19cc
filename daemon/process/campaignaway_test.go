package process_test

import (
	"testing"
	"testing/synctest"
	"time"

	"heddle/internal/need"
)

// cutAll cuts all managers off from etcd, or ends that.
func (c *campaign) cutAll(cut bool) {
	for _, n := range c.nodes {
		n.cut(cut)
	}
}

// away has etcd away for a while, in which the master changes; which comes first is random. The old master
// may come back meanwhile.
func (c *campaign) away() {
	wait := func(most int) { pause(c.ctx, time.Duration(c.roll(most))*time.Millisecond) }
	old := c.master()
	if old == nil {
		return
	}
	gone := func() {
		if c.roll(2) == 0 {
			old.kill()
		} else {
			old.stop(true)
		}
	}
	if c.roll(3) == 0 {
		gone()
		wait(300)
		c.cutAll(true)
	} else {
		c.cutAll(true)
		wait(3000)
		gone()
	}
	wait(4000)
	if c.roll(2) == 0 {
		old.stop(false)
		old.start() // if it is dead
		wait(3000)
	}
	c.cutAll(false)
}

// stateOf is how a manager says that it stands.
func stateOf(n *node) string {
	q, _, _ := n.look()
	if q == nil {
		return "dead"
	}
	return q.HA().State
}

// acknowledged is how many changes were.
func (c *campaign) acks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

// masters are those that believe to be master.
func (c *campaign) masters() (list []*node) {
	for _, n := range c.nodes {
		if _, client, _ := n.look(); client != nil && n.isMaster() {
			list = append(list, n)
		}
	}
	return list
}

// TestMasterChangesAway: the master ends, or is stopped, while etcd is away for all, or in the moment before
// that. Another manager is master within 2 s (of the model: docs/ha-measured.md has those of real processes), and
// acknowledges nothing until etcd is back. Then it has the term within two. If the old master comes back,
// SMInfo decides which of them goes on.
func TestMasterChangesAway(t *testing.T) {
	for _, how := range []string{"away, killed", "killed, away", "away, stopped, goes on", "away, killed, starts again"} {
		t.Run(how, func(t *testing.T) {
			for _, seed := range need.Seeds(5, 200) {
				synctest.Test(t, func(t *testing.T) { masterChangesAway(t, how, seed) })
			}
		})
	}
}

func masterChangesAway(t *testing.T, how string, seed uint64) {
	c := &campaign{seed: seed}
	defer c.begin()()
	defer func() {
		for _, err := range c.errs {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, n := range c.nodes {
			t.Logf("manager %d: %s, %+v", n.i, stateOf(n), n.info())
		}
	}()
	pause(c.ctx, 4*time.Second)
	old := c.master()
	if old == nil || stateOf(old) != "term" {
		t.Fatalf("seed %d: no master has the term", seed)
	}
	switch how {
	case "killed, away":
		old.stop(true) // to kill it takes a while
		c.cutAll(true)
		old.kill()
	case "away, stopped, goes on":
		c.cutAll(true)
		pause(c.ctx, time.Duration(c.roll(5000))*time.Millisecond)
		old.stop(true)
	default:
		c.cutAll(true)
		pause(c.ctx, time.Duration(c.roll(5000))*time.Millisecond)
		old.kill()
	}
	acked := c.acks()
	pause(c.ctx, 2*time.Second)
	if list := c.masters(); len(list) != 1 || stateOf(list[0]) != "refused" {
		t.Fatalf("seed %d: 2 s after the end of the master %d others are", seed, len(list))
	}
	switch how {
	case "away, stopped, goes on":
		old.stop(false)
	case "away, killed, starts again":
		old.start()
	}
	pause(c.ctx, 5*time.Second)
	if list := c.masters(); len(list) != 1 {
		t.Fatalf("seed %d: %d masters while etcd is away", seed, len(list))
	}
	if n := c.acks() - acked; n > 0 {
		t.Fatalf("seed %d: %d changes were acknowledged while etcd was away", seed, n)
	}
	c.cutAll(false)
	if how == "away, killed, starts again" {
		pause(c.ctx, 5*time.Second) // it is heard now, and may rank higher
	}
	pause(c.ctx, 2*time.Second)
	if list := c.masters(); len(list) != 1 || stateOf(list[0]) != "term" {
		t.Fatalf("seed %d: %d masters with etcd back", seed, len(list))
	}
	pause(c.ctx, 5*time.Second)
	if c.acks() == acked {
		t.Fatalf("seed %d: no change is acknowledged with etcd back", seed)
	}
}

// TestLaterTerm: a manager becomes master while etcd is away for it alone, and another one, in another part
// of the subnet, wins the term. That one keeps it, until it is gone.
func TestLaterTerm(t *testing.T) {
	for _, seed := range need.Seeds(5, 200) {
		synctest.Test(t, func(t *testing.T) {
			c := &campaign{seed: seed}
			defer c.begin()()
			pause(c.ctx, 4*time.Second)
			old := c.master()
			away, owner := c.nodes[(old.i+1)%3], c.nodes[(old.i+2)%3]
			away.cut(true)
			owner.part.Store(1)
			old.kill()
			pause(c.ctx, 5*time.Second)
			if !away.isMaster() || stateOf(away) != "refused" || !owner.isMaster() || stateOf(owner) != "term" {
				t.Fatalf("seed %d: without etcd %s, with etcd %s", seed, stateOf(away), stateOf(owner))
			}
			away.cut(false)
			pause(c.ctx, 20*time.Second)
			if !away.isMaster() || stateOf(away) != "refused" || stateOf(owner) != "term" {
				t.Fatalf("seed %d: with etcd back %s, the owner of the later term is %s", seed, stateOf(away), stateOf(owner))
			}
			owner.kill()
			pause(c.ctx, 14*time.Second)
			if !away.isMaster() || stateOf(away) != "term" {
				t.Fatalf("seed %d: 14 s after the death of the owner the other master is %s", seed, stateOf(away))
			}
		})
	}
}
