package main

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Many short measurements in turn are better than a few long ones on a machine
// with other load.
const (
	loadTime  = 100 * time.Millisecond
	loadTurns = 4 // for each requested run
)

// rates measures how fast the simulators answer directed-route NodeInfo
// queries, with the same client against both.
func (b *bench) rates(sizes []int) error {
	t := b.table("SMPs answered a second through ibsim's protocol",
		"hosts", "clients", "window", "heddle sim", "ibsim", "ratio", "CPU an SMP, heddle sim", "ibsim")
	// ibsim hangs when a client has more in flight than the two socket queues
	// hold, so only heddle sim gets the deep windows.
	cases := []struct {
		clients, window int
		both            bool
	}{{1, 1, true}, {1, 8, true}, {8, 1, true}, {8, 8, true}, {1, 256, false}, {8, 256, false}}
	for _, n := range sizes {
		net, err := b.net(n)
		if err != nil {
			return err
		}
		names, pids := make([]string, len(sims)), make([]int, len(sims))
		for i, sim := range sims {
			p, name, err := b.serve(sim, net)
			if err != nil {
				return err
			}
			defer p.stop(syscall.SIGKILL)
			names[i], pids[i] = name, p.Pid()
		}
		for _, c := range cases {
			// In turn, so that other load of the machine affects both.
			var all, cpu [2][]float64
			for range loadTurns * b.runs {
				for i, name := range names {
					if i == 1 && !c.both {
						continue
					}
					busy := cpuTime(pids[i])
					r, n, err := load(name, c.clients, c.window)
					if err != nil {
						return fmt.Errorf("%s, %d clients, window %d: %w", sims[i], c.clients, c.window, err)
					}
					all[i] = append(all[i], r)
					cpu[i] = append(cpu[i], (cpuTime(pids[i])-busy).Seconds()*1e6/float64(n))
				}
			}
			ours := mid(all[0])
			theirs, ratio, theirCPU := "-", "-", "-"
			if c.both {
				v := mid(all[1])
				theirs, ratio = fmt.Sprintf("%.0f", v), fmt.Sprintf("%.2f", ours/v)
				theirCPU = fmt.Sprintf("%.1f µs", mid(cpu[1]))
			}
			t.row("%d|%d|%d|%.0f|%s|%s|%.1f µs|%s", n, c.clients, c.window, ours, theirs, ratio, mid(cpu[0]), theirCPU)
		}
	}
	return nil
}

// load runs clients concurrently and returns the number of responses, and the
// rate per second.
func load(name string, clients, window int) (rate float64, total int, err error) {
	conns := make([]*client, clients)
	for i := range conns {
		c, err := attach(name, i)
		if err != nil {
			return 0, 0, err
		}
		defer c.close()
		conns[i] = c
	}
	var wg sync.WaitGroup
	counts, errs := make([]int, clients), make([]error, clients)
	begin := time.Now()
	for i, c := range conns {
		wg.Go(func() { counts[i], errs[i] = c.ask(window, begin.Add(loadTime)) })
	}
	wg.Wait()
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(begin).Seconds(), max(total, 1), errors.Join(errs...)
}

// cpuTime is the processor time that a process has used.
func cpuTime(pid int) time.Duration {
	// The process's clock (clock_getcpuclockid(3)), threads that have ended
	// included: a routing job ends with its thread.
	const cpuClockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|cpuClockSched, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
