// Command bench compares Heddle with the programs that it replaces: OpenSM as
// the manager, ibsim as the simulator, each pair in the same run on the same
// fabric. It prints the tables of docs/benchmarks.md.
//
// A run that takes under 20 s is repeated and the median is shown; a longer one
// is made once, and one that exceeds the limit is shown as "> limit".
//
// Each part of the measurements is a package below this one, and no part uses another. What they share
// is testbed (programs, simulators, tables), rawibsim (a client of ibsim's protocol) and pair (two
// managers).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/internal/bench/bringup"
	"heddle/internal/bench/counters"
	"heddle/internal/bench/events"
	"heddle/internal/bench/joins"
	"heddle/internal/bench/moves"
	"heddle/internal/bench/packets"
	"heddle/internal/bench/repair"
	"heddle/internal/bench/routing"
	"heddle/internal/bench/saload"
	"heddle/internal/bench/simrate"
	"heddle/internal/bench/stampede"
	"heddle/internal/bench/takeover"
	"heddle/internal/bench/testbed"
)

var (
	heddle = flag.String("heddle", "bin/heddle", "program to measure")
	hosts  = flag.String("hosts", "324,648,5832,11664", "fat trees to bring up")
	limit  = flag.Duration("limit", 2*time.Minute, "time limit of one run of a peer")
	runs   = flag.Int("runs", 5, "repetitions of runs under 20 s")
	only   = flag.String("only", "", "parts to run: some of bringup, phases, compute, rate, memory, packets, sa, moves, attached, repair, routes, stampede, takeover, restart, counters, events, joins (default all up to moves)")
	base   = flag.String("base", "", "program to compare with (stampede, restart)")
	others = flag.Float64("others", 0.1, "share of the processors that other programs may use (stampede)")

	attachedFlags = saload.Flags(flag.CommandLine)
	eventFlags    = events.Flags(flag.CommandLine)
	repairFlags   = repair.Flags(flag.CommandLine)
	takeoverFlags = takeover.Flags(flag.CommandLine)
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A part of the measurements.
type part struct {
	name    string
	asked   bool  // it runs only if -only names it
	sizes   []int // without -hosts; none: those that -hosts has by default
	measure func(b *testbed.Testbed, sizes []int) error
}

var parts = []part{
	{name: "bringup", measure: bringup.Measure},
	{name: "phases", measure: bringup.Phases},
	{name: "compute", measure: routing.Compute},
	{name: "rate", measure: simrate.Measure},
	{name: "memory", measure: unsized(bringup.Memory)},
	{name: "packets", measure: unsized(packets.Measure)},
	{name: "sa", sizes: []int{648, 11664}, measure: saload.Measure},
	{name: "moves", measure: unsized(moves.Measure)},
	{name: "attached", asked: true, sizes: []int{648}, measure: func(b *testbed.Testbed, sizes []int) error {
		return saload.Attached(b, attachedFlags, sizes)
	}},
	{name: "counters", asked: true, sizes: []int{11664}, measure: counters.Measure},
	{name: "repair", asked: true, measure: unsized(func(b *testbed.Testbed) error { return repair.Measure(b, repairFlags) })},
	{name: "routes", asked: true, measure: routing.Compare},
	{name: "stampede", asked: true, sizes: []int{11664}, measure: func(b *testbed.Testbed, sizes []int) error {
		return stampede.Measure(b, stampede.Options{Base: *base, Others: *others}, sizes)
	}},
	{name: "takeover", asked: true, sizes: []int{648, 11664}, measure: func(b *testbed.Testbed, sizes []int) error {
		return takeover.Measure(b, takeoverFlags, sizes)
	}},
	{name: "restart", asked: true, measure: func(b *testbed.Testbed, sizes []int) error {
		return takeover.Restart(b, *base, sizes)
	}},
	{name: "events", asked: true, sizes: []int{648}, measure: func(b *testbed.Testbed, sizes []int) error {
		return events.Measure(b, eventFlags, sizes)
	}},
	{name: "joins", asked: true, sizes: []int{648}, measure: joins.Measure},
}

// unsized is a part that has sizes of its own.
func unsized(measure func(*testbed.Testbed) error) func(*testbed.Testbed, []int) error {
	return func(b *testbed.Testbed, _ []int) error { return measure(b) }
}

func run() error {
	if ran, err := events.Manager(eventFlags); ran {
		return err
	}
	bin, err := filepath.Abs(*heddle)
	if err != nil {
		return err
	}
	if _, err := os.Stat(bin); err != nil {
		return fmt.Errorf("build first: %w", err)
	}
	dir, err := os.MkdirTemp("", "heddle-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := testbed.New(bin, dir)
	b.Limit, b.Runs = *limit, max(1, *runs)
	if *only != "packets" { // which has no peers
		if err := b.FindPeers(); err != nil {
			return err
		}
	}
	var sizes []int
	for s := range strings.SplitSeq(*hosts, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-hosts: %w", err)
		}
		sizes = append(sizes, n)
	}
	fmt.Printf("%s/%s, %d cores, %s, %s; medians of %d.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		runtime.Version(), time.Now().Format(time.DateOnly), b.Runs)
	for i := range parts {
		p := &parts[i]
		if *only == "" && p.asked || *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		begin := time.Now()
		of := sizes
		if p.sizes != nil && !given("hosts") {
			of = p.sizes
		}
		if err := p.measure(b, of); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", p.name, time.Since(begin).Seconds())
	}
	return nil
}

// given reports whether a flag is on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
