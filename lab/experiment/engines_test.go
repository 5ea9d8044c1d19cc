package experiment

import (
	"testing"

	"heddle/route/engine/all"
)

// TestEngines: on small fabrics every engine has a row, those made for trees carry a shift without
// loss, and routes that are proved never stand still. minhop stands still on the torus.
func TestEngines(t *testing.T) {
	r, err := Engines(Options{Seed: 1, Sizes: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]map[string][]any{}
	for _, s := range r.Sections {
		at[s.Title] = map[string][]any{}
		for _, row := range s.Table.Rows {
			if len(row) != len(s.Table.Columns) {
				t.Fatalf("%s: row %v", s.Title, row)
			}
			at[s.Title][row[0].(string)] = row
		}
		if len(at[s.Title]) != len(all.Engines()) {
			t.Errorf("%s: %d engines", s.Title, len(at[s.Title]))
		}
		for _, c := range s.Claim {
			if !c.Holds {
				t.Errorf("%s: %s", c.What, c.Measured)
			}
		}
	}
	if row := at["fat tree of 16 hosts"]["ftree"]; row[2] != "clean" || row[4].(float64) < 0.97 {
		t.Errorf("ftree on a tree: %v", row)
	}
	if row := at["4x4 torus"]["ftree"]; row[2] != "refused" {
		t.Errorf("ftree on a torus: %v", row)
	}
	if row := at["4x4 torus"]["minhop"]; row[2] != "cycles" || row[len(row)-1].(int) == 0 {
		t.Errorf("minhop on a torus: %v", row)
	}
}
