package lab

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heddle/mad"
	"heddle/sm"
)

// soak runs two managers, one of them slow to compute, through everything that
// can go wrong at once, and judges the calm afterwards.
func soak(seed uint64) (map[string]bool, error) {
	d := drawRouting(seed)
	f := d.fabric
	rng := rand.New(rand.NewPCG(seed, 77))
	sc := timed(seed)
	sc.TrainDelay = time.Duration(rng.IntN(3)) * 10 * time.Millisecond
	loss := []float64{0, 0.01, 0.05, 0.2}[rng.IntN(4)]
	sc.Duplicate, sc.Reorder, sc.ReorderMax = loss, loss, 30*time.Millisecond
	c, err := NewCluster(f, sc)
	if err != nil {
		return nil, err
	}
	c.Sim.SetDrop(loss)
	hosts := cas(f)
	cfgs := make([]sm.Config, 2)
	lmc := uint8(rng.IntN(3))
	jobs := time.Duration(rng.IntN(3)) * 40 * time.Millisecond
	var ms []*Manager
	var log []string
	note := func(format string, a ...any) {
		log = append(log, fmt.Sprintf("%12v ", time.Duration(c.Sim.Now()))+fmt.Sprintf(format, a...))
	}
	start := func(i int, again *Manager) {
		var err error
		var m *Manager
		if again != nil {
			m, err = c.Attach(hosts[i], cfgs[i], again.Store.Reopen())
		} else {
			m, err = c.Attach(hosts[i], cfgs[i], nil)
		}
		if err != nil {
			note("start: %v", err)
			return
		}
		m.JobTime = jobs
		d.watch(m)
		_ = m.Start()
		note("manager %s started", hosts[i])
		if again != nil {
			ms[i] = m
		} else {
			ms = append(ms, m)
		}
	}
	for i := range cfgs {
		cfgs[i] = pollConfig(uint8(rng.IntN(2)))
		cfgs[i].LMC = lmc
		d.apply(&cfgs[i])
		start(i, nil)
	}
	cab, sws := cables(f), switches(f)
	span := 4 * time.Second
	for range 3 + rng.IntN(14) {
		at := mad.Time(rng.Int64N(int64(span)))
		r := cab[rng.IntN(len(cab))]
		id, p := f.Nodes[r.Node].ID, int(r.Port)
		sw := sws[rng.IntN(len(sws))]
		host := hosts[2+rng.IntN(len(hosts)-2)]
		i := rng.IntN(2)
		what := rng.IntN(12)
		c.Sim.At(at, func() {
			note("event %d: %s %d, %s, %s, manager %d", what, id, p, f.Nodes[sw].ID, host, i)
			switch what {
			case 0, 1:
				_ = c.Sim.LinkDown(id, p)
			case 2, 3:
				for _, r := range cab {
					_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
				}
			case 4:
				_ = c.Sim.NodeUp(f.Nodes[sw].ID)
			case 5:
				_ = c.Sim.NodeDown(f.Nodes[sw].ID)
				c.Sim.After(300*time.Millisecond, func() { _ = c.Sim.NodeUp(f.Nodes[sw].ID) })
			case 6:
				_ = c.Sim.NodeUp(host)
			case 7, 8:
				ms[i].Kill()
				start(i, ms[i])
			case 9:
				_ = c.Sim.MuteSMA(f.Nodes[sw].ID, true)
				c.Sim.After(500*time.Millisecond, func() { _ = c.Sim.MuteSMA(f.Nodes[sw].ID, false) })
			case 10:
				_ = c.Sim.LinkDown(hosts[i], 1)
				c.Sim.After(700*time.Millisecond, func() { _ = c.Sim.LinkUp(hosts[i], 1) })
			case 11:
				ms[i].Sweep(true)
			}
		})
	}
	c.Run(span)
	note("calm")
	for _, r := range cab {
		_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
	}
	c.Sim.SetDrop(0)
	c.Sim.SetDuplicate(0)
	c.Sim.SetReorder(0)
	clear(c.lids)
	m, err := oneMaster(c, 40*time.Second, ms...)
	if err == nil {
		before := len(m.Notices)
		c.Run(30 * time.Second)
		if n := fullSweeps(m, before); n > 3 {
			err = fmt.Errorf("%d full sweeps of a calm subnet\n%s", n, tail(m))
		}
		sweeps := m.Status().Sweeps
		c.Run(30 * time.Second)
		if n := m.Status().Sweeps - sweeps; err == nil && n > 0 {
			err = fmt.Errorf("%d sweeps of a subnet that was calm for half a minute\n%s", n, tail(m))
		}
	}
	if err == nil {
		err = c.Check(m)
	}
	if err == nil {
		err = healthyDelivered(c)
	}
	if err != nil {
		return nil, fmt.Errorf("seed %d, %s, loss %v, jobs %v: %w\n%s", seed, d.what, loss, jobs, err, strings.Join(log, "\n"))
	}
	return d.inForce, nil
}

// fullSweeps counts the notices of full sweeps that ended since there were so many notices.
// Tables that are improved in steps take sweeps of no region.
func fullSweeps(m *Manager, since int) (n int) {
	for i := range m.Notices[since:] {
		if x := &m.Notices[since+i]; x.Kind == sm.KindSweepEnd && x.Report != nil && !x.Report.Region {
			n++
		}
	}
	return n
}

// TestSoak: two managers, faults of every kind at once, then calm: one
// master, all delivered, nothing left to do.
func TestSoak(t *testing.T) {
	first, n := seeds(28, 2000)
	engines := inForce{}
	for s := first; s < first+n; s++ {
		names, err := soak(s)
		if err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d\n%v", s, err)
		}
		engines.add(names)
	}
	engines.check(t, n)
}

// TestSoakFound replays schedules that failed once.
func TestSoakFound(t *testing.T) {
	for _, s := range []uint64{
		126, // a full sweep was broken off; the next, of a region, lost switches that were new
		721, // a host whose link a full sweep held was never given its LID
	} {
		if _, err := soak(s); err != nil {
			t.Errorf("replay with HEDDLE_SEED=%d\n%v", s, err)
		}
	}
}
