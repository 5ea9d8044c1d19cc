// Command bench measures Heddle beside the programs that it replaces: OpenSM
// as the manager, ibsim as the simulator, each pair in the same run on the
// same fabric. It prints the tables of docs/benchmarks.md.
//
// A run that takes under 20 s is repeated and the median is shown; a longer
// one is made once, and one that passes the limit is shown as "> limit".
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

var (
	hosts = flag.String("hosts", "324,648,5832,11664", "fat trees to bring up")
	peers = flag.Bool("peers", false, "let slow peer runs take up to 30 minutes instead of 2")
	runs  = flag.Int("runs", 5, "runs of what takes under 20 s")
	only  = flag.String("only", "", "one of bringup, rate, compute")
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
	bin, err := filepath.Abs("bin/heddle")
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
	b := &bench{bin: bin, dir: dir, limit: 2 * time.Minute}
	if *peers {
		b.limit = 30 * time.Minute
	}
	fmt.Printf("%s/%s, %d cores, %s, %s\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly))
	var sizes []int
	for _, s := range strings.Split(*hosts, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-hosts: %w", err)
		}
		sizes = append(sizes, n)
	}
	for _, part := range []struct {
		name string
		do   func([]int) error
	}{{"bringup", b.bringUps}, {"compute", b.compute}, {"rate", b.rates}} {
		if *only != "" && *only != part.name {
			continue
		}
		if err := part.do(sizes); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

type bench struct {
	bin   string
	dir   string
	limit time.Duration
	nets  map[int]string
	n     int
}

// net is the netlist of a fat tree.
func (b *bench) net(n int) (string, error) {
	if p := b.nets[n]; p != "" {
		return p, nil
	}
	text, err := output(b.dir, b.bin, "topo", "gen", "fattree", strconv.Itoa(n))
	if err != nil {
		return "", err
	}
	p := filepath.Join(b.dir, fmt.Sprintf("tree%d.net", n))
	if b.nets == nil {
		b.nets = map[int]string{}
	}
	b.nets[n] = p
	return p, os.WriteFile(p, text, 0o644)
}

// serve starts a simulator on a net.
func (b *bench) serve(sim, net string) (*program, string, error) {
	b.n++
	name := fmt.Sprintf("bench%d-%d", os.Getpid(), b.n)
	if sim == "ibsim" {
		p, err := launch(b.dir, []string{"IBSIM_SOCKNAME=" + name}, "ibsim", "-s", "-n", "-N", "20000", "-S", "3000", "-P", "200000", net)
		if err != nil {
			return nil, "", err
		}
		// It says nothing when it serves, but a client waits for it.
		if _, err := output(b.dir, "env", "IBSIM_SOCKNAME="+name, "timeout", "60", "ibsim-run", "smpquery", "-D", "nodeinfo", "0"); err != nil {
			p.stop(syscall.SIGKILL)
			return nil, "", err
		}
		return p, name, nil
	}
	p, err := launch(b.dir, nil, b.bin, "sim", "--netlist", net, "--socket", name, "--ignore-lids")
	if err != nil {
		return nil, "", err
	}
	_, err = p.await("READY\n", time.Minute)
	return p, name, err
}

// result of one bring-up.
type result struct {
	took time.Duration
	mib  float64
	smps uint64 // 0 = not known
	over bool   // it took longer than the limit
}

func (r result) String() string {
	if r.over {
		return fmt.Sprintf("> %.0f s", r.took.Seconds())
	}
	return fmt.Sprintf("%.2f s", r.took.Seconds())
}

// bringUp measures one manager on one fresh simulator.
func (b *bench) bringUp(manager, sim, net string) (result, error) {
	s, name, err := b.serve(sim, net)
	if err != nil {
		return result{}, err
	}
	defer s.stop(syscall.SIGKILL)
	var p *program
	if manager == "heddle" {
		p, err = launch(b.dir, nil, b.bin, "sm", "--port", "ibsim:@"+name, "--api", "", "--log-level", "info")
	} else {
		tmp, err2 := os.MkdirTemp(b.dir, "osm")
		if err2 != nil {
			return result{}, err2
		}
		p, err = launch(b.dir, []string{"IBSIM_SOCKNAME=" + name, "OSM_TMP_DIR=" + tmp, "OSM_CACHE_DIR=" + tmp},
			"ibsim-run", "/usr/sbin/opensm", "-e", "-R", "minhop", "-f", filepath.Join(tmp, "log"))
	}
	if err != nil {
		return result{}, err
	}
	took, err := p.await("SUBNET UP", b.limit)
	if err == errLimit {
		return result{took: took, mib: p.stop(syscall.SIGKILL), over: true}, nil
	}
	if err != nil {
		p.stop(syscall.SIGKILL)
		return result{}, err
	}
	r := result{took: took}
	if sim != "ibsim" {
		r.smps = b.count(s)
	}
	r.mib = p.stop(syscall.SIGINT)
	return r, nil
}

// count asks our simulator how many SMPs its agents answered.
func (b *bench) count(s *program) uint64 {
	fmt.Fprintln(s.in, "stats")
	if _, err := s.await("smps ", 10*time.Second); err != nil {
		return 0
	}
	out, _ := s.output()
	m := regexp.MustCompile(`smps (\d+)`).FindStringSubmatch(out)
	n, _ := strconv.ParseUint(m[1], 10, 64)
	return n
}

// median of several bring-ups, of one if it is long.
func (b *bench) median(manager, sim, net string) (result, error) {
	var all []result
	for {
		r, err := b.bringUp(manager, sim, net)
		if err != nil {
			return r, err
		}
		all = append(all, r)
		if r.over || r.took > short || len(all) >= *runs {
			slices.SortFunc(all, func(x, y result) int { return int(x.took - y.took) })
			return all[len(all)/2], nil
		}
	}
}

func (b *bench) bringUps(sizes []int) error {
	fmt.Println("## Bring-up, from start to SUBNET UP")
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "hosts\tsimulator\tmanager\ttime\tSMPs\tpeak memory\tOpenSM / heddle")
	for _, n := range sizes {
		net, err := b.net(n)
		if err != nil {
			return err
		}
		for _, sim := range []string{"heddle sim", "ibsim"} {
			ours, err := b.median("heddle", sim, net)
			if err != nil {
				return err
			}
			theirs, err := b.median("opensm", sim, net)
			if err != nil {
				return err
			}
			more := ""
			if theirs.over {
				more = "> "
			}
			smps := func(r result) string {
				if r.smps == 0 {
					return "-"
				}
				return strconv.FormatUint(r.smps, 10)
			}
			fmt.Fprintf(t, "%d\t%s\theddle\t%v\t%s\t%.0f MiB\t\n", n, sim, ours, smps(ours), ours.mib)
			fmt.Fprintf(t, "%d\t%s\tOpenSM\t%v\t%s\t%.0f MiB\t%s%.1f\n", n, sim, theirs, smps(theirs), theirs.mib, more, theirs.took.Seconds()/ours.took.Seconds())
			t.Flush()
		}
	}
	fmt.Println()
	return nil
}

// compute measures routing alone; OpenSM's share of it is in its bring-up.
func (b *bench) compute(sizes []int) error {
	fmt.Println("## Routes, computed and proved")
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fabric\tengine\tLIDs\tcompute\tverify\tpeak memory")
	row := func(name, engine string, args ...string) error {
		var secs, verify, mem []float64
		var lids int
		for range *runs {
			out, err := output(b.dir, b.bin, append([]string{"route", "--engine", engine, "--json"}, args...)...)
			if err != nil {
				return err
			}
			var r struct {
				LIDs    int     `json:"lids"`
				Compute float64 `json:"seconds_compute"`
				Verify  float64 `json:"seconds_verify"`
				RSS     float64 `json:"bytes_rss"`
			}
			if err := json.Unmarshal(out, &r); err != nil {
				return err
			}
			lids = r.LIDs
			secs, verify, mem = append(secs, r.Compute), append(verify, r.Verify), append(mem, r.RSS/(1<<20))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.3f s\t%.3f s\t%.0f MiB\n", name, engine, lids, mid(secs), mid(verify), mid(mem))
		return t.Flush()
	}
	for _, n := range sizes {
		net, err := b.net(n)
		if err != nil {
			return err
		}
		for _, e := range []string{"minhop", "updn"} {
			if err := row(fmt.Sprintf("%d hosts", n), e, "--netlist", net); err != nil {
				return err
			}
		}
	}
	full, err := b.net(2853)
	if err != nil {
		return err
	}
	if err := row("full subnet", "minhop", "--netlist", full, "--lids-per-port", "17"); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

func mid(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
