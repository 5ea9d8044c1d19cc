package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/flood"
	"heddle/mad"
	"heddle/report"
)

// fakeRig has managers whose SAs answer in a time that grows with what is
// asked of them.
type fakeRig struct {
	managers []string
	service  map[string]time.Duration
	answers  func(manager string, start int) int // a MIF's in a round, times what it would be; nil: 1
	running  int
	starts   map[string]int
	fail     string
}

func (r *fakeRig) Managers() []string { return r.managers }

func (r *fakeRig) Start(m string) (Flooded, error) {
	if m == r.fail {
		return nil, errors.New("will not start")
	}
	r.running++
	times := 1
	if r.answers != nil {
		times = r.answers(m, r.starts[m])
	}
	if r.starts == nil {
		r.starts = map[string]int{}
	}
	r.starts[m]++
	return &fakeSubnet{r, r.service[m], times}, nil
}

type fakeSubnet struct {
	rig     *fakeRig
	service time.Duration
	times   int
}

func (s *fakeSubnet) Stop() { s.rig.running-- }

func (s *fakeSubnet) Flood(mifs int, p flood.Plan, _ uint64, _ int) ([]flood.Round, error) {
	var rounds []flood.Round
	for i := range p.Rounds {
		end := mad.Time(p.RoundTime)
		r := flood.Round{Number: i + 1, Instances: 1 + i*mifs*p.Instances, SIF: flood.Tally{To: end}}
		took := s.service * time.Duration(r.Instances)
		n := 1000
		if took > 0 {
			n /= r.Instances
		}
		for range n {
			r.SIF.Response.Add(took)
		}
		r.SIF.Dots = []flood.Dot{{At: end / 2, Took: took}}
		for range mifs {
			t := flood.Tally{To: end}
			for range i * s.times {
				t.Response.Add(took)
			}
			r.MIFs = append(r.MIFs, t)
		}
		rounds = append(rounds, r)
	}
	return rounds, nil
}

func claims(r *report.Report, what string) (out []report.Claim) {
	for _, s := range r.Sections {
		for _, c := range s.Claim {
			if strings.Contains(c.What, what) {
				out = append(out, c)
			}
		}
	}
	return out
}

func TestSAFlood(t *testing.T) {
	rig := &fakeRig{managers: []string{"OpenSM", "heddle"}, service: map[string]time.Duration{
		"OpenSM": 200,
		"heddle": 100,
	}}
	r, err := SAFlood(Options{Rig: rig})
	if err != nil {
		t.Fatal(err)
	}
	if rig.running != 0 {
		t.Errorf("%d managers still run", rig.running)
	}
	table := r.Sections[1].Table
	if len(table.Rows) != 18 {
		t.Fatalf("%d rows, want the paper's 6, and 6 of each manager", len(table.Rows))
	}
	for _, row := range table.Rows {
		if len(row) != len(table.Columns) {
			t.Fatalf("%d columns, a row of %d", len(table.Columns), len(row))
		}
	}
	for i, want := range []int{193, 385, 577, 769, 961, 121} {
		for k := range 3 {
			if got := table.Rows[6*k+i][3]; got != want {
				t.Errorf("row %d has %v instances at the end, want %d", 6*k+i, got, want)
			}
		}
	}
	if n := len(r.Sections); n != 2+3*2 {
		t.Errorf("%d sections, want the settings, the table and Figures 2a to 2c of each manager", n)
	}
	if n := len(claims(r, "of that alone")); n != 4 {
		t.Errorf("%d claims on the SIF's rate, want one for 961 and one for 121 instances of each manager", n)
	}
	for _, c := range slices.Concat(claims(r, "of the time"), claims(r, "that alone")) {
		if !c.Holds {
			t.Errorf("%s does not hold: %s", c.What, c.Measured)
		}
	}
	if n := len(claims(r, "OpenSM is saturated")) + len(claims(r, "heddle bears it")); n != 2 {
		t.Errorf("%d claims on a fifth MIF", n)
	}
	if c := claims(r, "heddle answers more"); len(c) != 1 || c[0].Holds {
		t.Errorf("both answered the same number, and the claim is %+v", c)
	}

	r, err = SAFlood(Options{
		Rig: &fakeRig{managers: []string{"heddle"}}, Sizes: []int{2}, Runs: 3,
		RoundTime: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows := r.Sections[1].Table.Rows; len(rows) != 2 || rows[1][3] != 1+2*8*2 || !slices.Contains(rows[1], any(nil)) {
		t.Errorf("two MIFs alone: %v", rows)
	}
	if !strings.Contains(r.Intro, "OpenSM is not installed") {
		t.Error("nothing says that OpenSM is missing")
	}
}

// TestSAFloodSIF: the shares of the paper are asked for, not just any loss.
func TestSAFloodSIF(t *testing.T) {
	r, err := SAFlood(Options{Rig: &fakeRig{managers: []string{"OpenSM"}}, Runs: 2, Sizes: []int{5}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims(r, "that alone") {
		if c.Holds { // the answer takes no time, whatever there is to do
			t.Errorf("%s: %s", c.What, c.Measured)
		}
	}
}

// TestSAFloodSpread: a manager answers more than another if it did so in every
// repetition, and the report shows the ranges.
func TestSAFloodSpread(t *testing.T) {
	for _, c := range []struct {
		heddle []int
		holds  bool
	}{{[]int{3, 4, 5}, true}, {[]int{9, 9, 2}, false}} {
		rig := &fakeRig{managers: []string{"OpenSM", "heddle"}, answers: func(m string, start int) int {
			if m == "heddle" {
				return c.heddle[start]
			}
			return 1 + start%2 // at most 2
		}}
		r, err := SAFlood(Options{Rig: rig, Runs: 3, Sizes: []int{5}})
		if err != nil {
			t.Fatal(err)
		}
		got := claims(r, "heddle answers more")
		if len(got) != 1 || got[0].Holds != c.holds || !strings.Contains(got[0].Measured, " to ") {
			t.Errorf("%v times what the other answers: %+v", c.heddle, got)
		}
		if rig.starts["heddle"] != 3 || rig.starts["OpenSM"] != 3 {
			t.Errorf("starts: %v", rig.starts)
		}
		if len(claims(r, "spread more than their mean")) != 2 {
			t.Error("the published spread has no verdict")
		}
	}
}

func TestSAFloodRefuses(t *testing.T) {
	if _, err := SAFlood(Options{}); err == nil {
		t.Error("ran without a rig")
	}
	rig := &fakeRig{managers: []string{"heddle", "OpenSM"}, fail: "OpenSM"}
	if _, err := SAFlood(Options{Rig: rig, Sizes: []int{9}}); err == nil {
		t.Error("ran with nine MIFs")
	}
	if _, err := SAFlood(Options{Rig: rig, Runs: 2}); err == nil || !strings.Contains(err.Error(),
		"OpenSM: will not start") || rig.running != 0 {
		t.Errorf("error %v, %d managers still run", err, rig.running)
	}
}
