// Package saload measures how many queries SAs answer, and how fast: with nothing else to do and
// while they sweep or route, and behind each kind of port.
package saload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"heddle/flood"
	"heddle/internal/bench/testbed"
)

// turn is how long each load is measured, in seconds.
const turn = "1s"

// windows are the numbers of instances: on one port, except 961, which is the
// paper's last round with one SIF and 192 on each of five MIFs.
var windows = []int{1, 16, 64, 961}

// A served is an SA under measurement, on its own simulator. All SAs run
// concurrently and are queried in turn, so that other load of the machine
// affects all.
type served struct {
	who   string
	sock  string
	procs []*testbed.Program // the simulator, then the manager
	echo  *echoing
	over  bool // the subnet was not up within the limit
	// busy runs an activity of the manager and returns when that is complete or
	// stop is closed; by kind of activity.
	busy map[string]func(stop <-chan struct{}) error
}

// Activities of a manager during the measurement. OpenSM neither reroutes
// without a sweep nor sweeps without rerouting.
const (
	idle     = "nothing"
	sweeping = "sweeps"
	routing  = "new routes"
)

// sweepEvery is the minimum interval between sweeps, so that two managers with
// different sweep times make the same number. Reroutes follow each other
// without a pause.
const sweepEvery = 500 * time.Millisecond

func (s *served) end() {
	if s.echo != nil {
		_ = s.echo.end()
		s.echo = nil
	}
	for i := len(s.procs) - 1; i >= 0; i-- {
		s.procs[i].Stop(syscall.SIGKILL)
	}
	s.procs = nil
}

// Measure measures Heddle's SA and OpenSM's over the same simulator with the
// same client, idle and during continuous sweeps or reroutes, and, for
// comparison, the maximum rate of the sockets and the simulator.
func Measure(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("PathRecord queries through ibsim's protocol", "hosts", "instances", "SA", "meanwhile", "of these a second",
		"queries/s", "÷ OpenSM", "÷ limit", "CPU a query", "median", "99 %", "longest", "busy", "timeouts")
	for _, n := range sizes {
		if err := measureSize(b, t, n); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

func measureSize(b *testbed.Testbed, t testbed.Table, hosts int) error {
	net, err := b.Netlist(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := testbed.Floodable(net)
	if err != nil {
		return err
	}
	var sas []*served
	defer func() {
		for _, s := range sas {
			s.end()
		}
	}()
	for _, start := range []func(*testbed.Testbed, string) (*served, error){echoSA, theirSA, ourSA} {
		s, err := start(b, net)
		if s != nil {
			sas = append(sas, s)
		}
		if err != nil {
			return err
		}
	}
	loads := make([]load, 0, 3*len(windows))
	for _, window := range windows {
		l := load{window: window, meanwhile: idle, sas: sas, runs: make([][]run, len(sas))}
		for range b.Runs {
			for i := range sas {
				if sas[i].over {
					continue
				}
				if err := floodOnce(b, &l, i, nodes, dst); err != nil {
					return err
				}
			}
		}
		loads = append(loads, l)
		l.print(t, hosts, b.Limit)
	}
	// A sweep of one would affect the measurement of another: each has the machine
	// for itself, and ends after its last turn.
	for _, what := range []string{sweeping, routing} {
		for _, window := range windows {
			loads = append(loads, load{window: window, meanwhile: what, sas: sas, runs: make([][]run, len(sas))})
		}
	}
	for i, s := range sas {
		for k := range loads {
			if l := &loads[k]; s.busy[l.meanwhile] != nil {
				for range b.Runs {
					if err := floodOnce(b, l, i, nodes, dst); err != nil {
						return err
					}
				}
			}
		}
		s.end()
	}
	for k := range loads {
		if loads[k].meanwhile != idle {
			loads[k].print(t, hosts, b.Limit)
		}
	}
	return nil
}

// load is one load with its results, by SA and run.
type load struct {
	window    int
	meanwhile string
	sas       []*served
	runs      [][]run
}

// run is one measurement.
type run struct {
	flood.Figures         // of all instances together
	rate          float64 // sweeps or new tables a second
	cpu           float64 // processor time of the manager for a query, microseconds
}

// The order of the SAs of one size.
const (
	atLimit = iota
	atTheirs
	atOurs
)

// mid is the median of one figure of one SA, 0 if it was not measured.
func (l *load) mid(sa int, get func(*run) float64) float64 {
	var v []float64
	for k := range l.runs[sa] {
		v = append(v, get(&l.runs[sa][k]))
	}
	if len(v) == 0 {
		return 0
	}
	return testbed.Median(v)
}

// print prints the medians of one load.
func (l *load) print(t testbed.Table, hosts int, upWithin time.Duration) {
	qps := func(r *run) float64 { return r.QPS }
	over := func(x, y float64) string {
		if y == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", x/y)
	}
	for i, s := range l.sas {
		if s.over && l.meanwhile == idle {
			t.Row("%d|%d|%s|%s||> %.0f s to be up||||||||", hosts, l.window, s.who, l.meanwhile, upWithin.Seconds())
		}
		if len(l.runs[i]) == 0 {
			continue
		}
		r := l.mid(i, qps)
		ratio, part, again, cpu := "", "", "", ""
		if i == atOurs {
			ratio = over(r, l.mid(atTheirs, qps))
		}
		if i != atLimit {
			part = over(r, l.mid(atLimit, qps))
			cpu = testbed.Microseconds(l.mid(i, func(r *run) float64 { return r.cpu }))
		}
		if l.meanwhile != idle {
			again = fmt.Sprintf("%.1f", l.mid(i, func(r *run) float64 { return r.rate }))
		}
		t.Row("%d|%d|%s|%s|%s|%.0f|%s|%s|%s|%s|%s|%s|%.0f|%.0f", hosts, l.window, s.who, l.meanwhile, again, r, ratio, part, cpu,
			testbed.Microseconds(l.mid(i, func(r *run) float64 { return r.Median })),
			testbed.Microseconds(l.mid(i, func(r *run) float64 { return r.P99 })),
			testbed.Microseconds(l.mid(i, func(r *run) float64 { return r.Max })),
			l.mid(i, func(r *run) float64 { return float64(r.Busy) }),
			l.mid(i, func(r *run) float64 { return float64(r.Timeouts) }))
	}
}

// floodOnce floods an SA once and records the figures of all instances together.
func floodOnce(b *testbed.Testbed, l *load, sa int, nodes []string, dst string) error {
	s := l.sas[sa]
	at := func(i int) string { return "ibsim:" + nodes[i] + "@" + s.sock }
	args := []string{"flood", "--json", "--dst", dst, "--port", at(0), "--window", strconv.Itoa(l.window), "--time", turn}
	if l.window == 961 {
		args = []string{"flood", "--json", "--dst", dst, "--sif", at(0), "--instances", "192", "--rounds", "2", "--round-time", turn}
		for i := range 5 {
			args = append(args, "--mif", at(1+i))
		}
	}
	used := func() time.Duration {
		if len(s.procs) < 2 {
			return 0
		}
		return testbed.CPUTime(s.procs[1].Pid())
	}
	before := used()
	end := s.keepBusy(l.meanwhile)
	out, err := testbed.Output(b.Dir, nil, b.Heddle, args...)
	spent := used() - before
	rate, busyErr := end()
	if err = errors.Join(err, busyErr); err != nil {
		return fmt.Errorf("%s, %d instances: %w", s.who, l.window, err)
	}
	// A plain load has at the top level what an experiment has under the total of
	// its last round.
	var x struct {
		flood.Figures
		Total  *flood.Figures       `json:"total"`
		Rounds []flood.RoundFigures `json:"rounds"`
	}
	if err := json.Unmarshal(out, &x); err != nil {
		return err
	}
	answered := x.Answered
	for i := range x.Rounds {
		answered += x.Rounds[i].Total.Answered
	}
	if x.Total != nil {
		x.Figures = *x.Total
	}
	l.runs[sa] = append(l.runs[sa], run{x.Figures, rate, float64(spent.Microseconds()) / float64(max(answered, 1))})
	return nil
}

// keepBusy makes the manager do something again and again until end is called,
// which returns how often a second it was done.
func (s *served) keepBusy(what string) (end func() (float64, error)) {
	do := s.busy[what]
	if do == nil {
		return func() (float64, error) { return 0, nil }
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	begin := time.Now()
	var n atomic.Int64
	pause := time.Duration(0)
	if what == sweeping {
		pause = sweepEvery
	}
	go func() {
		for next := begin; ; next = next.Add(max(pause, time.Since(next))) {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(time.Until(next)):
			}
			if err := do(stop); err != nil {
				done <- err
				return
			}
			n.Add(1)
		}
	}()
	return func() (float64, error) {
		took := time.Since(begin).Seconds()
		rate := float64(n.Load()) / took
		close(stop)
		return rate, <-done
	}
}
