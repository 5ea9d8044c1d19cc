package exporter

import (
	"strings"

	"heddle/ib"
	"heddle/perf"
)

// guilbaults writes the names of that exporter: those of the specification in small letters. Data
// is in words of 4 bytes, as ibqueryerrors has it.
func (x *writer) guilbaults() {
	for c := range perf.NumCounters {
		name := "infiniband_" + strings.ToLower(c.String()) + "_total"
		for _, sw := range []bool{true, false} { // one family: only the first begins it
			x.both(name, c.String(), sw, c)
		}
	}
	for k, field := range []string{
		"PortLocalPhysicalErrors", "PortMalformedPktErrors", "PortBufferOverrunErrors", "PortDLIDMappingErrors", "PortVLMappingErrors", "PortLoopingErrors",
	} {
		x.bothDetails(field, func(d *perf.Details) (uint64, bool) { return d.Rcv[k], d.RcvAt != 0 })
	}
	for k, field := range []string{"PortInactiveDiscards", "PortNeighborMTUDiscards", "PortSwLifetimeLimitDiscards", "PortSwHOQLifetimeLimitDiscards"} {
		x.bothDetails(field, func(d *perf.Details) (uint64, bool) { return d.Discards[k], d.DiscardsAt != 0 })
	}
	for _, f := range []struct {
		name, help string
		value      func(i int32) float64
	}{
		{"infiniband_speed", "Link current speed per lane.", func(i int32) float64 { return perf.SpeedOf(x.r.Snap, i).LaneGbps() }},
		{"infiniband_width", "Lanes per link.", func(i int32) float64 { return float64(x.r.Snap.Ports[i].Info.LinkWidthActive.Lanes()) }},
	} {
		x.family(f.name, "gauge", f.help)
		for k := range x.list {
			if p := &x.list[k]; perf.SpeedOf(x.r.Snap, p.i) != ib.SpeedNone {
				x.gauge(f.name, p.labels, f.value(p.i))
			}
		}
	}
	if x.o.Shard == 0 {
		x.family("infiniband_scrape_ok", "gauge", "Indicates with a 1 if the scrape was successful and complete")
		ok := uint64(0)
		if x.r.Status.Silent == 0 {
			ok = 1
		}
		x.count("infiniband_scrape_ok", nil, ok)
		x.family("infiniband_scrape_duration_seconds", "gauge", "Number of seconds taken to collect and parse the stats.")
		x.gauge("infiniband_scrape_duration_seconds", nil, x.r.Status.LastRound.Seconds())
		x.family("infiniband_ibqueryerrors_duration_seconds", "gauge", "Number of seconds taken to read the counters.")
		x.gauge("infiniband_ibqueryerrors_duration_seconds", nil, x.r.Status.LastRound.Seconds())
	}
}

// both writes the samples of switches or of the others into a family.
func (x *writer) both(name, help string, sw bool, c perf.Counter) {
	if sw {
		x.family(name, "counter", help)
	}
	for k := range x.list {
		p := &x.list[k]
		if p.sw != sw || !x.r.Has(p.i, c) {
			continue
		}
		if v, ok := x.shown(p.i, c); ok {
			x.count(name, p.labels, v)
		}
	}
}

func (x *writer) bothDetails(field string, value func(*perf.Details) (uint64, bool)) {
	name := "infiniband_" + strings.ToLower(field) + "_total"
	begun := false
	for k := range x.list {
		p := &x.list[k]
		d := x.r.Details(p.i)
		if d == nil {
			continue
		}
		v, ok := value(d)
		if !ok {
			continue
		}
		if !begun {
			begun = true
			x.family(name, "counter", field)
		}
		x.count(name, p.labels, v)
	}
}
