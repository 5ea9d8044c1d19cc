package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/minhop"
)

// TestRun: tables without cycles pass, shortest paths around a ring do not.
func TestRun(t *testing.T) {
	for kind, good := range map[string]bool{"mesh": true, "torus": false} {
		f, err := fabrictest.Generate(kind, []string{"6"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := fabric.AssignLIDs(f, 1); err != nil {
			t.Fatal(err)
		}
		g, err := f.Graph(fabric.GraphOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tables, err := minhop.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var netlist, dump bytes.Buffer
		if err := fabric.WriteNetlist(&netlist, f); err != nil {
			t.Fatal(err)
		}
		if err := routetest.WriteLFTs(&dump, g, tables); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		args := []string{filepath.Join(dir, "netlist"), filepath.Join(dir, "dump")}
		for i, b := range []*bytes.Buffer{&netlist, &dump} {
			if err := os.WriteFile(args[i], b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		err = run(args, &out)
		if (err == nil) != good || !strings.Contains(out.String(), "30 paths") {
			t.Errorf("%s: %v\n%s", kind, err, &out)
		}
	}
	if err := run([]string{"nowhere", "nothing"}, new(strings.Builder)); !os.IsNotExist(err) {
		t.Errorf("files that do not exist: %v", err)
	}
}
