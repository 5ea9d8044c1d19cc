package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, " Switch, ") != 9 || !strings.HasSuffix(got, "\n18 nodes\n") {
		t.Errorf("a torus of 3×3 switches with a host each:\n%s", got)
	}
}
