package interop

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/internal/need"
	"heddle/store/boltdb"
)

// soakEvery is the time from one fault to the next one, soakSample that from one measurement to the next.
const (
	soakEvery  = 30 * time.Second
	soakSample = soakEvery
)

// soakFile is what the file of the state may have in any case, in bytes: as much as it had in a day in
// virtual time, from the second hour to the last.
const soakFile = 8 << 20

// A soak is a pair that runs for long, with load and faults.
type soak struct {
	*pair
	wires
	sim    program
	rng    *rand.Rand
	began  time.Time
	cables []string // between switches
	count  map[string]int
	takes  []soakTaken
}

// soakTaken is what was measured at one time. Indices are those of the managers.
type soakTaken struct {
	at     time.Duration
	active int
	rss    [3]int // KiB; the last one is the simulator's
	heap   [2]int // KiB: at which the next collection begins, twice what lived after the last one
	state  [2]int // bytes of the file of the state
	other  [2]int // of the events, and all else in its directory
	open   [2]int // descriptors
}

// TestPairSoak runs a pair under load for HEDDLE_SOAK, with a random fault every 30 s: a manager is
// killed, stopped, or loses its connection or its cable, both lose power, a cable between switches is
// pulled, or the active one hands over. Each time the two are a pair again, and joins go on. In the end no
// join that was acknowledged is lost, and memory, files and descriptors have not grown since the second
// hour, or of a shorter run since its second third. One of the managers is never killed but with the power, at the beginning, so its memory is that
// of the whole run.
func TestPairSoak(t *testing.T) {
	text := os.Getenv("HEDDLE_SOAK")
	if text == "" {
		t.Skip("make soak runs it")
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	b := testNet{name: "tree", gen: []string{"fattree", "648"}}.build(t)
	sim, env := b.simulate(t)
	seed := need.Seeds(1, 1)[0]
	s := &soak{sim: sim, rng: rand.New(rand.NewPCG(seed, 13)), count: map[string]int{}}
	s.pair = newPair(t, &b, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
	s.wires = newWires()
	for i := range s.via {
		s.via[i] = s.wire(t, s.ports[i])
	}
	for i := range b.fab.Nodes {
		n := &b.fab.Nodes[i]
		for p := range n.Ports {
			if to := n.Ports[p].Peer; n.IsSwitch() && to != fabric.NoRef() && b.fab.Nodes[to.Node].IsSwitch() {
				s.cables = append(s.cables, fmt.Sprintf("%q[%d]", n.ID, p))
			}
		}
	}
	s.start(0)
	s.start(1)
	s.paired()
	s.power()
	var load []*joiner
	for _, i := range []int{100, 200} {
		j := b.joiner(t, s.sock, b.cas[i])
		j.every = 50 * time.Millisecond
		j.done.Go(j.run)
		load = append(load, j)
	}
	faults := []struct {
		name string
		do   func() (undo func())
	}{
		{"kill", s.kill},
		{"stop", s.pause},
		{"stream", s.stream},
		{"port", s.port},
		{"cable", s.cable},
		{"handover", s.handover},
	}
	s.began = time.Now()
	s.sample()
	due := time.NewTicker(soakEvery)
	defer due.Stop()
	for time.Since(s.began) < span {
		<-due.C
		f := faults[s.rng.IntN(len(faults))]
		before := s.paired()
		undo := f.do()
		// Shorter and longer than the time after which the other one takes over, or is alone.
		<-time.After(time.Duration(100+s.rng.IntN(6000)) * time.Millisecond)
		undo()
		after := s.paired()
		for _, j := range load {
			j.after(time.Now(), 5)
		}
		name := f.name
		if before != after {
			name += ", takeover"
		}
		s.count[name]++
		if last := s.takes[len(s.takes)-1]; time.Since(s.began) >= last.at+soakSample {
			s.sample()
		}
	}
	for i := range 2 {
		if n := s.ha(i).Pair.Forks; n != 0 {
			t.Errorf("manager %d has put changes aside in %d files", i, n)
		}
	}
	s.ended(load)
	s.judge()
}

// power: both managers lose power, and start again.
func (s *soak) power() {
	for i := range 2 {
		s.prog[i].stop(syscall.SIGKILL)
	}
	for i := range 2 {
		s.start(i)
	}
	s.paired()
}

// kill kills the first manager, whatever its role.
func (s *soak) kill() func() {
	s.prog[0].stop(syscall.SIGKILL)
	return func() { s.start(0) }
}

func (s *soak) pause() func() {
	i := s.rng.IntN(2)
	s.prog[i].Signal(syscall.SIGSTOP)
	return func() { s.prog[i].Signal(syscall.SIGCONT) }
}

func (s *soak) stream() func() {
	s.cut(true)
	return func() { s.cut(false) }
}

func (s *soak) port() func() {
	return s.pull(fmt.Sprintf("%q[1]", s.b.cas[s.rng.IntN(2)]))
}

func (s *soak) cable() func() {
	return s.pull(s.cables[s.rng.IntN(len(s.cables))])
}

func (s *soak) pull(end string) func() {
	fmt.Fprintln(s.sim.In, "link down", end)
	return func() { fmt.Fprintln(s.sim.In, "link up", end) }
}

func (s *soak) handover() func() {
	if out, err := s.ctl(s.paired(), "handover"); err != nil {
		s.t.Errorf("handover: %v\n%s", err, out)
	}
	return func() {}
}

// ended ends the load, kills the active manager, and asks the other one for all that was acknowledged.
func (s *soak) ended(load []*joiner) {
	for _, j := range load {
		j.end()
	}
	active := s.paired()
	s.prog[active].stop(syscall.SIGKILL)
	s.until(1-active, "active", func(h api.HA) bool { return h.Active })
	var left, lost, unknown int
	for i, j := range load {
		k := s.b.joiner(s.t, s.sock, s.b.cas[100*(i+1)]) // the same host
		for _, m := range j.acked {
			k.leave(m.id)
		}
		left, lost, unknown = left+j.left+k.left, lost+j.lost+k.lost, unknown+j.unknown+k.unknown
	}
	s.t.Logf("%d joins were acknowledged and are there, of %d more it is not known whether they were left, %d are lost", left, unknown, lost)
	if lost > 0 || left == 0 {
		s.t.Errorf("%d joins that were acknowledged are lost", lost)
	}
}

func (s *soak) sample() {
	x := soakTaken{at: time.Since(s.began), active: s.paired()}
	for i := range 2 {
		x.rss[i] = residentKiB(s.t, s.prog[i].Pid())
		x.heap[i] = int(metric(s.t, s.addr[i], "go_memstats_next_gc_bytes")) >> 10
		_ = filepath.WalkDir(filepath.Join(s.b.dir, fmt.Sprint("state", i)), func(_ string, e fs.DirEntry, err error) error {
			if info, err2 := e.Info(); err == nil && err2 == nil && !e.IsDir() { // else it has just been removed
				if e.Name() == boltdb.FileName {
					x.state[i] = int(info.Size())
				} else {
					x.other[i] += int(info.Size())
				}
			}
			return nil
		})
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.prog[i].Pid()))
		if err != nil {
			s.t.Fatal(err)
		}
		x.open[i] = len(list)
	}
	x.rss[2] = residentKiB(s.t, s.sim.Pid())
	s.takes = append(s.takes, x)
	s.t.Logf("%v: manager %d is active; memory %d, %d KiB, simulator %d; heap %v KiB; state %v and other files %v bytes; descriptors %v",
		x.at.Round(time.Second), x.active, x.rss[0], x.rss[1], x.rss[2], x.heap, x.state, x.other, x.open)
}

// residentKiB is the memory of a process.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("process %d has no memory", pid)
	return 0
}

// judge compares the last part with the second hour, or of shorter runs the last third with the second.
func (s *soak) judge() {
	total := s.takes[len(s.takes)-1].at
	from, part := time.Hour, time.Hour
	if total < 3*time.Hour {
		from, part = total/3, total/3
	}
	// values are the measurements of a time in which of is not 0, the least first.
	values := func(since, until time.Duration, of func(soakTaken) int) (list []int) {
		for _, x := range s.takes {
			if v := of(x); x.at >= since && x.at <= until && v != 0 {
				list = append(list, v)
			}
		}
		slices.Sort(list)
		return list
	}
	median := func(list []int) int { return list[len(list)/2] }
	// Memory depends on what the collector has left when it is measured, and how much of a sweep or a takeover
	// lives then. What leaks is in the least of it, too.
	least := func(list []int) int { return list[0] }
	as := func(active int, v func(soakTaken) int) func(soakTaken) int {
		return func(x soakTaken) int {
			if x.active != active {
				return 0
			}
			return v(x)
		}
	}
	// The file of the state doubles when its pages do not suffice; the journal in it is bounded.
	state := func(i int) func(soakTaken) int {
		return func(x soakTaken) int { return max(x.state[i], soakFile) }
	}
	rss, heap := func(x soakTaken) int { return x.rss[1] }, func(x soakTaken) int { return x.heap[1] }
	faults := 0
	for name, n := range s.count {
		faults += n
		s.t.Logf("%d times: %s", n, name)
	}
	s.t.Logf("%d faults in %v", faults, total.Round(time.Second))
	for _, c := range []struct {
		what  string
		grows int // percent that it may
		of    func(soakTaken) int
		by    func([]int) int
	}{
		{"memory of the manager that was never killed on standby, KiB", 5, as(0, rss), least},
		{"its heap on standby, KiB", 10, as(0, heap), least},
		{"its memory as the active one, KiB", 20, as(1, rss), least},
		{"its heap as the active one, KiB", 10, as(1, heap), least},
		{"state of manager 0, bytes", 5, state(0), median},
		{"state of manager 1, bytes", 5, state(1), median},
		// Events are kept for 7 days.
		{"other files of manager 0, bytes", 110, func(x soakTaken) int { return x.other[0] }, median},
		{"other files of manager 1, bytes", 110, func(x soakTaken) int { return x.other[1] }, median},
		{"descriptors of the manager that was never killed", 5, func(x soakTaken) int { return x.open[1] }, median},
	} {
		before, after := values(from, from+part, c.of), values(total-part, total, c.of)
		if len(before) == 0 || len(after) == 0 { // in a short run a manager may have one role throughout
			s.t.Logf("%s: not measured", c.what)
			if total >= 3*time.Hour {
				s.t.Errorf("%s was not measured", c.what)
			}
			continue
		}
		was, is := c.by(before), c.by(after)
		s.t.Logf("%s: %d, at the end %d (%+.1f %%)", c.what, was, is, 100*float64(is-was)/float64(was))
		if is*100 > was*(100+c.grows) {
			s.t.Errorf("%s: %d, at the end %d: it grows by more than %d %%", c.what, was, is, c.grows)
		}
	}
}
