package study

import (
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
)

// TestPage: the page has every part, quotes names, loads nothing, and its drawings
// are well-formed.
func TestPage(t *testing.T) {
	q := packets(t, smallTree, "permutation,rate=30%", "pair:host-1>host-9,start=100us")
	q.Name = "<tree>"
	r, err := FindPort(q.Fabric, "sw-1-1:5")
	if err != nil {
		t.Fatal(err)
	}
	q.Loads, q.CutEach = []float64{0.5, 1}, true
	q.Cuts, q.Packets.CutAt = []fabric.Ref{r}, 100*time.Microsecond
	a := answer(t, q)
	a.Engines[0].Points[0].Packets.Deadlock = []string{"a & b"}
	var b strings.Builder
	if err := a.HTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"Traffic on &lt;tree&gt;", "pair:host-1&gt;host-9", "Accepted over load", "p99 of latency over load",
		"Rates over time, ftree, with the cut", "Cables of ftree", "output inactive", "What the loss of each cable costs",
		"Lost in the network, ftree, with the cut", "Hottest then", "each cuts off what has no other cable",
		"Deadlock, ftree, load 0.5", "a &amp; b", "sw-1-1:5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"src=", "http", "<script", "NaN", "Inf", "<tree>", ">-0<"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	drawings := 0
	for _, part := range strings.SplitAfter(text, "<svg")[1:] {
		part = "<svg" + part[:strings.Index(part, "</svg>")+6]
		drawings++
		for d := xml.NewDecoder(strings.NewReader(part)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %.200s", err, part)
			}
		}
	}
	if drawings != 8 {
		t.Errorf("%d drawings, want 3 over load, 3 over time, a map and its legend", drawings)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []float64
	}{
		{0, 1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{100, 300, []float64{100, 150, 200, 250, 300}},
		{-1, 2, []float64{-1, -0.5, 0, 0.5, 1, 1.5, 2}},
		{0, 33000, []float64{0, 5000, 10000, 15000, 20000, 25000, 30000}},
	} {
		got := ticks(c.lo, c.hi)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%v to %v: %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
}

// TestLogTicks: powers of ten, and steps between where they are few.
func TestLogTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 1, "1 2 5 10"},
		{-1, 0, "0.1 0.2 0.5 1"},
		{-2, 2, "0.01 0.1 1 10 100"},
	} {
		var got []string
		for _, v := range logTicks(c.lo, c.hi) {
			got = append(got, number(math.Pow(10, v)))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("10^%v to 10^%v: %s, want %s", c.lo, c.hi, s, c.want)
		}
	}
}

// TestOddPlots: nothing to draw, one point, zeros on a logarithmic axis.
func TestOddPlots(t *testing.T) {
	for _, g := range []plot{
		{},
		{log: true, curves: []curve{{"a", []float64{1}, []float64{0}}}},
		{curves: []curve{{"a", []float64{1}, []float64{math.NaN()}}}},
		{log: true, curves: []curve{{"a", []float64{1, 2}, []float64{0, 1}}}},
	} {
		if s := string(g.svg()); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%+v: %s", g, s)
		}
	}
}
