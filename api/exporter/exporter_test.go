package exporter_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"heddle/api/exporter"
	"heddle/internal/fabrictest"
	"heddle/lab"
	"heddle/perf"
	"heddle/sim"
)

// polled is a round of a simulated subnet whose counters have moved, after some more of its kind.
func polled(t testing.TB, kind string, params ...string) *perf.Round {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	f.Nodes[0].Desc = `host "one"\`
	c, err := lab.NewCluster(f, sim.Config{ExtendedErrorCounters: true, HopLatency: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Attach(f.Nodes[0].Name(), lab.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeCounters(perf.Defaults())
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool { return m.Round() != nil }); err != nil {
		t.Fatal(err)
	}
	var x sim.Tally
	x.XmitWords, x.XmitPkts, x.RcvWords, x.RcvPkts = 1e15, 1e13, 2e15, 2e13
	x.Errors[0], x.Errors[12] = 7, 1e9 // symbol errors, waiting
	for i := range f.Nodes {
		for p := 1; p < len(f.Nodes[i].Ports); p++ {
			c.Sim.Count(i, p, &x)
		}
	}
	number := m.Round().Number
	if err := c.RunUntil(time.Minute, func() bool { return m.Round().Number > number+1 }); err != nil {
		t.Fatal(err)
	}
	return m.Round()
}

func write(t testing.TB, r *perf.Round, o exporter.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := exporter.Write(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNames: both sets of names are there, as a parser of Prometheus reads them, with the values of
// the round.
func TestNames(t *testing.T) {
	r := polled(t, "mport", "4", "2")
	for _, c := range []struct {
		names exporter.Names
		want  string
	}{
		{exporter.Treydock, `
infiniband_switch_port_transmit_data_bytes_total infiniband_switch_port_receive_data_bytes_total
infiniband_switch_port_transmit_packets_total infiniband_switch_port_receive_packets_total
infiniband_switch_port_unicast_transmit_packets_total infiniband_switch_port_unicast_receive_packets_total
infiniband_switch_port_multicast_transmit_packets_total infiniband_switch_port_multicast_receive_packets_total
infiniband_switch_port_symbol_error_total infiniband_switch_port_link_error_recovery_total
infiniband_switch_port_link_downed_total infiniband_switch_port_receive_errors_total
infiniband_switch_port_receive_remote_physical_errors_total infiniband_switch_port_receive_switch_relay_errors_total
infiniband_switch_port_transmit_discards_total infiniband_switch_port_transmit_constraint_errors_total
infiniband_switch_port_receive_constraint_errors_total infiniband_switch_port_local_link_integrity_errors_total
infiniband_switch_port_excessive_buffer_overrun_errors_total infiniband_switch_port_vl15_dropped_total
infiniband_switch_port_transmit_wait_total infiniband_switch_port_qp1_dropped_total
infiniband_switch_port_rate_bytes_per_second infiniband_switch_port_raw_rate_bytes_per_second
infiniband_switch_uplink_info infiniband_switch_info infiniband_switch_collect_duration_seconds
infiniband_switch_collect_error infiniband_switch_collect_timeout
infiniband_hca_port_transmit_data_bytes_total infiniband_hca_port_symbol_error_total infiniband_hca_rate_bytes_per_second
infiniband_hca_raw_rate_bytes_per_second infiniband_hca_uplink_info infiniband_hca_info
infiniband_exporter_collect_errors infiniband_exporter_collect_timeouts infiniband_exporter_last_execution
heddle_port_wait_ratio`},
		{exporter.Guilbaults, `
infiniband_linkdownedcounter_total infiniband_symbolerrorcounter_total infiniband_portxmitconstrainterrors_total
infiniband_portxmitdiscards_total infiniband_portxmitwait_total infiniband_portxmitdata_total infiniband_portrcvdata_total
infiniband_portxmitpkts_total infiniband_portrcvpkts_total infiniband_portrcverrors_total infiniband_portunicastxmitpkts_total
infiniband_portunicastrcvpkts_total infiniband_portmulticastxmitpkts_total infiniband_portmulticastrcvpkts_total
infiniband_portrcvremotephysicalerrors_total infiniband_linkerrorrecoverycounter_total infiniband_locallinkintegrityerrors_total
infiniband_vl15dropped_total infiniband_portrcvconstrainterrors_total infiniband_excessivebufferoverrunerrors_total
infiniband_speed infiniband_width infiniband_scrape_ok infiniband_scrape_duration_seconds`},
	} {
		text := write(t, r, exporter.Options{Names: c.names, Ended: time.Unix(1e9, 0)})
		p := expfmt.NewTextParser(model.LegacyValidation)
		families, err := p.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(c.want) {
			if families[name] == nil {
				t.Errorf("names %d: there is no %s", c.names, name)
			}
		}
	}
	text := write(t, r, exporter.Options{})
	first := r.Snap.Nodes[0]
	for _, want := range []string{
		`infiniband_hca_info{guid="` + first.Info.NodeGUID.String() + `",hca="host \"one\"\\",lid="1"} 1`,
		"infiniband_hca_rate_bytes_per_second{guid=\"" + first.Info.NodeGUID.String() + "\"} 1.25e+10",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	sums := map[string]uint64{}
	for i := range int32(r.Len()) {
		if p := r.Snap.Ports[i]; r.At(i) != 0 && r.Snap.Nodes[p.Node].SwitchIndex >= 0 {
			sums["data"] += 4 * r.Total(i, perf.XmitData)
			sums["symbols"] += r.Total(i, perf.SymbolErrors)
		}
	}
	if got := sum(t, text, "infiniband_switch_port_transmit_data_bytes_total"); got != sums["data"] || got < 4e15 {
		t.Errorf("%d bytes, want %d", got, sums["data"])
	}
	if got := sum(t, text, "infiniband_switch_port_symbol_error_total"); got != sums["symbols"] || got == 0 {
		t.Errorf("%d symbol errors, want %d", got, sums["symbols"])
	}
}

// sum adds up the samples of a family of whole numbers.
func sum(t *testing.T, text, name string) (n uint64) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+"{") {
			v := strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
			for _, d := range v {
				if d < '0' || d > '9' {
					t.Fatalf("%q is no whole number", line)
				}
			}
			var x uint64
			for _, d := range v {
				x = x*10 + uint64(d-'0')
			}
			n += x
		}
	}
	return n
}

// TestShards: every sample is in exactly one shard.
func TestShards(t *testing.T) {
	r := polled(t, "xgft", "2", "4,4", "1,2")
	for _, names := range []exporter.Names{exporter.Treydock, exporter.Guilbaults} {
		var parts []string
		for i := range 5 {
			parts = append(parts, samples(write(t, r, exporter.Options{Names: names, Shard: i, Of: 5}))...)
		}
		whole := samples(write(t, r, exporter.Options{Names: names}))
		slices.Sort(parts)
		slices.Sort(whole)
		if len(whole) == 0 || !slices.Equal(parts, whole) {
			t.Errorf("names %d: %d samples in shards, %d in all", names, len(parts), len(whole))
		}
	}
}

func samples(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

// TestSparse: error counters that were never above 0 are left out, and those that are new are 0
// once, so that the first error is seen.
func TestSparse(t *testing.T) {
	r := polled(t, "mport", "4", "2")
	text := write(t, r, exporter.Options{Sparse: true})
	if strings.Contains(text, "link_downed") || !strings.Contains(text, "infiniband_switch_port_multicast_receive_packets_total{") {
		t.Error("a counter of errors that is 0 is there, or one of traffic is not")
	}
	if sum(t, text, "infiniband_switch_port_symbol_error_total") == 0 {
		t.Error("symbol errors are left out")
	}
}

// TestNothing: before the first round nothing is written.
func TestNothing(t *testing.T) {
	if text := write(t, nil, exporter.Options{}); text != "" {
		t.Errorf("%q", text)
	}
}

// BenchmarkScrape writes one of 16 shards of the full subnet.
func BenchmarkScrape(b *testing.B) {
	r := polled(b, "fattree", "11664")
	var buf bytes.Buffer
	most, all := 0, 0
	for i := range 16 {
		n := len(write(b, r, exporter.Options{Shard: i, Of: 16}))
		most, all = max(most, n), all+n
	}
	i := 0
	for b.Loop() {
		buf.Reset()
		if err := exporter.Write(&buf, r, exporter.Options{Shard: i % 16, Of: 16}); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(most)/1e6, "MB-largest")
	b.ReportMetric(float64(all)/1e6, "MB-all")
}
