// Package repair measures how long a fault breaks pairs of switches and LIDs that have another path.
package repair

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"heddle/internal/bench/testbed"
	"heddle/lab"
)

// Options are the settings of this part.
type Options struct {
	Trials  int           // in virtual time: single faults, and sequences of ten, on each fabric under each engine
	Live    int           // faults on each fabric in real time
	Engines string        // in virtual time, with commas between; "": all
	Time    time.Duration // limit in real time
}

// Flags are the flags of this part, with their values once they are parsed.
func Flags(fs *flag.FlagSet) *Options {
	o := &Options{}
	fs.IntVar(&o.Trials, "repair-trials", 100, "repair: single faults, and sequences of ten faults, on each fabric under each engine, in virtual time")
	fs.IntVar(&o.Live, "repair-live", 10, "repair: faults on each fabric in real time; fewer where -repair-time is over")
	fs.StringVar(&o.Engines, "repair-engines", "", "repair: engines of the part in virtual time, with commas between; none = all")
	fs.DurationVar(&o.Time, "repair-time", 150*time.Second, "repair: time limit of the part in real time")
	return o
}

// Measure measures how long a fault breaks pairs of switches and LIDs that
// have another path: in virtual time on every fabric under every engine, then
// in real time with OpenSM.
func Measure(b *testbed.Testbed, o *Options) error {
	matrix(o)
	return live(b, o)
}

// cell is a fabric under a chain of engines.
type cell struct {
	fabric lab.RepairFabric
	chain  lab.RepairChain
	sums   [2]lab.RepairSummary // of single faults, of sequences
	failed int
	done   chan struct{}
}

// sequenceFaults is how many faults a sequence has.
const sequenceFaults = 10

// refusals is after how many seeds in a row an engine is taken not to route a
// kind of fabric.
const refusals = 10

func (c *cell) run(trials int) {
	defer close(c.done)
	refused := 0
	for seed := range uint64(trials) {
		for i, faults := range []int{1, sequenceFaults} {
			t, err := c.fabric.Trial(c.chain, seed, faults)
			var res *lab.RepairResult
			if err == nil {
				res, err = t.Run()
			}
			if errors.Is(err, lab.ErrNotInForce) {
				if refused++; refused >= refusals && c.sums[0].Trials == 0 {
					return
				}
				break
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: repair: %s, %s, seed %d, %d faults: %v\n", c.fabric.Name, c.chain.Name, seed, faults, err)
				c.failed++
			}
			if res != nil {
				c.sums[i].Add(res)
			}
		}
	}
}

// matrix runs the trials in virtual time on all cores. A trial's result
// does not depend on which others run.
func matrix(o *Options) {
	var cells []*cell
	for _, f := range lab.RepairFabrics() {
		for _, c := range lab.RepairChains() {
			if o.Engines != "" && !slices.Contains(strings.Split(o.Engines, ","), c.Name) {
				continue
			}
			cells = append(cells, &cell{fabric: f, chain: c, done: make(chan struct{})})
		}
	}
	work := make(chan *cell)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range work {
				c.run(o.Trials)
			}
		})
	}
	go func() {
		for _, c := range cells {
			work <- c
		}
		close(work)
	}()
	for i, title := range []string{"Repair of single faults, virtual time", "Repair of ten faults in a row, virtual time"} {
		t := testbed.NewTable(title, "fabric", "engine", "faults that broke pairs", "pairs", "p50", "p99", "max",
			"drain while a pair was broken", "pairs broken by the manager, longest", "SMPs a fault", "load ÷ fresh, median", "most")
		total := map[string]*lab.RepairSummary{}
		for _, c := range cells {
			<-c.done
			s := &c.sums[i]
			if s.Trials == 0 {
				continue
			}
			row(t, c.fabric.Name, c.chain.Name, s)
			if total[c.chain.Name] == nil {
				total[c.chain.Name] = &lab.RepairSummary{}
			}
			total[c.chain.Name].Merge(s)
		}
		for _, c := range lab.RepairChains() {
			if s := total[c.Name]; s != nil {
				row(t, "all", c.Name, s)
			}
		}
	}
	wg.Wait()
	failed := 0
	for _, c := range cells {
		failed += c.failed
	}
	fmt.Printf("\n%d trials ended with broken pairs or tables that do not verify.\n", failed)
}

func row(t testbed.Table, fabric, chain string, s *lab.RepairSummary) {
	med, most := s.Load()
	harm := "0"
	if s.ManagerBroke > 0 {
		harm = fmt.Sprintf("%d, %s", s.ManagerBroke, testbed.Brief(s.ManagerLongest))
	}
	t.Row("%s|%s|%d of %d|%d|%s|%s|%s|%.1f %%|%s|%.0f|%.2f|%.2f", fabric, chain, s.Breaking, s.Faults, s.Pairs,
		testbed.Brief(s.Quantile(0.5)), testbed.Brief(s.Quantile(0.99)), testbed.Brief(s.Quantile(1)), 100*s.DrainShare(), harm,
		float64(s.SMPs)/float64(max(s.Faults, 1)), med, most)
}
