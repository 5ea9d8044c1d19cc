package experiment

import (
	"bytes"
	"strings"
	"testing"
)

// TestChangeAssimilation: tables are whole, the waits are shown apart from the
// work, and what is virtual is the same again.
func TestChangeAssimilation(t *testing.T) {
	var first [][]any
	for range 2 {
		r, err := ChangeAssimilation(Options{Seed: 3, Runs: 1, Sizes: []int{8}})
		if err != nil {
			t.Fatal(err)
		}
		var counts [][]any
		for _, s := range r.Sections {
			if len(s.Table.Rows) != 1 || len(s.Claim) == 0 {
				t.Errorf("%s: %d rows, %d claims", s.Title, len(s.Table.Rows), len(s.Claim))
			}
			for _, row := range s.Table.Rows {
				if len(row) != len(s.Table.Columns) {
					t.Fatalf("%s: %d columns, a row of %d", s.Title, len(s.Table.Columns), len(row))
				}
				if !strings.HasPrefix(s.Title, "Time ") {
					counts = append(counts, row)
				}
			}
			for _, p := range s.Plots {
				for _, c := range p.Columns {
					if c < 1 || c >= len(s.Table.Columns) {
						t.Errorf("%s: a plot of column %d", s.Title, c)
					}
				}
			}
			if strings.HasPrefix(s.Title, "Time ") {
				row := s.Table.Rows[0]
				if work, wait := row[5].(float64), row[6].(float64); work > 20e3 || wait < 50e3 || wait > 101e3 {
					t.Errorf("%s: work of %v us, waits of %v us: links have 100 ms to train", s.Title, work, wait)
				}
			}
		}
		if first == nil {
			first = counts
		}
		for i := range counts {
			for k := range counts[i] {
				if counts[i][k] != first[i][k] {
					t.Errorf("row %d, column %d: %v, then %v", i, k, first[i][k], counts[i][k])
				}
			}
		}
		var b bytes.Buffer
		if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "waiting, us") {
			t.Errorf("text: %v", err)
		}
	}
}
