package interop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
)

// ledTrio is a trio under load.
type ledTrio struct {
	*trio
	j       *joiner
	queries *watch
}

// newLedTrio starts three managers on a cluster, a host that joins, and one that asks.
func newLedTrio(t *testing.T, cluster *etcdtest.Cluster) *ledTrio {
	t.Helper()
	b := smallTree.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	x := &ledTrio{trio: newTrioOn(t, &b, sock, cluster, "--etcd-wait", "500ms")}
	for i := range 3 {
		x.start(i)
	}
	x.settled(-1)
	x.j = b.joiner(t, sock, b.cas[3])
	x.j.every = 5 * time.Millisecond
	x.j.done.Go(x.j.run)
	x.queries = watchLID(t, sock, b.cas[5], b.portGUID(b.cas[6]), 0)
	x.queries.answered(t)
	return x
}

// goOn waits until queries are answered and changes acknowledged, and logs for how long they were not.
func (x *ledTrio) goOn(what string, since time.Time) {
	x.t.Helper()
	x.queries.answered(x.t)
	x.j.after(time.Now(), 5)
	x.t.Logf("%s: no query is answered for %v, no join for %v", what, x.queries.longest().Round(time.Millisecond), x.j.longest(since).Round(time.Millisecond))
}

// calm is a moment in which all goes on, and the master.
func (x *ledTrio) calm() (master int, at time.Time) {
	x.t.Helper()
	master = x.settled(-1)
	x.j.after(time.Now(), 5)
	x.queries.answered(x.t)
	x.queries.longest()
	return master, time.Now()
}

// until waits until manager i is in a state.
func (x *trio) until(i int, state string) (h api.HA) {
	x.t.Helper()
	await(x.t, fmt.Sprintf("manager %d: %s", i, state), func() bool {
		var ok bool
		h, ok = x.ha(i)
		return ok && h.State == state
	})
	return h
}

// ended kills the master when the load has ended, and asks the next one for all that was acknowledged.
func (x *ledTrio) ended() {
	x.t.Helper()
	x.j.end()
	master := x.settled(-1)
	x.prog[master].stop(syscall.SIGKILL)
	x.settled(master)
	k := x.b.joiner(x.t, x.sock, x.b.cas[3]) // the same host asks the next master
	for _, m := range x.j.acked {
		k.leave(m.id)
	}
	lost, unknown := x.j.lost+k.lost, x.j.unknown+k.unknown
	x.t.Logf("%d joins were acknowledged, of %d it is not known whether they were left", x.j.left+k.left+lost+unknown, unknown)
	if lost > 0 || k.left == 0 {
		x.t.Errorf("%d joins that were acknowledged are lost; %d of the last ones are there", lost, k.left)
	}
}

// TestQuorumFailures has managers and members of etcd fail under load, by the table of failures in
// docs/ha.md for three or more managers. Queries go on, changes go on or wait as it says, and nothing
// that was acknowledged is lost.
func TestQuorumFailures(t *testing.T) {
	need.Long(t)
	x := newLedTrio(t, etcdtest.Start(t, 3, "--quota-backend-bytes", fmt.Sprint(16<<20)))
	kill := func(i int) { x.prog[i].stop(syscall.SIGKILL) }

	master, at := x.calm()
	kill((master + 1) % 3)
	x.goOn("a standby ends", at)
	x.start((master + 1) % 3)

	master, at = x.calm()
	leader := x.cluster.AwaitLeader()
	x.cluster.Kill(leader)
	kill(master)
	x.settled(master)
	x.goOn("the master ends together with etcd's leader", at)
	x.cluster.Restart(leader)
	x.start(master)

	master, at = x.calm()
	leader = x.cluster.AwaitLeader()
	x.cluster.Kill(leader)
	x.goOn("one of three members ends, etcd's leader", at)
	x.cluster.Restart(leader)
	if now := x.settled(-1); now != master {
		t.Errorf("manager %d is master because a member of etcd ended", now)
	}

	x.compacted()
	x.away()
	x.full()

	master, at = x.calm()
	x.prog[master].Signal(syscall.SIGSTOP)
	next := x.settled(master)
	x.goOn("the master is stopped", at)
	x.prog[master].Signal(syscall.SIGCONT)
	if now := x.settled(-1); now != next {
		t.Errorf("manager %d is master, the one that was stopped was %d, and the next one %d", now, master, next)
	}
	x.goOn("it goes on", at)
	x.ended()
}

// compacted: etcd's history is compacted while the standbys are stopped. They have all entries all the
// same, and one of them takes over.
func (x *ledTrio) compacted() {
	x.t.Helper()
	master, at := x.calm()
	for i := range 3 {
		if i != master {
			x.prog[i].Signal(syscall.SIGSTOP)
		}
	}
	x.j.after(time.Now(), 50)
	r, err := x.cluster.Client().Get(x.t.Context(), "/trio/term")
	if err != nil {
		x.t.Fatal(err)
	}
	x.cluster.Ctl("compact", fmt.Sprint(r.Header.Revision))
	for i := range 3 {
		if i != master {
			x.prog[i].Signal(syscall.SIGCONT)
		}
	}
	x.settled(-1)
	for i := range 3 {
		h, _ := x.ha(master)
		await(x.t, fmt.Sprintf("manager %d has entry %d", i, h.Quorum.Entry), func() bool {
			now, ok := x.ha(i)
			return ok && now.Quorum.Entry >= h.Quorum.Entry
		})
	}
	x.prog[master].stop(syscall.SIGKILL)
	x.settled(master)
	x.goOn("compacted under the standbys, and the master ends", at)
	x.start(master)
}

// away: two of three members end. Meanwhile a manager starts, and the master changes.
func (x *ledTrio) away() {
	t := x.t
	t.Helper()
	master, at := x.calm()
	x.cluster.Kill(0)
	x.cluster.Kill(2)
	x.until(master, "away")
	since := time.Now()
	for range 100 {
		x.queries.answered(t)
	}
	policy := filepath.Join(x.b.dir, "policy")
	if err := os.WriteFile(policy, []byte("Default=0x7fff, ipoib : ALL=full ;\nOther=0x55 : ALL=full ;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, upTime, x.b.dir, nil, heddle, "ctl", "partitions", "apply", policy, "--api", x.addr[master]); err == nil || !strings.Contains(out, "503") {
		t.Errorf("a change through the API without a majority: %v\n%s", err, out)
	}
	if metric(t, x.addr[master], `heddle_ha_state{state="away"}`) != 1 || metric(t, x.addr[master], "heddle_ha_refused_seconds") <= 0 {
		t.Error("the metrics do not show that etcd is away")
	}
	x.event(master, at, "persist_failed")

	starts := (master + 1) % 3
	x.prog[starts].stop(syscall.SIGKILL)
	x.prog[starts] = x.run(starts)
	next := (master + 2) % 3
	x.prog[master].stop(syscall.SIGKILL)
	h := x.until(next, "refused")
	t.Logf("the next master without etcd is there after %v: %s", time.Since(since).Round(time.Millisecond), h.Why)
	if strings.Contains(x.prog[starts].Output(), "to MASTER") {
		t.Errorf("a manager that started without etcd is master:\n%s", tail(x.prog[starts].Output()))
	}
	x.j.mu.Lock()
	for _, a := range x.j.acked {
		if a.at.After(since) {
			t.Errorf("a join was acknowledged %v after etcd had lost its majority", a.at.Sub(since))
		}
	}
	x.j.mu.Unlock()

	x.cluster.Restart(0)
	x.cluster.Restart(2)
	x.cluster.AwaitLeader()
	x.until(next, "term")
	back := time.Now()
	x.j.after(back, 5)
	x.prog[starts].await("serving the API", 0, upTime)
	x.start(master)
	x.goOn("two of three members end, and come back", at)
}

// full: etcd's data base is full of what another program put there.
func (x *ledTrio) full() {
	t := x.t
	t.Helper()
	master, at := x.calm()
	cli := x.cluster.Client()
	rev := int64(0)
	await(t, "etcd is full", func() bool {
		r, err := cli.Put(t.Context(), "/others", strings.Repeat("x", 900<<10))
		if err == nil {
			rev = r.Header.Revision
		}
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	x.prog[master].await("is full", 0, upTime)
	x.event(master, at, "persist_failed")
	for range 100 {
		x.queries.answered(t)
	}
	if h, _ := x.ha(master); h.State == "term" {
		t.Errorf("the master with a full etcd: %+v", h)
	}
	x.cluster.Ctl("compact", fmt.Sprint(rev))
	x.cluster.Ctl("--command-timeout", "60s", "defrag", "--cluster")
	x.cluster.Ctl("alarm", "disarm")
	x.goOn("etcd is full, until it has room again", at)
}

// event waits until manager i has reported an event of a kind since at.
func (x *trio) event(i int, at time.Time, kind string) {
	x.t.Helper()
	awaitEvent(x.t, x.addr[i], at, kind)
}

// TestQuorumRestored: etcd gets an older backup back under load. The master notices that etcd lacks what
// it acknowledged, says so and refuses changes; queries go on. When it is restarted, the managers go on
// with what the backup has, and all that was acknowledged until the backup is there.
func TestQuorumRestored(t *testing.T) {
	need.Long(t)
	x := newLedTrio(t, etcdtest.Start(t, 3))
	x.calm()
	early := x.b.joiner(t, x.sock, x.b.cas[8]) // joins before the backup, and then does nothing
	for id := uint64(1); id <= 20; id++ {
		if a := early.member(ib.MethodSet, id); a == nil || a.Status() != 0 {
			t.Fatalf("join %d: %v", id, a)
		}
	}
	backup := x.cluster.Backup()
	master, at := x.calm()
	x.j.after(time.Now(), 50)
	x.cluster.Restore(backup)
	restored := time.Now()
	const why = "was a backup restored\\?"
	x.until(master, "refused")
	x.prog[master].await(why, 0, upTime)
	x.event(master, at, "persist_failed")
	for range 100 {
		x.queries.answered(t)
	}
	t.Logf("no query is answered for %v", x.queries.longest().Round(time.Millisecond))
	x.j.mu.Lock()
	for _, a := range x.j.acked {
		if a.at.After(restored) {
			t.Errorf("a join was acknowledged %v after the restore", a.at.Sub(restored))
		}
	}
	x.j.mu.Unlock()
	for i := range 3 { // each has read what etcd lacks
		x.prog[i].await(why, 0, upTime)
	}

	x.prog[master].stop(syscall.SIGKILL)
	x.settled(master)
	x.start(master)
	x.settled(-1)
	x.goOn("restored, and the master restarted", at)
	x.j.end()
	for id := uint64(1); id <= 20; id++ {
		early.leave(id)
	}
	if early.lost > 0 || early.left != 20 {
		t.Errorf("of 20 joins before the backup %d are there, %d are lost", early.left, early.lost)
	}
}
