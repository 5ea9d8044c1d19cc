package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	hv "heddle/sim/hypervisor"
	"heddle/sim/hypervisor/precopy"
)

// startMachines is a tree of hypervisors.
func startMachines(t testing.TB, way hv.Way, seed uint64) *Machines {
	t.Helper()
	f, err := fabric.Generate(fabric.KAry{K: 3, N: 2}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := StartMachines(f, way, sim.Config{Seed: seed, HopLatency: LoadedHop, SMALatency: LoadedSMA, Carriage: sim.Apart}, DefaultConfig(), dataplane.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// quickMigration takes some 30 ms.
func quickMigration(late bool, seed uint64) hv.Config {
	c := hv.Config{Late: late, Copy: hv.ScaleCopy(precopy.Defaults(), 100), Cost: hv.Published().Scale(100), Seed: seed}
	c.Cost.Rate = 0
	return c
}

// TestMachinesMigrate: with the real manager, machines of each way migrate from leaf to
// leaf, several times and at random moments: no message is lost, doubled or out of
// order, no connection ends, and only peers of shared ports have to learn anything.
func TestMachinesMigrate(t *testing.T) {
	for _, way := range hv.Ways() {
		first, n := seeds(2, 30)
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprint(way, "/", seed), func(t *testing.T) { testMachine(t, way, seed) })
		}
	}
}

func testMachine(t *testing.T, way hv.Way, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(way)))
	h := startMachines(t, way, seed)
	hosts := len(h.Adapters)
	m, err := h.Create("vm", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := adapter.Options{MTU: 2048, Window: 32, AckEvery: 8}
	s := rc.Sender{Timeout: 13, Retries: 7, RNRRetries: 7}
	for i := range 3 {
		peer := hosts - 1 - i
		p := program.Stream{Bytes: 1 + r.IntN(9000), Depth: 4, Gap: 100 * dataplane.Microsecond, Seed: seed + uint64(i)}
		if _, err := m.Connect(peer, i < 2, o, s, p); err != nil {
			t.Fatal(err)
		}
	}
	for step := range 3 {
		h.Run(5*time.Millisecond + time.Duration(r.IntN(50_000))*time.Microsecond)
		to := (m.Host() + 1 + r.IntN(hosts-4)) % (hosts - 3)
		v, err := m.Migrate(to, quickMigration(r.IntN(3) > 0, seed), o, rc.Sender{Timeout: 10, Retries: 7})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.RunUntil(10*time.Second, v.Ended); err != nil {
			t.Fatalf("step %d: %v: %+v", step, err, v.Marks())
		}
		if v.Err() != nil || m.Host() != to {
			t.Fatalf("step %d: %v: %+v\n%+v", step, v.Err(), v.Marks(), m.Interface())
		}
	}
	for i, x := range m.Streams {
		if x.Told() != (way == hv.ThreeStages) {
			t.Errorf("stream %d: its peer was told: %v", i, x.Told())
		}
		x.Stop()
	}
	h.Run(2 * time.Second)
	h.Sim.Data()
	for i, x := range m.Streams {
		st, at := x.Failed()
		if got, _ := x.Sink.Got(); st != rc.Success || got != x.Posted() || got < 50 {
			t.Errorf("stream %d: %v at %v, %d of %d messages", i, st, at, got, x.Posted())
		}
		if err := x.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := h.Engine.Check(); err != nil {
		t.Error(err)
	}
}

// TestMachinesManagerDies: the manager dies at a random moment of a migration, between
// any two of its packets, and another goes on with what it has stored. The hypervisors
// ask again, and no message is lost, doubled or out of order, wherever the machine is
// then.
func TestMachinesManagerDies(t *testing.T) {
	moved := 0
	first, n := seeds(3, 30)
	for _, way := range hv.Ways() {
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprint(way, "/", seed), func(t *testing.T) {
				if managerDies(t, way, seed) {
					moved++
				}
			})
		}
	}
	if moved == 0 && n > 1 {
		t.Error("no machine came to its destination")
	}
}

func managerDies(t *testing.T, way hv.Way, seed uint64) (moved bool) {
	r := rand.New(rand.NewPCG(seed, 7+uint64(way)))
	h := startMachines(t, way, seed)
	m, err := h.Create("vm", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := adapter.Options{MTU: 2048, Window: 32, AckEvery: 8}
	for i := range 2 {
		p := program.Stream{Bytes: 3000, Depth: 4, Gap: 200 * dataplane.Microsecond, Seed: seed + uint64(i)}
		if _, err := m.Connect(len(h.Adapters)-1, i == 0, o, rc.Sender{Timeout: 18, Retries: 7, RNRRetries: 7}, p); err != nil {
			t.Fatal(err)
		}
	}
	v, err := m.Migrate(1, quickMigration(true, seed), o, rc.Sender{Timeout: 14, Retries: 7})
	if err != nil {
		t.Fatal(err)
	}
	when := []string{"begins", "pre-copy", "stop-and-copy", "at the destination", "attach"}[r.IntN(5)]
	if err := h.RunUntil(time.Minute, func() bool {
		marks := v.Marks()
		return marks[len(marks)-1].What == when || v.Ended()
	}); err != nil {
		t.Fatalf("%v: %+v", err, v.Marks())
	}
	if r.IntN(2) == 0 {
		h.Manager.KillAfter = 1 + r.IntN(20)
	}
	h.Run(time.Duration(r.IntN(3000)) * time.Microsecond)
	h.Manager.Kill()
	h.Run(time.Duration(r.IntN(1000)) * time.Millisecond)
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := h.RunUntil(time.Minute, v.Ended); err != nil {
		t.Fatalf("seed %d: %v: %+v\n%+v", seed, err, v.Marks(), m.Interface())
	}
	if want := v.Err() == nil; want != (m.Host() == 1) {
		t.Errorf("seed %d: %v, at host %d", seed, v.Err(), m.Host())
	}
	h.Run(3 * time.Second)
	for _, x := range m.Streams {
		x.Stop()
	}
	h.Run(3 * time.Second)
	h.Sim.Data()
	for i, x := range m.Streams {
		st, at := x.Failed()
		if got, _ := x.Sink.Got(); st != rc.Success || got != x.Posted() || got < 5000 || x.Check() != nil {
			t.Errorf("seed %d, stream %d: %v at %v, %d of %d messages, %v; %v, %+v", seed, i, st, at, got, x.Posted(), x.Check(), v.Err(), v.Marks())
		}
	}
	if !m.settled(m.Host()) {
		t.Errorf("seed %d: %+v", seed, m.Interface())
	}
	return v.Err() == nil
}

// TestMachineGoesBack: the destination's cable fails when the machine has stopped, or
// when it is there already: the manager rolls back, and the machine goes on at its old
// place with all its messages.
func TestMachineGoesBack(t *testing.T) {
	for _, way := range hv.Ways() {
		for _, when := range []string{"pre-copy", "stop-and-copy", "at the destination"} {
			t.Run(fmt.Sprint(way, "/", when), func(t *testing.T) {
				h := startMachines(t, way, 1)
				m, err := h.Create("vm", 0, 1)
				if err != nil {
					t.Fatal(err)
				}
				o := adapter.Options{MTU: 2048, Window: 32, AckEvery: 8}
				x, err := m.Connect(len(h.Adapters)-1, true, o, rc.Sender{Timeout: 17, Retries: 7, RNRRetries: 7},
					program.Stream{Bytes: 4000, Depth: 4, Gap: 100 * dataplane.Microsecond})
				if err != nil {
					t.Fatal(err)
				}
				c := quickMigration(true, 1)
				c.Cost.Rate = 100e6
				v, err := m.Migrate(1, c, o, rc.Sender{Timeout: 10, Retries: 7})
				if err != nil {
					t.Fatal(err)
				}
				marked := func() bool {
					marks := v.Marks()
					return marks[len(marks)-1].What == when
				}
				if err := h.RunUntil(time.Second, marked); err != nil {
					t.Fatalf("%v: %+v", err, v.Marks())
				}
				ref := h.Engine.HostPort(1)
				if err := h.Cut(ref); err != nil {
					t.Fatal(err)
				}
				if err := h.RunUntil(time.Minute, v.Ended); err != nil {
					t.Fatalf("%v: %+v\n%+v", err, v.Marks(), m.Interface())
				}
				if v.Err() == nil || m.Host() != 0 {
					t.Fatalf("%v, at %d: %+v", v.Err(), m.Host(), v.Marks())
				}
				was, _ := x.Sink.Got()
				h.Run(time.Second)
				x.Stop()
				h.Run(2 * time.Second)
				h.Sim.Data()
				got, _ := x.Sink.Got()
				if st, _ := x.Failed(); st != rc.Success || got != x.Posted() || got < was+1000 || x.Check() != nil || !m.settled(0) {
					t.Errorf("%v, %d of %d messages, %d before, %v, %+v", st, got, x.Posted(), was, x.Check(), m.Interface())
				}
			})
		}
	}
}
