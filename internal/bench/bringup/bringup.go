// Package bringup measures how long managers need for a subnet that is new to them, from their start
// until it is up: altogether, in phases, and with all LIDs in use.
package bringup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"heddle/internal/bench/testbed"
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
func bringUp(b *testbed.Testbed, manager, sim, net string, detail bool, args ...string) (r result, err error) {
	s, name, err := b.Simulate(sim, net)
	if err != nil {
		return r, err
	}
	defer func() {
		mib := s.Stop(syscall.SIGKILL)
		if r.simMiB == 0 {
			r.simMiB = mib
		}
	}()
	tmp, err := os.MkdirTemp(b.Dir, "run")
	if err != nil {
		return r, err
	}
	api, log := filepath.Join(tmp, "api"), filepath.Join(tmp, "log")
	ready := "SUBNET UP"
	var p *testbed.Program
	if manager == "heddle" {
		p, err = testbed.Launch(b.Dir, nil, b.Heddle, append([]string{"sm", "--port", "ibsim:@" + name, "--api", "", "--api-socket", api}, args...)...)
	} else {
		how := []string{"-d", "2", "-f", "stdout"}
		if detail {
			how = []string{"-o", "-e", "-f", log, "-D", "0x07"}
			ready = "Exiting SM"
		}
		p, err = b.StartOpenSM(tmp, name, "", append(how, args...)...)
	}
	if err != nil {
		return r, err
	}
	r.took, err = p.Await(ready, b.Limit)
	if err != nil {
		r.mib = p.Stop(syscall.SIGKILL)
		r.over = errors.Is(err, testbed.ErrLimit)
		if r.over {
			err = nil
		}
		return r, err
	}
	switch {
	case manager == "heddle":
		r.phases, err = ourPhases(api)
	case detail:
		p.Stop(syscall.SIGINT)
		r.phases, err = testbed.OpenSMPhases(log)
	}
	if err == nil && !detail {
		r.smps, err = count(b, s, sim, name)
	}
	r.mib = p.Stop(syscall.SIGINT)
	return r, err
}

var (
	smpsSaid = regexp.MustCompile(`smps (\d+)`)
	pktsSaid = regexp.MustCompile(`PortXmitPkts:\.*(\d+)`)
)

// count reads from the simulator how many SMPs were answered: heddle sim counts
// its agents' responses, ibsim the packets that left the manager's port (so
// without the few that the manager's own node answered).
func count(b *testbed.Testbed, s *testbed.Program, sim, name string) (uint64, error) {
	var said string
	re := smpsSaid
	if sim == "ibsim" {
		re = pktsSaid
		// ibsim's preload library waits forever for a lost response.
		for try := 0; ; try++ {
			out, err := testbed.Output(b.Dir, []string{"IBSIM_SOCKNAME=" + name, "LD_PRELOAD="}, "timeout", "5", "ibsim-run", "perfquery", "-x")
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
		if _, err := s.Await("smps ", time.Minute); err != nil {
			return 0, err
		}
		// The number may still be in the pipe; the line after it is not empty.
		if _, err := s.Await("traps ", time.Minute); err != nil {
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
	c := testbed.UnixClient(socket, 20*time.Second)
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

// pair brings the same net up with both managers in turn, so that other load of
// the machine affects both, and returns the median runs. A long run is not
// repeated.
func pair(b *testbed.Testbed, sim, net string, detail bool, args [2][]string) (mids [2]result, err error) {
	var all [2][]result
	var long [2]bool
	for range b.Runs {
		for i, m := range testbed.Managers {
			if long[i] {
				continue
			}
			r, err := bringUp(b, m, sim, net, detail, args[i]...)
			if err != nil {
				return mids, fmt.Errorf("%s on %s, %s: %w", m, sim, filepath.Base(net), err)
			}
			all[i] = append(all[i], r)
			long[i] = r.over || r.took > testbed.Short || detail && r.took > testbed.Short/4
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

// Measure measures the time from the start of a manager until it prints SUBNET
// UP.
func Measure(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("Bring-up, from the start of the manager to SUBNET UP",
		"hosts", "simulator", "manager", "time", "OpenSM ÷ heddle", "SMPs", "peak memory of the manager", "of the simulator")
	for _, n := range sizes {
		net, err := b.Netlist(n)
		if err != nil {
			return err
		}
		for _, sim := range testbed.Simulators {
			mids, err := pair(b, sim, net, false, [2][]string{nil, {"-R", "minhop"}})
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
				t.Row("%d|%s|%s|%v|%s|%s|%.0f MiB|%.0f MiB", n, sim, testbed.Managers[i], r, ratio, smps, r.mib, r.simMiB)
			}
		}
	}
	return nil
}

// shownPhases are the columns of the phase table.
var shownPhases = []string{"discover", "assign", "route", "distribute", "links", "arm", "activate"}

// Phases measures the phases of a bring-up. OpenSM's come from its log, whose
// verbosity slows this run of it slightly. One run suffices if the phases take
// seconds.
func Phases(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("Phases of a bring-up on heddle sim",
		append([]string{"hosts", "engine", "manager"}, shownPhases...)...)
	for _, n := range sizes {
		net, err := b.Netlist(n)
		if err != nil {
			return err
		}
		for _, e := range []string{"minhop", "updn"} {
			mids, err := pair(b, "heddle sim", net, true, [2][]string{{"--engine", e}, {"-R", e}})
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
				t.Row("%d|%s|%s|%s", n, e, testbed.Managers[i], strings.Join(cells, "|"))
			}
		}
	}
	return nil
}

// Memory measures the simulator with nearly all 49,151 LIDs in use: a manager
// brings up a tree in which every host has 16.
func Memory(b *testbed.Testbed) error {
	net, err := b.Netlist(testbed.FullHosts)
	if err != nil {
		return err
	}
	t := testbed.NewTable("A full subnet", "fabric", "LIDs", "time", "SMPs", "peak memory of the manager", "of heddle sim")
	r, err := bringUp(b, "heddle", "heddle sim", net, false, "--lmc", "4")
	if err != nil {
		return err
	}
	switches := 648
	t.Row("%d hosts, LMC 4, %d switches|%d|%v|%d|%.0f MiB|%.0f MiB", testbed.FullHosts, switches, testbed.FullHosts*16+switches, r, r.smps, r.mib, r.simMiB)
	return nil
}
