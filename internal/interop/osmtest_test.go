package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/internal/ibtools"
	"heddle/internal/need"
)

// saBed is a simulated fabric that heddle manages over a virtual user-MAD
// device, for clients on such devices.
type saBed struct {
	built
	t    *testing.T
	sock string
	addr string // of the API
	sim  program
	sm   program
}

// newSABed brings a fabric up; args are further arguments of heddle sm.
func newSABed(t *testing.T, n testNet, args ...string) *saBed {
	t.Helper()
	need.FUSE(t)
	b := &saBed{built: n.build(t), t: t, addr: freeAddr(t)}
	var env []string
	b.sim, env = b.simulate(t)
	b.sock = strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	b.manage(args...)
	return b
}

// manage starts the manager on the first CA.
func (b *saBed) manage(args ...string) {
	b.t.Helper()
	argv := []string{
		"attach", b.cas[0] + "@" + b.sock, "--", heddle, "sm", "--port", "umad:heddle0/1",
		"--state", filepath.Join(b.dir, "state"), "--api", b.addr,
	}
	b.sm = start(b.t, b.dir, nil, heddle, append(argv, args...)...)
	b.sm.await("SUBNET UP\n", 0, upTime)
}

// tool runs a program on a node and returns what it printed.
func (b *saBed) tool(limit time.Duration, node string, argv ...string) (string, error) {
	b.t.Helper()
	return run(b.t, limit, b.dir, nil, heddle, append([]string{"attach", node + "@" + b.sock, "--"}, argv...)...)
}

// osmtest runs one of osmtest's flows on a node.
func (b *saBed) osmtest(node, flow string, args ...string) {
	b.t.Helper()
	guid := b.fab.Nodes[b.fab.Find(node)].Ports[1].GUID
	log := filepath.Join(b.dir, "osmtest-"+flow+".log")
	argv := append([]string{"osmtest", "-f", flow, "-i", filepath.Join(b.dir, "osmtest.dat"), "-l", log, "-g", guid.String()}, args...)
	began := time.Now()
	out, _ := b.tool(10*time.Minute, node, argv...) // its exit status says less than what it prints
	if strings.Contains(out, "FAIL") || !strings.Contains(out, "PASS") {
		text, _ := os.ReadFile(log)
		b.t.Errorf("osmtest -f %s %s on %s:\n%s\n%s", flow, strings.Join(args, " "), node, tail(out), tail(string(text)))
	}
	b.t.Logf("osmtest -f %s %s on %s: %v", flow, strings.Join(args, " "), node, time.Since(began).Round(time.Millisecond))
}

var smallTree = testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}

// TestOsmtest: every flow of osmtest passes with heddle as the subnet manager,
// from a node of its own and from the manager's.
func TestOsmtest(t *testing.T) {
	need.Tool(t, "osmtest")
	for i, flows := range [][]string{{"c", "v", "v -G", "m", "q", "e", "t"}, {"c", "s", "m"}, {"c", "a"}} {
		t.Run(strings.Join(flows, ""), func(t *testing.T) {
			t.Parallel()
			var args []string
			if i > 0 { // osmtest has OpenSM's key built in, which counts at the manager's own port alone
				args = []string{"--sa-key", "1"}
			}
			b := newSABed(t, smallTree, args...)
			for _, f := range flows {
				args := strings.Fields(f)
				b.osmtest(b.cas[3*i], args[0], args[1:]...) // the manager's first
			}
		})
	}
}

// TestOsmtestLong: stress levels, long loops, GRHs, more nets, more than one
// LID a port.
func TestOsmtestLong(t *testing.T) {
	need.Long(t)
	need.Tool(t, "osmtest")
	nets := []testNet{
		smallTree,
		{name: "torus", gen: []string{"torus", "4x4"}},
		{name: "irregular", gen: []string{"irregular", "16"}},
		{name: "net.1", file: "net.1"},
		{name: "net.2sw2path4hca", file: "net.2sw2path4hca"},
	}
	for _, n := range nets {
		t.Run(n.name, func(t *testing.T) {
			b := newSABed(t, n, "--sa-key", "1")
			client := b.cas[len(b.cas)-1]
			most := fmt.Sprintf("%#x", len(b.fab.Nodes)*2+100)
			b.osmtest(client, "c", "-m", most)
			for _, args := range [][]string{
				{"v"},
				{"v", "-G"},
				{"m"},
				{"m", "-M", "2"},
				{"m", "-M", "3"},
				{"m", "-M", "4"},
				{"s"},
				{"s", "-G"},
				{"q"},
				{"f", "-s", "1"},
				{"f", "-s", "2"},
				{"f", "-s", "3"},
				{"f", "-s", "4"},
				{"a"},
			} {
				b.osmtest(client, args[0], args[1:]...)
			}
		})
	}
	t.Run("lmc", func(t *testing.T) {
		b := newSABed(t, smallTree, "--lmc", "1", "--sa-key", "1")
		b.osmtest(b.cas[1], "c", "-d", "4")
		b.osmtest(b.cas[1], "v", "-d", "4")
	})
}

// TestOsmtestOverIbsim: over ibsim's protocol, where a table is one MAD,
// heddle passes every check that OpenSM passes there, on Debian's ibsim and on
// our simulator.
func TestOsmtestOverIbsim(t *testing.T) {
	need.Tool(t, "osmtest")
	b := smallTree.build(t)
	var sms string
	for i := range b.fab.Nodes {
		if b.fab.Nodes[i].IsSwitch() {
			sms = b.fab.Nodes[i].ID
			break
		}
	}
	check := func(t *testing.T, env []string) {
		sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
		// The checks want the manager's switch under LID 1, as OpenSM has it; what
		// it gave out stays.
		osm := append(env, "SIM_HOST="+sms, "OSM_TMP_DIR="+b.dir, "OSM_CACHE_DIR="+b.dir)
		must(t, upTime, b.dir, osm, "ibsim-run", need.Tool(t, "opensm"), "-o", "-e", "-f", filepath.Join(b.dir, "osm.log"))
		sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+sms+"@"+sock, "--api", "", "--sa-key", "1")
		sm.await("SUBNET UP\n", 0, upTime)
		passed, failed := ibtools.New(t, sock).RunChecks(t, b.cas[5], true, ibtools.Checks())
		t.Logf("%d passed, %d failed", passed, failed)
	}
	t.Run("heddle sim", func(t *testing.T) {
		_, env := b.simulate(t)
		check(t, env)
	})
	t.Run("ibsim", func(t *testing.T) {
		need.Long(t)
		_, env := b.ibsim(t)
		check(t, env)
	})
}
