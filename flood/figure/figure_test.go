package figure

import (
	"strings"
	"testing"
	"time"

	"heddle/flood"
	"heddle/mad"
)

func TestSection(t *testing.T) {
	var rounds []flood.Round
	for i := range 3 {
		from := mad.Time(2 * i * int(time.Second))
		r := flood.Round{Number: i + 1, Instances: 1 + i, Spawning: time.Second / 2}
		r.SIF = flood.Tally{From: from, To: from.Add(time.Second), Dots: []flood.Dot{{At: from + 9, Took: 2000}, {At: from + 3, Took: 1000}}}
		r.SIF.Response.Add(time.Millisecond)
		r.MIFs = []flood.Tally{{From: from, To: from.Add(time.Second), Busy: 4}}
		rounds = append(rounds, r)
	}
	r := Report("x", "X", "", 1, []Run{{Title: "one", Rounds: rounds}})
	s := r.Sections[0]
	for _, row := range s.Table.Rows {
		if len(row) != len(Columns()) {
			t.Fatalf("a row of %d cells, %d columns", len(row), len(Columns()))
		}
	}
	for name, col := range map[string]int{
		"middle, s": colAt, "SIF, queries/s": colSIF, "mean, us": colMean, "median, us": colMedian, "std.dev., us": colStdDev,
		"MIFs, queries/s": colMIF, "total, queries/s": colTotal,
	} {
		if Columns()[col] != name {
			t.Errorf("column %d is %q, want %q", col, Columns()[col], name)
		}
	}
	if got := strings.Join(Cells(&rounds[1]), " "); got != "2 2.50 2 1 1000 1000 0 1000 1000 0 0 1 4 0 0" {
		t.Errorf("second round: %s", got)
	}
	p := s.Plots[0]
	if len(p.Dots) != 6 || p.Dots[0] != [2]float64{3e-9, 1} || p.Dots[5][0] < p.Dots[4][0] {
		t.Errorf("dots %v", p.Dots)
	}
	if len(p.Marks) != 3 || p.Marks[1] != 1.5 {
		t.Errorf("marks %v", p.Marks)
	}
	var b strings.Builder
	if err := r.HTML(&b); err != nil || !strings.Contains(b.String(), "&#34;dots_label&#34;:&#34;query&#34;") {
		t.Errorf("the page: %v", err)
	}
}
