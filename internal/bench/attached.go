package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/flood"
)

var (
	before = flag.String("before", "", "attached: another heddle to measure, for example one built before a change")
	kinds  = flag.String("ports", "umad,ibsim", "attached: ports of managers and clients")
)

// attachedTime is how long each SA is measured in a round.
const attachedTime = "500ms"

// attachedWindows are how many questions are open at a time.
var attachedWindows = []int{1, 16, 64}

// An attachedSA is an SA under measurement behind one kind of port: manager,
// simulator and clients are separate programs, and all SAs have the same
// simulator and the same client.
type attachedSA struct {
	who  string
	kind string // of its port
	sock string
	sim  *program
	prog *program
	pid  int // of the manager: prog, or its attached program
	bin  string
}

// attachedRun is one measurement: queries per second, and microseconds of
// processor time per query.
type attachedRun struct{ qps, manager, sim, client, median float64 }

// attached measures the rate of PathRecord queries behind each kind of port of
// a simulator, the SAs in turn. Figures are medians of rounds, and so are their
// ratios to OpenSM's in the same round.
func (b *bench) attached(sizes []int) error {
	t := b.table("PathRecord queries of attached clients", "port", "hosts", "window", "SA", "queries/s", "÷ OpenSM",
		"CPU a query", "÷ OpenSM's", "of the simulator", "of the client", "median")
	for _, n := range sizes {
		for kind := range strings.SplitSeq(*kinds, ",") {
			if err := b.attachedSize(t, kind, n); err != nil {
				return fmt.Errorf("%s, %d hosts: %w", kind, n, err)
			}
		}
	}
	return nil
}

func (b *bench) attachedSize(t table, kind string, hosts int) error {
	net, err := b.net(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := floodable(net)
	if err != nil {
		return err
	}
	bins := []string{"", b.bin}
	if *before != "" {
		old, err := filepath.Abs(*before)
		if err != nil {
			return err
		}
		bins = slices.Insert(bins, 1, old)
	}
	var sas []*attachedSA
	defer func() {
		for _, s := range sas {
			s.end()
		}
	}()
	for _, bin := range bins {
		s, err := b.startAttached(kind, bin, net)
		if s != nil {
			sas = append(sas, s)
		}
		if err != nil {
			return err
		}
	}
	for _, window := range attachedWindows {
		runs := make([][]attachedRun, len(sas))
		for range b.runs {
			for i, s := range sas {
				r, err := b.floodAttached(s, nodes[0], dst, window)
				if err != nil {
					return fmt.Errorf("%s, window %d: %w", s.who, window, err)
				}
				runs[i] = append(runs[i], r)
			}
		}
		of := func(i int, get func(*attachedRun) float64) float64 {
			var v []float64
			for k := range runs[i] {
				v = append(v, get(&runs[i][k]))
			}
			return mid(v)
		}
		// The ratio is taken within each round, in which all share the machine's other load.
		ratios := func(i int, get func(*attachedRun) float64) float64 {
			var v []float64
			for k := range runs[i] {
				v = append(v, get(&runs[i][k])/get(&runs[0][k]))
			}
			return mid(v)
		}
		qps := func(r *attachedRun) float64 { return r.qps }
		cpu := func(r *attachedRun) float64 { return r.manager }
		for i, s := range sas {
			ratio, cpus := "", ""
			if i > 0 {
				ratio = fmt.Sprintf("%.2f", ratios(i, qps))
				cpus = fmt.Sprintf("%.2f", ratios(i, cpu))
			}
			t.row("%s|%d|%d|%s|%.0f|%s|%s|%s|%s|%s|%s", kind, hosts, window, s.who, of(i, qps), ratio, microseconds(of(i, cpu)), cpus,
				microseconds(of(i, func(r *attachedRun) float64 { return r.sim })),
				microseconds(of(i, func(r *attachedRun) float64 { return r.client })),
				microseconds(of(i, func(r *attachedRun) float64 { return r.median })))
		}
	}
	return nil
}

// startAttached starts a simulator and an SA on its first node: Heddle's, or
// OpenSM if bin is empty.
func (b *bench) startAttached(kind, bin, net string) (*attachedSA, error) {
	s := &attachedSA{who: "heddle", kind: kind, bin: bin}
	if bin != b.bin {
		s.who = "heddle, before"
	}
	var err error
	if s.sim, s.sock, err = b.serve("heddle sim", net); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(b.dir, "sa")
	if err != nil {
		return s, err
	}
	env := []string{"IBSIM_SOCKNAME=" + s.sock, "OSM_TMP_DIR=" + tmp, "OSM_CACHE_DIR=" + tmp, "LD_PRELOAD="}
	var argv []string
	if bin == "" {
		s.who = "OpenSM"
		argv = []string{b.opensm, "-d", "2", "-f", "stdout", "-R", "minhop"}
		if kind == "ibsim" {
			argv = append([]string{"ibsim-run"}, argv...)
		}
	} else {
		port := "umad:"
		if kind == "ibsim" {
			port = "ibsim:@" + s.sock
		}
		argv = []string{bin, "sm", "--port", port, "--api", "", "--api-socket", filepath.Join(tmp, "api")}
	}
	if kind == "umad" {
		argv = append([]string{b.bin, "attach", "@" + s.sock, "--"}, argv...)
	}
	if s.prog, err = launch(tmp, env, argv[0], argv[1:]...); err != nil {
		return s, err
	}
	if _, err := s.prog.await("SUBNET UP", b.limit); err != nil {
		return s, err
	}
	s.pid = s.prog.Pid()
	if kind == "umad" {
		s.pid, err = childOf(s.pid)
	}
	return s, err
}

// childOf is the only child of a process.
func childOf(pid int) (int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		if s := strings.Fields(string(text)); len(s) > 0 {
			return strconv.Atoi(s[0])
		}
	}
	return 0, fmt.Errorf("process %d has no child", pid)
}

func (s *attachedSA) end() {
	for _, p := range []*program{s.prog, s.sim} {
		if p != nil {
			p.StopWith(endSignal, 20*time.Second)
		}
	}
}

// floodAttached floods an SA once, from another node.
func (b *bench) floodAttached(s *attachedSA, node, dst string, window int) (r attachedRun, err error) {
	argv := []string{b.bin, "flood", "--json", "--dst", dst, "--window", strconv.Itoa(window), "--time", attachedTime, "--port"}
	if s.kind == "umad" {
		argv = append([]string{b.bin, "attach", node + "@" + s.sock, "--"}, append(argv, "umad:")...)
	} else {
		argv = append(argv, "ibsim:"+node+"@"+s.sock)
	}
	manager, sim, client := cpuTime(s.pid), cpuTime(s.sim.Pid()), childrenTime()
	out, err := output(b.dir, nil, argv[0], argv[1:]...)
	if err != nil {
		return r, err
	}
	var x flood.Figures
	if err := json.Unmarshal(out, &x); err != nil {
		return r, err
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(max(x.Answered, 1)) }
	return attachedRun{
		qps: x.QPS, median: x.Median,
		manager: each(cpuTime(s.pid) - manager), sim: each(cpuTime(s.sim.Pid()) - sim), client: each(childrenTime() - client),
	}, nil
}
