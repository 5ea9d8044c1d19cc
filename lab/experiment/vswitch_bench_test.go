package experiment

import (
	"fmt"
	"testing"
	"time"

	"heddle/route/move"
)

// BenchmarkMigrations migrates VMs in the full subnet, 2,853 hypervisors and 648
// switches, by placements as an address manager sets them: a thousand at once, ten at
// once, and alone. cpu-ms/vm is processor time of the manager's core and jobs for one
// VM, its SMPs included but not their way to a device. simulator-ms/vm is that of all else in this
// process: switches that carry the SMPs and answer them, and what counts them.
func BenchmarkMigrations(b *testing.B) {
	for _, kind := range []move.Kind{move.Copy, move.Swap} {
		b.Run(lidsAre[kind], func(b *testing.B) {
			w, err := newWire(wireOptions{
				hosts: fullSubnetHosts, kind: kind, modes: []move.Mode{move.Balanced}, pairs: migrationsAtOnce, vfs: functionsEach, every: true, still: true, seed: 1,
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := w.create(); err != nil {
				b.Fatal(err)
			}
			for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
				for _, n := range []int{migrationsAtOnce, 10, 1} {
					b.Run(fmt.Sprintf("%v/%d", mode, n), func(b *testing.B) {
						var sum meanCost
						at, vms, reads := 0, 0, 0
						began := processorTime()
						for b.Loop() {
							list := w.vms[at : at+n]
							if at += n; at+n > len(w.vms) {
								at = 0
							}
							for _, v := range list {
								v.mode = mode
							}
							c, reports, err := w.migrate(list...)
							if err != nil {
								b.Fatal(err)
							}
							vms += n
							reads += w.reads
							sum.sets += float64(c.sets)
							sum.cpu += c.cpu
							for _, r := range reports {
								sum.paper += float64(r.SMPs)
							}
						}
						all := processorTime() - began - time.Duration(reads)*clockCost()
						b.ReportMetric(sum.cpu.Seconds()*1000/float64(vms), "cpu-ms/vm")
						b.ReportMetric((all-sum.cpu).Seconds()*1000/float64(vms), "simulator-ms/vm")
						b.ReportMetric(sum.sets/float64(vms), "SMPs/vm")
						b.ReportMetric(sum.paper/float64(vms), "unmerged/vm")
					})
					// What minimal moves leave is cleared for the next.
					w.m.Reroute(false)
					if err := w.c.RunUntil(time.Hour, w.quiet); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
