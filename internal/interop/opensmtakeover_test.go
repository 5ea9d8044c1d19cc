package interop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/opensm"
)

// An opensmBed is a simulated subnet that OpenSM manages, on its first host.
type opensmBed struct {
	built
	t          *testing.T
	sim        program
	sock       string
	conf, osmd string // OpenSM's options and directory
	osm        program
}

func newOpenSMBed(t *testing.T, net testNet, options string) *opensmBed {
	t.Helper()
	need.FUSE(t)
	need.Tool(t, "opensm")
	b := &opensmBed{t: t, built: net.build(t)}
	var env []string
	b.sim, env = b.simulate(t)
	b.sock = strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	b.osmd = filepath.Join(b.dir, "opensm")
	if err := os.Mkdir(b.osmd, 0o755); err != nil {
		t.Fatal(err)
	}
	b.conf = filepath.Join(b.osmd, "opensm.conf")
	b.write(b.conf, "force_log_flush TRUE\nsa_db_dump TRUE\nsweep_interval 1\nsminfo_polling_timeout 500\nsm_priority 3\ndump_files_dir "+b.osmd+"\n"+options)
	return b
}

func (b *opensmBed) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// run starts OpenSM and waits until the subnet is up.
func (b *opensmBed) run(args ...string) {
	b.t.Helper()
	log := filepath.Join(b.osmd, "log")
	b.osm = start(b.t, b.dir, []string{"OSM_CACHE_DIR=" + b.osmd}, heddle, append([]string{
		"attach", b.cas[0] + "@" + b.sock, "--", "opensm", "-F", b.conf, "-e", "-f", log,
	}, args...)...)
	waitFile(b.t, log, "SUBNET UP")
}

// lids are the LIDs of all ports that the subnet has, as ibnetdiscover finds them.
func (b *opensmBed) lids() map[string]int {
	b.t.Helper()
	return b.seenLIDs(b.t, []string{"IBSIM_SOCKNAME=" + b.sock}, b.cas[2])
}

// awaitLIDs waits until as many ports have LIDs.
func (b *opensmBed) awaitLIDs(n int) (lids map[string]int) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%d ports have LIDs", n), func() bool {
		lids = b.lids()
		return len(lids) == n
	})
	return lids
}

// power turns hosts off or on.
func (b *opensmBed) power(how string, hosts []string) {
	b.t.Helper()
	for _, h := range hosts {
		if _, err := fmt.Fprintf(b.sim.In, "node %s %q\n", how, h); err != nil {
			b.t.Fatal(err)
		}
	}
}

// takeOver imports, with further arguments, into the directory's state.
func (b *opensmBed) imported(args ...string) (string, error) {
	return run(b.t, upTime, b.dir, nil, heddle, append([]string{
		"import", "opensm", "--conf", b.conf, "--cache", b.osmd, "--state", "state", "--port", "ibsim:" + b.cas[3] + "@" + b.sock, "--replace",
	}, args...)...)
}

// TestTakeOverFromOpenSM: heddle takes a running subnet over from OpenSM with what it imported, and
// OpenSM takes it back with what heddle exported. No LID moves, neither those of hosts that are off
// meanwhile; no group is lost; no block of a forwarding table is written that is right.
func TestTakeOverFromOpenSM(t *testing.T) {
	for _, c := range []struct {
		net    testNet
		off    int // hosts that are off when heddle takes over
		groups int
		// Without connect_roots OpenSM has no entries from root to root, which heddle writes.
		options string
	}{
		{smallTree, 3, 6, "routing_engine updn\nconnect_roots TRUE\n"},
		{testNet{name: "tree-648", gen: []string{"fattree", "648"}, long: true}, 40, 40, "routing_engine updn\nconnect_roots TRUE\n"},
	} {
		t.Run(c.net.name, func(t *testing.T) {
			if c.net.long {
				need.Long(t)
			}
			testTakeOver(newOpenSMBed(t, c.net, c.options), c.off, c.groups)
		})
	}
}

func testTakeOver(b *opensmBed, off, groups int) {
	t := b.t
	b.run()
	ports := len(b.cas) + b.fab.Count(ib.NodeSwitch)
	before := b.awaitLIDs(ports)
	lid := ib.LID(b.lidOf(t, b.sock, b.cas[0]))
	host := newSAClient(t, b.cas[1], b.sock, lid)
	made := b.makeGroups(host, groups)
	sleepers := b.cas[len(b.cas)-off:]
	b.power("down", sleepers)
	b.awaitLIDs(ports - off)
	// What OpenSM keeps is on disk when it has swept: it dumps its SA then.
	waitFile(t, filepath.Join(b.osmd, opensm.FileDump), fmt.Sprintf("0x%016x", uint64(made[len(made)-1].GUID())))

	joined := b.memberships(host, made)
	out, err := b.imported()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "taking over this subnet moves 0 LIDs, writes 0 LFT blocks, and leaves 0 options out") {
		t.Errorf("the comparison with the subnet:\n%s", out)
	}
	addr := need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--config", "heddle.yaml", "--priority", "9", "--api", addr, "--sa-key", "1")
	sm.await("SUBNET UP\n", 0, upTime)
	awaitState(t, &b.built, addr, "MASTER", upTime)
	sent := regexp.MustCompile(`sweep ends: .* (\d+) LFT blocks sent`).FindAllStringSubmatch(sm.Output(), -1)
	if len(sent) == 0 || slices.ContainsFunc(sent, func(m []string) bool { return m[1] != "0" }) {
		t.Errorf("heddle wrote forwarding tables: %q\n%s", sent, tail(sm.Output()))
	}
	if now := b.awaitLIDs(ports - off); !within(now, before) {
		t.Errorf("LIDs moved:\n%s", lidDiff(now, before))
	}
	host.lid = ib.LID(status(t, addr).LID)
	b.sameGroups("with heddle", host, joined)
	b.power("up", sleepers)
	if now := b.awaitLIDs(ports); !maps.Equal(now, before) {
		t.Errorf("LIDs of hosts that came back:\n%s", lidDiff(before, now))
	}
	if err := b.osm.stop(syscall.SIGTERM); err != nil {
		t.Logf("opensm ended: %v", err)
	}
	b.wayBack(sm, before, sleepers, host, joined)
}

// wayBack lets OpenSM take the subnet over with heddle's export alone, while some hosts are off.
func (b *opensmBed) wayBack(sm program, before map[string]int, sleepers []string, host *saClient, joined map[ib.GID]wire.MCMemberRecord) {
	t := b.t
	if err := sm.stop(syscall.SIGTERM); err != nil {
		t.Errorf("heddle sm ended with %v", err)
	}
	b.osmd = filepath.Join(b.dir, "back")
	out := must(t, upTime, b.dir, nil, heddle, "export", "opensm", "--config", "heddle.yaml", "--state", "state", "--out", b.osmd)
	if !strings.Contains(out, fmt.Sprintf("guid2lid: %d ports", len(before))) {
		t.Errorf("the export says\n%s", out)
	}
	b.power("down", sleepers)
	b.conf = filepath.Join(b.osmd, "opensm.conf")
	b.run()
	b.awaitLIDs(len(before) - len(sleepers))
	b.power("up", sleepers)
	if now := b.awaitLIDs(len(before)); !maps.Equal(now, before) {
		t.Errorf("LIDs moved on the way back:\n%s", lidDiff(before, now))
	}
	host.lid = ib.LID(b.lidOf(t, b.sock, b.cas[0]))
	b.sameGroups("on the way back", host, joined)
}

// within reports whether all of a are in b.
func within(a, b map[string]int) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// makeGroups has the second host create groups.
func (b *opensmBed) makeGroups(host *saClient, n int) (made []ib.GID) {
	const create = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState | wire.MCMemberCompQKey | wire.MCMemberCompTClass |
		wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	guid := b.fab.Nodes[b.fab.Find(b.cas[1])].Ports[1].GUID
	for i := range n {
		g := ib.GID{0: 0xFF, 1: 0x15, 2: 0xA0, 14: byte(i >> 8), 15: byte(i)}
		host.ask(ib.MethodSet, wire.AttrMCMemberRecord, create, 0, &wire.MCMemberRecord{MGID: g, PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, guid), JoinState: wire.JoinFull, QKey: 1, PKey: 0xFFFF})
		made = append(made, g)
	}
	return made
}

// memberships are those of the second host in groups: with their MLIDs, states and what else the record has.
func (b *opensmBed) memberships(host *saClient, groups []ib.GID) map[ib.GID]wire.MCMemberRecord {
	b.t.Helper()
	list := map[ib.GID]wire.MCMemberRecord{}
	port := ib.MakeGID(ib.DefaultSubnetPrefix, b.fab.Nodes[b.fab.Find(b.cas[1])].Ports[1].GUID)
	for _, g := range groups {
		var r wire.MCMemberRecord
		if err := r.Decode(host.ask(ib.MethodGet, wire.AttrMCMemberRecord, wire.MCMemberCompMGID|wire.MCMemberCompPortGID, 1, &wire.MCMemberRecord{MGID: g, PortGID: port})); err != nil {
			b.t.Fatal(err)
		}
		list[g] = r
	}
	return list
}

// sameGroups compares memberships with those of before: another manager must not change an MLID, nor a member.
func (b *opensmBed) sameGroups(when string, host *saClient, before map[ib.GID]wire.MCMemberRecord) {
	b.t.Helper()
	now := b.memberships(host, slices.Collect(maps.Keys(before)))
	for g, was := range before {
		if r := now[g]; r.MLID != was.MLID || r.PortGID != was.PortGID || r.JoinState != was.JoinState || r.PKey != was.PKey || r.QKey != was.QKey {
			b.t.Errorf("group %v %s: %+v, was %+v", g, when, r, was)
		}
	}
}
