package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/lab/experiment"
)

const (
	// lashLimit bounds one sweep of OpenSM: 14 s at 400 switches.
	lashLimit = 4 * time.Minute
	// trapAgain is when a switch repeats its trap, and some time for OpenSM to take it.
	trapAgain = 3 * time.Second
)

var (
	lashSwept = `-> SUBNET UP`
	lashLanes = regexp.MustCompile(`Lanes in layer (\d+): (\d+)`)
)

// Lash implements experiment.Peer with OpenSM. Its log says how many pairs of switches are in each
// lane, before and after it balances them.
func (r *floodTestbed) Lash(f *fabric.Fabric, node string, port int) (x experiment.PeerLanes, err error) {
	s, err := r.serve(f)
	if err != nil {
		return x, err
	}
	defer s.Stop()
	if err := s.opensm("-R", "lash"); err != nil {
		return x, err
	}
	sim, sm := s.procs[0], s.procs[1]
	up, err := sm.Await(lashSwept, 0, lashLimit)
	if err != nil {
		return x, err
	}
	if _, x.Before, err = lanesIn(sm.Output()[:up]); err != nil {
		return x, err
	}
	if _, err := fmt.Fprintf(sim.In, "link down %s[%d]\n", node, port); err != nil {
		return x, err
	}
	began := time.Now()
	at, err := sm.Await(lashSwept, up, lashLimit)
	if err != nil {
		return x, err
	}
	first := time.Now()
	if x.Fitted, x.After, err = lanesIn(sm.Output()[up:at]); err != nil {
		return x, err
	}
	x.Sweeps = 1
	// It sweeps again if a trap that was to take the cable is repeated.
	if _, err := sm.Await(lashSwept, at, trapAgain+2*first.Sub(began)); err == nil {
		x.Sweeps, x.Apart = 2, time.Since(first)
	}
	return x, nil
}

// lanesIn reads the last routing in a part of OpenSM's log.
func lanesIn(log string) (fitted, balanced []int, err error) {
	for l := range strings.SplitSeq(log, "\n") {
		switch m := lashLanes.FindStringSubmatch(l); {
		case strings.Contains(l, "Lanes needed"):
			fitted, balanced = balanced, nil
		case m != nil:
			if m[1] == "0" {
				balanced = nil
			}
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, nil, err
			}
			balanced = append(balanced, n)
		}
	}
	if len(fitted) == 0 || len(balanced) != len(fitted) {
		return nil, nil, fmt.Errorf("OpenSM's log does not say how many pairs are in each lane:\n%s", log)
	}
	return fitted, balanced, nil
}
