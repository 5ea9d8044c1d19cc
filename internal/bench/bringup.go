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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	sims     = []string{"heddle sim", "ibsim"}
	managers = []string{"heddle", "OpenSM"}
)

// result of one bring-up.
type result struct {
	took   time.Duration
	mib    float64 // peak of the manager
	simMiB float64 // peak of the simulator
	smps   uint64  // 0: unknown
	over   bool    // it took longer than the limit
	phases map[string]float64
}

func (r result) String() string {
	if r.over {
		return fmt.Sprintf("> %.0f s", r.took.Seconds())
	}
	return fmt.Sprintf("%.3g s", r.took.Seconds())
}

// bringUp measures one manager on one fresh simulator; further arguments go to
// the manager. OpenSM logs to its standard output, flushed by line, because
// nothing else shows when it is ready. That is a dozen lines; with detail they
// are so many that they go to a file, and OpenSM ends after the sweep.
func (b *bench) bringUp(manager, sim, net string, detail bool, args ...string) (r result, err error) {
	s, name, err := b.serve(sim, net)
	if err != nil {
		return r, err
	}
	defer func() {
		mib := s.stop(syscall.SIGKILL)
		if r.simMiB == 0 {
			r.simMiB = mib
		}
	}()
	tmp, err := os.MkdirTemp(b.dir, "run")
	if err != nil {
		return r, err
	}
	api, log := filepath.Join(tmp, "api"), filepath.Join(tmp, "log")
	ready := "SUBNET UP"
	var p *program
	if manager == "heddle" {
		p, err = launch(b.dir, nil, b.bin, append([]string{"sm", "--port", "ibsim:@" + name, "--api", "", "--api-socket", api}, args...)...)
	} else {
		how := []string{b.opensm, "-d", "2", "-f", "stdout"}
		if detail {
			how = []string{b.opensm, "-o", "-e", "-f", log, "-D", "0x07"}
			ready = "Exiting SM"
		}
		p, err = launch(tmp, []string{"IBSIM_SOCKNAME=" + name, "OSM_TMP_DIR=" + tmp, "OSM_CACHE_DIR=" + tmp, "LD_PRELOAD="},
			"ibsim-run", append(how, args...)...)
	}
	if err != nil {
		return r, err
	}
	r.took, err = p.await(ready, b.limit)
	if err != nil {
		r.mib = p.stop(syscall.SIGKILL)
		r.over = errors.Is(err, errLimit)
		if r.over {
			err = nil
		}
		return r, err
	}
	switch {
	case manager == "heddle":
		r.phases, err = ourPhases(api)
	case detail:
		p.stop(syscall.SIGINT)
		r.phases, err = theirPhases(log)
	}
	if err == nil && !detail {
		r.smps, err = b.count(s, sim, name)
	}
	r.mib = p.stop(syscall.SIGINT)
	return r, err
}

var (
	smpsSaid = regexp.MustCompile(`smps (\d+)`)
	pktsSaid = regexp.MustCompile(`PortXmitPkts:\.*(\d+)`)
)

// count reads from the simulator how many SMPs were answered: heddle sim counts
// its agents' responses, ibsim the packets that left the manager's port (so
// without the few that the manager's own node answered).
func (b *bench) count(s *program, sim, name string) (uint64, error) {
	var said string
	re := smpsSaid
	if sim == "ibsim" {
		re = pktsSaid
		// ibsim's preload library waits forever for a lost response.
		for try := 0; ; try++ {
			out, err := output(b.dir, []string{"IBSIM_SOCKNAME=" + name, "LD_PRELOAD="}, "timeout", "5", "ibsim-run", "perfquery", "-x")
			if err == nil {
				said = string(out)
				break
			}
			if try == 2 {
				return 0, nil
			}
		}
	} else {
		if _, err := fmt.Fprintln(s.In, "stats"); err != nil {
			return 0, err
		}
		if _, err := s.await("smps ", time.Minute); err != nil {
			return 0, err
		}
		// The number may still be in the pipe; the line after it is not empty.
		if _, err := s.await("traps ", time.Minute); err != nil {
			return 0, err
		}
		said = s.Output()
	}
	m := re.FindStringSubmatch(said)
	if m == nil {
		return 0, fmt.Errorf("no count in %q", said)
	}
	return strconv.ParseUint(m[1], 10, 64)
}

// ourPhases reads the durations of the manager's sweep phases, in seconds.
func ourPhases(socket string) (map[string]float64, error) {
	c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	defer c.CloseIdleConnections()
	resp, err := c.Get("http://localhost/v1/status")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var st struct {
		Last struct {
			Phases map[string]float64 `json:"phases"`
		} `json:"last_sweep"`
	}
	err = json.NewDecoder(resp.Body).Decode(&st)
	return st.Last.Phases, err
}

// marks are the lines of OpenSM's log that end its phases. Those from
// "discover" on need -D 0x07.
var marks = []struct{ phase, text string }{
	{"start", "INITIATING HEAVY SWEEP"},
	{"discover", "HEAVY SWEEP COMPLETE"},
	{"assign", "LID ASSIGNMENT COMPLETE - STARTING SWITCH TABLE CONFIG"},
	{"", "building routing with"},
	{"route", "tables configured on all switches"},
	{"distribute", "SWITCHES CONFIGURED FOR UNICAST"},
	{"links", "LINKS PORTS CONFIGURED - SET LINKS TO ARMED STATE"},
	{"arm", "LINKS ARMED - SET LINKS TO ACTIVE STATE"},
	{"activate", "-> SUBNET UP"},
}

// theirPhases reads OpenSM's log. A banner has no time of its own: that of
// the entry that it belongs to counts.
func theirPhases(log string) (map[string]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	phases := map[string]float64{}
	var now, last time.Time
	next := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if t, ok := stamp(line); ok {
			now = t
		}
		for i := next; i < len(marks); i++ {
			if !strings.Contains(line, marks[i].text) {
				continue
			}
			if !last.IsZero() && marks[i].phase != "" {
				phases[marks[i].phase] += now.Sub(last).Seconds()
			}
			last, next = now, i+1
			break
		}
	}
	return phases, nil
}

// stamp reads "Nov 21 05:43:46 619702 [".
func stamp(line string) (time.Time, bool) {
	if len(line) < 24 || line[22:24] != " [" {
		return time.Time{}, false
	}
	t, err := time.Parse("Jan _2 15:04:05 000000", line[:22])
	if err != nil {
		t, err = time.Parse("Jan _2 15:04:05", line[:15])
		us, err2 := strconv.Atoi(line[16:22])
		if err != nil || err2 != nil {
			return t, false
		}
		t = t.Add(time.Duration(us) * time.Microsecond)
	}
	return t, true
}

// pair brings the same net up with both managers in turn, so that other load of
// the machine affects both, and returns the median runs. A long run is not
// repeated.
func (b *bench) pair(sim, net string, detail bool, args [2][]string) (mids [2]result, err error) {
	var all [2][]result
	var long [2]bool
	for range b.runs {
		for i, m := range managers {
			if long[i] {
				continue
			}
			r, err := b.bringUp(m, sim, net, detail, args[i]...)
			if err != nil {
				return mids, fmt.Errorf("%s on %s, %s: %w", m, sim, filepath.Base(net), err)
			}
			all[i] = append(all[i], r)
			long[i] = r.over || r.took > short || detail && r.took > short/4
		}
	}
	for i := range all {
		slices.SortFunc(all[i], func(x, y result) int { return int(x.took - y.took) })
		mids[i] = all[i][len(all[i])/2]
		for _, r := range all[i] { // peaks of all runs
			mids[i].mib, mids[i].simMiB = max(mids[i].mib, r.mib), max(mids[i].simMiB, r.simMiB)
		}
	}
	return mids, nil
}

// bringUps measures the time from the start of a manager until it prints SUBNET
// UP.
func (b *bench) bringUps(sizes []int) error {
	t := b.table("Bring-up, from the start of the manager to SUBNET UP",
		"hosts", "simulator", "manager", "time", "OpenSM ÷ heddle", "SMPs", "peak memory of the manager", "of the simulator")
	for _, n := range sizes {
		net, err := b.net(n)
		if err != nil {
			return err
		}
		for _, sim := range sims {
			mids, err := b.pair(sim, net, false, [2][]string{nil, {"-R", "minhop"}})
			if err != nil {
				return err
			}
			for i, r := range mids {
				ratio, smps := "", "-"
				if i == 1 {
					ratio = fmt.Sprintf("%.1f", r.took.Seconds()/mids[0].took.Seconds())
					if r.over {
						ratio = "> " + ratio
					}
				}
				if r.smps > 0 {
					smps = strconv.FormatUint(r.smps, 10)
				}
				t.row("%d|%s|%s|%v|%s|%s|%.0f MiB|%.0f MiB", n, sim, managers[i], r, ratio, smps, r.mib, r.simMiB)
			}
		}
	}
	return nil
}

// shownPhases are the columns of the phase table.
var shownPhases = []string{"discover", "assign", "route", "distribute", "links", "arm", "activate"}

// phases measures the phases of a bring-up. OpenSM's come from its log, whose
// verbosity slows this run of it slightly. One run suffices if the phases take
// seconds.
func (b *bench) phases(sizes []int) error {
	t := b.table("Phases of a bring-up on heddle sim",
		append([]string{"hosts", "engine", "manager"}, shownPhases...)...)
	for _, n := range sizes {
		net, err := b.net(n)
		if err != nil {
			return err
		}
		for _, e := range []string{"minhop", "updn"} {
			mids, err := b.pair("heddle sim", net, true, [2][]string{{"--engine", e}, {"-R", e}})
			if err != nil {
				return err
			}
			for i, r := range mids {
				cells := make([]string, len(shownPhases))
				for k, p := range shownPhases {
					cells[k] = "-"
					if s, ok := r.phases[p]; ok {
						cells[k] = fmt.Sprintf("%.3f s", s)
					}
				}
				if r.over {
					cells[0] = r.String()
				}
				t.row("%d|%s|%s|%s", n, e, managers[i], strings.Join(cells, "|"))
			}
		}
	}
	return nil
}
