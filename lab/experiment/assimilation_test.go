package experiment

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/lab"
	"heddle/report"
	"heddle/sm"
)

// assimilation runs the experiment with a clock on which every computation takes
// a microsecond: what it reports is then the same on every machine.
func assimilation(t *testing.T) *report.Report {
	t.Helper()
	var now time.Duration
	r, err := ChangeAssimilation(Options{Seed: 3, Runs: 1, Sizes: []int{8}, Losses: -1, Clock: func() time.Duration {
		now += time.Microsecond
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestChangeAssimilation: tables are whole, the waits are shown apart from the
// work, and all of it is the same again.
func TestChangeAssimilation(t *testing.T) {
	r := assimilation(t)
	times := 0
	for _, s := range r.Sections {
		settings := strings.HasPrefix(s.Title, "Settings ")
		figure := strings.Contains(s.Title, "(Figure 3)") || strings.Contains(s.Title, "(Figure 8a)")
		if !settings && (len(s.Table.Rows) != 1 && !figure || len(s.Claim) == 0) {
			t.Errorf("%s: %d rows, %d claims", s.Title, len(s.Table.Rows), len(s.Claim))
		}
		for _, row := range s.Table.Rows {
			if len(row) != len(s.Table.Columns) {
				t.Fatalf("%s: %d columns, a row of %d", s.Title, len(s.Table.Columns), len(row))
			}
		}
		for _, p := range s.Plots {
			for _, c := range p.Columns {
				if c < 1 || c >= len(s.Table.Columns) {
					t.Errorf("%s: a plot of column %d", s.Title, c)
				}
			}
		}
		if !strings.HasPrefix(s.Title, "Time ") {
			continue
		}
		times++
		cell := func(column string) float64 {
			k := slices.Index(s.Table.Columns, column)
			if k < 0 {
				t.Fatalf("%s: no column %q", s.Title, column)
			}
			return s.Table.Rows[0][k].(float64)
		}
		// The whole time is from the change on: nothing of it is left out.
		sum := cell("work, us") + cell("waiting, us") + cell("until noticed, us")
		whole := cell("whole, us")
		if sum < 0.99*whole || sum > 1.01*whole || cell("least, us") > whole || cell("most, us") < whole {
			t.Errorf("%s: the parts are %v us, the whole %v us", s.Title, sum, whole)
		}
		if noticed := cell("until noticed, us"); strings.Contains(s.Title, "removed") && noticed < 1000 {
			t.Errorf("%s: a removal without a trap is noticed after %v us", s.Title, noticed)
		}
		if work := cell("work, us"); work > 20e3 {
			t.Errorf("%s: work of %v us", s.Title, work)
		}
	}
	if times != 6 {
		t.Errorf("%d tables of times, want two kinds of change by theirs, and by ours under two profiles", times)
	}
	if again := assimilation(t); !reflect.DeepEqual(r, again) {
		t.Error("another run reports something else")
	}
	var b bytes.Buffer
	if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "waiting, us") {
		t.Errorf("text: %v", err)
	}
	// The published figure cannot be reached by any method here, and that is said. What follows
	// from the text alone holds.
	claims := map[string]report.Claim{}
	for _, x := range r.Sections {
		for _, c := range x.Claim {
			claims[c.What[:min(20, len(c.What))]] = c
		}
	}
	if c := claims["a change touches few"]; c.Holds || !strings.Contains(c.Measured, "forced alone") {
		t.Errorf("%+v", c)
	}
	for _, what := range []string{"SMPs are those of the pseudo-code", "discovery and distribution", "adding a " +
		"switch takes more SMPs", "the tasks add up to the whole"} {
		if c := claims[what[:20]]; !c.Holds {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// TestDeviations: whatever a configuration sets is listed, beside its default.
func TestDeviations(t *testing.T) {
	rows := map[string]setting{}
	for _, x := range deviations(lab.TrialConfig(), map[string]string{"RepathTime": "because"}) {
		rows[x.name] = x
	}
	for name, want := range map[string]setting{
		"PacketLife": {"PacketLife", "4.19ms (code 10)", "1.07374s (code 18)", ""},
		"RepathTime": {"RepathTime", "50ms", "30s", "because"},
		"SMPTimeout": {"SMPTimeout", "20ms", "200ms", ""},
	} {
		if rows[name] != want {
			t.Errorf("%+v, want %+v", rows[name], want)
		}
	}
	if got := deviations(sm.Defaults(), nil); len(got) != 1 || got[0].name != "Engines" {
		t.Errorf("the default deviates: %+v", got)
	}
}
