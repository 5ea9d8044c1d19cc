package sm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/lab"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
	"heddle/sm/config"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/store"
)

// shell drives a core on a simulated subnet with nothing in between, so that
// every Output can be looked at and allocations are the core's.
type shell struct {
	t       testing.TB
	s       *sim.Subnet
	ep      *sim.Endpoint
	core    *sm.Core
	st      *store.Memory
	out     sm.Output
	in      []sm.Event
	packets []*mad.Packet // spare ones
	busy    bool
	workers int
	timer   mad.Time
	see     func(ev sm.Event, out *sm.Output) // after each Step, if set
	up      bool
	allocs  int // packets made
}

func newShell(t testing.TB, f *fabric.Fabric, sc sim.Config, cfg config.Config, node string) *shell {
	t.Helper()
	s, err := sim.New(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	h := &shell{t: t, s: s, st: store.NewMemory(), workers: 1, timer: mad.Never}
	if h.ep, err = s.Attach(node); err != nil {
		t.Fatal(err)
	}
	cfg.PortGUID = h.ep.PortGUID()
	h.core = sm.New(cfg)
	h.ep.OnPacket = h.receive
	return h
}

func (h *shell) receive(p *mad.Packet) {
	var q *mad.Packet
	if n := len(h.packets); n > 0 {
		q, h.packets = h.packets[n-1], h.packets[:n-1]
	} else {
		q = &mad.Packet{Data: make([]byte, 0, ib.MADLen)}
		h.allocs++
	}
	data := append(q.Data[:0], p.Data...)
	*q = *p
	q.Data = data
	h.in = append(h.in, sm.Received{P: q})
	h.work()
}

func (h *shell) step(ev sm.Event) {
	h.in = append(h.in, ev)
	h.work()
}

func (h *shell) work() {
	if h.busy {
		return
	}
	h.busy = true
	for i := 0; i < len(h.in); i++ {
		ev := h.in[i]
		h.out.Reset()
		h.core.Step(h.s.Now(), ev, &h.out)
		if h.see != nil {
			h.see(ev, &h.out)
		}
		if len(h.out.Persist) > 0 {
			h.in = append(h.in, sm.Persisted{Gen: h.out.PersistGen, Err: h.st.Apply(h.out.Persist)})
		}
		if h.out.IsSM != sm.IsSMKeep {
			_ = h.ep.SetIsSM(h.out.IsSM == sm.IsSMClaim)
		}
		for k := range h.out.Sends {
			h.ep.Send(&h.out.Sends[k])
		}
		for _, j := range h.out.Jobs {
			h.in = append(h.in, sm.JobDone{Result: j.Run(h.workers)})
		}
		if h.out.Publish != nil {
			h.up = h.out.Publish.Up
		}
		h.timer = h.out.Timer
		if r, ok := ev.(sm.Received); ok {
			h.packets = append(h.packets, r.P)
		}
	}
	h.in = h.in[:0]
	h.busy = false
}

// run lets time pass; the core is woken when it asked for it.
func (h *shell) run(d time.Duration) {
	end := h.s.Now().Add(d)
	for {
		next := min(h.timer, h.s.NextEvent())
		if next > end {
			break
		}
		h.s.RunUntil(max(next, h.s.Now()))
		if h.timer <= h.s.Now() {
			h.step(sm.Timer{})
		}
	}
	h.s.RunUntil(end)
}

func generate(t testing.TB, kind string, params ...string) (*fabric.Fabric, string) {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			return f, f.Nodes[i].ID
		}
	}
	t.Fatal("no host")
	return nil, ""
}

// story is everything that a core put out in a run with faults, as text.
func story(t *testing.T, workers int) []string {
	f, node := generate(t, "torus", "4x4")
	cfg := lab.TrialConfig()
	cfg.MKey, cfg.LMC, cfg.QoS = 0x77, 1, true
	h := newShell(t, f, sim.Config{
		Seed: 3, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Jitter: 2 * time.Microsecond,
		Drop: 0.02, Duplicate: 0.02, Reorder: 0.02, ReorderMax: 5 * time.Millisecond,
	}, cfg, node)
	h.workers = workers
	var lines []string
	h.see = func(ev sm.Event, out *sm.Output) {
		var b strings.Builder
		fmt.Fprintf(&b, "%d %T: IsSM %d, timer %d, %d jobs, persist %d %+v\n", h.s.Now(), ev, out.IsSM, out.Timer, len(out.Jobs), out.PersistGen, out.Persist)
		for i := range out.Sends {
			p := &out.Sends[i]
			fmt.Fprintf(&b, "send %+v %d %x\n", p.Addr, p.LocalQP, p.Data)
		}
		for i := range out.Notices {
			n := &out.Notices[i]
			fmt.Fprintf(&b, "notice %d %v %v\n", n.Level, n.Dur, n)
		}
		if s := out.Publish; s != nil {
			fmt.Fprintf(&b, "publish %d %+v %+v %v", s.Gen, s.Counts, s.Problems, s.SMs)
			for _, p := range s.Ports {
				fmt.Fprintf(&b, " %v", *p)
			}
			fmt.Fprintln(&b)
			if s.Tables != nil {
				fmt.Fprintf(&b, "tables %s %x\n", s.Tables.Engine, s.Tables.Flat().LFT)
			}
		}
		lines = append(lines, b.String())
	}
	h.step(sm.Start{})
	h.run(2 * time.Second)
	for _, cmd := range []string{"link down \"sw-1-1\"[2]", "node reboot sw-2-2", "link up \"sw-1-1\"[2]", "node down sw-3-0", "node up sw-3-0"} {
		if _, err := h.s.Exec(cmd); err != nil {
			t.Fatal(err)
		}
		h.run(1500 * time.Millisecond)
	}
	h.step(sm.Sweep{Audit: true})
	h.run(time.Second)
	h.step(sm.Stop{})
	return lines
}

// TestDeterministic: the same events at the same times give the same outputs,
// byte for byte, also with other numbers of workers for the routing jobs. Maps
// are walked in another order in every run, so this finds one that leaks out.
func TestDeterministic(t *testing.T) {
	want := story(t, 1)
	if len(want) < 1000 {
		t.Fatalf("only %d steps: nothing happened", len(want))
	}
	for _, workers := range []int{1, 2} {
		got := story(t, workers)
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("%d workers: step %d of %d differs:\n%s\nbefore:\n%s", workers, i, len(want), got[i], want[i])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d workers: %d steps, before %d", workers, len(got), len(want))
		}
	}
}

// TestLightSweepAllocations: light sweeps of an unchanged subnet allocate
// nothing, whatever its size.
func TestLightSweepAllocations(t *testing.T) {
	var per [2]float64
	for i, hosts := range []string{"324", "648"} {
		f, node := generate(t, "fattree", hosts)
		h := newShell(t, f, sim.Config{}, lab.DefaultConfig(), node)
		h.step(sm.Start{})
		h.run(time.Second)
		if !h.up {
			t.Fatal("the subnet is not up")
		}
		light := func() {
			was := h.core.Status().Light
			h.run(10 * time.Second)
			if got := h.core.Status().Light; got != was+1 {
				t.Fatalf("%d light sweeps in 10 s", got-was)
			}
		}
		light()
		light()
		status := testing.AllocsPerRun(10, func() { h.core.Status() })
		per[i] = testing.AllocsPerRun(20, light) - 2*status
		t.Logf("%s hosts, %d nodes: %.0f allocations a light sweep", hosts, len(f.Nodes), per[i])
	}
	if per[0] > 0 || per[1] > 0 {
		t.Errorf("a light sweep allocates %.0f times in the small subnet, %.0f times in the large one", per[0], per[1])
	}
}

// TestUpkeepFollowsLightSweep: partitions that change in a light sweep are brought to the ports when it has ended. Upkeep
// lets a light sweep that is due go first, so it would never begin where nothing but the timers of light sweeps happens.
func TestUpkeepFollowsLightSweep(t *testing.T) {
	f, node := generate(t, "torus", "3x3")
	h := newShell(t, f, sim.Config{HopLatency: time.Microsecond}, lab.DefaultConfig(), node)
	h.step(sm.Start{})
	h.run(time.Second)
	if !h.up {
		t.Fatal("the subnet is not up")
	}
	policy, _, err := partition.Parse(strings.NewReader("Default:ALL=full; b=5:ALL=limited;"), "policy")
	if err != nil {
		t.Fatal(err)
	}
	asked, applied := false, false
	h.see = func(_ sm.Event, out *sm.Output) {
		if !asked && h.core.Status().Phase == notice.PhaseLight {
			asked = true
			h.in = append(h.in, sm.SetPartitions{Policy: policy, Tag: 7})
		}
		for i := range out.Notices {
			applied = applied || out.Notices[i].Kind == sm.KindPartitionsApplied && out.Notices[i].Tag == 7
		}
	}
	was := h.core.Status().Light
	for !asked {
		h.run(time.Second)
	}
	h.run(time.Second)
	if st := h.core.Status(); !applied || st.Light != was+1 {
		t.Errorf("applied %v after %d light sweeps", applied, st.Light-was)
	}
}

// TestSpuriousEvents: early and repeated timers, answers to nothing, results of
// jobs and writes that nobody waits for: nothing comes of them.
func TestSpuriousEvents(t *testing.T) {
	f, node := generate(t, "torus", "3x3")
	h := newShell(t, f, sim.Config{}, lab.DefaultConfig(), node)
	h.step(sm.Timer{}) // before Start
	h.step(sm.Received{P: &mad.Packet{Data: make([]byte, ib.MADLen)}})
	if len(h.out.Sends) != 0 {
		t.Fatal("a core that was not started sends")
	}
	h.step(sm.Start{})
	h.run(time.Second)
	if !h.up {
		t.Fatal("the subnet is not up")
	}
	h.see = func(ev sm.Event, out *sm.Output) {
		if len(out.Sends)+len(out.Jobs)+len(out.Persist)+len(out.Notices) != 0 || out.IsSM != sm.IsSMKeep || out.Stopped || out.Publish != nil {
			t.Errorf("%T leads to %d packets, %d notices", ev, len(out.Sends), len(out.Notices))
		}
	}
	short := &mad.Packet{Data: make([]byte, 24)}
	for _, ev := range []sm.Event{
		sm.Timer{},
		sm.Start{},
		sm.Persisted{Gen: 1},
		sm.Persisted{Gen: 99, Err: fmt.Errorf("no")},
		sm.JobDone{},
		sm.JobDone{Result: &job.Result{}},
		sm.JobDone{Result: &job.Result{Gen: 1}},
		sm.Received{P: short},
		sm.Received{P: &mad.Packet{}},
	} {
		h.step(ev)
	}
	for _, method := range []ib.Method{ib.MethodGetResp, ib.MethodTrapRepress, ib.MethodSend, ib.MethodReport, 0x7F} {
		var m ib.MAD
		m[0], m[1], m[2] = 1, byte(ib.ClassSubnDR), 1
		m.SetMethod(method)
		m.SetTID(12345)
		h.step(sm.Received{P: &mad.Packet{Data: m[:]}})
	}
}

// FuzzReceived: whatever arrives, from wherever, in whichever state: no panic.
func FuzzReceived(f *testing.F) {
	fab, err := draw("switch S1 3\nca H1 1\nca H2 1\nH1:1 S1:1\nH2:1 S1:2")
	if err != nil {
		f.Fatal(err)
	}
	trap := trapMAD(128, 2, 0)
	f.Add(trap[:], uint16(2), uint16(500))
	h := newShell(f, fab, sim.Config{}, lab.DefaultConfig(), "H1")
	h.see = func(_ sm.Event, out *sm.Output) {
		for i := range out.Sends {
			f.Add(append([]byte(nil), out.Sends[i].Data...), uint16(0xFFFF), uint16(i))
		}
	}
	h.step(sm.Start{})
	h.run(time.Second)
	f.Fuzz(func(t *testing.T, b []byte, lid, at uint16) {
		h := newShell(t, fab, sim.Config{SMALatency: time.Microsecond}, lab.DefaultConfig(), "H1")
		h.step(sm.Start{})
		h.run(time.Duration(at) * 100 * time.Nanosecond)
		for _, st := range []mad.SendStatus{mad.Received, mad.Failed} {
			h.step(sm.Received{P: &mad.Packet{Data: append([]byte(nil), b...), Addr: mad.Addr{LID: ib.LID(lid)}, Status: st}})
		}
		h.run(time.Second)
	})
}
