package interop

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
)

// TestManageVirtualDevice runs heddle sm on a virtual user-MAD device with real
// clients, some on the same HCA: over umad a table arrives whole.
func TestManageVirtualDevice(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "saquery")
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	sim, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	attach := func(node string, args ...string) []string {
		return append([]string{"attach", node + "@" + sock, "--"}, args...)
	}
	tool := func(node string, args ...string) string {
		t.Helper()
		return must(t, upTime, b.dir, nil, heddle, attach(node, args...)...)
	}
	state := filepath.Join(b.dir, "state")
	manager := b.cas[0]
	if out := tool(manager, heddle, "sm", "--port", "umad:heddle0/1", "--once", "--state", state); !strings.Contains(out, "SUBNET UP\n") {
		t.Fatalf("no SUBNET UP:\n%s", tail(out))
	}
	if out := tool(b.cas[1], "ibstat"); !strings.Contains(out, "State: Active") {
		t.Errorf("after --once a port is not Active:\n%s", out)
	}

	addr := need.Addr(t)
	sm := start(t, b.dir, nil, heddle, attach(manager, heddle, "sm", "--port", "umad:heddle0/1", "--state", state, "--api", addr)...)
	sm.await("SUBNET UP\n", 0, upTime)
	if l := status(t, addr).LastSweep; l.BlocksSent != 0 || l.Armed != 0 || l.Activated != 0 {
		t.Errorf("a second manager on an unchanged fabric sent %d LFT blocks, armed %d and activated %d ports; want none", l.BlocksSent, l.Armed, l.Activated)
	}
	nodes, ports := len(b.fab.Nodes), endPorts(&b)
	for _, node := range []string{b.cas[3], manager} { // elsewhere, and on the manager's own HCA
		for _, c := range []struct {
			want int
			dump string
			args []string
		}{
			{ports, "NodeRecord dump", []string{"saquery", "-N"}},
			{ports, "NodeRecord dump", []string{"saquery", "NR"}},
			{ports * ports, "PathRecord dump", []string{"saquery", "-p"}},
			{1, "PathRecord dump", []string{"saquery", "--slid", "2", "--dlid", "3", "PR"}},
		} {
			if n := strings.Count(tool(node, c.args...), c.dump); n != c.want {
				t.Errorf("%s on %s: %d records, want %d", strings.Join(c.args, " "), node, n, c.want)
			}
		}
		if out := tool(node, "sminfo"); !strings.Contains(out, "SMINFO_MASTER") {
			t.Errorf("sminfo on %s: %s", node, out)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^(Ca|Switch)\s`).FindAllString(tool(b.cas[2], "ibnetdiscover"), -1)); n != nodes {
		t.Errorf("ibnetdiscover finds %d nodes, want %d", n, nodes)
	}
	// A cable goes: the trap arrives through the device and the manager acts.
	fmt.Fprintf(sim.In, "link down %q[1]\n", b.cas[5])
	sm.await("kind=node_gone", 0, upTime) // the host and its link
	// A second manager on the same HCA is told why it cannot.
	out, err := run(t, upTime, b.dir, nil, heddle, attach(manager, heddle, "sm", "--port", "umad:heddle0/1", "--once")...)
	if err == nil || !strings.Contains(out, "another") {
		t.Errorf("a second manager on one HCA: %v\n%s", err, tail(out))
	}
	if err := sm.stop(syscall.SIGTERM); err != nil {
		t.Errorf("heddle sm ended with %v on SIGTERM", err)
	}
	if out := tool(manager, "ibstat"); strings.Contains(out, "0x0661ca6e") {
		t.Errorf("IsSM is still set:\n%s", out)
	}
}

// TestUpServesBothKindsOfClients: on `heddle up` a client on a virtual device gets a
// whole table; a client under ibsim-run gets a table that fits one MAD, or an error if
// it does not fit.
func TestUpServesBothKindsOfClients(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "saquery")
	dir, sock := t.TempDir(), socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "xgft,2,4,4,1,2", "--api", "", "--socket", sock)
	up.await("SUBNET UP\n", 0, upTime)
	whole := must(t, upTime, dir, nil, heddle, "attach", "host-3@"+sock, "--", "saquery", "NR")
	if n := strings.Count(whole, "NodeRecord dump"); n != 22 {
		t.Errorf("%d NodeRecords through a virtual device, want 22", n)
	}
	env := []string{"IBSIM_SOCKNAME=" + sock, "SIM_HOST=host-3"}
	for _, c := range []struct {
		query, dump string
		n           int
	}{
		{"NR", "SA_ERR_TOO_MANY_RECORDS", 1},
		{"PR", "SA_ERR_TOO_MANY_RECORDS", 1},
		{"NR 3", "NodeRecord dump", 1},
		{"CPI", "SA ClassPortInfo", 1},
	} {
		out, _ := run(t, upTime, dir, env, "ibsim-run", append([]string{"saquery"}, strings.Fields(c.query)...)...)
		if n := strings.Count(out, c.dump); n != c.n {
			t.Errorf("%d of %q under ibsim-run, want %d:\n%s", n, c.dump, c.n, tail(out))
		}
	}
}

// TestOwnRMPP tests transport/rmpp over ibsim's protocol between peers that reassemble,
// and over a device whose kernel leaves RMPP alone, with a client whose kernel does
// RMPP.
func TestOwnRMPP(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "saquery")
	for _, over := range []string{"ibsim", "umad"} {
		t.Run(over, func(t *testing.T) {
			b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
			_, env := b.simulate(t)
			sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
			args := []string{"sm", "--port", "ibsim:" + b.cas[0] + "@" + sock + ",rmpp=on", "--api", ""}
			if over == "umad" {
				args = []string{"attach", b.cas[0] + "@" + sock, "--", heddle, "sm", "--port", "umad:heddle0/1,rmpp=own", "--api", ""}
			}
			sm := start(t, b.dir, nil, heddle, args...)
			sm.await("SUBNET UP\n", 0, upTime)
			out := must(t, upTime, b.dir, nil, heddle, "attach", b.cas[2]+"@"+sock, "--", "saquery", "-p")
			if n, want := strings.Count(out, "PathRecord dump"), endPorts(&b)*endPorts(&b); n != want {
				t.Errorf("%d PathRecords, want %d", n, want)
			}
			if err := sm.stop(syscall.SIGTERM); err != nil {
				t.Errorf("heddle sm ended with %v on SIGTERM", err)
			}
		})
	}
}

// TestLargeTable: a table of 116 MB arrives whole, over any port of the manager.
func TestLargeTable(t *testing.T) {
	need.Long(t)
	need.Tool(t, "saquery")
	for _, port := range portKinds {
		t.Run(port, func(t *testing.T) {
			b := newSABed(t, port, testNet{name: "large", gen: []string{"xgft", "2", "36,36", "1,18"}})
			out, err := b.tool(upTime, b.cas[5], "sh", "-c", "saquery -t 500000 PR | grep -c 'PathRecord dump'")
			if want := endPorts(&b.built) * endPorts(&b.built); err != nil || strings.TrimSpace(out) != strconv.Itoa(want) {
				t.Errorf("%s PathRecords, want %d, %v", tail(out), want, err)
			}
		})
	}
}
