package packaging

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	netlist "heddle/fabric"
	"heddle/ib"

	"heddle/internal/need"
)

// walkBlock is a block of commands of docs/opensm.md with the name that the comment before it gives.
var walkBlock = regexp.MustCompile("(?m)^ *<!-- walk: (\\w+) -->\n( *)```sh\n((?s:.*?))^ *```$")

// walk are the commands of docs/opensm.md, by name.
func walk(t *testing.T) (commands map[string]string) {
	t.Helper()
	b, err := os.ReadFile("../docs/opensm.md")
	if err != nil {
		t.Fatal(err)
	}
	commands = map[string]string{}
	var names []string
	for _, m := range walkBlock.FindAllStringSubmatch(string(b), -1) {
		commands[m[1]] = strings.ReplaceAll("\n"+m[3], "\n"+m[2], "\n")
		names = append(names, m[1])
	}
	if got, want := strings.Join(names, " "), "install look dump import switch back"; got != want {
		t.Fatalf("docs/opensm.md has the blocks %q, want %q", got, want)
	}
	return commands
}

// TestWalk: the commands of the walk are in docs/opensm.md, one after the other.
func TestWalk(t *testing.T) { walk(t) }

// What the subnet of the walk has.
const (
	walkHosts    = 648
	walkSwitches = 54
	walkAsleep   = 40 // hosts that are off while managers change
	walkMembers  = 64
	walkLimit    = 5 * time.Minute
)

// TestMigration walks from OpenSM to Heddle and back, in a clean Debian in which systemd is process 1,
// by the commands of docs/opensm.md alone. No LID moves, also none of hosts that are off meanwhile;
// hosts keep the groups that they joined; no join is lost of a host that joins all the time, as one does that was asked to
// reregister; no forwarding table is written.
func TestMigration(t *testing.T) {
	need.Long(t)
	commands := walk(t)
	r := debian(t, "opensm") // first: what it needs may be missing, and to build takes minutes
	p := build(t, "..", "1.0.0")
	f := simulate(t, filepath.Join(programs(t, p), "heddle"), "fattree", fmt.Sprint(walkHosts))
	m := r.boot(f, "host-1")
	m.copyIn(p.deb)

	m.do("mkdir -p /etc/opensm; echo force_log_flush TRUE > /etc/opensm/opensm.conf; systemctl start opensm")
	m.openSMUp(1)
	before := f.await(walkHosts + walkSwitches)
	sa := ib.LID(before[f.portOf("host-1")])
	probe := f.probe("host-2", sa)
	f.join(sa)
	f.power("down", walkAsleep)
	joined := m.members(t, "ff15:a000:")
	j := f.joiner("host-300", sa) // it joins during all that follows
	if len(joined) != 2*walkMembers {
		t.Fatalf("%d memberships, want %d:\n%s", len(joined), 2*walkMembers, strings.Join(joined, "\n"))
	}
	held := func(when string) {
		t.Helper()
		if now := m.members(t, "ff15:a000:"); !slices.Equal(now, joined) {
			t.Errorf("memberships %s: %d, want %d\n%s", when, len(now), len(joined), cmp.Diff(joined, now))
		}
	}
	awake := f.await(walkHosts + walkSwitches - walkAsleep)
	m.openSMUp(2) // it has swept without them
	probe.gap()
	dumped := j.same("with OpenSM", m, nil)

	var took time.Duration
	step := func(name string) string {
		begin := time.Now()
		out := m.do(commands[name])
		d := time.Since(begin)
		t.Logf("%-8s %6.1f s, %.2f s without answers of the SA", name, d.Seconds(), probe.gap().Seconds())
		if name != "back" {
			took += d
		}
		return out
	}
	step("install")
	// /sys is a simulated one, so udev does not run; this is what the rule of the package does.
	m.do("chgrp heddle /dev/infiniband/umad* /dev/infiniband/issm*; chmod 660 /dev/infiniband/umad* /dev/infiniband/issm*")
	const nothing = "taking over this subnet moves 0 LIDs, writes 0 LFT blocks, and leaves 0 options out"
	if out := step("look"); !strings.Contains(out, nothing) {
		t.Errorf("the look says\n%s", out)
	}
	step("dump")
	if out := step("import"); !strings.Contains(out, nothing) || !strings.Contains(out, fmt.Sprintf("%d LIDs", len(before))) {
		t.Errorf("the import says\n%s", out)
	}
	step("switch")
	t.Logf("in all   %6.1f s", took.Seconds())
	if took > walkLimit {
		t.Errorf("the walk took %v, want %v", took, walkLimit)
	}
	if now := f.lids(); !maps.Equal(now, awake) {
		t.Errorf("LIDs moved: %v", changed(awake, now))
	}
	if out := m.do("journalctl -u heddle@$port | grep -o '[0-9]* LFT blocks sent' | sort -u"); out != "0 LFT blocks sent" {
		t.Errorf("the first sweep: %s", out)
	}
	if out := m.do("journalctl -t heddle -p info HEDDLE_KIND=sweep_end -o json -n 1"); !strings.Contains(out, `"HEDDLE_CAUSE":"`) || !strings.Contains(out, `"PRIORITY":"6"`) {
		t.Errorf("the journal has no fields: %s", out)
	}
	if out := m.do("systemctl is-active heddle@$port; systemctl is-active opensm@$port || true; systemctl is-enabled opensm heddle@$port || true"); out != "active\ninactive\ndisabled\nenabled" {
		t.Errorf("services: %s", out)
	}
	held("after the switch")
	j.same("after the switch", m, dumped)
	f.power("up", walkAsleep)
	if now := f.await(len(before)); !maps.Equal(now, before) {
		t.Errorf("LIDs of hosts that came back: %v", changed(before, now))
	}

	f.power("down", walkAsleep)
	f.await(len(awake))
	probe.gap()
	step("back")
	// The service of OpenSM has started when its process has; it is master later.
	t.Logf("         %6.2f s without answers of the SA", probe.gap().Seconds())
	if now := f.lids(); !maps.Equal(now, awake) {
		t.Errorf("LIDs moved on the way back: %v", changed(awake, now))
	}
	held("on the way back")
	j.same("on the way back", m, dumped)
	f.power("up", walkAsleep)
	if now := f.await(len(before)); !maps.Equal(now, before) {
		t.Errorf("LIDs of hosts that came back to OpenSM: %v", changed(before, now))
	}
}

// openSMUp waits until OpenSM has brought the subnet up that often.
func (m *machine) openSMUp(times int) {
	m.t.Helper()
	m.do(fmt.Sprintf("while test $(cat /var/log/opensm.0x*.log | grep -c 'SUBNET UP') -lt %d; do sleep 0.2; done", times))
}

// copyIn puts a file into root's home directory.
func (m *machine) copyIn(file string) {
	m.t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.dir, "root", filepath.Base(file)), b, 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// power turns the last hosts off or on.
func (f *fabric) power(how string, n int) {
	f.t.Helper()
	for i := range n {
		if _, err := fmt.Fprintf(f.sim.In, "node %s \"host-%d\"\n", how, walkHosts-i); err != nil {
			f.t.Fatal(err)
		}
	}
}

// lids are the LIDs of all ports that ibnetdiscover finds, by GUID of the node and number.
func (f *fabric) lids() map[string]int {
	f.t.Helper()
	text := f.at("host-3", "ibnetdiscover")
	net, err := netlist.ReadNetlist(bytes.NewReader([]byte(text)), netlist.NetlistOptions{Name: "ibnetdiscover"})
	if err != nil {
		f.t.Fatal(err)
	}
	lids := map[string]int{}
	for i := range net.Nodes {
		n := &net.Nodes[i]
		for k := range n.Ports {
			if l := n.Ports[k].LID; l != 0 {
				lids[fmt.Sprintf("%v/%d", n.GUID, k)] = int(l)
			}
		}
	}
	return lids
}

// await waits until that many ports have LIDs.
func (f *fabric) await(n int) (lids map[string]int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d ports have LIDs", n), func() bool {
		lids = f.lids()
		return len(lids) == n
	})
	return lids
}

// portOf is the only port of a host, as lids has it.
func (f *fabric) portOf(host string) string {
	f.t.Helper()
	m := regexp.MustCompile(`Node GUID: (0x[0-9a-f]+)`).FindStringSubmatch(f.at(host, "ibstat"))
	if m == nil {
		f.t.Fatal("ibstat prints no GUID")
	}
	return m[1] + "/1"
}

// changed are the ports whose LIDs differ.
func changed(a, b map[string]int) (out []string) {
	for k, v := range a {
		if b[k] != v {
			out = append(out, fmt.Sprintf("%s %d to %d", k, v, b[k]))
		}
	}
	return out
}

// Groups that the hosts make: one for all of them, and one each.
func common() ib.GID        { return ib.GID{0: 0xFF, 1: 0x15, 2: 0xA0, 15: 0xFF} }
func ownGroup(i int) ib.GID { return ib.GID{0: 0xFF, 1: 0x15, 2: 0xA0, 14: 1, 15: byte(i)} }

// join has hosts join the common group and groups of their own.
func (f *fabric) join(sa ib.LID) {
	f.t.Helper()
	for i := range walkMembers {
		c := f.client(fmt.Sprintf("host-%d", 10+i), sa)
		for _, gid := range []ib.GID{common(), ownGroup(i)} {
			if _, err := c.join(gid); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// members are all memberships that saquery finds on the manager's own host, which may see them: group,
// MLID, port and state, a line each, sorted. Of groups with another prefix there are none.
func (m *machine) members(t *testing.T, prefix string) []string {
	t.Helper()
	var list []string
	for _, record := range strings.Split(m.do("saquery --smkey 1 MCMR"), "MCMember Record dump:")[1:] {
		if !strings.Contains(record, prefix) {
			continue
		}
		var fields []string
		for _, name := range []string{"MGID", "mlid", "PortGid", "JoinState"} {
			v := regexp.MustCompile(name + `\.+(\S+)`).FindStringSubmatch(record)
			if v == nil {
				t.Fatalf("saquery prints no %s: %s", name, record)
			}
			fields = append(fields, v[1])
		}
		list = append(list, strings.Join(fields, " "))
	}
	slices.Sort(list)
	return list
}
