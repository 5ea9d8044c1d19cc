package takeover

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"heddle/api"
	"heddle/internal/bench/testbed"
	"heddle/store/boltdb"
)

// A standby is what one costs, and how long one that has nothing needs until it has all.
type standby struct {
	hosts        int
	copied, warm []float64 // seconds since the process was started
	state        int64     // bytes of the active manager's file
	mib, share   float64
}

const (
	idleAfter  = 10 * time.Second // the runtime gives memory back after the start
	idleTime   = 10 * time.Second
	idleCopies = 3
)

// idle measures the standby, with nothing going on.
func (p *pairDuo) idle(hosts int) (x standby, err error) {
	x.hosts = hosts
	active, err := p.settled()
	if err != nil {
		return x, err
	}
	i := 1 - active
	st, err := os.Stat(filepath.Join(p.State(active), boltdb.FileName))
	if err != nil {
		return x, err
	}
	x.state = st.Size()
	for range idleCopies {
		testbed.Kill(p.Programs[i])
		if err := os.RemoveAll(p.State(i)); err != nil {
			return x, err
		}
		begin := time.Now()
		if err := p.start(i); err != nil {
			return x, err
		}
		var copied time.Duration
		_, err := p.Until("a copy", func(_ int, h *[2]api.HA) (bool, error) {
			if copied == 0 {
				copied = time.Since(begin)
			}
			return h[i].Pair.Warm, nil
		})
		if err != nil {
			return x, err
		}
		x.copied, x.warm = append(x.copied, copied.Seconds()), append(x.warm, time.Since(begin).Seconds())
	}
	time.Sleep(idleAfter)
	from, begin := testbed.CPUTime(p.Programs[i].Pid()), time.Now()
	time.Sleep(idleTime)
	x.share = 100 * (testbed.CPUTime(p.Programs[i].Pid()) - from).Seconds() / time.Since(begin).Seconds()
	x.mib, err = testbed.Resident(p.Programs[i].Pid())
	return x, err
}

// printStandbys prints what standbys cost, and the size of the program.
func printStandbys(b *testbed.Testbed, list []standby) error {
	t := testbed.NewTable("A standby with nothing going on", "hosts", "state on disk", "copied from nothing", "warm", "memory", "share of a core")
	for i := range list {
		x := &list[i]
		t.Row("%d|%.1f MiB|%.2f s|%.2f s|%.0f MiB|%.1f %%", x.hosts, float64(x.state)/(1<<20), testbed.Median(x.copied), testbed.Median(x.warm), x.mib, x.share)
	}
	st, err := os.Stat(b.Heddle)
	if err != nil {
		return err
	}
	fmt.Printf("\nThe program, with a pair and etcd: %.1f MB.\n", float64(st.Size())/1e6)
	return nil
}
