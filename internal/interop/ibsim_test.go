// Package interop holds the tests that join the built binary with programs
// that other people wrote: Debian's ibsim, OpenSM, infiniband-diags, osmtest
// and ibdmchk, and a browser.
package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"heddle/api"
	"heddle/fabric"
	"heddle/internal/need"
)

// upTime bounds a bring-up on a busy machine.
const upTime = need.Patience

// ibsim starts Debian's ibsim on a net and returns the environment of its
// clients.
func (b *built) ibsim(t *testing.T) (program, []string) {
	t.Helper()
	env := []string{"IBSIM_SOCKNAME=" + socketName()}
	p := start(t, b.dir, env, need.Tool(t, "ibsim"), "-s", "-n", "-N", "20000", "-S", "3000", "-P", "200000", b.path)
	// ibsim says nothing when it serves; its control socket answers.
	waitServing(t, b, env)
	return p, env
}

// waitServing waits until a client can attach.
func waitServing(t *testing.T, b *built, env []string) {
	t.Helper()
	out, err := run(t, upTime, b.dir, append(env, "SIM_HOST="+b.sm), "ibsim-run", "smpquery", "-D", "nodeinfo", "0")
	if err != nil {
		t.Fatalf("the simulator does not serve: %v\n%s", err, out)
	}
}

// status asks a manager's API.
func status(t *testing.T, addr string) (s api.Status) {
	t.Helper()
	getJSON(t, "http://"+addr+"/v1/status", &s)
	return s
}

// TestManageIbsim brings up a fabric of Debian's ibsim, and verifies it with real
// tools.
func TestManageIbsim(t *testing.T) {
	for _, n := range testNets {
		t.Run(n.name, func(t *testing.T) {
			if n.long {
				need.Long(t)
			}
			need.Tool(t, "ibsim")
			need.Tool(t, "smpquery")
			b := n.build(t)
			_, env := b.ibsim(t)
			port := "ibsim:" + b.sm + "@" + strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")

			dump := filepath.Join(b.dir, "dump")
			out := must(t, upTime, b.dir, nil, heddle, "sm", "--port", port, "--once", "--state", filepath.Join(b.dir, "state"), "--dump", dump)
			if !strings.Contains(out, "SUBNET UP\n") {
				t.Fatalf("no SUBNET UP:\n%s", tail(out))
			}
			checkDump(t, dump)

			addr := need.Addr(t)
			sm := start(t, b.dir, nil, heddle, "sm", "--port", port, "--state", filepath.Join(b.dir, "state"), "--api", addr)
			sm.await("SUBNET UP\n", 0, upTime)
			st := status(t, addr)
			if l := st.LastSweep; l.BlocksSent != 0 || l.Armed != 0 || l.Activated != 0 {
				t.Errorf("a second manager on an unchanged fabric sent %d LFT blocks, armed %d and activated %d ports; want none", l.BlocksSent, l.Armed, l.Activated)
			}
			if n.engine != "" && st.Engine != n.engine {
				t.Errorf("routes by %q (%s), want %q", st.Engine, st.EngineReason, n.engine)
			}
			checkTools(t, &b, env, true)
			if err := sm.stop(syscall.SIGTERM); err != nil {
				t.Errorf("heddle sm ended with %v on SIGTERM", err)
			}
		})
	}
}

// checkDump lets ibdmchk, an independent judge, walk the tables.
func checkDump(t *testing.T, dir string) {
	t.Helper()
	// The exit status says nothing: Debian's build crashes while cleaning up.
	out, _ := run(t, upTime, dir, nil, need.Tool(t, "ibdmchk"), "-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs")
	if !strings.Contains(out, "CA to CA paths") || !strings.Contains(out, "no credit loops found") || strings.Contains(out, "-E-") {
		t.Errorf("ibdmchk finds the routes wrong:\n%s", tail(out))
	}
}

// checkTools runs infiniband-diags against a running manager's subnet and
// compares what they find with the netlist. ours says that the manager is not OpenSM.
func checkTools(t *testing.T, b *built, env []string, ours bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	client := b.cas[r.IntN(len(b.cas))]
	cenv := append(env, "SIM_HOST="+client)
	tool := func(args ...string) string {
		t.Helper()
		return must(t, upTime, b.dir, cenv, "ibsim-run", args...)
	}
	got, err := fabric.ReadNetlist(strings.NewReader(tool("ibnetdiscover")), fabric.NetlistOptions{Name: "ibnetdiscover"})
	if err != nil {
		t.Fatalf("reading what ibnetdiscover printed: %v", err)
	}
	if d := diff(cables(got), cables(b.fab)); d != "" {
		t.Fatalf("ibnetdiscover differs from the netlist:\n%s", d)
	}
	// The LIDs are the manager's; what the discovery saw is taken for them.
	lidOf := func(id string) int {
		n := &got.Nodes[got.FindGUID(b.fab.Nodes[b.fab.Find(id)].GUID)]
		for p := range n.Ports {
			if l := n.Ports[p].LID; l != 0 {
				return int(l)
			}
		}
		t.Fatalf("%s has no LID", id)
		return 0
	}
	links := tool("iblinkinfo")
	if s := regexp.MustCompile(`(?m)^.*(Initialize|Armed|Init).*$`).FindString(links); s != "" {
		t.Errorf("a link is not Active: %s", s)
	}
	if n := strings.Count(links, "Active/  LinkUp"); n < b.fab.NumLinks() {
		t.Errorf("iblinkinfo shows %d Active ends for %d cables", n, b.fab.NumLinks())
	}
	expect := func(out, re string) {
		t.Helper()
		if !regexp.MustCompile(re).MatchString(out) {
			t.Errorf("want %q in:\n%s", re, tail(out))
		}
	}
	smNode := &b.fab.Nodes[b.fab.Find(b.sm)]
	sm := lidOf(b.sm)
	expect(tool("sminfo"), fmt.Sprintf(`sm lid %d sm guid %#x,.*SMINFO_MASTER`, sm, uint64(smNode.Ports[0].GUID)))
	// Where LinearFDBTop begins a block, ibroute stops one short of it.
	want := endPorts(b)
	if want%64 == 0 {
		want--
	}
	expect(tool("ibroute", fmt.Sprint(sm)), fmt.Sprintf(`(?m)^%d valid lids dumped`, want))
	for range 12 {
		from, to := b.cas[r.IntN(len(b.cas))], b.cas[r.IntN(len(b.cas))]
		if from != to {
			expect(tool("ibtracert", fmt.Sprint(lidOf(from)), fmt.Sprint(lidOf(to))), fmt.Sprintf(`(?m)^To ca \{%v\}`, b.fab.Nodes[b.fab.Find(to)].GUID))
		}
	}
	host := fmt.Sprint(lidOf(b.cas[r.IntN(len(b.cas))]))
	swPort := "1"
	for p := 1; p <= smNode.NumPorts; p++ {
		if smNode.Ports[p].Cabled() {
			swPort = fmt.Sprint(p)
			break
		}
	}
	swLID := fmt.Sprint(sm)
	for _, q := range []struct{ args, want string }{
		{"nodeinfo " + host, `NumPorts`},
		{"nodedesc " + host, `Node Description`},
		{"portinfo " + host + " 1", `LinkState:\.+Active`},
		{"portinfo " + swLID + " " + swPort, `LinkState:\.+Active`},
		{"switchinfo " + swLID, `LinearFdbTop`},
		{"pkeys " + host + " 0", `0xffff`},
		{"sl2vl " + swLID + " " + swPort, `SL2VL table`},
		{"vlarb " + swLID + " " + swPort, `VLArbitration tables`},
		{"guidinfo " + host, `(?i)guid`},
		{"mepi " + swLID + " " + swPort, `(?i)ExtPortInfo|LinkSpeed`},
	} {
		expect(tool(append([]string{"smpquery"}, strings.Fields(q.args)...)...), q.want)
	}
	expect(tool("perfquery", host, "1"), `PortXmitData`)
	expect(tool("perfquery", "-x", host, "1"), `PortUnicastXmitPkts`)
	expect(tool("ibqueryerrors", "--skip-sl"), `, 0 bad nodes found`)
	all, _ := run(t, upTime, b.dir, cenv, "ibsim-run", "saquery", "-p") // more than this client can take
	if ours {
		expect(all, `SA_ERR_TOO_MANY_RECORDS`)
	} else { // OpenSM sends the beginning, as if it were all
		expect(all, `PathRecord dump`)
	}
	expect(tool("saquery", "--slid", host, "--dlid", swLID, "PR"), `PathRecord dump`)
	expect(tool("saquery", "NR", host), `NodeRecord dump`)
	expect(tool("saquery", "CPI"), `SA ClassPortInfo`)
}

// endPorts counts the ports with a LID: one for each switch and each cabled
// CA port.
func endPorts(b *built) (n int) {
	for i := range b.fab.Nodes {
		nd := &b.fab.Nodes[i]
		if nd.IsSwitch() {
			n++
			continue
		}
		for p := 1; p <= nd.NumPorts; p++ {
			if nd.Ports[p].Cabled() {
				n++
			}
		}
	}
	return n
}

// TestDumpOfTools keeps cables honest: it must see a difference.
func TestDumpOfTools(t *testing.T) {
	read := func(s string) *fabric.Fabric {
		f, err := fabric.ReadNetlist(bytes.NewReader([]byte(s)), fabric.NetlistOptions{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a := read("Switch 2 \"S\"\n[1] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"S\"[1]\n")
	b := read("Switch 2 \"S\"\n[2] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"S\"[2]\n")
	if diff(cables(a), cables(b)) == "" || diff(cables(a), cables(a)) != "" {
		t.Error("cables does not tell fabrics apart")
	}
}
