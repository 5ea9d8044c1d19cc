package experiment

import (
	"strings"
	"testing"

	"heddle/report"
)

// holds fails for each claim of a section that does not, but for those that begin with
// one of except.
func holds(t *testing.T, s report.Section, except ...string) {
	t.Helper()
	if len(s.Table.Rows) == 0 || len(s.Claim) == 0 {
		t.Errorf("%s: %d rows, %d claims", s.Title, len(s.Table.Rows), len(s.Claim))
	}
	for _, row := range s.Table.Rows {
		if len(row) != len(s.Table.Columns) {
			t.Errorf("%s: %d columns, a row of %d", s.Title, len(s.Table.Columns), len(row))
		}
	}
claims:
	for _, c := range s.Claim {
		t.Logf("%s: %s (%v)", c.What, c.Measured, c.Holds)
		for _, x := range except {
			if strings.HasPrefix(c.What, x) {
				continue claims
			}
		}
		if !c.Holds {
			t.Errorf("%s: published %s, measured %s", c.What, c.Published, c.Measured)
		}
	}
}

// TestFigure3: the order of the discovery is the report's.
func TestFigure3(t *testing.T) {
	s, err := figure3()
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s)
}

// TestFigure6: what is offered is accepted below saturation.
func TestFigure6(t *testing.T) {
	all, clos, err := figure6(&Options{Seed: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, all[0])
	if len(all) != 3 || len(all[2].Table.Rows) != 1 {
		t.Errorf("%d sections; the last one has a row for each network: %v", len(all), all[len(all)-1].Table.Rows)
	}
	if holds(t, all[1]); clos < 500_000 || clos > 886_526 {
		t.Errorf("the Clos network accepts %.0f packets a second and host", clos)
	}
}

// TestFigure11: on the Clos network the report's manager routes everything by one switch in the
// middle, and whatever is lost is lost for a reason that the change has.
func TestFigure11(t *testing.T) {
	s, err := figure11(&Options{Seed: 1, Clock: tick()}, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s)
}

// TestFigure10: a few switches of two networks.
func TestFigure10(t *testing.T) {
	s, err := figure10(&Options{Seed: 1, Clock: tick()}, []int{8, 16}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Which routes led by the switch that goes decides what is lost before anybody knows.
	holds(t, s, "inactive ports lose", "ours loses fewer packets in the mean than 2003 on this machine, removal",
		"the lost switch", "and it costs more")
	for _, row := range s.Table.Rows {
		if noticed, all := row[7].(float64), row[5].(float64); noticed > all/10 {
			t.Errorf("%v switches: ours loses %.0f packets after it has noticed, theirs %.0f in all", row[0], noticed, all)
		}
	}
}
