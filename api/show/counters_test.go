package show

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/lab"
	"heddle/perf"
	"heddle/sim"
)

// counted is a round of 8 hosts in which one switch port has sent a quarter of what its link carries,
// with a few errors.
func counted(t *testing.T) (r *perf.Round, busy int32) {
	t.Helper()
	f, err := fabrictest.Generate("mport", []string{"4", "2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := lab.NewCluster(f, sim.Config{HopLatency: time.Microsecond})
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
	await := func(n uint64) {
		t.Helper()
		if err := c.RunUntil(time.Hour, func() bool { return m.Round() != nil && m.Round().Number >= n }); err != nil {
			t.Fatal(err)
		}
	}
	await(2)
	sw := slices.IndexFunc(f.Nodes[8:], func(n fabric.Node) bool { return n.IsSwitch() }) + 8
	r = m.Round()
	busy = portOf(r.Snap, f.Nodes[sw].GUID, 1)
	var x sim.Tally
	x.XmitWords = uint64(perf.DataGbps(r.Snap, busy) * 1e9 / 32 * 10 / 4) // a quarter in 10 s
	x.XmitPkts, x.XmitMulticast = 1e6, 5
	x.Errors[0], x.Errors[6] = 3, 4
	c.Sim.Count(sw, 1, &x)
	await(r.Number + 1)
	return m.Round(), busy
}

func TestCounters(t *testing.T) {
	r, busy := counted(t)
	p := r.Snap.Ports[busy]
	g := r.Snap.Nodes[p.Node].Info.NodeGUID.String()
	for _, by := range []string{"", "use", "discards", "errors"} {
		c, err := Counters(r, api.CountersQuery{By: by, Limit: 2})
		if err != nil || len(c.Ports) == 0 || len(c.Ports) > 2 {
			t.Fatalf("by %q: %d ports, %v", by, len(c.Ports), err)
		}
		if u := c.Ports[0]; u.GUID != g || u.Port != 1 || math.Abs(u.Xmit-0.25) > 0.001 || u.Errors["SymbolErrorCounter"] != 3 || u.Errors["PortXmitDiscards"] != 4 {
			t.Errorf("by %q the first is %+v", by, u)
		}
	}
	if _, err := Counters(r, api.CountersQuery{By: "name"}); err == nil {
		t.Error("an order that does not exist is taken")
	}
	if c, err := Counters(nil, api.CountersQuery{}); err != nil || c.Round != 0 {
		t.Errorf("before the first round: %+v, %v", c, err)
	}
	x, err := PortCounters(r, g, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c := x.Counters["PortXmitDiscards"]; c.Total != 4 || c.Delta != 4 || math.Abs(c.Rate-0.4) > 0.01 {
		t.Errorf("discards %+v", c)
	}
	if n := len(x.History); n < 2 || math.Abs(x.History[n-1].Xmit-0.25) > 0.01 || x.History[n-1].Errors != 7 || x.History[n-2].Errors != 0 {
		t.Errorf("history %+v", x.History)
	}
	host := r.Snap.Ports[portOf(r.Snap, r.Snap.Nodes[0].Info.NodeGUID, 1)]
	if x, err := PortCounters(r, host.GUID.String(), 1); err != nil || x.Description != "host-1" {
		t.Errorf("by port GUID: %q, %v", x.Description, err)
	}
	for _, c := range []struct {
		guid string
		num  int
	}{{"0x1234", 1}, {g, 9}, {g, 300}, {"x", 1}, {g, 0}} {
		if _, err := PortCounters(r, c.guid, c.num); err == nil {
			t.Errorf("port %d of %s has counters", c.num, c.guid)
		}
	}
	if _, err := PortCounters(nil, g, 1); err == nil {
		t.Error("there are counters before the first round")
	}
}

// TestRoundMeter: the page gets the share of each link that has been measured.
func TestRoundMeter(t *testing.T) {
	r, busy := counted(t)
	m := RoundMeter(func() *perf.Round { return r }).Measure()
	if m.Span != 10*time.Second || m.Source == "" {
		t.Errorf("%v of %q", m.Span, m.Source)
	}
	p := r.Snap.Ports[busy]
	i := slices.IndexFunc(m.Sent, func(s Sent) bool { return s.Node == r.Snap.Nodes[p.Node].Info.NodeGUID && s.Port == p.Num })
	if i < 0 || math.Abs(m.Sent[i].Share-0.25) > 0.001 || m.Sent[i].Gbps != 100 {
		t.Errorf("%d: %+v", i, m.Sent)
	}
	if m := RoundMeter(func() *perf.Round { return nil }).Measure(); len(m.Sent) > 0 {
		t.Error("something was measured before the first round")
	}
}

// TestCountersDump: the texts of OpenSM's performance manager (osm_perfmgr_db.c, dump_counters).
func TestCountersDump(t *testing.T) {
	r, busy := counted(t)
	when := time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)
	p := r.Snap.Ports[busy]
	node := &r.Snap.Nodes[p.Node]
	text := CountersDump(r, when, false)
	head := "\"" + node.Desc + "\" 0x" + strings.TrimLeft(strings.TrimPrefix(node.Info.NodeGUID.String(), "0x"), "0") + " active TRUE port 1 (Since Mon Nov  2 03:04:05 2026)\n"
	_, block, ok := strings.Cut(text, head)
	if !ok {
		t.Fatalf("no %q in\n%.500s", head, text)
	}
	for _, want := range []string{
		"     symbol_err_cnt       : 3\n", "     xmit_discards        : 4\n", "     link_integrity_err   : 0\n", "     multicast_xmit_pkts  : 5 (5.000)\n",
	} {
		if !strings.Contains(block[:900], want) {
			t.Errorf("no %q in\n%s", want, block[:900])
		}
	}
	if !strings.Contains(block[:900], "GB)\n") { // 7,812,500,000 words
		t.Errorf("data is not in GB:\n%s", block[:900])
	}
	mach := CountersDump(r, when, true)
	if !strings.HasPrefix(mach, "\nName\tGUID\tActive\tPort\tLast Reset\tsymbol_err_cnt\tlink_err_recover\tlink_downed\t") || !strings.Contains(mach, "\tlink_int_err\tbuf_overrun_err\t") {
		t.Errorf("%.300s", mach)
	}
	for line := range strings.Lines(mach) {
		if n := strings.Count(line, "\t"); n != 0 && n != 24 {
			t.Errorf("%d tabs in %q", n, line)
		}
	}
	if CountersDump(nil, when, false) != "" {
		t.Error("there is a dump before the first round")
	}
}
