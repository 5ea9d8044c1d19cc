// Package packets runs the benchmarks of the data plane, and says whether they reach their goals.
package packets

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"heddle/internal/bench/testbed"
)

// goal is what the data plane must reach on this machine and what it aims at.
// Processor seconds count where the value is a rate, so that other programs on the
// machine matter less.
type goal struct {
	what      string
	unit      string
	must, aim float64
	less      bool // less is better
	value     func(m measured) float64
}

// measured are the metrics of a case of a benchmark, by case and unit: the medians
// of the runs.
type measured map[string]map[string]float64

// packetCases are the benchmarks of sim/dataplane that are run, with the number of
// steps. Large cases take half a minute each.
var packetCases = []struct {
	pkg, name string
	steps     int
}{
	{"wheel", "Hold/40k", 5_000_000},
	{"wheel", "Hold/150k", 5_000_000},
	{"", "Engine/72_uniform", 20},
	{"", "Engine/648_uniform", 50},
	{"", "Engine/648_shift", 50},
	{"", "Engine/11664_uniform", 10},
	{"", "Engine/11664_shift", 20},
	{"", "Engine/11664_shift_NDR", 20},
	{"", "Workers/11664_uniform_1", 10},
	{"", "Workers/11664_uniform_2", 10},
	{"", "Workers/11664_uniform_2_critical_path", 10},
	{"", "Idle", 1_000_000},
}

// packetGoals are those that docs/benchmarks.md states.
var packetGoals = []goal{
	{"event queue, 40,000 pending", "M operations/s", 15, 20, false, metric("Hold/40k", "M/cpu-s", 1)},
	{"event queue, 150,000 pending", "M operations/s", 0, 12, false, metric("Hold/150k", "M/cpu-s", 1)},
	{"648 hosts, uniform", "M events/s", 5, 8, false, metric("Engine/648_uniform", "Mevents/cpu-s", 1)},
	{"648 hosts, shift", "M events/s", 5, 8, false, metric("Engine/648_shift", "Mevents/cpu-s", 1)},
	{"648 hosts, shift: packets delivered", "M packets/s", 0, 0.8, false, metric("Engine/648_shift", "Mpackets/cpu-s", 1)},
	{"11,664 hosts, uniform", "M events/s", 2.5, 4, false, metric("Engine/11664_uniform", "Mevents/cpu-s", 1)},
	{"11,664 hosts, shift", "M events/s", 2.5, 4, false, metric("Engine/11664_shift", "Mevents/cpu-s", 1)},
	{"11,664 hosts, shift: packets delivered", "M packets/s", 0, 0.3, false, metric("Engine/11664_shift", "Mpackets/cpu-s", 1)},
	{"1 ms of 72 hosts, uniform", "s", 1, 0.3, true, metric("Engine/72_uniform", "cpu-s/ms", 1)},
	{"1 ms of 648 hosts, shift", "s", 3, 1.5, true, metric("Engine/648_shift", "cpu-s/ms", 1)},
	{"1 ms of 11,664 hosts, shift", "s", 120, 75, true, metric("Engine/11664_shift", "cpu-s/ms", 1)},
	{"0.1 ms of 11,664 hosts, NDR, 4 KiB, shift", "s", 80, 45, true, metric("Engine/11664_shift_NDR", "cpu-s/ms", 0.1)},
	{"memory of the process, 648 hosts", "MiB", 96, 64, true, metric("Engine/648_uniform", "peak MiB", 1)},
	{"memory of the process, 11,664 hosts", "MiB", 600, 400, true, metric("Engine/11664_uniform", "peak MiB", 1)},
	{"allocations in steady state, 11,664 hosts", "", 0.5, 0.5, true, metric("Engine/11664_shift", "allocs/op", 1)},
	{"two workers, 11,664 hosts, real time", "times one", 1.5, 1.7, false, ratio("s/ms", "Workers/11664_uniform_2", "s/ms")},
	{
		"two workers, 11,664 hosts, slower part", "times one", 1.5, 1.7, false,
		ratio("cpu-s/ms", "Workers/11664_uniform_2_critical_path", "critical-s/ms"),
	},
	{"a step without events, 11,664 hosts", "ns", 1000, 100, true, metric("Idle", "ns/op", 1)},
}

// metric is a metric of a case, times a factor.
func metric(of, unit string, times float64) func(measured) float64 {
	return func(m measured) float64 { return m[of][unit] * times }
}

// ratio is how much faster than one worker a case is.
func ratio(one, of, unit string) func(measured) float64 {
	return func(m measured) float64 {
		if m[of][unit] == 0 {
			return 0
		}
		return m["Workers/11664_uniform_1"][one] / m[of][unit]
	}
}

// verdict says whether a value reaches the goal.
func (g *goal) verdict(v float64) string {
	reaches := func(x float64) bool { return g.less && v <= x || !g.less && v >= x }
	switch {
	case reaches(g.aim):
		return "aim"
	case reaches(g.must) || g.must == 0:
		return "must"
	}
	return "**missed**"
}

// Measure runs the benchmarks of the data plane.
func Measure(b *testbed.Testbed) error {
	all := measured{}
	for _, c := range packetCases {
		bin := filepath.Join(b.Dir, "packets"+c.pkg+".test")
		if _, err := testbed.Output(".", nil, "go", "test", "-c", "-o", bin, "./"+filepath.Join("sim/dataplane", c.pkg)); err != nil {
			return err
		}
		values := map[string][]float64{}
		for begin, k := time.Now(), 0; k < b.Runs && (k == 0 || time.Since(begin) < testbed.Short); k++ {
			if err := runCase(bin, c.name, c.steps, values); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		all[c.name] = map[string]float64{}
		for unit, v := range values {
			all[c.name][unit] = testbed.Median(v)
		}
	}
	t := testbed.NewTable("Packets", "case", "must", "aim", "measured", "unit", "reaches")
	for i := range packetGoals {
		g := &packetGoals[i]
		v := g.value(all)
		must := num(g.must)
		if g.must == 0 {
			must = "-"
		}
		if g.unit == "" { // a number of things
			must, v = "0", float64(int(v))
			t.Row("%s|%s|0|%s||%s", g.what, must, num(v), g.verdict(v))
			continue
		}
		t.Row("%s|%s|%s|%s|%s|%s", g.what, must, num(g.aim), num(v), g.unit, g.verdict(v))
	}
	return nil
}

// num prints three digits, and all of a larger number.
func num(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// runCase runs a case once and adds its metrics, and the memory of the process.
func runCase(bin, name string, steps int, values map[string][]float64) error {
	parts := strings.Split(name, "/")
	var pattern strings.Builder
	pattern.WriteString("^Benchmark" + parts[0] + "$")
	for _, p := range parts[1:] {
		pattern.WriteString("/^" + p + "$")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.run", "^$", "-test.bench", pattern.String(), "-test.benchmem", "-test.benchtime", strconv.Itoa(steps)+"x")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s%s", err, testbed.Last(string(out)), testbed.Last(errOut.String()))
	}
	found := false
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		found = true
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			values[fields[i+1]] = append(values[fields[i+1]], v)
		}
	}
	if !found {
		return fmt.Errorf("no benchmark %s", pattern.String())
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		values["peak MiB"] = append(values["peak MiB"], float64(u.Maxrss)/1024)
	}
	return nil
}
