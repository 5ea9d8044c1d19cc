package lab

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"heddle/sa"
	"heddle/sim/dataplane"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
	"heddle/sim/host/saclient"
	"heddle/sm"
)

// hostTally sums what happened in schedules.
type hostTally struct {
	cuts, lost, kills                  int
	changed, migrated, drained, failed uint64
	repeats, refreshed, messages       uint64
}

// TestHostCampaign: random schedules of cables that fail and come back, reroutes with
// other service levels, notices that hosts lose, and managers that die and have a
// successor. No message may be lost, doubled or reordered. A connection may end only
// when its retries have passed without news. In the end each has the path that the SA
// tells.
func TestHostCampaign(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 4
	}
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEEDS")); err == nil {
		seeds = v
	}
	first := 0
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEED")); err == nil {
		first, seeds = v, 1
	}
	var sum hostTally
	for i := range seeds {
		hostSchedule(t, uint64(first+i), &sum)
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", first+i)
		}
	}
	t.Logf("%d schedules: %+v", seeds, sum)
	if first == 0 && seeds >= 20 && (sum.lost == 0 || sum.kills == 0 || sum.migrated == 0 || sum.drained == 0) {
		t.Errorf("the schedules miss something: %+v", sum)
	}
}

// meshCables are the cables between switches of meshOfSix, by one end.
var meshCables = []struct {
	node string
	port int
}{{"S2", 2}, {"S1", 3}, {"S2", 3}, {"S3", 3}, {"S4", 3}, {"S5", 3}, {"S6", 3}}

func hostSchedule(t *testing.T, seed uint64, sum *hostTally) {
	r := rand.New(rand.NewPCG(seed, 5))
	hc := HostDefaults()
	hc.Sender.Timeout = 12 // 16.8 ms, 134 ms with all retries
	hc.Refresh = 200 * time.Millisecond
	hc.Repath.Method = repath.Method(r.IntN(2))
	hc.Repath.Retry = 100 * time.Millisecond
	policy := []sm.Transition{sm.TransitionStrict, sm.TransitionAvailability}[r.IntN(2)]
	change := func(c *sm.Config) {
		c.Transition, c.RepathTime, c.ImproveDelay = policy, 20*time.Millisecond, 40*time.Millisecond
		c.SweepInterval = 50 * time.Millisecond
		c.PacketLife, c.HOQLife, c.LeafHOQLife = 8, 8, 6 // or plans wait for seconds
	}
	b := newHostbed(t, meshOfSix(t), seed, hc, change)
	lossy := r.IntN(2) == 0
	for _, h := range b.hosts {
		h.OnReport = func(*saclient.Report) bool {
			if lossy && r.IntN(3) == 0 {
				sum.lost++
				return false
			}
			return true
		}
	}
	var streams []*Stream
	for i, f := range [][2]int{{0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 0}, {5, 1}, {0, 3}, {2, 5}} {
		s, err := b.hosts[f[0]].Stream(b.hosts[f[1]], program.Stream{
			Bytes: 3000, Depth: 8, Gap: Time(300+r.IntN(1200)) * dataplane.Microsecond, Seed: seed + uint64(i),
		})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	down := -1 // at most one cable, so that all hosts are connected
	for range 4 + r.IntN(6) {
		b.Run(time.Duration(r.IntN(120)) * time.Millisecond)
		switch k := r.IntN(8); {
		case k == 0 && !b.Manager.Dead:
			sum.kills++
			b.Manager.Kill()
			b.Run(time.Duration(r.IntN(30)) * time.Millisecond)
			b.succeed(t, change)
		case down >= 0:
			if err := b.Sim.LinkUp(meshCables[down].node, meshCables[down].port); err != nil {
				t.Fatal(err)
			}
			down = -1
		default:
			sum.cuts++
			down = r.IntN(len(meshCables))
			if err := b.Sim.LinkDown(meshCables[down].node, meshCables[down].port); err != nil {
				t.Fatal(err)
			}
		}
	}
	lossy = false
	b.Run(500 * time.Millisecond) // the manager finds the last change
	settled := func() bool { return b.Manager.Up() && b.Manager.Idle() }
	if err := b.RunUntil(time.Minute, settled); err != nil {
		t.Error(err)
		return
	}
	b.Run(2*hc.Refresh + time.Second)
	b.judgeHosts(t, streams, hc, sum)
}

// Time is that of the data plane.
type Time = dataplane.Time

// succeed starts a manager with the store of the dead one, at the switch at the other
// end of the mesh or again at the first.
func (b *hostbed) succeed(t *testing.T, change func(*sm.Config)) {
	node := "S4"
	if b.Manager.Node == node {
		node = "S1"
	}
	m, err := b.Attach(node, lashManager(change), b.Manager.Store)
	if err != nil {
		t.Fatal(err)
	}
	m.JobTime = LoadedJob
	m.ServeSA(SAConfig(0), sa.Options{})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	b.Manager = m
}

// judgeHosts checks how connections came out.
func (b *hostbed) judgeHosts(t *testing.T, streams []*Stream, hc HostConfig, sum *hostTally) {
	timer := rc.AckTimeout(hc.Sender.Timeout)
	for i, s := range streams {
		n, _ := s.Sink.Got()
		sum.messages += n
		sum.repeats += s.Conn.QP().Count.Repeats
		if err := s.Check(); err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
		if st, at := s.Failed(); st != rc.Success {
			sum.failed++
			if quiet := at - s.Conn.QP().LastNews(); st != rc.RetryExceeded || quiet < timer*Time(hc.Sender.Retries) {
				t.Errorf("stream %d: %v %v after news; a timer is %v", i, st, quiet, timer)
			}
			continue
		}
		for _, c := range []struct {
			name     string
			from, to *Host
			path     rc.Path
		}{
			{"there", b.hostOf(s.Conn.Adapter().LID()), b.hostOf(s.Back.Adapter().LID()), s.Conn.QP().Path()},
			{"back", b.hostOf(s.Back.Adapter().LID()), b.hostOf(s.Conn.Adapter().LID()), s.Back.QP().Path()},
		} {
			p, err := c.from.Resolve(c.to)
			if err != nil {
				t.Error(err)
			} else if p != c.path {
				t.Errorf("stream %d, %s: %+v, the SA says %+v", i, c.name, c.path, p)
			}
		}
	}
	for _, h := range b.hosts {
		k := h.Handler.Count
		sum.changed += k.Changed
		sum.migrated += k.Migrated
		sum.drained += k.Drained
		sum.refreshed += k.Queries
	}
	if err := b.Engine.Check(); err != nil {
		t.Error(err)
	}
}
