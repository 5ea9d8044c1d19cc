// Package simrate measures how many SMPs simulators answer.
package simrate

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"heddle/internal/bench/rawibsim"
	"heddle/internal/bench/testbed"
)

// Many short measurements in turn are better than a few long ones on a machine
// with other load.
const (
	loadTime  = 100 * time.Millisecond
	loadTurns = 4 // for each requested run
)

// Measure measures how fast the simulators answer directed-route NodeInfo
// queries, with the same client against both.
func Measure(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("SMPs answered a second through ibsim's protocol",
		"hosts", "clients", "window", "heddle sim", "ibsim", "ratio", "CPU an SMP, heddle sim", "ibsim")
	// ibsim hangs when a client has more in flight than the two socket queues
	// hold, so only heddle sim gets the deep windows.
	cases := []struct {
		clients, window int
		both            bool
	}{{1, 1, true}, {1, 8, true}, {8, 1, true}, {8, 8, true}, {1, 256, false}, {8, 256, false}}
	for _, n := range sizes {
		net, err := b.Netlist(n)
		if err != nil {
			return err
		}
		names, pids := make([]string, len(testbed.Simulators)), make([]int, len(testbed.Simulators))
		for i, sim := range testbed.Simulators {
			p, name, err := b.Simulate(sim, net)
			if err != nil {
				return err
			}
			defer p.Stop(syscall.SIGKILL)
			names[i], pids[i] = name, p.Pid()
		}
		for _, c := range cases {
			// In turn, so that other load of the machine affects both.
			var all, cpu [2][]float64
			for range loadTurns * b.Runs {
				for i, name := range names {
					if i == 1 && !c.both {
						continue
					}
					busy := testbed.CPUTime(pids[i])
					r, n, err := load(name, c.clients, c.window)
					if err != nil {
						return fmt.Errorf("%s, %d clients, window %d: %w", testbed.Simulators[i], c.clients, c.window, err)
					}
					all[i] = append(all[i], r)
					cpu[i] = append(cpu[i], (testbed.CPUTime(pids[i])-busy).Seconds()*1e6/float64(n))
				}
			}
			ours := testbed.Median(all[0])
			theirs, ratio, theirCPU := "-", "-", "-"
			if c.both {
				v := testbed.Median(all[1])
				theirs, ratio = fmt.Sprintf("%.0f", v), fmt.Sprintf("%.2f", ours/v)
				theirCPU = fmt.Sprintf("%.1f µs", testbed.Median(cpu[1]))
			}
			t.Row("%d|%d|%d|%.0f|%s|%s|%.1f µs|%s", n, c.clients, c.window, ours, theirs, ratio, testbed.Median(cpu[0]), theirCPU)
		}
	}
	return nil
}

// load runs clients concurrently and returns the number of responses, and the
// rate per second.
func load(name string, clients, window int) (rate float64, total int, err error) {
	conns := make([]*rawibsim.Client, clients)
	for i := range conns {
		c, err := rawibsim.Attach(name, i)
		if err != nil {
			return 0, 0, err
		}
		defer c.Close()
		conns[i] = c
	}
	var wg sync.WaitGroup
	counts, errs := make([]int, clients), make([]error, clients)
	begin := time.Now()
	for i, c := range conns {
		wg.Go(func() { counts[i], errs[i] = c.Query(window, begin.Add(loadTime)) })
	}
	wg.Wait()
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(begin).Seconds(), max(total, 1), errors.Join(errs...)
}
