package study

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/traffic"
)

// packets asks for packets.
func packets(t testing.TB, topo fabric.Topology, specs ...string) *Question {
	q := question(t, topo, specs...)
	q.Flow, q.Time = false, 200*time.Microsecond
	q.Packets.Warmup = 50 * time.Microsecond
	return q
}

// TestAgree: where no packet waits behind another flow's, packets get what fair
// shares say. One flow for each host on a tree is such a case (V17).
func TestAgree(t *testing.T) {
	for _, spec := range []string{
		"permutation", "shift:5", "bisection:both", "permutation,rate=30%", "permutation,source=saturated",
		"pair:host-1>host-9,rate=25%,source=constant",
	} {
		for seed := range uint64(3) {
			q := packets(t, smallTree, spec)
			q.First = seed
			p := answer(t, q).Engines[0].Points[0]
			q = question(t, smallTree, spec)
			q.First = seed
			f := answer(t, q).Engines[0].Points[0]
			if math.Abs(p.Accepted-f.Accepted) > 0.02 || p.Worst > f.Worst+0.05 || math.Abs(p.Offered-f.Offered) > 0.02 {
				t.Errorf("%s, seed %d: packets offered %.3f, accepted %.3f, worst %.3f; shares %.3f, %.3f, %.3f",
					spec, seed, p.Offered, p.Accepted, p.Worst, f.Offered, f.Accepted, f.Worst)
			}
			if x := p.Packets; x.Delivered == 0 || x.P50 <= 0 || x.P99 < x.P50 || x.NetP50 > x.P50 {
				t.Errorf("%s: %+v", spec, x)
			}
		}
	}
}

// TestSourceModels: uniform packets on one lane of FIFO inputs get less than
// shares say; a hot host slows what shares its queue at the source.
func TestSourceModels(t *testing.T) {
	got := map[string]float64{}
	for _, spec := range []string{"random", "hot:50%:1,queue=host", "hot:50%:1,queue=destination"} {
		q := packets(t, smallTree, spec)
		q.VLs, q.Options.MaxVLs = 1, 1
		got[spec] = answer(t, q).Engines[0].Points[0].Accepted
	}
	if x := got["random"]; x < 0.5 || x > 0.8 {
		t.Errorf("uniform on FIFO inputs: %v, want 0.59 to 0.75", x)
	}
	if got["hot:50%:1,queue=host"] > got["hot:50%:1,queue=destination"] {
		t.Errorf("one queue for a host is better than one for each destination: %v", got)
	}
}

// TestPacketCollectives: they end, and take at least what bytes take; a ring on
// its own links takes no more but the latency of each step.
func TestPacketCollectives(t *testing.T) {
	for _, spec := range []string{"ring-all-reduce:1MiB", "recursive-doubling:256KiB", "all-to-all:64KiB"} {
		q := packets(t, smallTree, spec)
		p := answer(t, q).Engines[0].Points[0]
		if p.Packets.Unfinished > 0 || p.Seconds < p.Ideal || p.Seconds > 3*p.Ideal {
			t.Errorf("%s takes %v s, ideally %v, unfinished %d", spec, p.Seconds, p.Ideal, p.Packets.Unfinished)
		}
		if alpha := 30 * 1e-6; strings.HasPrefix(spec, "ring") && p.Seconds > p.Ideal+alpha {
			t.Errorf("ring takes %v s, ideally %v", p.Seconds, p.Ideal)
		}
	}
}

// TestPacketTrace: all packets of all messages arrive.
func TestPacketTrace(t *testing.T) {
	q := packets(t, smallTree, "trace:x")
	hosts, err := q.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	q.Packets.Warmup = 0
	text := "10us host-1 host-9 4097\n0us host-2 host-9 2048\n5us host-2 host-9 1"
	list, err := traffic.ReadTrace(strings.NewReader(text), hosts)
	if err != nil {
		t.Fatal(err)
	}
	q.Traces = [][]traffic.Message{list}
	if p := answer(t, q).Engines[0].Points[0].Packets; p.Delivered != 5 || len(p.Discards) > 0 {
		t.Errorf("%+v, want 5 packets", p)
	}
}

// TestPacketBroadcast: all members get every packet.
func TestPacketBroadcast(t *testing.T) {
	q := packets(t, smallTree, "broadcast:host-3,rate=5%,source=constant")
	p := answer(t, q).Engines[0].Points[0]
	if math.Abs(p.Accepted-p.Offered) > 0.002 || math.Abs(p.Offered-0.05) > 0.002 || len(p.Packets.Discards) > 0 {
		t.Errorf("%+v %+v", p, p.Packets)
	}
}

// TestHottest: a cable that is full is hotter than one that sends and waits for less.
func TestHottest(t *testing.T) {
	q := packets(t, smallTree, "pair:host-1>host-5", "pair:host-9>host-13,rate=60%", "pair:host-10>host-14,rate=30%")
	e := answer(t, q).Engines[0]
	if u := e.Hottest[0]; u.Used < 0.98 {
		t.Errorf("the hottest is %+v", u)
	}
	for i, u := range e.Hottest[1:] {
		if u.Used+u.Wait > e.Hottest[i].Used+e.Hottest[i].Wait+0.02 {
			t.Errorf("%+v is cooler than %+v", e.Hottest[i], u)
		}
	}
	q = packets(t, fabric.XGFT{Children: []int{8, 8}, Parents: []int{1, 4}}, "permutation,rate=40%")
	e = answer(t, q).Engines[0]
	if u := e.Hottest[0]; u.Used < 0.98 {
		t.Errorf("with full and blocked cables, the hottest is %+v", u)
	}
}

// TestDeadlockTold: minhop on a torus stands still, and the report names the
// circle; updn does not.
func TestDeadlockTold(t *testing.T) {
	q := packets(t, fabric.Torus{Dims: []int{5, 5}, Hosts: 2}, "random")
	q.Choices = []Choice{{"minhop", []route.Engine{minhop.Engine{}}}, {"updn", []route.Engine{updn.Engine{}}}}
	a := answer(t, q)
	p := a.Engines[0].Points[0].Packets
	if p.Deadlocks != 1 || len(p.Deadlock) < 4 || !strings.Contains(p.Deadlock[1], "waits for sw-") {
		t.Errorf("minhop: %+v", p)
	}
	if p := a.Engines[1].Points[0].Packets; p.Deadlocks != 0 {
		t.Errorf("updn: %v", p.Deadlock)
	}
	var b strings.Builder
	if err := a.Text(&b); err != nil || !strings.Contains(b.String(), "DEADLOCK: minhop") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// TestCutUnderTraffic: what is on the cable and what waits for it is lost; after
// the repair rates are as before.
func TestCutUnderTraffic(t *testing.T) {
	q := packets(t, smallTree, "shift:4,rate=20%,source=constant")
	r, err := FindPort(q.Fabric, "sw-1-1:5")
	if err != nil {
		t.Fatal(err)
	}
	q.Cuts, q.Packets.CutAt, q.Packets.RepairTime = []fabric.Ref{r}, 100*time.Microsecond, 40*time.Microsecond
	e := answer(t, q).Engines[0]
	if len(e.Points[0].Packets.Discards) > 0 {
		t.Errorf("before: %v", e.Points[0].Packets.Discards)
	}
	d := e.Cut.Points[0].Packets.Discards
	// Two of 16 flows have no way for 40 of 150 µs.
	if d["output inactive"] < 50 || e.Cut.Points[0].Accepted > 0.2*(1-2*40./(16*150))+0.002 {
		t.Errorf("lost %v, accepted %v", d, e.Cut.Points[0].Accepted)
	}
	if l := e.Cut.Points[0].Packets.Losses; l == nil || l.Flows != 2 || l.AtEnd || l.Microseconds < 35 || l.Microseconds > 45 ||
		l.Packets != d["output inactive"]+d["on a cable that failed"] {
		t.Errorf("losses %+v", l)
	}
	q.Packets.RepairTime = time.Second
	if l := answer(t, q).Engines[0].Cut.Points[0].Packets.Losses; l == nil || !l.AtEnd || !strings.Contains(l.Text(), "more --time") {
		t.Errorf("never repaired: losses %+v", l)
	}
	rates := e.Cut.series.rates[0]
	mean := func(list []float64) (m float64) {
		for _, x := range list {
			m += x / float64(len(list))
		}
		return m
	}
	n := len(rates) // 150 µs; the cut is at 50, the repair at 90
	before, without, after := mean(rates[:n/3]), mean(rates[n/3+1:n*3/5-1]), mean(rates[n*2/3:])
	if without > 0.92*before || math.Abs(after/before-1) > 0.03 {
		t.Errorf("rates before the cut %v, until the repair %v, then %v", before, without, after)
	}
}

// TestHostCut: a host without its cable sends and gets nothing, in both models.
func TestHostCut(t *testing.T) {
	for _, flow := range []bool{false, true} {
		for spec, want := range map[string]float64{"shift:4,rate=20%": 14. / 16, "random,rate=20%": 15. / 16 * 14 / 15} {
			q := packets(t, smallTree, spec+",source=constant")
			q.Flow = flow
			q.Cuts = []fabric.Ref{q.Fabric.Nodes[q.Fabric.Find("host-3")].Ports[1].Peer}
			e := answer(t, q).Engines[0]
			p := e.Cut.Points[0]
			got := p.Accepted / p.Offered
			if math.Abs(got-want) > 0.01 || !strings.HasPrefix(p.WorstFlow, "host-3 > ") && p.Worst > 0 {
				t.Errorf("%s, flow %v: accepted %v of what is offered, want %v: %+v", spec, flow, got, want, p)
			}
		}
	}
	q := packets(t, smallTree, "ring-all-reduce:64KiB")
	q.Cuts = []fabric.Ref{q.Fabric.Nodes[q.Fabric.Find("host-3")].Ports[1].Peer}
	x := answer(t, q).Engines[0].Cut
	if p := x.Points[0].Packets; p.Unfinished != 1 || p.Uncut != 0 {
		t.Errorf("a ring without one of its hosts ends: %+v", p)
	}
	if len(x.CutOff) != 1 || x.CutOff[0] != "host-3" || x.CutOffText() != "; cut off: host-3" {
		t.Errorf("cut off: %q", x.CutOff)
	}
	q.Packets.CutAt, q.Time = 5*time.Millisecond, 6*time.Millisecond
	a := answer(t, q)
	var b strings.Builder
	if err := a.Text(&b); err != nil || a.Engines[0].Cut.Points[0].Packets.Uncut != 1 ||
		!strings.Contains(b.String(), "had ended before the cut") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// TestPacketWorkers: workers and repetition change nothing.
func TestPacketWorkers(t *testing.T) {
	var want []byte
	for _, workers := range []int{1, 3, 3} {
		q := packets(t, smallTree, "hot:20%:2", "permutation,rate=30%")
		q.Seeds, q.Loads, q.Options.Workers = 3, []float64{0.5, 1}, workers
		got, err := json.Marshal(answer(t, q))
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		} else if string(got) != string(want) {
			t.Errorf("%d workers give another answer", workers)
		}
	}
}

// TestEngineWorkers: a run of several workers gives the same answer, with hooks,
// losses and a cut. Workers are never more than those of the question.
func TestEngineWorkers(t *testing.T) {
	var want []byte
	for _, workers := range []int{1, 2, 4} {
		q := packets(t, smallTree, "hot:20%:2", "permutation,rate=30%")
		q.Seeds, q.Options.Workers, q.alwaysApart = 1, workers, true
		q.Cuts = []fabric.Ref{q.Fabric.Nodes[q.Fabric.Find("host-3")].Ports[1].Peer}
		q.Packets.CutAt = q.Packets.Warmup + 20*time.Microsecond
		got, err := json.Marshal(answer(t, q))
		if err != nil {
			t.Fatal(err)
		}
		if n := q.engineWorkers(); n != workers {
			t.Errorf("%d workers of %d", n, workers)
		}
		q.Seeds = 3
		if n := q.engineWorkers(); n*min(q.Seeds, workers) > workers {
			t.Errorf("%d workers for each of 3 seeds, of %d", n, workers)
		}
		if want == nil {
			want = got
		} else if string(got) != string(want) {
			t.Errorf("%d workers give another answer\n%s\n%s", workers, got, want)
		}
	}
	q := packets(t, smallTree, "ring-all-reduce:4KiB")
	if q.Seeds, q.Options.Workers, q.alwaysApart = 1, 4, true; q.engineWorkers() != 1 {
		t.Error("a collective runs with several workers")
	}
	if q = packets(t, smallTree, "permutation"); q.engineWorkers() != 1 {
		t.Error("a small tree runs with several workers")
	}
}

// TestPacketsInterrupted: an interrupted run has what was counted by then.
func TestPacketsInterrupted(t *testing.T) {
	q := packets(t, smallTree, "permutation")
	q.Seeds, q.Options.Workers = 5, 1
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, err := q.Answer(ctx, func(_ string, share float64) {
		if share >= 2./5 {
			cancel()
		}
	})
	if err != nil || !a.Interrupted || a.Engines[0].Points[0].Seeds != 2 {
		t.Errorf("%v: %+v", err, a.Engines[0].Points)
	}
}

func TestPacketsRefused(t *testing.T) {
	for _, c := range []struct {
		says string
		set  func(q *Question)
	}{
		{"a packet with 2048 bytes of payload needs 33 and could never start", func(q *Question) { q.Packets.Buffer = 4096 }},
		{"a packet with 4096 bytes of payload needs 65", func(q *Question) {
			q.Packets.Buffer, q.Specs = 8192, mustParse(t, "random,payload=4096")
		}},
		{"flow control counts up to 2048", func(q *Question) { q.Packets.Buffer = 2049 * 64 * q.VLs }},
		{"nothing is counted before", func(q *Question) { q.Specs = mustParse(t, "random,end=50us") }},
		{"would send 2.9e+10 packets", func(q *Question) { q.Specs, q.Time = mustParse(t, "shift:1"), 300*time.Second }},
		{"would send 3.2e+10 packets", func(q *Question) { q.Specs = mustParse(t, "all-to-all:256GiB") }},
		{"warmup: 200µs;", func(q *Question) { q.Packets.Warmup = q.Time }},
		{"for all or for none", func(q *Question) { q.Specs = mustParse(t, "random,sl=1", "random") }},
		{"reads: 0", func(q *Question) { q.Packets.Reads = 0 }},
		{"repair-time: -1s", func(q *Question) { q.Packets.RepairTime = -time.Second }},
		{"is lost at 1s", func(q *Question) { q.Packets.CutAt = time.Second }},
	} {
		q := packets(t, smallTree, "random")
		c.set(q)
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}
