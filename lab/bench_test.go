package lab

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sm"
)

// BenchmarkBringUp brings up a fat tree; the time is real, and the fabric answers immediately.
func BenchmarkBringUp(b *testing.B) {
	for _, hosts := range []string{"324", "648", "5832", "11664"} {
		b.Run(hosts, func(b *testing.B) {
			f := gen(b, "fattree", hosts)
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				c, err := NewCluster(f, sim.Config{})
				if err != nil {
					b.Fatal(err)
				}
				cfg := DefaultConfig()
				m, err := c.Start(firstCA(f), cfg, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := c.RunUntil(time.Minute, m.Up); err != nil {
					b.Fatal(err)
				}
				sent += m.Sent
				b.ReportMetric(float64(m.Sent), "SMPs")
				var ms runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&ms)
				b.ReportMetric(float64(ms.HeapAlloc)/1e6, "liveMB")
				runtime.KeepAlive(c)
				for i := range m.Notices {
					if n := &m.Notices[i]; n.Kind == sm.KindSweepEnd {
						b.Logf("%s", n.Text)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/SMP")
		})
	}
}

// BenchmarkLinkFailure fails and restores random links between switches, or to hosts. The time
// is that of the processor from the trap to verified tables: all steps of the core until the
// routing job starts, and the job without the transition plan, which is measured separately.
func BenchmarkLinkFailure(b *testing.B) {
	for _, e := range []route.Engine{minhop.Engine{}, updn.Engine{}, ftree.Engine{}} {
		for _, hosts := range []string{"324", "11664"} {
			b.Run(e.Name()+"/"+hosts, func(b *testing.B) { linkFailures(b, e, hosts, false) })
		}
		b.Run(e.Name()+"/host/11664", func(b *testing.B) { linkFailures(b, e, "11664", true) })
	}
}

func linkFailures(b *testing.B, e route.Engine, hosts string, host bool) {
	f := gen(b, "fattree", hosts)
	cfg := DefaultConfig()
	cfg.Engines = []route.Engine{e}
	cfg.DampHold = 0
	cfg.SweepInterval = 0
	cfg.DrainTime = time.Millisecond
	c, err := NewCluster(f, sim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	m, err := c.Start(firstCA(f), cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	m.Workers = 2
	if err := c.RunUntil(time.Minute, m.Up); err != nil {
		b.Fatal(err)
	}
	c.Run(20 * time.Second)
	began := time.Now()
	m.Clock = func() time.Duration { return time.Since(began) }
	var step, job, plan, total []time.Duration
	updated := 0
	refused := 0
	later := false // the change was answered
	m.OnJob = func(r *sm.JobResult) {
		if r.Tables == nil {
			refused++ // such as min-hop tables of a damaged tree: the next engine's turn
			return
		}
		if later {
			return // better tables are looked for, when the fabric is quiet
		}
		later = true
		step, job, plan, total = append(step, m.StepCPU), append(job, m.JobCPU), append(plan, m.PlanCPU), append(total, m.StepCPU+m.JobCPU)
		if r.Updated {
			updated++
		}
	}
	type cable struct {
		id   string
		port int
	}
	var cables []cable
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := 1; n.IsSwitch() && p <= n.NumPorts; p++ {
			if q := n.Ports[p].Peer; q.Valid() && f.Nodes[q.Node].IsSwitch() != host && f.Nodes[q.Node].ID != m.Node {
				cables = append(cables, cable{n.ID, p})
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	smps, rounds := 0, 0
	var after []time.Duration
	for b.Loop() {
		x := cables[rng.IntN(len(cables))]
		for _, change := range []func(string, int) error{c.Sim.LinkDown, c.Sim.LinkUp} {
			m.StepCPU, m.JobCPU, m.PlanCPU = 0, 0, 0
			later = false
			sent := m.Sent
			if err := change(x.id, x.port); err != nil {
				b.Fatal(err)
			}
			c.Run(20 * time.Second)
			if !m.Idle() {
				b.Fatal("not idle")
			}
			smps += m.Sent - sent
			rounds++
			after = append(after, m.StepCPU)
		}
	}
	if len(total) == 0 {
		b.Fatal("no job was started")
	}
	median := func(l []time.Duration) float64 {
		slices.Sort(l)
		return float64(l[len(l)/2].Microseconds()) / 1000
	}
	b.ReportMetric(median(total), "median-ms")
	b.ReportMetric(median(step), "step-ms")
	b.ReportMetric(median(job), "job-ms")
	b.ReportMetric(median(plan), "plan-ms")
	b.ReportMetric(median(after), "allsteps-ms")
	b.ReportMetric(float64(smps)/float64(rounds), "SMPs")
	b.ReportMetric(float64(refused), "refused")
	b.ReportMetric(float64(updated)/float64(len(total)), "updated")
}
