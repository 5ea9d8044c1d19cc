package packaging

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"heddle/ib"
)

// joinerGroups is how many groups a joiner has in the end, and joinerPause the time between two joins.
const (
	joinerGroups = 64
	joinerPause  = 5 * time.Millisecond
)

func joinerGroup(i int) ib.GID { return ib.GID{0: 0xFF, 1: 0x15, 2: 0xA1, 14: 1, 15: byte(i)} }

// joiner joins its groups in turn all the time, as a host that was asked to reregister does, and one new group in each
// turn, whoever is master. Each request is sent again until it is acknowledged.
type joiner struct {
	*client
	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	news  chan struct{}     // closed at the end of a turn; guarded by mu
	turns int               // guarded by mu
	mlids map[ib.GID]ib.LID // of groups that were acknowledged, as the last answer said; guarded by mu
	moved map[ib.GID]string // how the MLIDs of groups changed; guarded by mu
	acks  int               // guarded by mu
	err   error             // guarded by mu
}

func (f *fabric) joiner(host string, sa ib.LID) *joiner {
	j := &joiner{client: f.client(host, sa), stop: make(chan struct{}), news: make(chan struct{}), mlids: map[ib.GID]ib.LID{}, moved: map[ib.GID]string{}}
	j.resend = 200 * time.Millisecond
	j.done.Go(func() {
		for n := 1; j.turn(n); n = min(n+1, joinerGroups) {
		}
	})
	f.t.Cleanup(func() {
		close(j.stop)
		j.conn.Close()
		j.done.Wait()
	})
	return j
}

// turn joins the first n groups.
func (j *joiner) turn(n int) bool {
	tick := time.NewTicker(joinerPause)
	defer tick.Stop()
	for i := range n {
		select {
		case <-j.stop:
			return false
		case <-tick.C:
		}
		gid := joinerGroup(i)
		mlid, err := j.join(gid)
		j.mu.Lock()
		if err != nil {
			j.err = err
			close(j.news)
			j.mu.Unlock()
			return false
		}
		if was, ok := j.mlids[gid]; ok && was != mlid {
			j.moved[gid] = fmt.Sprintf("%v: %#x to %#x", gid, uint16(was), uint16(mlid))
		}
		j.mlids[gid] = mlid
		j.acks++
		j.mu.Unlock()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turns++
	close(j.news)
	j.news = make(chan struct{})
	return true
}

// all waits until each group has been joined in a turn that begins after this call. It returns the MLIDs that were
// acknowledged, how many acknowledgments there were since the last call, and the groups whose MLIDs changed since then.
func (j *joiner) all() (mlids map[ib.GID]ib.LID, acks int, moved map[ib.GID]string) {
	j.t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for begin := j.turns; j.turns < begin+2 && j.err == nil; {
		news := j.news
		j.mu.Unlock()
		<-news
		j.mu.Lock()
	}
	if j.err != nil {
		j.t.Fatal(j.err)
	}
	acks, moved = j.acks, j.moved
	j.acks, j.moved = 0, map[ib.GID]string{}
	return maps.Clone(j.mlids), acks, moved
}

// same compares what was acknowledged with the memberships that saquery finds, which may have a new one. The MLIDs of
// groups in kept must not have changed. It returns those of now.
func (j *joiner) same(when string, m *machine, kept map[ib.GID]ib.LID) map[ib.GID]ib.LID {
	j.t.Helper()
	mlids, acks, moved := j.all()
	got := m.members(j.t, "ff15:a100:")
	port := ib.MakeGID(ib.DefaultSubnetPrefix, j.conn.PortGUID())
	for gid, mlid := range mlids {
		if line := fmt.Sprintf("%v %#x %v 0x1", gid, uint16(mlid), port); !slices.Contains(got, line) {
			j.t.Errorf("%s: acknowledged, and saquery does not find it: %s\n%s", when, line, strings.Join(got, "\n"))
		}
	}
	for gid, how := range moved {
		if _, ok := kept[gid]; ok {
			j.t.Errorf("%s: the MLID of a group that was dumped changed: %s", when, how)
		}
	}
	j.t.Logf("%s: %d joins acknowledged, of %d groups, %d of them with another MLID", when, acks, len(mlids), len(moved))
	return mlids
}
