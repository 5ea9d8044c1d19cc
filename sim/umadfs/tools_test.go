package umadfs

import (
	"os"
	"strings"
	"testing"

	"heddle/internal/need"
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

// TestPermissions: a device is root's, and other users' as far as chmod and chown say so, which is what
// a udev rule does.
func TestPermissions(t *testing.T) {
	tool(t, "setpriv")
	if os.Geteuid() != 0 {
		need.Missing(t, "root", "another user opens a device")
	}
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	out := l.run(0, "H1", "sh", "-c", `dev=/dev/infiniband/umad0
try() { setpriv --reuid 1234 --regid $1 --clear-groups sh -c "exec 3<>$dev && echo $1 opens || echo $1 does not" 2> /dev/null || echo $1 does not; }
try 5678
chgrp 5678 $dev && try 5678
chmod 660 $dev && try 5678; try 5679
setpriv --reuid 1234 --clear-groups --regid 5678 chmod 666 $dev 2> /dev/null || echo only root
stat -c '%u:%g %a' $dev
chmod 606 $dev; try 5678; try 5679`)
	const want = "5678 does not\n5678 does not\n5678 opens\n5679 does not\nonly root\n0:5678 660\n5678 does not\n5679 opens\n"
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}
