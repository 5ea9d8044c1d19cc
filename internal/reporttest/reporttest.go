// Package reporttest checks the reports of experiments.
package reporttest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"heddle/report"
)

// MustHold fails for each claim that does not hold and is not expected not to, and
// for each that was expected not to hold and does. An expectation is how a claim
// begins.
func MustHold(t *testing.T, r *report.Report, fails ...string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range r.Sections {
		for _, row := range s.Table.Rows {
			if len(row) != len(s.Table.Columns) {
				t.Errorf("%s: %d columns, a row of %d", s.Title, len(s.Table.Columns), len(row))
			}
		}
		for _, p := range s.Plots {
			for _, c := range p.Columns {
				if c < 1 || c >= len(s.Table.Columns) {
					t.Errorf("%s: a plot of column %d", s.Title, c)
				}
			}
		}
		for _, c := range s.Claim {
			expected := true
			for _, f := range fails {
				if strings.HasPrefix(c.What, f) {
					expected, seen[f] = false, true
				}
			}
			if c.Holds != expected {
				t.Errorf("%s: published %s; measured %s: holds %v", c.What, c.Published, c.Measured, c.Holds)
			}
		}
	}
	for _, f := range fails {
		if !seen[f] {
			t.Errorf("no claim begins with %q", f)
		}
	}
	var b bytes.Buffer
	if err := errors.Join(r.Text(&b), r.HTML(&b), r.JSON(&b)); err != nil {
		t.Error(err)
	}
}
