package umadfs

import (
	"strings"
	"testing"

	"heddle/sim"
)

// TestIbstat: the unmodified program sees the node's adapter in the class tree, and its
// changes.
func TestIbstat(t *testing.T) {
	tool(t, "ibstat", "smpquery")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	out := l.run(0, "H1", "ibstat")
	for _, want := range []string{"CA 'heddle0'", "Number of ports: 1", "State: Initializing", "Physical state: LinkUp", "Link layer: InfiniBand"} {
		if !strings.Contains(out, want) {
			t.Errorf("ibstat does not say %q:\n%s", want, out)
		}
	}
	out = l.run(0, "H6", "ibstat", "-l")
	if out != "heddle0\n" {
		t.Errorf("ibstat -l: %q", out)
	}
	out = l.run(0, "H1", "smpquery", "-D", "nodeinfo", "0")
	if !strings.Contains(out, "Channel Adapter") {
		t.Errorf("nodeinfo 0:\n%s", out)
	}
	out = l.run(0, "H1", "smpquery", "-D", "nodedesc", "0,1,7,1")
	if !strings.Contains(out, "host4") {
		t.Errorf("nodedesc 0,1,7,1:\n%s", out)
	}
}
