package routing

import (
	"encoding/json"
	"fmt"

	"heddle/internal/bench/testbed"
)

// Compute measures routing alone; OpenSM's share of it is in its phases.
func Compute(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable("Routes, computed and proved", "fabric", "engine", "switches", "LIDs", "compute", "verify", "peak memory")
	row := func(name, engine string, args ...string) error {
		var secs, verify, mem []float64
		var r struct {
			Switches int     `json:"switches"`
			LIDs     int     `json:"lids"`
			Compute  float64 `json:"seconds_compute"`
			Verify   float64 `json:"seconds_verify"`
			RSS      float64 `json:"bytes_rss"`
		}
		for range b.Runs {
			out, err := testbed.Output(b.Dir, nil, b.Heddle, append([]string{"route", "--engine", engine, "--json"}, args...)...)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(out, &r); err != nil {
				return err
			}
			secs, verify, mem = append(secs, r.Compute), append(verify, r.Verify), append(mem, r.RSS/(1<<20))
		}
		t.Row("%s|%s|%d|%d|%.4f s|%.4f s|%.0f MiB", name, engine, r.Switches, r.LIDs, testbed.Median(secs), testbed.Median(verify), testbed.Median(mem))
		return nil
	}
	for _, n := range sizes {
		net, err := b.Netlist(n)
		if err != nil {
			return err
		}
		for _, e := range []string{"minhop", "updn"} {
			if err := row(fmt.Sprintf("%d hosts", n), e, "--netlist", net); err != nil {
				return err
			}
		}
	}
	full, err := b.Netlist(testbed.FullHosts)
	if err != nil {
		return err
	}
	return row(fmt.Sprintf("full subnet: %d hosts × 17 LIDs", testbed.FullHosts), "minhop", "--netlist", full, "--lids-per-port", "17")
}
