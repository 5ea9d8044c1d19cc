package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"torus", "4x4", "hosts=2"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("want a line for each of three engines:\n%s", &out)
	}
	// Shortest paths on a torus wait for each other in a circle; the others do not.
	for i, free := range []bool{false, true, true} {
		if strings.HasSuffix(lines[i], " 0 credit cycles") != free {
			t.Errorf("free of credit cycles should be %v: %s", free, lines[i])
		}
	}
	if err := run([]string{"no-such-kind"}, &out); err == nil {
		t.Error("an unknown kind of fabric passes")
	}
}
