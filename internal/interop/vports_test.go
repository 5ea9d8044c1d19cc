package interop

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/internal/need"
)

// A vmBed is a simulated fabric with a hypervisor of each model, each with a VM.
type vmBed struct {
	built
	t    *testing.T
	sim  program
	env  []string
	sock string
	vms  []vmOptions
}

type vmOptions struct {
	name, host string
	vf         int
	conf       string // arguments of the console's hypervisor command
	place      string // further ones of vm place
	guid       string // 16 digits
}

func newVMBed(t *testing.T) *vmBed {
	t.Helper()
	b := &vmBed{t: t, built: testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)}
	b.sim, b.env = b.simulate(t)
	b.sock = strings.TrimPrefix(b.env[0], "IBSIM_SOCKNAME=")
	b.vms = []vmOptions{
		{"onshared", b.cas[3], 2, "shared 4", "", "0002c90300aa0001"},
		{"onvswitch", b.cas[6], 1, "vswitch 4", "", "0002c90300aa0002"},
		{"onvport", b.cas[9], 3, "vport 4", "0x0002c90300aa0003", "0002c90300aa0003"},
		{"withlid", b.cas[12], 1, "vport 4", "0x0002c90300aa0004 own", "0002c90300aa0004"},
	}
	for _, v := range b.vms {
		b.console("hypervisor %q %s", v.host, v.conf)
		b.console("vm place %s %q %d %s", v.name, v.host, v.vf, v.place)
	}
	return b
}

func (b *vmBed) console(format string, a ...any) {
	fmt.Fprintf(b.sim.In, format+"\n", a...)
}

// in runs a program in a VM or on a node.
func (b *vmBed) in(where string, args ...string) string {
	b.t.Helper()
	out, _ := run(b.t, upTime, b.dir, nil, heddle, append([]string{"attach", where + "@" + b.sock, "--"}, args...)...)
	return out
}

// becomes waits until ibstat in a VM says so.
func (b *vmBed) becomes(vm, want string) string {
	b.t.Helper()
	end := time.Now().Add(upTime)
	for {
		out := b.in(vm, "ibstat")
		if regexp.MustCompile(want).MatchString(out) {
			return out
		}
		if time.Now().After(end) {
			b.t.Fatalf("ibstat in %s does not say %q:\n%s", vm, want, out)
		}
	}
}

// TestVPortsFromOpenSM: OpenSM brings up the ports of hypervisors and ignores VPorts;
// heddle takes the subnet over, with its LIDs, and brings the VPorts up.
func TestVPortsFromOpenSM(t *testing.T) {
	need.FUSE(t)
	for _, tool := range []string{"opensm", "ibstat", "saquery", "smpquery"} {
		need.Tool(t, tool)
	}
	b := newVMBed(t)
	osm := b.opensm(t, b.env, b.cas[0], 0)
	osm.await("SUBNET UP", 0, upTime)
	lids := map[string]string{}
	lid := regexp.MustCompile(`Base lid: (\d+)`)
	for _, v := range b.vms {
		if out := b.in(v.name, "ibstat"); !strings.Contains(out, "State: Down") {
			t.Errorf("%s under OpenSM:\n%s", v.name, out)
		}
		out := b.in(v.host, "ibstat")
		if m := lid.FindStringSubmatch(out); !strings.Contains(out, "State: Active") || m == nil {
			t.Errorf("%s under OpenSM:\n%s", v.host, out)
		} else {
			lids[v.host] = m[0]
		}
	}
	osm.stop(syscall.SIGINT)

	state, addr := filepath.Join(b.dir, "state"), need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+b.sock, "--state", state, "--api", addr)
	sm.await("SUBNET UP\n", 0, upTime)
	for _, v := range b.vms {
		if out := b.in(v.host, "ibstat"); !strings.Contains(out, lids[v.host]) {
			t.Errorf("%s had %s under OpenSM:\n%s", v.host, lids[v.host], out)
		}
	}
	// The GUIDs of VPorts come from their hypervisors: the manager needs to be
	// told nothing. The LID is the port's, or one of its own.
	shared := b.becomes("onvport", "State: Active")
	own := b.becomes("withlid", "State: Active")
	for what, ok := range map[string]bool{
		"onvport has its hypervisor's LID":     strings.Contains(shared, lids[b.vms[2].host]+"\n"),
		"onvport has its GUID":                 strings.Contains(shared, "0x"+b.vms[2].guid),
		"withlid has another LID than its own": !strings.Contains(own, lids[b.vms[3].host]+"\n") && lid.MatchString(own),
		"withlid has its GUID":                 strings.Contains(own, "0x"+b.vms[3].guid),
	} {
		if !ok {
			t.Errorf("not so: %s\n%s\n%s", what, shared, own)
		}
	}
	// saquery sends no GRH: it reaches the SA from a VPort with a LID of its own.
	if n := strings.Count(b.in("withlid", "saquery", "NR"), "NodeRecord dump"); n == 0 {
		t.Error("saquery NR in withlid finds no nodes")
	}
	// Others see a VPort as they see a port.
	out := b.in(b.cas[1], "saquery", "--sgid-to-dgid", "fe80::"+spell(b.vms[3].guid)+"-fe80::"+spell(b.vms[2].guid))
	if n := lid.FindStringSubmatch(own); !strings.Contains(out, "PathRecord dump") || n == nil || !strings.Contains(out, "slid."+strings.Repeat(".", 19)+n[1]) {
		t.Errorf("the path from withlid to onvport:\n%s", out)
	}
}

// spell is the lower half of a GID as people write it.
func spell(guid string) string {
	return guid[0:4] + ":" + guid[4:8] + ":" + guid[8:12] + ":" + guid[12:16]
}
