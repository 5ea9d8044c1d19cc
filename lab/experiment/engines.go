package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/fabric"
	"heddle/report"
	"heddle/route"
	"heddle/route/engine/all"
	"heddle/traffic"
	"heddle/traffic/study"
)

// enginePatterns are what hosts send in Engines. Sources wait rather than lose
// packets, so that what is accepted is what the routes carry.
var enginePatterns = []string{
	"permutation,source=saturated,queue=stream", "shift:19,source=saturated,queue=stream",
	"bisection:both,source=saturated,queue=stream", "random,source=saturated,queue=stream",
}

// engineFabric is a fabric of Engines.
type engineFabric struct {
	name string
	make func(seed uint64) (*fabric.Fabric, error)
}

func generated(t fabric.Topology) func(uint64) (*fabric.Fabric, error) {
	return func(uint64) (*fabric.Fabric, error) { return fabric.Generate(t, fabric.GenerateOptions{}) }
}

// damaged is t without one in each of its cables between switches; the seed chooses
// which.
func damaged(t fabric.Topology, each int) func(uint64) (*fabric.Fabric, error) {
	return func(seed uint64) (*fabric.Fabric, error) {
		f, err := fabric.Generate(t, fabric.GenerateOptions{})
		if err != nil {
			return nil, err
		}
		var cables []fabric.Ref
		for a := range f.Links {
			if f.Nodes[a.Node].IsSwitch() && f.Nodes[f.Port(a).Peer.Node].IsSwitch() {
				cables = append(cables, a)
			}
		}
		rng := rand.New(rand.NewPCG(seed, 31))
		for range len(cables) / each {
			k := rng.IntN(len(cables))
			a := cables[k]
			cables[k] = cables[len(cables)-1]
			cables = cables[:len(cables)-1]
			b := f.Port(a).Peer
			f.Port(a).Peer, f.Port(b).Peer = fabric.NoRef(), fabric.NoRef()
		}
		return f, nil
	}
}

// Engines compares what traffic gets on the routes of all engines: packets that
// hosts send as fast as their links take them, on a fat tree, the same tree with
// one cable in ten missing, a torus and a dragonfly. It answers which engine gives
// what, and with how many lanes.
//
// With Sizes the fabrics are small ones, for tests.
func Engines(o Options) (*report.Report, error) {
	tree := fabric.XGFT{Children: []int{18, 36}, Parents: []int{1, 18}}
	fabrics := []engineFabric{
		{"fat tree of 648 hosts", generated(tree)},
		{"fat tree of 648 hosts, one cable in ten missing", damaged(tree, 10)},
		{"4x4x4 torus, a host each", generated(fabric.Torus{Dims: []int{4, 4, 4}, Hosts: 1})},
		{"dragonfly, 9 groups of 4 switches with 2 hosts", generated(fabric.Dragonfly{Switches: 4, Hosts: 2, Global: 2})},
	}
	span := 300 * time.Microsecond
	if len(o.Sizes) > 0 {
		small := fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}
		fabrics = []engineFabric{
			{"fat tree of 16 hosts", generated(small)},
			{"fat tree of 16 hosts, damaged", damaged(small, 8)},
			{"4x4 torus", generated(fabric.Torus{Dims: []int{4, 4}, Hosts: 1})},
		}
		span = 200 * time.Microsecond
	}
	r := &report.Report{
		Name: "engines", Title: "What traffic gets on the routes of each engine", Source: "Heddle's own comparison; no publication",
		Intro: fmt.Sprintf("Hosts send as fast as their links take packets of 2 KiB; a source waits for its turn and loses nothing. "+
			"Eight data lanes, 64 KiB of buffer for each port, one FIFO for each input and lane, three packets read from an input at once, %v of which the first third is not counted. "+
			"Accepted is the share of the hosts' links that arrives; the worst flow is that of the permutation.", span),
		Seed: o.Seed,
	}
	clean, stuck := 0, 0
	for _, x := range fabrics {
		f, err := x.make(o.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		s, err := o.engineSection(x.name, f, span, &clean, &stuck)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		r.Sections = append(r.Sections, s)
	}
	last := &r.Sections[len(r.Sections)-1]
	last.Claim = append(last.Claim, report.Claim{
		What: "routes whose proof finds no cycle never stand still, on all fabrics", Published: "theory (Dally and Seitz 1987)",
		Measured: fmt.Sprintf("%d of %d runs on such routes stood still", stuck, clean), Holds: stuck == 0 && clean > 0,
	})
	return r, nil
}

// engineSection asks about one fabric.
func (o *Options) engineSection(name string, f *fabric.Fabric, span time.Duration, clean, stuck *int) (report.Section, error) {
	s := report.Section{Title: name, Table: report.Table{Columns: []string{"engine", "lanes", "verdict"}}}
	for _, p := range enginePatterns {
		spec, err := traffic.Parse(p)
		if err != nil {
			return s, err
		}
		s.Table.Columns = append(s.Table.Columns, spec.Kind.String()+", accepted")
	}
	s.Table.Columns = append(s.Table.Columns, "worst flow", "stood still")
	for _, e := range all.Engines() {
		row := []any{e.Name(), "-", ""}
		worst, still := "-", 0
		for i, p := range enginePatterns {
			o.say("%s: %s, %s", name, e.Name(), p)
			a, err := askEngine(f, e, p, o.Seed, span)
			if err != nil {
				return s, err
			}
			x := a.Engines[0]
			switch {
			case x.Refused != "":
				row[2] = "refused"
				row = append(row, "-")
				continue
			case len(x.Points) == 0:
				row = append(row, "-")
				continue
			}
			row[1], row[2] = x.Lanes, "clean"
			if x.CreditCycles > 0 || x.Problem != "" {
				row[2] = "cycles"
			}
			point := x.Points[0]
			row = append(row, point.Accepted)
			if i == 0 {
				worst = fmt.Sprintf("%.3f", point.Worst)
			}
			dead := point.Packets != nil && point.Packets.Deadlocks > 0
			if dead {
				still++
			}
			if row[2] == "clean" {
				*clean++
				if dead {
					*stuck++
				}
			}
		}
		s.Table.Rows = append(s.Table.Rows, append(row, worst, still))
	}
	return s, nil
}

// askEngine asks what a pattern gets on the routes of an engine.
func askEngine(f *fabric.Fabric, e route.Engine, pattern string, seed uint64, span time.Duration) (*study.Answer, error) {
	spec, err := traffic.Parse(pattern)
	if err != nil {
		return nil, err
	}
	const lanes = 8
	q := &study.Question{
		Name: "engines", Fabric: f, Choices: []study.Choice{{Name: e.Name(), Engines: []route.Engine{e}}},
		Options: route.Options{Workers: 2, MaxVLs: lanes, Seed: seed}, VLs: lanes, Specs: []*traffic.Spec{spec}, Loads: []float64{1},
		Seeds: 1, First: seed, Time: span, Packets: study.DefaultPackets(),
	}
	q.Packets.Warmup, q.Packets.Reads = span/3, 3
	if err := q.Check(); err != nil {
		return nil, err
	}
	return q.Answer(context.Background(), nil)
}
