package interop

import (
	"fmt"
	"maps"
	"os"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/sim"
	"heddle/sim/ibsimd"
	"heddle/sim/live"
)

// setCounter is a simulator in this process, which sees who sends Sets.
type setCounter struct {
	d    *live.Driver
	sock string

	// All under the driver's lock:
	stop    int // the process to be stopped in the middle of a sweep; 0: none
	from    int // the node whose Sets count
	after   int // Sets of from until it is stopped
	stopped bool
	on      bool // they count
	down    bool // a cable is away
	sets    map[ib.AttrID]int
}

func (b *built) countSets(t *testing.T) *setCounter {
	t.Helper()
	s, err := sim.New(b.fab, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &setCounter{sets: map[ib.AttrID]int{}}
	s.OnChange = func(x sim.Change) {
		if x.Kind != sim.ChangeSet || x.From != c.from {
			return
		}
		if c.on && x.Attr != smp.AttrSMInfo {
			c.sets[x.Attr]++
		}
		if c.stop != 0 && x.Attr == smp.AttrLFT {
			if c.after--; c.after <= 0 {
				_ = syscall.Kill(c.stop, syscall.SIGSTOP)
				c.stop, c.stopped = 0, true
			}
		}
	}
	c.d = live.New(s)
	t.Cleanup(c.d.Close)
	c.sock = serve(t, c.d, ibsimd.Options{SockName: socketName()})
	return c
}

// stopTimes are for how long a master is stopped.
func stopTimes() []time.Duration {
	if os.Getenv("HEDDLE_LONG") == "" {
		return []time.Duration{time.Second}
	}
	return []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}
}

// change takes a cable between switches away, or puts it back.
func (c *setCounter) change(t *testing.T, b *built) {
	spine := -1
	for i := range b.fab.Nodes {
		if n := &b.fab.Nodes[i]; n.IsSwitch() && n.Ports[1].Peer.Node >= 0 && b.fab.Nodes[n.Ports[1].Peer.Node].IsSwitch() {
			spine = i
		}
	}
	c.d.Do(func(s *sim.Subnet) {
		do := s.LinkDown
		if c.down {
			do = s.LinkUp
		}
		c.down = !c.down
		if err := do(b.fab.Nodes[spine].ID, 1); err != nil {
			t.Error(err)
		}
	})
}

// stopInSweep has process pid, a master on a node, write many tables, stops it in the middle of that, and
// has it go on when the other manager has taken over and at least d has passed. It returns how many Sets
// it sends until all is quiet.
func (c *setCounter) stopInSweep(t *testing.T, pid, node int, ask func(), d time.Duration, next, quiet func()) map[ib.AttrID]int {
	t.Helper()
	c.d.Do(func(*sim.Subnet) {
		c.stop, c.from, c.after, c.stopped, c.on = pid, node, 3, false, false
		clear(c.sets)
	})
	ask()
	await(t, "the master is stopped while it writes tables", func() (ok bool) {
		c.d.Do(func(*sim.Subnet) { ok = c.stopped })
		return ok
	})
	since := time.Now()
	next()
	<-time.After(d - time.Since(since))
	c.d.Do(func(*sim.Subnet) { c.on = true })
	_ = syscall.Kill(pid, syscall.SIGCONT)
	quiet()
	out := map[ib.AttrID]int{}
	c.d.Do(func(*sim.Subnet) {
		c.on = false
		maps.Copy(out, c.sets)
	})
	return out
}

// inFlight is how many packets a process may have been handing to its port when it was stopped.
const inFlight = 16

func total(sets map[ib.AttrID]int) (n int) {
	for _, k := range sets {
		n += k
	}
	return n
}

// TestQuorumStoppedSets: the master of three managers is stopped while it writes tables, for 1, 5 and 30 s.
// When it goes on, another one has taken over: it sends no Set but those that it was handing to its port
// when it was stopped.
func TestQuorumStoppedSets(t *testing.T) {
	b := testNet{name: "tree", gen: []string{"xgft", "2", "8,8", "1,8"}}.build(t)
	c := b.countSets(t)
	x := newTrioOn(t, &b, c.sock, etcdtest.Start(t, 3))
	for i := range 3 {
		x.start(i)
	}
	for _, d := range stopTimes() {
		master := x.settled(-1)
		sets := c.stopInSweep(t, x.prog[master].Pid(), b.fab.Find(b.cas[master]), func() { c.change(t, &b) }, d, func() { x.settled(master) }, func() {
			if now := x.settled(-1); now == master {
				t.Error("the manager that was stopped is master again")
			}
		})
		t.Logf("stopped for %v: %v Sets after that", d, sets)
		if total(sets) > inFlight {
			t.Errorf("the master that was stopped for %v sent Sets when it went on: %s\n%s", d, fmt.Sprint(sets), tail(x.prog[master].Output()))
		}
	}
}

// TestPairStoppedSets: the same of a pair.
func TestPairStoppedSets(t *testing.T) {
	need.Long(t)
	b := testNet{name: "tree", gen: []string{"xgft", "2", "8,8", "1,8"}}.build(t)
	c := b.countSets(t)
	p := newPair(t, &b, c.sock)
	p.start(0)
	p.start(1)
	for _, d := range stopTimes() {
		active := p.paired()
		sets := c.stopInSweep(t, p.prog[active].Pid(), b.fab.Find(b.cas[active]), func() { c.change(t, &b) }, d, func() {
			p.until(1-active, "active", func(h api.HA) bool { return h.Active })
		}, func() {
			if now := p.paired(); now == active {
				t.Errorf("the manager that was stopped is active again")
			}
		})
		t.Logf("stopped for %v: %v Sets after that", d, sets)
		if total(sets) > inFlight {
			t.Errorf("the manager that was stopped for %v sent Sets when it went on: %v\n%s", d, sets, tail(p.prog[active].Output()))
		}
	}
}
