// Package routing measures engines: their time, their lanes and the load of their routes.
package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"heddle/internal/bench/testbed"
)

// routed describes one engine's tables on one net.
type routed struct {
	Engine  string  `json:"engine"`
	Seconds float64 `json:"seconds_compute"`
	Verify  float64 `json:"seconds_verify"`
	Lanes   int     `json:"vls_used"`
	MaxLoad float64 `json:"max_channel_load"`
	RSS     float64 `json:"bytes_rss"`
	Pattern *struct {
		Shift     float64 `json:"shift_mean_max_load"`
		Random    float64 `json:"random_max_load"`
		Bisection float64 `json:"effective_bisection"`
	} `json:"patterns"`

	failed string // why there are no tables
}

// dumpLimit is the size of the largest net whose OpenSM tables are dumped and
// verified: the dumps of larger ones are gigabytes.
const dumpLimit = 5832

// Compare compares engines: time, lanes, load under patterns, memory. OpenSM
// routes the net on the simulator and dumps its tables, which go through the
// same measure as ours.
func Compare(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("Routes by engine", "hosts", "engine", "manager", "compute", "verify", "lanes",
		"max load, all to all", "shifts", "random permutations", "effective bisection", "peak memory")
	worst := map[string]float64{}
	for _, n := range sizes {
		net, err := b.Netlist(n)
		if err != nil {
			return err
		}
		for _, e := range []string{"minhop", "updn", "ftree", "lash", "dfsssp", "nue"} {
			ours, err := ourRoutes(b, b.Runs, net, "--engine", e, "--patterns")
			if err != nil {
				return fmt.Errorf("heddle, %s: %w", e, err)
			}
			theirs, err := theirRoutes(b, net, e, n <= dumpLimit)
			if err != nil {
				return fmt.Errorf("OpenSM, %s: %w", e, err)
			}
			row(t, n, e, "heddle", &ours)
			row(t, n, e, "OpenSM", &theirs)
			if theirs.MaxLoad > 0 && ours.MaxLoad > 0 {
				worst[e] = max(worst[e], ours.MaxLoad/theirs.MaxLoad)
			}
		}
	}
	fmt.Println()
	for _, e := range []string{"minhop", "updn", "ftree", "lash", "dfsssp", "nue"} {
		if worst[e] > 0 {
			fmt.Printf("%s: maximum channel load at most %.3f of OpenSM's.\n", e, worst[e])
		}
	}
	return irregular(b)
}

// irregular compares the maximum channel load on random nets: the median over
// five seeds.
func irregular(b *testbed.Testbed) error {
	t := testbed.NewTable("Maximum channel load on irregular nets of 32 switches, all to all, five seeds",
		"engine", "heddle ÷ OpenSM, median", "lanes, heddle", "lanes, OpenSM")
	for _, e := range []string{"minhop", "updn", "lash", "dfsssp", "nue"} {
		var ratio, ours, theirs []float64
		for seed := range 5 {
			text, err := testbed.Output(b.Dir, nil, b.Heddle, "topo", "gen", "irregular", "32", "--seed", strconv.Itoa(seed+1))
			if err != nil {
				return err
			}
			net := filepath.Join(b.Dir, fmt.Sprintf("irregular%d.net", seed))
			if err := os.WriteFile(net, text, 0o644); err != nil {
				return err
			}
			// Without given roots OpenSM's updn installs min-hop tables.
			var args []string
			ours2 := []string{"--engine", e}
			if e == "updn" {
				root := filepath.Join(b.Dir, "root")
				if err := os.WriteFile(root, []byte("0x200000\n"), 0o644); err != nil {
					return err
				}
				args, ours2 = []string{"-a", root}, append(ours2, "--roots", root)
			}
			x, err := ourRoutes(b, b.Runs, net, ours2...)
			if err != nil {
				return fmt.Errorf("heddle, %s: %w", e, err)
			}
			y, err := theirRoutes(b, net, e, true, args...)
			if err != nil {
				return fmt.Errorf("OpenSM, %s: %w", e, err)
			}
			if x.MaxLoad > 0 && y.MaxLoad > 0 {
				ratio = append(ratio, x.MaxLoad/y.MaxLoad)
				ours, theirs = append(ours, float64(x.Lanes)), append(theirs, float64(y.Lanes))
			}
		}
		if len(ratio) == 0 {
			t.Row("%s|one of the two has no tables||", e)
			continue
		}
		said := "as many as there are"
		if n := testbed.Median(theirs); n > 0 {
			said = fmt.Sprintf("%.0f", n)
		}
		t.Row("%s|%.3f|%.0f|%s", e, testbed.Median(ratio), testbed.Median(ours), said)
	}
	return nil
}

func row(t testbed.Table, n int, engine, who string, r *routed) {
	if r.failed != "" {
		t.Row("%d|%s|%s|%s||||||", n, engine, who, r.failed)
		return
	}
	num := func(v float64, form string) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(form, v)
	}
	shift, random, bisection := 0.0, 0.0, 0.0
	if p := r.Pattern; p != nil {
		shift, random, bisection = p.Shift, p.Random, p.Bisection
	}
	t.Row("%d|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s", n, engine, who, num(r.Seconds, "%.4f s"), num(r.Verify, "%.4f s"), num(float64(r.Lanes), "%.0f"),
		num(r.MaxLoad, "%.0f"), num(shift, "%.2f"), num(random, "%.2f"), num(bisection, "%.3f"), num(r.RSS/(1<<20), "%.0f MiB"))
}

// ourRoutes runs `heddle route`; the median time of the runs counts. Tables
// that do not verify are no failure here: min-hop has cycles where OpenSM's
// has.
func ourRoutes(b *testbed.Testbed, runs int, net string, args ...string) (r routed, err error) {
	var secs []float64
	for range runs {
		r = routed{}
		out, err := testbed.Output(b.Dir, nil, b.Heddle, append([]string{"route", "--netlist", net, "--json"}, args...)...)
		if jerr := json.Unmarshal(out, &r); jerr != nil {
			if err == nil {
				return r, jerr
			}
			r.failed = "refused"
			return r, nil
		}
		secs = append(secs, r.Seconds)
		if r.Seconds > testbed.Short.Seconds()/4 {
			break
		}
	}
	r.Seconds = testbed.Median(secs)
	return r, nil
}

// theirRoutes lets OpenSM route a net on a fresh simulator.
func theirRoutes(b *testbed.Testbed, net, engine string, dump bool, args ...string) (r routed, err error) {
	s, name, err := b.Simulate("heddle sim", net)
	if err != nil {
		return r, err
	}
	defer s.Stop(syscall.SIGKILL)
	tmp, err := os.MkdirTemp(b.Dir, "routes")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(tmp)
	conf := filepath.Join(tmp, "conf")
	// By default Nue uses one lane; using all available lanes requires QoS.
	if err := os.WriteFile(conf, []byte("nue_max_num_vls 0\n"), 0o644); err != nil {
		return r, err
	}
	if engine == "nue" {
		args = append(args, "-Q")
	}
	log, level := filepath.Join(tmp, "log"), "0x07"
	if dump {
		level = "0x47"
	}
	p, err := b.StartOpenSM(tmp, name, "", append([]string{"-o", "-e", "-F", conf, "-f", log, "-D", level, "-R", engine}, args...)...)
	if err != nil {
		return r, err
	}
	took, err := p.Await("Exiting SM", b.Limit)
	if err != nil {
		r.RSS = p.Stop(syscall.SIGKILL) * (1 << 20)
		if errors.Is(err, testbed.ErrLimit) {
			r.failed, err = fmt.Sprintf("> %.0f s", took.Seconds()), nil
		}
		return r, err
	}
	mem := p.Stop(syscall.SIGINT) * (1 << 20)
	phases, err := testbed.OpenSMPhases(log)
	if err != nil {
		return r, err
	}
	if dump {
		if r, err = ourRoutes(b, 1, net, "--engine", "file", "--fdbs", filepath.Join(tmp, "opensm-lfts.dump"), "--patterns"); err != nil {
			return r, err
		}
	}
	r.Verify, r.RSS, r.Seconds = 0, mem, phases["route"]
	r.Lanes = 0
	if engine != "nue" { // the log does not say
		r.Lanes, err = lanesSaid(log)
	}
	return r, err
}

var (
	lanesNeeded = regexp.MustCompile(`Virtual Lanes needed: (\d+)`)
	lashLayer   = regexp.MustCompile(`Lanes in layer (\d+): [1-9]`)
)

// lanesSaid is the number of lanes that OpenSM's routes use according to its
// log: its dumps have no service levels when it ends after a sweep.
func lanesSaid(log string) (int, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return 0, err
	}
	most := 1
	for _, m := range lanesNeeded.FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		most = max(most, n)
	}
	for _, m := range lashLayer.FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		most = max(most, n+1)
	}
	return most, nil
}
