package main

import (
	"encoding/json"
	"fmt"
)

// compute measures routing alone; OpenSM's share of it is in its phases.
func (b *bench) compute(sizes []int) error {
	t := b.table("Routes, computed and proved", "fabric", "engine", "switches", "LIDs", "compute", "verify", "peak memory")
	row := func(name, engine string, args ...string) error {
		var secs, verify, mem []float64
		var r struct {
			Switches int     `json:"switches"`
			LIDs     int     `json:"lids"`
			Compute  float64 `json:"seconds_compute"`
			Verify   float64 `json:"seconds_verify"`
			RSS      float64 `json:"bytes_rss"`
		}
		for range b.runs {
			out, err := output(b.dir, nil, b.bin, append([]string{"route", "--engine", engine, "--json"}, args...)...)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(out, &r); err != nil {
				return err
			}
			secs, verify, mem = append(secs, r.Compute), append(verify, r.Verify), append(mem, r.RSS/(1<<20))
		}
		t.row("%s|%s|%d|%d|%.4f s|%.4f s|%.0f MiB", name, engine, r.Switches, r.LIDs, mid(secs), mid(verify), mid(mem))
		return nil
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
	full, err := b.net(fullHosts)
	if err != nil {
		return err
	}
	return row(fmt.Sprintf("full subnet: %d hosts × 17 LIDs", fullHosts), "minhop", "--netlist", full, "--lids-per-port", "17")
}

// fullHosts is the size of a tree whose hosts, with many LIDs each, fill the
// LID space.
const fullHosts = 2853

// memory measures the simulator with nearly all 49,151 LIDs in use: a manager
// brings up a tree in which every host has 16.
func (b *bench) memory([]int) error {
	net, err := b.net(fullHosts)
	if err != nil {
		return err
	}
	t := b.table("A full subnet", "fabric", "LIDs", "time", "SMPs", "peak memory of the manager", "of heddle sim")
	r, err := b.bringUp("heddle", "heddle sim", net, false, "--lmc", "4")
	if err != nil {
		return err
	}
	switches := 648
	t.row("%d hosts, LMC 4, %d switches|%d|%v|%d|%.0f MiB|%.0f MiB", fullHosts, switches, fullHosts*16+switches, r, r.smps, r.mib, r.simMiB)
	return nil
}
