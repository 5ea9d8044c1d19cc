package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/lab/manager2003"
	"heddle/report"
	"heddle/route"
	"heddle/sim"
)

// figure3 traces the Get(NodeInfo) of a discovery on a subnet of which the text on Figure 3
// tells as much: the manager is on a switch with a host and two switches, which are
// joined and have one and two hosts.
func figure3() (report.Section, error) {
	s := report.Section{
		Title: "The order of a discovery (Figure 3)",
		Text: "The drawing of the subnet is lost; this one fits the text: three switches, each with a cable to " +
			"both others, the manager on the first. " +
			"A path is the ports that a request leaves by. The pseudo-code asks back through the port by which a " +
			"switch was reached as well, which the figure does not number.",
		Table: report.Table{Columns: []string{"request", "path", "after the answer of", "number in the figure"}},
	}
	f, hosts, err := subnet3()
	if err != nil {
		return s, err
	}
	net, err := sim.New(f, sim.Config{
		HopLatency: hop2003, SMALatency: sma2003, NoTraps: true, DirectStates: true, LinearFDBCap: entries2003,
	})
	if err != nil {
		return s, err
	}
	m, err := manager2003.New(net, "A", manager2003.Defaults())
	if err != nil {
		return s, err
	}
	number, answered := map[string]int{}, map[string]bool{}
	drawn, requests := 0, 0
	var groups []string // drawn requests by the one whose answer they follow
	inOrder := true
	m.OnNode = func(path []byte, answer bool) {
		if answer {
			answered[string(path)] = true
			return
		}
		requests++
		after, no := any("-"), any("-")
		if len(path) > 0 {
			from := path[:len(path)-1]
			inOrder = inOrder && answered[string(from)]
			after = number[string(from)]
		}
		if !(len(path) > 1 && path[len(path)-1] == 1) { // port 1 of B and C leads back to A
			drawn++
			number[string(path)] = drawn
			no = drawn
			groups = append(groups, fmt.Sprint(after, ":", drawn))
		}
		s.Table.Rows = append(s.Table.Rows, []any{requests, strings.Trim(fmt.Sprint(path), "[]"), after, no})
	}
	m.Start()
	net.RunUntil(net.Now().Add(50 * time.Millisecond))
	if len(m.Changes) == 0 {
		return s, fmt.Errorf("the subnet of Figure 3 was not activated")
	}
	c := &m.Changes[0]
	want := []string{"-:1", "1:2", "1:3", "1:4", "3:5", "3:6", "4:7", "4:8", "4:9"}
	n, h, cables := 3, hosts, 3+hosts
	text := 1 + 2*cables + 5*n + h + n + h - h // nothing is asked through the hosts
	s.Claim = []report.Claim{
		{
			What: "2 to 4 follow the answer of 1, 5 and 6 that of 3, 7 to 9 that of 4, and nothing those of 6 and " +
				"9", Published: "Figure 3 and its text",
			Measured: strings.Join(groups, ", "), Holds: inOrder && slices.Equal(groups, want),
		},
		{
			What: "the discovery takes the SMPs of the pseudo-code, less one through each " +
				"host", Published: "by the pseudo-code",
			Measured: fmt.Sprintf("%d, by the pseudo-code %d", c.Discovery(), text), Holds: c.Discovery() == text,
		},
	}
	return s, nil
}

// subnet3 is the subnet of figure3.
func subnet3() (f *fabric.Fabric, hosts int, err error) {
	var b fabric.Builder
	var sw [3]int
	for i := range sw {
		sw[i] = b.AddSwitch(string(rune('A'+i)), 4)
	}
	at := []int{0, 1, 2, 2} // switches of the hosts
	b.Connect(sw[0], 2, sw[1], 1)
	b.Connect(sw[0], 3, sw[2], 1)
	b.Connect(sw[1], 3, sw[2], 4)
	for i, k := range at {
		port := []int{1, 2, 2, 3}[i]
		b.Connect(b.AddCA(fmt.Sprintf("H%d", i+1), 1), 1, sw[k], port)
	}
	f, err = b.Build()
	return f, len(at), err
}

// figure8 measures what the routing of 2003 takes, on one thread and without a proof.
func figure8(o *Options) (report.Section, error) {
	s := report.Section{
		Title: "How long it takes to compute all tables (Figure 8a)",
		Text: "The routing of the report on one thread of this machine, without a proof; the least of five. The " +
			"curves of the report's two computers are lost.",
		Table: report.Table{Columns: []string{"switches", "us"}},
		Plots: []report.Plot{{
			Title: "Time to compute all tables", X: "switches", Y: "microseconds",
			Columns: []int{1}, Log: true,
		}},
	}
	clock := o.clock()
	var x, y []float64
	for _, n := range []int{8, 16, 24, 32, 64, 96, 128, 192, 256} {
		f, err := fabric.Generate(fabric.Irregular{Switches: n, Hosts: 1, Seed: o.Seed + uint64(n)},
			fabric.GenerateOptions{})
		if err != nil {
			return s, err
		}
		if err := fabric.AssignLIDs(f, 1); err != nil {
			return s, err
		}
		g, err := f.Graph(fabric.GraphOptions{})
		if err != nil {
			return s, err
		}
		least := time.Hour
		for range 5 {
			began := clock()
			if _, err := (manager2003.Engine{}).Compute(g, route.Options{}); err != nil {
				return s, err
			}
			least = min(least, clock()-began)
		}
		s.Table.Rows = append(s.Table.Rows, []any{n, least.Seconds() * microseconds})
		if n >= 64 && least > 0 {
			x, y = append(x, math.Log(float64(n))), append(y, math.Log(least.Seconds()))
		}
	}
	slope := fit(x, y)
	s.Claim = []report.Claim{{
		What: "computing grows with the square of the number of switches", Published: "quadratic in size (text on " +
			"Figure 8a)",
		Measured: fmt.Sprintf("with its power of %.2f from 64 to 256 switches", slope), Holds: slope > 1.7 && slope < 2.6,
	}}
	return s, nil
}

// fit is the slope of the line through points.
func fit(x, y []float64) float64 {
	var mx, my, xy, xx float64
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(x))
	}
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}
