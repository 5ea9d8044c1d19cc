package saload

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
	"heddle/internal/bench/testbed"
)

// Options are the settings of Attached.
type Options struct {
	Before string // another heddle to measure; none: ""
	Ports  string // kinds of ports, with commas between
}

// Flags are the flags of Attached, with their values once they are parsed.
func Flags(fs *flag.FlagSet) *Options {
	o := &Options{}
	fs.StringVar(&o.Before, "before", "", "attached: another heddle to measure, for example one built before a change")
	fs.StringVar(&o.Ports, "ports", "umad,ibsim", "attached: ports of managers and clients")
	return o
}

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
	sim  *testbed.Program
	prog *testbed.Program
	pid  int // of the manager: prog, or its attached program
	bin  string
}

// attachedRun is one measurement: queries per second, and microseconds of
// processor time per query.
type attachedRun struct{ qps, manager, sim, client, median float64 }

// Attached measures the rate of PathRecord queries behind each kind of port of
// a simulator, the SAs in turn. Figures are medians of rounds, and so are their
// ratios to OpenSM's in the same round.
func Attached(b *testbed.Testbed, o *Options, sizes []int) error {
	t := testbed.NewTable("PathRecord queries of attached clients", "port", "hosts", "window", "SA", "queries/s", "÷ OpenSM",
		"CPU a query", "÷ OpenSM's", "of the simulator", "of the client", "median")
	for _, n := range sizes {
		for kind := range strings.SplitSeq(o.Ports, ",") {
			if err := attachedSize(b, o, t, kind, n); err != nil {
				return fmt.Errorf("%s, %d hosts: %w", kind, n, err)
			}
		}
	}
	return nil
}

func attachedSize(b *testbed.Testbed, o *Options, t testbed.Table, kind string, hosts int) error {
	net, err := b.Netlist(hosts)
	if err != nil {
		return err
	}
	nodes, dst, err := testbed.Floodable(net)
	if err != nil {
		return err
	}
	bins := []string{"", b.Heddle}
	if o.Before != "" {
		old, err := filepath.Abs(o.Before)
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
		s, err := startAttached(b, kind, bin, net)
		if s != nil {
			sas = append(sas, s)
		}
		if err != nil {
			return err
		}
	}
	for _, window := range attachedWindows {
		runs := make([][]attachedRun, len(sas))
		for range b.Runs {
			for i, s := range sas {
				r, err := floodAttached(b, s, nodes[0], dst, window)
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
			return testbed.Median(v)
		}
		// The ratio is taken within each round, in which all share the machine's other load.
		ratios := func(i int, get func(*attachedRun) float64) float64 {
			var v []float64
			for k := range runs[i] {
				v = append(v, get(&runs[i][k])/get(&runs[0][k]))
			}
			return testbed.Median(v)
		}
		qps := func(r *attachedRun) float64 { return r.qps }
		cpu := func(r *attachedRun) float64 { return r.manager }
		for i, s := range sas {
			ratio, cpus := "", ""
			if i > 0 {
				ratio = fmt.Sprintf("%.2f", ratios(i, qps))
				cpus = fmt.Sprintf("%.2f", ratios(i, cpu))
			}
			t.Row("%s|%d|%d|%s|%.0f|%s|%s|%s|%s|%s|%s", kind, hosts, window, s.who, of(i, qps), ratio, testbed.Microseconds(of(i, cpu)), cpus,
				testbed.Microseconds(of(i, func(r *attachedRun) float64 { return r.sim })),
				testbed.Microseconds(of(i, func(r *attachedRun) float64 { return r.client })),
				testbed.Microseconds(of(i, func(r *attachedRun) float64 { return r.median })))
		}
	}
	return nil
}

// startAttached starts a simulator and an SA on its first node: Heddle's, or
// OpenSM if bin is empty.
func startAttached(b *testbed.Testbed, kind, bin, net string) (*attachedSA, error) {
	s := &attachedSA{who: "heddle", kind: kind, bin: bin}
	if bin != b.Heddle {
		s.who = "heddle, before"
	}
	var err error
	if s.sim, s.sock, err = b.Simulate("heddle sim", net); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(b.Dir, "sa")
	if err != nil {
		return s, err
	}
	env := []string{"IBSIM_SOCKNAME=" + s.sock, "OSM_TMP_DIR=" + tmp, "OSM_CACHE_DIR=" + tmp, "LD_PRELOAD="}
	var argv []string
	if bin == "" {
		s.who = "OpenSM"
		argv = []string{b.OpenSM, "-d", "2", "-f", "stdout", "-R", "minhop"}
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
		argv = append([]string{b.Heddle, "attach", "@" + s.sock, "--"}, argv...)
	}
	if s.prog, err = testbed.Launch(tmp, env, argv[0], argv[1:]...); err != nil {
		return s, err
	}
	if _, err := s.prog.Await("SUBNET UP", b.Limit); err != nil {
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
	testbed.End(s.prog, s.sim)
}

// floodAttached floods an SA once, from another node.
func floodAttached(b *testbed.Testbed, s *attachedSA, node, dst string, window int) (r attachedRun, err error) {
	argv := []string{b.Heddle, "flood", "--json", "--dst", dst, "--window", strconv.Itoa(window), "--time", attachedTime, "--port"}
	if s.kind == "umad" {
		argv = append([]string{b.Heddle, "attach", node + "@" + s.sock, "--"}, append(argv, "umad:")...)
	} else {
		argv = append(argv, "ibsim:"+node+"@"+s.sock)
	}
	manager, sim, client := testbed.CPUTime(s.pid), testbed.CPUTime(s.sim.Pid()), testbed.ChildrenTime()
	out, err := testbed.Output(b.Dir, nil, argv[0], argv[1:]...)
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
		manager: each(testbed.CPUTime(s.pid) - manager), sim: each(testbed.CPUTime(s.sim.Pid()) - sim), client: each(testbed.ChildrenTime() - client),
	}, nil
}
