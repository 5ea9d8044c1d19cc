// Command bench compares Heddle with the programs that it replaces: OpenSM as
// the manager, ibsim as the simulator, each pair in the same run on the same
// fabric. It prints the tables of docs/benchmarks.md.
//
// A run that takes under 20 s is repeated and the median is shown; a longer one
// is made once, and one that exceeds the limit is shown as "> limit".
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	heddle = flag.String("heddle", "bin/heddle", "program to measure")
	hosts  = flag.String("hosts", "324,648,5832,11664", "fat trees to bring up")
	limit  = flag.Duration("limit", 2*time.Minute, "time limit of one run of a peer")
	runs   = flag.Int("runs", 5, "repetitions of runs under 20 s")
	only   = flag.String("only", "", "parts to run: some of bringup, phases, compute, rate, memory, packets, sa, moves, attached, repair, routes, stampede, takeover, restart, counters, events, joins (default all up to moves)")
	base   = flag.String("base", "", "program to compare with (stampede, restart)")
	others = flag.Float64("others", 0.1, "share of the processors that other programs may use (stampede)")
)

const short = 20 * time.Second

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	if ran, err := eventsMode(); ran {
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
	b := &bench{bin: bin, dir: dir, limit: *limit, runs: max(1, *runs), nets: map[int]string{}}
	if *only != "packets" { // which has no peers
		if b.opensm, err = find("opensm"); err != nil {
			return err
		}
		if b.ibsim, err = find("ibsim"); err != nil {
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
		runtime.Version(), time.Now().Format(time.DateOnly), b.runs)
	for _, part := range []struct {
		name string
		do   func([]int) error
	}{{"bringup", b.bringUps}, {"phases", b.phases}, {"compute", b.compute}, {"rate", b.rates}, {"memory", b.memory}, {"packets", b.packets}, {"sa", b.serveSA}, {"moves", b.moves}, {"attached", b.attached}, {"counters", b.counters}, {"repair", b.repair}, {"routes", b.routes}, {"stampede", b.stampedes}, {"takeover", b.takeover}, {"restart", b.restart}, {"events", b.events}, {"joins", b.joins}} {
		if *only == "" && slices.Contains([]string{"attached", "counters", "repair", "routes", "stampede", "takeover", "restart", "events", "joins"}, part.name) || *only != "" && !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		begin := time.Now()
		of := sizes
		if own := ownSizes[part.name]; own != nil && !given("hosts") {
			of = own
		}
		if err := part.do(of); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", part.name, time.Since(begin).Seconds())
	}
	return nil
}

// ownSizes are the sizes of parts with others than -hosts has by default.
var ownSizes = map[string][]int{
	"sa": saHosts, "counters": {11664}, "stampede": {11664}, "takeover": takeHosts, "attached": saHosts[:1], "events": saHosts[:1], "joins": saHosts[:1],
}

// given reports whether a flag is on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// find finds a peer, also outside a user's PATH.
func find(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	if p, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		return p, nil
	}
	return "", fmt.Errorf("%s is not installed; 'make deps' as root installs it", name)
}

type bench struct {
	bin, opensm, ibsim string
	dir                string
	limit              time.Duration
	runs               int
	nets               map[int]string
	n                  int
}

// table prints the rows of a table immediately.
type table struct{}

func (b *bench) table(title string, columns ...string) table {
	fmt.Printf("\n### %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	return table{}
}

// row prints one row; | separates the cells of the format.
func (table) row(format string, a ...any) {
	fmt.Println("| " + strings.ReplaceAll(fmt.Sprintf(format, a...), "|", " | ") + " |")
}

// net is the netlist of a fat tree.
func (b *bench) net(n int) (string, error) {
	if p := b.nets[n]; p != "" {
		return p, nil
	}
	text, err := output(b.dir, nil, b.bin, "topo", "gen", "fattree", strconv.Itoa(n))
	if err != nil {
		return "", err
	}
	p := filepath.Join(b.dir, fmt.Sprintf("tree%d.net", n))
	b.nets[n] = p
	return p, os.WriteFile(p, text, 0o644)
}

// serve starts a simulator on a net, under a socket name of its own.
func (b *bench) serve(sim, net string, args ...string) (*program, string, error) {
	b.n++
	name := fmt.Sprintf("bench%d-%d", os.Getpid(), b.n)
	if sim == "ibsim" {
		p, err := launch(b.dir, []string{"IBSIM_SOCKNAME=" + name}, b.ibsim, "-s", "-n", "-N", "20000", "-S", "3000", "-P", "200000", net)
		if err != nil {
			return nil, "", err
		}
		// It does not announce that it serves, so poll it.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			c, err := attach(name, 0)
			if err == nil {
				_, err = c.ask(1, time.Time{})
				c.close()
			}
			if err == nil {
				return p, name, nil
			}
			if time.Now().After(deadline) {
				p.stop(syscall.SIGKILL)
				return nil, "", err
			}
		}
	}
	p, err := launch(b.dir, nil, b.bin, append([]string{"sim", "--netlist", net, "--socket", name, "--ignore-lids"}, args...)...)
	if err != nil {
		return nil, "", err
	}
	if _, err := p.await("READY\n", time.Minute); err != nil {
		p.stop(syscall.SIGKILL)
		return nil, "", err
	}
	return p, name, nil
}

func mid(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
