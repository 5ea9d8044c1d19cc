package interop

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
)

// TestSAQueryAndVPorts: an unmodified saquery, which sends no GRH, works from a VPort
// with its own LID; on a host, the HopLimit of paths to VPorts says which of them need
// a GRH.
func TestSAQueryAndVPorts(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "saquery")
	b := newVMBed(t)
	addr := need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+b.sock+",rmpp=on", "--api", addr)
	sm.await("SUBNET UP\n", 0, upTime)
	shared, own := &b.vms[2], &b.vms[3]
	b.becomes(shared.name, "State: Active")
	b.becomes(own.name, "State: Active")
	gid := func(v *vmOptions) string { return "fe80::" + spell(v.guid) }
	ports := endPorts(&b.built)
	path := func(where, src, dst string) (dlid, hops string) {
		t.Helper()
		for end := time.Now().Add(upTime); ; {
			out := b.in(where, "saquery", "PR", "--sgid", src, "--dgid", dst)
			d, h := regexp.MustCompile(`dlid\.+(\S+)`).FindStringSubmatch(out), regexp.MustCompile(`hop_flow_raw\.+(\S+)`).FindStringSubmatch(out)
			if strings.Count(out, "PathRecord dump") == 1 && d != nil && h != nil {
				return d[1], h[1]
			}
			if time.Now().After(end) { // it may be on its way for a moment
				t.Fatalf("path from %s to %s, asked on %s:\n%s", src, dst, where, out)
			}
		}
	}
	host := "fe80::" + spell(strings.TrimPrefix(b.fab.Nodes[b.fab.Find(b.cas[1])].Ports[1].GUID.String(), "0x"))
	for _, c := range []struct{ where, src, dst, hops string }{
		{b.cas[1], host, gid(shared), "0x2"},
		{b.cas[1], host, gid(own), "0x0"},
		{own.name, gid(own), host, "0x0"},
		{own.name, gid(own), gid(shared), "0x2"},
	} {
		if _, hops := path(c.where, c.src, c.dst); hops != c.hops {
			t.Errorf("path from %s to %s: hop limit %s, want %s", c.src, c.dst, hops, c.hops)
		}
	}
	// It moves with its LID: the path is the same, and it asks from there.
	lid, _ := path(b.cas[1], host, gid(own))
	b.console("vm move %s %q 2", own.name, shared.host)
	b.becomes(own.name, "State: Active")
	if now, hops := path(b.cas[1], host, gid(own)); now != lid || hops != "0x0" {
		t.Errorf("LID %s, hop limit %s after it moved, LID %s before", now, hops, lid)
	}
	if _, hops := path(own.name, gid(own), gid(shared)); hops != "0x2" {
		t.Errorf("inside an adapter: hop limit %s", hops)
	}
	if n := strings.Count(b.in(own.name, "saquery", "NR"), "NodeRecord dump"); n != ports {
		t.Errorf("%d NodeRecords in a VM, want %d: VPorts are none", n, ports)
	}
	if out := b.in(own.name, "saquery", "CPI"); !strings.Contains(out, "SA ClassPortInfo") {
		t.Errorf("ClassPortInfo in a VM:\n%s", out)
	}
}
