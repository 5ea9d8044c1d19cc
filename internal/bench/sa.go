package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"heddle/fabric"
	"heddle/flood"
)

// saTime is how long each load is measured, in seconds.
const saTime = "1s"

// saWindows are the numbers of instances: on one port, except 961, which is the
// paper's last round with one SIF and 192 on each of five MIFs.
var saWindows = []int{1, 16, 64, 961}

// saHosts are the sizes that are compared unless -hosts is given.
var saHosts = []int{648, 11664}

// saMaxDst bounds the destinations, which are command-line arguments.
const saMaxDst = 4096

// A served is an SA under measurement, on its own simulator. All SAs run
// concurrently and are queried in turn, so that other load of the machine
// affects all.
type served struct {
	who   string
	sock  string
	procs []*program // the simulator, then the manager
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
		s.procs[i].stop(syscall.SIGKILL)
	}
	s.procs = nil
}

// serveSA measures Heddle's SA and OpenSM's over the same simulator with the
// same client, idle and during continuous sweeps or reroutes, and, for
// comparison, the maximum rate of the sockets and the simulator.
func (b *bench) serveSA(sizes []int) error {
	t := b.table("PathRecord queries through ibsim's protocol", "hosts", "instances", "SA", "meanwhile", "of these a second",
		"queries/s", "÷ OpenSM", "÷ limit", "CPU a query", "median", "99 %", "longest", "busy", "timeouts")
	for _, n := range sizes {
		if err := b.saSize(t, n); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

func (b *bench) saSize(t table, hosts int) error {
	net, err := b.net(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := floodable(net)
	if err != nil {
		return err
	}
	var sas []*served
	defer func() {
		for _, s := range sas {
			s.end()
		}
	}()
	for _, start := range []func(string) (*served, error){b.echoSA, b.theirSA, b.ourSA} {
		s, err := start(net)
		if s != nil {
			sas = append(sas, s)
		}
		if err != nil {
			return err
		}
	}
	loads := make([]saLoad, 0, 3*len(saWindows))
	for _, window := range saWindows {
		l := saLoad{window: window, meanwhile: idle, sas: sas, runs: make([][]saRun, len(sas))}
		for range b.runs {
			for i := range sas {
				if sas[i].over {
					continue
				}
				if err := b.floodSA(&l, i, nodes, dst); err != nil {
					return err
				}
			}
		}
		loads = append(loads, l)
		l.print(t, hosts)
	}
	// A sweep of one would affect the measurement of another: each has the machine
	// for itself, and ends after its last turn.
	for _, what := range []string{sweeping, routing} {
		for _, window := range saWindows {
			loads = append(loads, saLoad{window: window, meanwhile: what, sas: sas, runs: make([][]saRun, len(sas))})
		}
	}
	for i, s := range sas {
		for k := range loads {
			if l := &loads[k]; s.busy[l.meanwhile] != nil {
				for range b.runs {
					if err := b.floodSA(l, i, nodes, dst); err != nil {
						return err
					}
				}
			}
		}
		s.end()
	}
	for k := range loads {
		if loads[k].meanwhile != idle {
			loads[k].print(t, hosts)
		}
	}
	return nil
}

// saLoad is one load with its results, by SA and run.
type saLoad struct {
	window    int
	meanwhile string
	sas       []*served
	runs      [][]saRun
}

// saRun is one measurement.
type saRun struct {
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
func (l *saLoad) mid(sa int, get func(*saRun) float64) float64 {
	var v []float64
	for k := range l.runs[sa] {
		v = append(v, get(&l.runs[sa][k]))
	}
	if len(v) == 0 {
		return 0
	}
	return mid(v)
}

// print prints the medians of one load.
func (l *saLoad) print(t table, hosts int) {
	qps := func(r *saRun) float64 { return r.QPS }
	over := func(x, y float64) string {
		if y == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", x/y)
	}
	for i, s := range l.sas {
		if s.over && l.meanwhile == idle {
			t.row("%d|%d|%s|%s||> %.0f s to be up||||||||", hosts, l.window, s.who, l.meanwhile, limit.Seconds())
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
			cpu = microseconds(l.mid(i, func(r *saRun) float64 { return r.cpu }))
		}
		if l.meanwhile != idle {
			again = fmt.Sprintf("%.1f", l.mid(i, func(r *saRun) float64 { return r.rate }))
		}
		t.row("%d|%d|%s|%s|%s|%.0f|%s|%s|%s|%s|%s|%s|%.0f|%.0f", hosts, l.window, s.who, l.meanwhile, again, r, ratio, part, cpu,
			microseconds(l.mid(i, func(r *saRun) float64 { return r.Median })),
			microseconds(l.mid(i, func(r *saRun) float64 { return r.P99 })),
			microseconds(l.mid(i, func(r *saRun) float64 { return r.Max })),
			l.mid(i, func(r *saRun) float64 { return float64(r.Busy) }),
			l.mid(i, func(r *saRun) float64 { return float64(r.Timeouts) }))
	}
}

func microseconds(us float64) string {
	switch {
	case us >= 1e4:
		return fmt.Sprintf("%.1f ms", us/1e3)
	case us < 100:
		return fmt.Sprintf("%.1f µs", us)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// floodable reads from a netlist which nodes to flood from, those after the
// manager's, and the destinations, spread over the whole fabric.
func floodable(net string) (nodes []string, dst string, err error) {
	file, err := os.Open(net)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	f, err := fabric.ReadNetlist(file, fabric.NetlistOptions{})
	if err != nil {
		return nil, "", err
	}
	var guids []string
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() {
			nodes = append(nodes, n.ID)
			guids = append(guids, n.Ports[1].GUID.String())
		}
	}
	step := (len(guids) + saMaxDst - 1) / saMaxDst
	var some []string
	for i := 0; i < len(guids); i += step {
		some = append(some, guids[i])
	}
	return nodes[1:7], strings.Join(some, ","), nil
}

// floodSA floods an SA once and records the figures of all instances together.
func (b *bench) floodSA(l *saLoad, sa int, nodes []string, dst string) error {
	s := l.sas[sa]
	at := func(i int) string { return "ibsim:" + nodes[i] + "@" + s.sock }
	args := []string{"flood", "--json", "--dst", dst, "--port", at(0), "--window", strconv.Itoa(l.window), "--time", saTime}
	if l.window == 961 {
		args = []string{"flood", "--json", "--dst", dst, "--sif", at(0), "--instances", "192", "--rounds", "2", "--round-time", saTime}
		for i := range 5 {
			args = append(args, "--mif", at(1+i))
		}
	}
	used := func() time.Duration {
		if len(s.procs) < 2 {
			return 0
		}
		return cpuTime(s.procs[1].Pid())
	}
	before := used()
	end := s.keepBusy(l.meanwhile)
	out, err := output(b.dir, nil, b.bin, args...)
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
	l.runs[sa] = append(l.runs[sa], saRun{x.Figures, rate, float64(spent.Microseconds()) / float64(max(answered, 1))})
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

// onSim starts a simulator for an SA.
func (b *bench) onSim(who, net string) (*served, error) {
	p, name, err := b.serve("heddle sim", net)
	if err != nil {
		return nil, err
	}
	return &served{who: who, sock: name, procs: []*program{p}}, nil
}

// echoSA is the limit: a subnet that is up, and an SA that does nothing.
func (b *bench) echoSA(net string) (*served, error) {
	s, err := b.onSim("(limit)", net)
	if err != nil {
		return nil, err
	}
	if _, err := output(b.dir, nil, b.bin, "sm", "--once", "--port", "ibsim:@"+s.sock, "--api", "", "--api-socket", filepath.Join(b.dir, s.sock+".api")); err != nil {
		return s, err
	}
	s.echo, err = startEcho(s.sock)
	return s, err
}

func (b *bench) ourSA(netlist string) (*served, error) {
	s, err := b.onSim("heddle", netlist)
	if err != nil {
		return nil, err
	}
	api := filepath.Join(b.dir, s.sock+".api")
	p, err := launch(b.dir, nil, b.bin, "sm", "--port", "ibsim:@"+s.sock, "--api", "", "--api-socket", api)
	if err != nil {
		return s, err
	}
	s.procs = append(s.procs, p)
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", api)
		},
	}}
	s.busy = map[string]func(<-chan struct{}) error{
		sweeping: func(stop <-chan struct{}) error { return ourSweep(c, "/v1/sweep", stop) },
		routing:  func(stop <-chan struct{}) error { return ourSweep(c, "/v1/reroute?rebalance=true", stop) },
	}
	_, err = p.await("SUBNET UP", b.limit)
	return s, err
}

// ourSweep requests a sweep from the manager and waits for its end.
func ourSweep(c *http.Client, path string, stop <-chan struct{}) error {
	before, err := sweepsMade(c)
	if err != nil {
		return err
	}
	resp, err := c.Post("http://localhost"+path, "application/json", nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("POST %s: %s", path, resp.Status)
	}
	for {
		n, err := sweepsMade(c)
		if err != nil || n > before {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// sweepsMade is how many sweeps have ended.
func sweepsMade(c *http.Client) (n uint64, err error) {
	resp, err := c.Get("http://localhost/v1/status")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var st struct {
		Sweeps uint64 `json:"sweeps"`
	}
	err = json.NewDecoder(resp.Body).Decode(&st)
	return st.Sweeps, err
}

// theirSA is OpenSM; a hangup makes it sweep and route anew.
func (b *bench) theirSA(net string) (*served, error) {
	s, err := b.onSim("OpenSM", net)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(b.dir, "sa")
	if err != nil {
		return s, err
	}
	p, err := launch(tmp, []string{"IBSIM_SOCKNAME=" + s.sock, "OSM_TMP_DIR=" + tmp, "OSM_CACHE_DIR=" + tmp, "LD_PRELOAD="},
		"ibsim-run", b.opensm, "-d", "2", "-f", "stdout", "-R", "minhop")
	if err != nil {
		return s, err
	}
	s.procs = append(s.procs, p)
	const up = "SUBNET UP"
	s.busy = map[string]func(<-chan struct{}) error{sweeping: func(stop <-chan struct{}) error {
		before := strings.Count(p.Output(), up)
		p.Signal(syscall.SIGHUP)
		for strings.Count(p.Output(), up) == before {
			select {
			case <-stop:
				return nil
			case <-p.Done():
				return fmt.Errorf("OpenSM ended: %s", last(p.Output()))
			case <-time.After(5 * time.Millisecond):
			}
		}
		return nil
	}}
	_, err = p.await(up, b.limit)
	if errors.Is(err, errLimit) {
		s.end()
		s.over, s.busy, err = true, nil, nil
	}
	return s, err
}
