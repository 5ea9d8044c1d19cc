package show

import (
	"math"
	"math/rand/v2"
	"reflect"
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

// TestWorst: each table is the head of the order of its name.
func TestWorst(t *testing.T) {
	r, busy := counted(t)
	for _, limit := range []int{1, 3, 100} {
		w := Worst(r, limit)
		for by, got := range map[string][]api.PortUse{"use": w.Use, "discards": w.Discards, "errors": w.Errors} {
			c, err := Counters(r, api.CountersQuery{By: by})
			if want := c.Ports[:min(limit, len(c.Ports))]; err != nil || !reflect.DeepEqual(got, want) || len(want) == 0 {
				t.Errorf("%s, %d: got %+v\nwant %+v, %v", by, limit, got, want, err)
			}
		}
		if w.Round != r.Number || w.Polled != r.Status.Ports || len(w.Wait) > 0 {
			t.Errorf("%+v", w)
		}
	}
	u := Worst(r, 1).Errors[0]
	if u.Port != int(r.Snap.Ports[busy].Num) || math.Abs(u.Growing["PortXmitDiscards"]-0.4) > 0.01 || len(u.Growing) != 2 {
		t.Errorf("%+v", u)
	}
	if w := Worst(nil, 5); w.Use == nil || w.Wait == nil || w.Discards == nil || w.Errors == nil {
		t.Error("tables are null before the first round")
	}
}

// TestRanking: with a bound there are the same ports as without, in the same order.
func TestRanking(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n, most := r.IntN(300), 1+r.IntN(20)
		all, few := ranking{}, ranking{most: most}
		for i := range n {
			v := float64(r.IntN(10))
			all.add(int32(i), v)
			few.add(int32(i), v)
		}
		all.cut()
		few.cut()
		if !slices.Equal(all.list[:min(most, n)], few.list) {
			t.Fatalf("%d of %d: got %v, want %v", most, n, few.list, all.list)
		}
	}
}

// TestRankingHugeBound: a bound that no list reaches costs no sorting, however great it is.
func TestRankingHugeBound(t *testing.T) {
	for _, most := range []int{1 << 61, 1 << 62, math.MaxInt} {
		x := ranking{most: most}
		for i, v := range []float64{1, 3, 2} {
			x.add(int32(i), v)
		}
		if want := []ranked{{0, 1}, {1, 3}, {2, 2}}; !slices.Equal(x.list, want) {
			t.Errorf("%d: %v were sorted as they came", most, x.list)
		}
		if x.cut(); len(x.list) != 3 || x.list[0].i != 1 {
			t.Errorf("%d: %v", most, x.list)
		}
	}
}

// TestForPeople: numbers that OpenSM 3.3.23 wrote.
func TestForPeople(t *testing.T) {
	for _, x := range []struct {
		v     uint64
		words bool
		want  string
	}{
		{83592, true, "326.531KB"},
		{2736, true, "10.688KB"},
		{84744, true, "331.031KB"},
		{1161, false, "1.134K"},
		{1177, false, "1.149K"},
		{38, false, "38.000"},
		{0, false, "0.000"},
	} {
		if got := forPeople(x.v, x.words); got != x.want {
			t.Errorf("%d: got %s, want %s", x.v, got, x.want)
		}
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
	head := "\"" + node.Desc + "\" 0x" + strings.TrimLeft(strings.TrimPrefix(node.Info.NodeGUID.String(), "0x"), "0") + " active TRUE port 1\n     Last Reset           : Mon Nov  2 03:04:05 2026\n     Last Error Update    : Mon Nov  2 "
	_, block, ok := strings.Cut(text, head)
	if !ok {
		t.Fatalf("no %q in\n%.500s", head, text)
	}
	for _, want := range []string{
		"     symbol_err_cnt       : 3\n", "     xmit_discards        : 4\n", "     link_integrity_err   : 0\n", "     xmit_wait            : 0\n     Last Data Update     : Mon Nov  2 ", "     multicast_xmit_pkts  : 5 (5.000)\n",
	} {
		if !strings.Contains(block[:1100], want) {
			t.Errorf("no %q in\n%s", want, block[:1100])
		}
	}
	if !strings.Contains(block[:1100], "GB)\n") { // 7,812,500,000 words
		t.Errorf("data is not in GB:\n%s", block[:1100])
	}
	mach := CountersDump(r, when, true)
	if !strings.HasPrefix(mach, "\nName\tGUID\tActive\tPort\tLast Reset\tLast Error Update\tLast Data Update\tsymbol_err_cnt\tlink_err_recover\tlink_downed\t") || !strings.Contains(mach, "\tlink_int_err\tbuf_overrun_err\t") {
		t.Errorf("%.300s", mach)
	}
	for line := range strings.Lines(mach) {
		if n := strings.Count(line, "\t"); n != 0 && n != 27 {
			t.Errorf("%d tabs in %q", n, line)
		}
	}
	if CountersDump(nil, when, false) != "" {
		t.Error("there is a dump before the first round")
	}
}
