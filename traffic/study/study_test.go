package study

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/traffic"
)

// smallTree has 4 leaves with 4 hosts each, under 4 spines.
var smallTree = fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}

func mustParse(t testing.TB, specs ...string) (out []*traffic.Spec) {
	t.Helper()
	for _, text := range specs {
		s, err := traffic.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// question asks about a fabric with ftree.
func question(t testing.TB, topo fabric.Topology, specs ...string) *Question {
	t.Helper()
	f, err := fabric.Generate(topo, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &Question{
		Name: "test", Fabric: f, Choices: []Choice{{"ftree", []route.Engine{ftree.Engine{}}}}, VLs: 2,
		Options: route.Options{Workers: 2, MaxVLs: 2}, Specs: mustParse(t, specs...),
		Loads: []float64{1}, Seeds: 1, First: 1, Time: time.Millisecond, Flow: true, Packets: DefaultPackets(),
	}
}

func answer(t testing.TB, q *Question) *Answer {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	a, err := q.Answer(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestShares: answers that can be counted by hand.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		name  string
		specs []string
		loads []float64
		want  []Point // by load: Offered, Accepted, Worst
	}{
		{"a shift has every link for itself", []string{"shift:4"}, []float64{1}, []Point{
			{Offered: 1, Accepted: 1, Worst: 1},
		}},
		{"what is offered is accepted", []string{"shift:5,rate=50%"}, []float64{0.2, 1}, []Point{
			{Offered: 0.1, Accepted: 0.1, Worst: 1}, {Offered: 0.5, Accepted: 0.5, Worst: 1},
		}},
		{"15 hosts share the link of one", []string{"hot:100%:1"}, []float64{1}, []Point{
			{Offered: 1, Accepted: 1. / 15, Worst: 1. / 15},
		}},
		{"two at one host", []string{"pair:host-1>host-3", "pair:host-2>host-3"}, []float64{1}, []Point{
			{Offered: 1, Accepted: 0.5, Worst: 0.5},
		}},
		{"the second at half time", []string{"pair:host-1>host-3", "pair:host-2>host-3,start=500us"}, []float64{1}, []Point{
			{Offered: 0.75, Accepted: 0.5, Worst: 0.5},
		}},
		{"one link to all members", []string{"broadcast,rate=40%"}, []float64{1}, []Point{
			{Offered: 0.4, Accepted: 0.4, Worst: 1},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := question(t, smallTree, c.specs...)
			q.Loads = c.loads
			a := answer(t, q)
			for i, p := range a.Engines[0].Points {
				w := c.want[i]
				if !near(p.Offered, w.Offered) || !near(p.Accepted, w.Accepted) || !near(p.Worst, w.Worst) {
					t.Errorf("load %v: offered %v, accepted %v, worst %v; want %+v", p.Load, p.Offered, p.Accepted, p.Worst, w)
				}
			}
		})
	}
}

// TestCollective: 2(n-1) steps of M/n bytes, with 26 bytes more for each 2048.
func TestCollective(t *testing.T) {
	q := question(t, smallTree, "ring-all-reduce:16MiB")
	p := answer(t, q).Engines[0].Points[0]
	want := 30 * float64(1<<20) * 8 * 2074 / 2048 / (q.hosts[0].Gbps * 1e9)
	if math.Abs(p.Seconds/want-1) > 1e-9 || math.Abs(p.Ideal/want-1) > 1e-9 {
		t.Errorf("takes %v s, ideally %v; want %v", p.Seconds, p.Ideal, want)
	}
}

// TestCut: a leaf with 3 of its 4 uplinks. The shift that filled all four gets
// half a link for two of its flows each way.
func TestCut(t *testing.T) {
	q := question(t, smallTree, "shift:4")
	r, err := FindPort(q.Fabric, "sw-1-1:5")
	if err != nil {
		t.Fatal(err)
	}
	q.Cuts = []fabric.Ref{r}
	e := answer(t, q).Engines[0]
	after := e.Cut.Points[0]
	// Leaf 1 sends 4 flows over 3 uplinks and receives 4 over 3.
	if !near(after.Accepted, (16-2)/16.) || !near(after.Worst, 0.5) || e.Cut.Disconnected != 0 || e.Cut.Problem != "" {
		t.Errorf("after the cut: %+v, %+v", e.Cut, after)
	}
	if !strings.Contains(e.Cut.How, "repaired by ftree") {
		t.Errorf("routes %s", e.Cut.How)
	}

	q.Cuts, q.CutEach = nil, true
	e = answer(t, q).Engines[0]
	if len(e.Costs) != 32 || e.Cables != 32 {
		t.Fatalf("%d costs of %d cables, want 32", len(e.Costs), e.Cables)
	}
	for i, c := range e.Costs {
		if i > 0 && c.Shares.Cost > e.Costs[i-1].Shares.Cost {
			t.Errorf("cable %d costs more than the one before", i)
		}
		// A host takes its flow and the flow to it along.
		if want := 2 / 16.; !near(c.Shares.Cost, want) {
			t.Errorf("%s costs %v, want %v", c.Cable, c.Shares.Cost, want)
		}
		if c.Host != (c.Shares.Lost > 0) {
			t.Errorf("%s: leads to a host %v, lost %v", c.Cable, c.Host, c.Shares.Lost)
		}
	}
}

// TestWorkers: the number of workers changes nothing.
func TestWorkers(t *testing.T) {
	var want []byte
	for _, workers := range []int{1, 2, 5} {
		q := question(t, smallTree, "hot:20%:2", "permutation,rate=30%")
		q.Choices = append(q.Choices, Choice{"chain", []route.Engine{minhop.Engine{}, updn.Engine{}}})
		q.Seeds, q.CutEach, q.Loads, q.Options.Workers = 3, true, []float64{0.5, 1}, workers
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

// TestInterrupted: an answer has what was done when the context ended.
func TestInterrupted(t *testing.T) {
	q := question(t, smallTree, "permutation")
	q.CutEach, q.Options.Workers = true, 1
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, err := q.Answer(ctx, func(what string, share float64) {
		if strings.Contains(what, "cables") && share >= 7./32 {
			cancel()
		}
	})
	if err != nil || !a.Interrupted || len(a.Engines[0].Costs) != 7 || len(a.Engines[0].Points) != 1 {
		t.Fatalf("%v, %+v", err, a.Engines[0])
	}
	var b strings.Builder
	if err := a.Text(&b); err != nil || !strings.Contains(b.String(), "7 of 32 cables asked") ||
		!strings.Contains(b.String(), "Interrupted") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// TestProblems: engines without tables, and tables that can deadlock, are told.
func TestProblems(t *testing.T) {
	q := question(t, fabric.Torus{Dims: []int{5, 5}, Hosts: 1}, "shift:1")
	q.Choices = append(q.Choices, Choice{"minhop", []route.Engine{minhop.Engine{}}})
	a := answer(t, q)
	if e := a.Engines[0]; e.Refused == "" || len(e.Points) > 0 {
		t.Errorf("ftree on a torus: %+v", e)
	}
	if e := a.Engines[1]; e.CreditCycles == 0 || e.Problem == "" || len(e.Points) == 0 {
		t.Errorf("minhop on a torus: %+v", e)
	}
}

// TestDamaged: hosts without a cable and parts of the fabric are told.
func TestDamaged(t *testing.T) {
	q := question(t, smallTree, "shift:1")
	q.Flow = false
	uncable := func(name string, ports ...int) {
		for _, p := range ports {
			at := &q.Fabric.Nodes[q.Fabric.Find(name)].Ports[p]
			q.Fabric.Port(at.Peer).Peer = fabric.NoRef()
			at.Peer = fabric.NoRef()
		}
	}
	uncable("sw-1-1", 5, 6, 7, 8)
	uncable("host-7", 1)
	a := answer(t, q)
	// 4 hosts and their switch apart from 11 hosts and 7 switches.
	if e := a.Engines[0]; e.Disconnected == 0 || len(a.Uncabled) != 1 || a.Uncabled[0] != "host-7" {
		t.Errorf("%d pairs apart, without a cable %q", e.Disconnected, a.Uncabled)
	}
	var b, page strings.Builder
	if err := errors.Join(a.Text(&b), a.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{b.String(), page.String()} {
		if !strings.Contains(text, "the fabric is in parts") || !strings.Contains(text, "left out: host-7") ||
			strings.Contains(text, "more --time") {
			t.Error(text)
		}
	}
}

// TestRefused: questions without an answer are refused before anything runs.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		says string
		set  func(q *Question)
	}{
		{"load: 0;", func(q *Question) { q.Loads = []float64{0} }},
		{"load: 1.1;", func(q *Question) { q.Loads = []float64{0.5, 1.1} }},
		{"load: NaN;", func(q *Question) { q.Loads = []float64{math.NaN()} }},
		{"load: none", func(q *Question) { q.Loads = nil }},
		{"vls: 16;", func(q *Question) { q.VLs = 16 }},
		{"on 9000 hosts needs too much memory", func(q *Question) { q.Fabric = star(t, 9000) }},
		{"has 80991000 messages on 9000 hosts", func(q *Question) {
			q.Fabric, q.Specs = star(t, 9000), mustParse(t, "all-to-all")
		}},
		{"no width and speed", func(q *Question) {
			at := q.Fabric.Nodes[q.Fabric.Find("sw-1-1")].Ports[5].Peer
			q.Fabric.Port(at).Speed, q.Fabric.Port(q.Fabric.Port(at).Peer).Speed = 0, 0
		}},
		{"seeds: 0;", func(q *Question) { q.Seeds = 0 }},
		{"time: 0s;", func(q *Question) { q.Time = 0 }},
		{"engine: none", func(q *Question) { q.Choices = nil }},
		{"pattern: none", func(q *Question) { q.Specs = nil }},
		{"no host of the fabric", func(q *Question) { q.Specs = mustParse(t, "random,hosts=gpu-*") }},
		{"starts at 2ms", func(q *Question) { q.Specs = mustParse(t, "random,start=2ms") }},
		{"sw-1-1:5 is given twice", func(q *Question) { q.Cuts = cut(t, q, "sw-1-1:5", "sw-1-1:5") }},
		{"are the same cable", func(q *Question) { q.Cuts = cut(t, q, "sw-1-1:5", "sw-2-1:1") }},
		{"cut-packets: -2", func(q *Question) { q.CutPackets = -2 }},
		{"ask for it alone", func(q *Question) { q.Specs = mustParse(t, "random", "all-to-all") }},
	} {
		q := question(t, smallTree, "random")
		c.set(q)
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// star is a tree of about n hosts.
func star(t *testing.T, n int) *fabric.Fabric {
	t.Helper()
	f, err := fabric.Generate(fabric.XGFT{Children: []int{100, n / 100}, Parents: []int{1, 1}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFindPort(t *testing.T) {
	f := question(t, smallTree, "random").Fabric
	bare := &f.Nodes[f.Find("sw-2-1")].Ports[4]
	bare.Peer = fabric.NoRef()
	f.Nodes[1].Desc = f.Nodes[0].Desc
	for text, says := range map[string]string{
		"sw-1-1":                        "want NODE:PORT",
		":1":                            "want NODE:PORT",
		"sw-1-1:0":                      "1 to 254",
		"sw-1-1:x":                      "1 to 254",
		"sw-1-1:9":                      "has ports 1 to 8",
		"nobody:1":                      "no node has the name",
		f.Nodes[0].Name() + ":1":        "2 nodes have the name",
		f.Nodes[0].GUID.String():        "NODE:PORT",
		"sw-2-1:4":                      "no cable",
		f.Nodes[0].ID + ":1":            "",
		f.Nodes[2].GUID.String() + ":1": "",
	} {
		_, err := FindPort(f, text)
		var e *Error
		if says == "" && err != nil || says != "" && (!errors.As(err, &e) || !strings.Contains(e.Text, says)) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
