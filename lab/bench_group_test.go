package lab

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
)

// BenchmarkGroupJoin has one host join one of many groups, and leave it again:
// the time of the processor until the blocks are written, all steps of the
// manager, the routing job and the transition plan told apart.
func BenchmarkGroupJoin(b *testing.B) {
	for _, x := range []struct {
		hosts           string
		groups, members int
	}{{"648", 1000, 16}, {"648", 1000, 648}, {"11664", 1000, 16}, {"11664", 1000, 1000}, {"11664", 1000, 11664}} {
		b.Run(fmt.Sprintf("%s/%dx%d", x.hosts, x.groups, x.members), func(b *testing.B) {
			f := gen(b, "fattree", x.hosts)
			cfg := DefaultConfig()
			cfg.SweepInterval, cfg.ImproveDelay = 0, 0
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
			guids, _ := hosts(f)
			groups := make([]sm.Group, x.groups)
			for i := range groups {
				// Runs of hosts that begin anywhere; all but one where that is all.
				n := min(x.members, len(guids)-1)
				at := i * 37 % len(guids)
				groups[i] = groupOf(0xC000+ib.LID(i), append(slices.Clone(guids[at:min(at+n, len(guids))]), guids[:max(at+n-len(guids), 0)]...)...)
			}
			began := time.Now()
			m.SetGroups(groups)
			c.Run(time.Second)
			if mc := m.Snap.Tables.Multicast; mc == nil || len(mc.Trees) != x.groups {
				b.Fatal("not all groups have trees")
			}
			b.Logf("all groups at first: %v", time.Since(began))
			m.Clock = func() time.Duration { return time.Since(began) }
			m.StepCPU, m.JobCPU, m.PlanCPU = 0, 0, 0
			blocks, rounds := 0, 0
			for b.Loop() {
				i := rounds * 31 % x.groups
				whole := groups[i].Members
				for k := range 2 {
					next := slices.Clone(groups)
					if k == 0 {
						next[i].Members = slices.Clone(whole[:len(whole)-1])
					}
					blocks += mftSets(m, func() {
						m.SetGroups(next)
						if err := c.RunUntil(time.Minute, m.Idle); err != nil {
							b.Fatal(err)
						}
					})
				}
				rounds++
			}
			per := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(2*rounds) }
			b.ReportMetric(per(m.StepCPU), "step-ms")
			b.ReportMetric(per(m.JobCPU), "job-ms")
			b.ReportMetric(per(m.PlanCPU), "plan-ms")
			b.ReportMetric(float64(blocks)/float64(2*rounds), "blocks")
		})
	}
}
