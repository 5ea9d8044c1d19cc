package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"heddle/api"
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
	st, err := os.Stat(filepath.Join(p.state(active), boltdb.FileName))
	if err != nil {
		return x, err
	}
	x.state = st.Size()
	for range idleCopies {
		reap(p.prog[i])
		if err := os.RemoveAll(p.state(i)); err != nil {
			return x, err
		}
		begin := time.Now()
		if err := p.start(i); err != nil {
			return x, err
		}
		var copied time.Duration
		_, err := p.until("a copy", func(_ int, h *[2]api.HA) (bool, error) {
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
	from, begin := cpuTime(p.prog[i].Pid()), time.Now()
	time.Sleep(idleTime)
	x.share = 100 * (cpuTime(p.prog[i].Pid()) - from).Seconds() / time.Since(begin).Seconds()
	x.mib, err = resident(p.prog[i].Pid())
	return x, err
}

// printStandbys prints what standbys cost, and the size of the program.
func (b *bench) printStandbys(list []standby) error {
	t := b.table("A standby with nothing going on", "hosts", "state on disk", "copied from nothing", "warm", "memory", "share of a core")
	for i := range list {
		x := &list[i]
		t.row("%d|%.1f MiB|%.2f s|%.2f s|%.0f MiB|%.1f %%", x.hosts, float64(x.state)/(1<<20), mid(x.copied), mid(x.warm), x.mib, x.share)
	}
	st, err := os.Stat(b.bin)
	if err != nil {
		return err
	}
	fmt.Printf("\nThe program, with a pair and etcd: %.1f MB.\n", float64(st.Size())/1e6)
	return nil
}
