package interop

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/internal/etcdtest"
	"heddle/internal/need"
)

// leads is what a master without the term says when its first sweep has ended.
var leads = regexp.MustCompile("(?s)this manager is master without the term.*sweep ends: started")

// TestQuorumMasterChangesAway: the master is killed while etcd has no majority. The next one answers soon,
// and goes on when its first sweep has ended; it acknowledges no change, but for a join that etcd took without
// an answer to the master before. When etcd is back it has the term,
// and nothing is lost that was acknowledged. It logs how long no query is answered.
func TestQuorumMasterChangesAway(t *testing.T) {
	need.Long(t)
	x := newLedTrio(t, etcdtest.Start(t, 3))
	var silent, back []time.Duration
	lacks := 0
	for range 5 {
		master, _ := x.calm()
		x.cluster.Kill(0)
		x.cluster.Kill(2)
		x.until(master, "away")
		at, asked := time.Now(), x.j.asked()
		for x.queries.answered(t); x.queries.longest() > 50*time.Millisecond; x.queries.answered(t) { // until a quiet moment
		}
		x.prog[master].stop(syscall.SIGKILL)
		next := -1
		await(t, "another manager is master without the term", func() bool {
			for i := range 3 {
				// On a busy machine one that was stopped gives way to the other.
				if h, ok := x.ha(i); i != master && ok && h.State == "refused" && leads.MatchString(x.prog[i].Output()) {
					next = i
				}
			}
			return next >= 0
		})
		x.queries.answered(t)
		silent = append(silent, x.queries.longest())
		if strings.Contains(x.prog[next].Output(), "lacks=true") {
			lacks++ // etcd lost its majority before it told of the last join
		}
		for range 200 {
			x.queries.answered(t)
		}
		if d := x.queries.longest(); d > need.Patience/10 {
			t.Errorf("no query was answered for %v after the takeover\n%s", d, tail(x.prog[next].Output()))
		}
		x.j.mu.Lock()
		for _, a := range x.j.acked {
			if a.at.After(at) && a.id > asked {
				t.Errorf("a join was acknowledged %v after etcd had lost its majority\n%s", a.at.Sub(at), tail(x.prog[next].Output()))
			}
		}
		x.j.mu.Unlock()
		returned := time.Now()
		x.cluster.Restart(0)
		x.cluster.Restart(2)
		x.cluster.AwaitLeader()
		back = append(back, x.j.after(time.Now(), 5).Sub(returned))
		if now := x.settled(master); now != next {
			t.Errorf("manager %d was master while etcd was away, and then %d", next, now)
		}
		x.start(master)
	}
	t.Logf("%d times the next master lacked a change", lacks)
	for what, list := range map[string][]time.Duration{"no query is answered": silent, "no join, from the start of the members": back} {
		slices.Sort(list)
		t.Logf("%s for %v in the median, %v at least, %v at most, of %d times", what, list[len(list)/2], list[0], list[len(list)-1], len(list))
	}
	x.ended()
}
