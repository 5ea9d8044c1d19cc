package interop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
)

// pair is two managers of one fabric, as processes.
type pair struct {
	b     *built
	t     *testing.T
	sock  string
	guids [2]ib.GUID
	// named is the GUID that manager i is given as that of the other one; 0: its own.
	named [2]ib.GUID
	addr  [2]string // of their APIs
	ports [2]int    // on which they copy
	prog  [2]program
	bin   [2]string // their programs; "": heddle
	more  []string  // arguments of both; NUMBER becomes 0 and 1
	// devices: the ports are emulated devices, not those of ibsim.
	devices bool
	// via are proxies on the way to the other manager's ports; 0: none.
	via [2]int
}

// newPair prepares two managers on the first two hosts.
func newPair(t *testing.T, b *built, sock string, more ...string) *pair {
	t.Helper()
	p := &pair{b: b, t: t, sock: sock, more: more}
	first := need.Port(t, 4)
	for i := range 2 {
		p.ports[i], p.addr[i] = first+i, fmt.Sprintf("127.0.0.1:%d", first+2+i)
		p.guids[i] = b.portGUID(b.cas[i])
	}
	must(t, upTime, b.dir, nil, heddle, "ctl", "ha", "certs", "--dir", "pair", "localhost", "127.0.0.1")
	return p
}

// portGUID is that of the only port of a CA.
func (b *built) portGUID(id string) ib.GUID {
	i := slices.IndexFunc(b.fab.Nodes, func(n fabric.Node) bool { return n.ID == id })
	return b.fab.Nodes[i].Ports[1].GUID
}

// start starts manager i, and waits until it serves its API.
func (p *pair) start(i int) {
	p.t.Helper()
	p.prog[i] = p.run(i)
	p.prog[i].await("serving the API", 0, upTime)
}

// run starts manager i.
func (p *pair) run(i int) program {
	p.t.Helper()
	args := p.args(i)
	return start(p.t, p.b.dir, nil, args[0], args[1:]...)
}

// args are the command of manager i. The hosts of both are this one: by name and by address.
func (p *pair) args(i int) []string {
	hosts := [2]string{"localhost", "127.0.0.1"}
	peer := p.ports[1-i]
	if p.via[1-i] != 0 {
		peer = p.via[1-i]
	}
	args := []string{
		"sm", "--port", "ibsim:" + p.b.cas[i] + "@" + p.sock, "--state", filepath.Join(p.b.dir, fmt.Sprint("state", i)),
		"--api", p.addr[i], "--peer-api", p.addr[1-i], "--log-level", "info", "--claim-wait", "1m", "--sa-key", "1",
		"--peer", fmt.Sprintf("%s:%d", hosts[1-i], peer), "--peer-guid", cmp.Or(p.named[i], p.guids[1-i]).String(),
		"--ha-listen", fmt.Sprintf("127.0.0.1:%d", p.ports[i]), "--ha-dir", filepath.Join(p.b.dir, "pair", hosts[i]),
	}
	for _, a := range p.more {
		args = append(args, strings.ReplaceAll(a, "NUMBER", fmt.Sprint(i)))
	}
	args = append([]string{cmp.Or(p.bin[i], heddle)}, args...)
	if p.devices {
		args[3] = "umad:heddle0/1"
		args = append([]string{args[0], "attach", p.b.cas[i] + "@" + p.sock, "--"}, args...)
	}
	return args
}

// ha is how manager i says that it stands.
func (p *pair) ha(i int) (h api.HA) {
	p.t.Helper()
	getJSON(p.t, "http://"+p.addr[i]+"/v1/ha", &h)
	return h
}

// until asks the manager i until ok.
func (p *pair) until(i int, what string, ok func(api.HA) bool) {
	p.t.Helper()
	for end := time.Now().Add(need.Patience); ; {
		h := p.ha(i)
		if ok(h) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("manager %d is not %s: %+v %+v\n%s", i, what, h, h.Pair, p.said(i))
		}
		<-time.After(askAgain)
	}
}

// paired waits until one of the two is active, both have all entries, and the subnet is up, and
// returns the active one.
func (p *pair) paired() int {
	p.t.Helper()
	return p.copied(func(i int) bool { return status(p.t, p.addr[i]).SubnetUp })
}

// said is what manager i has said last.
func (p *pair) said(i int) string {
	if p.prog[i].Proc == nil {
		return ""
	}
	return tail(p.prog[i].Output())
}

// copied waits until one of the two is active for whom and holds, and both have all entries, and returns it.
func (p *pair) copied(and func(i int) bool) int {
	p.t.Helper()
	for end := time.Now().Add(need.Patience); ; {
		h := [2]api.HA{p.ha(0), p.ha(1)}
		if h[0].State == "paired" && h[1].State == "paired" && h[0].Active != h[1].Active {
			i := 0
			if h[1].Active {
				i = 1
			}
			if and(i) {
				return i
			}
		}
		if time.Now().After(end) {
			p.t.Fatalf("the two are not paired: %+v %+v\n%+v %+v", h[0], h[0].Pair, h[1], h[1].Pair)
		}
		<-time.After(askAgain)
	}
}

// serves waits until manager i is active and has brought the subnet up.
func (p *pair) serves(i int) {
	p.t.Helper()
	p.until(i, "active", func(h api.HA) bool { return h.Active })
	awaitState(p.t, p.b, p.addr[i], "MASTER", need.Patience)
}

// ctl runs a command of ctl ha at manager i.
func (p *pair) ctl(i int, args ...string) (string, error) {
	p.t.Helper()
	return run(p.t, upTime, p.b.dir, nil, heddle, append(append([]string{"ctl", "ha"}, args...), "--api", p.addr[i])...)
}

// joined makes a host a member of a group, which it creates.
func (a *asker) joined(snapLID ib.LID, mgid, port ib.GID) ib.Status {
	a.t.Helper()
	for {
		var m ib.MAD
		sa.New(&m, ib.MethodSet, sa.AttrMCMemberRecord, 0, sa.MCMemberCompMGID|sa.MCMemberCompPortGID|sa.MCMemberCompJoinState|
			sa.MCMemberCompQKey|sa.MCMemberCompTClass|sa.MCMemberCompPKey|sa.MCMemberCompSL|sa.MCMemberCompFlowLabel)
		r := sa.MCMemberRecord{MGID: mgid, PortGID: port, QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: 1}
		r.Put(sa.Data(&m))
		if st := a.exchange(mad.Addr{LID: snapLID, QP: 1}, 1, &m).Status(); st != ib.StatusBusy {
			return st
		}
	}
}

// seen is what real tools see of the subnet: LIDs, P_Key tables, and groups with their members.
type seen struct {
	lids   map[string]int
	pkeys  string
	groups string
}

// look looks from the fifth host.
func (p *pair) look() seen {
	p.t.Helper()
	env := []string{"IBSIM_SOCKNAME=" + p.sock}
	s := seen{lids: p.b.seenLIDs(p.t, env, p.b.cas[4])}
	env = append(env, "SIM_HOST="+p.b.cas[4])
	for _, l := range slices.Sorted(maps.Values(s.lids)) {
		out, err := run(p.t, upTime, p.b.dir, env, "ibsim-run", "smpquery", "pkeys", fmt.Sprint(l))
		if err == nil { // switches without a table refuse
			s.pkeys += fmt.Sprintln("LID", l) + out
		}
	}
	for _, q := range [][]string{{"-g"}, {"--smkey", "1", "MCMR"}} { // groups, and their members
		s.groups += must(p.t, upTime, p.b.dir, env, "ibsim-run", append([]string{"saquery"}, q...)...)
	}
	return s
}

// same compares what tools see with what they saw before.
func (p *pair) same(when string, before seen) {
	p.t.Helper()
	now := p.look()
	if !maps.Equal(now.lids, before.lids) {
		p.t.Errorf("%s: LIDs changed:\n%s", when, lidDiff(before.lids, now.lids))
	}
	if now.pkeys != before.pkeys {
		p.t.Errorf("%s: P_Keys changed:\n%s\nbefore:\n%s", when, now.pkeys, before.pkeys)
	}
	if now.groups != before.groups {
		p.t.Errorf("%s: groups changed:\n%s\nbefore:\n%s", when, now.groups, before.groups)
	}
}

// TestPair: two managers with one state. One is killed, hands over, and ends; the other one serves
// the same LIDs, P_Keys, groups and members, which the real tools see.
func TestPair(t *testing.T) {
	need.Tool(t, "saquery")
	need.Tool(t, "smpquery")
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	parts := filepath.Join(b.dir, "partitions.conf")
	tenant := fmt.Sprintf("Default=0x7fff, ipoib : ALL=full ;\nTenant=0x0042 : %v=full, %v=full ;\n", b.portGUID(b.cas[2]), b.portGUID(b.cas[3]))
	if err := os.WriteFile(parts, []byte(tenant), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, &b, sock, "--partitions", parts)
	p.start(0)
	p.start(1)
	active := p.paired()

	// A host joins, and hears that it has: that must outlast its manager.
	host := ask(t, sock, b.cas[3])
	lid := ib.LID(status(t, p.addr[active]).LID)
	if st := host.joined(lid, ib.MakeGID(0xFF12_A01C_0000_0000, 1), ib.MakeGID(ib.DefaultSubnetPrefix, b.portGUID(b.cas[3]))); st != 0 {
		t.Fatalf("join: %v", st)
	}
	host.c.Close()
	var shown api.HA // as the command has it
	out := must(t, upTime, b.dir, nil, heddle, "ctl", "ha", "status", "--json", "--api", p.addr[active])
	if err := json.Unmarshal([]byte(out), &shown); err != nil || !shown.Active || shown.State != "paired" {
		t.Errorf("ctl ha status: %v\n%s", err, out)
	}
	// A link is drained: that outlasts its manager too.
	must(t, upTime, b.dir, nil, heddle, "ctl", "port", "drain", "sw-1-1:5", "--apply", "--why", "errors", "--api", p.addr[active])
	awaitDrained(t, b.dir, p.addr[active], "sw-1-1:5")
	before := p.look()
	if !strings.Contains(before.pkeys, "0x8042") || !strings.Contains(strings.ToLower(before.groups), "ff12:a01c") {
		t.Fatalf("the tools see no tenant or no member:\n%s\n%s", before.pkeys, before.groups)
	}

	// The standby names the active one, to readers and to writers.
	standby := 1 - active
	for _, args := range [][]string{{"ctl", "nodes"}, {"ctl", "sweep"}} {
		out, err := run(t, upTime, b.dir, nil, heddle, append(args, "--api", p.addr[standby])...)
		if err == nil || !strings.Contains(out, "the active one is at "+p.addr[active]) {
			t.Errorf("%v at the standby: %v\n%s", args, err, out)
		}
	}
	if out, err := p.ctl(standby, "takeover"); err == nil {
		t.Errorf("a standby takes over from a manager that works: %s", out)
	}

	active = p.paired()
	p.prog[active].stop(syscall.SIGKILL)
	p.serves(1 - active)
	p.same("after the active one was killed", before)
	awaitDrained(t, b.dir, p.addr[1-active], "sw-1-1:5")

	// It comes back, and is standby. Then the active one hands over.
	p.start(active)
	for range 2 {
		active = p.paired()
		if out, err := p.ctl(active, "handover"); err != nil {
			t.Fatalf("handover: %v\n%s", err, out)
		}
		p.serves(1 - active)
		p.same("after a handover", before)
		awaitDrained(t, b.dir, p.addr[1-active], "sw-1-1:5")
	}

	// SIGTERM hands over too. The process stays until hosts need not ask it any more.
	active = p.paired()
	if err := p.prog[active].stop(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, tail(p.prog[active].Output()))
	}
	out = p.prog[active].Output()
	if up := status(t, p.addr[1-active]).SubnetUp; !up && !strings.Contains(out, "ha_left_early") {
		t.Errorf("the old manager ended before the new one had brought the subnet up:\n%s", tail(out))
	}
	if !strings.Contains(out, "kind=ha_relayed") {
		t.Errorf("the old manager passed no queries on:\n%s", tail(out))
	}
	p.serves(1 - active)
	p.same("after the active one ended", before)
	if out, err := p.ctl(1-active, "forks"); err != nil || out != "no changes were put aside\n" {
		t.Errorf("forks: %v\n%s", err, out)
	}

	// The last one alone, again.
	p.until(1-active, "alone", func(h api.HA) bool { return h.State == "alone" })
	p.prog[1-active].stop(syscall.SIGKILL)
	p.start(1 - active)
	p.serves(1 - active)
	p.same("after the last one was alone and was killed", before)
}

// TestPairWithOpenSM: a third manager is met as the specification has it. OpenSM of higher priority
// gets the subnet; the pair goes on copying, also when its active manager dies meanwhile; and it has
// the subnet again when OpenSM dies. No LID moves.
func TestPairWithOpenSM(t *testing.T) {
	need.Tool(t, "opensm")
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	p := newPair(t, &b, sock, "--priority", "1", "--poll-interval", "300ms", "--poll-retries", "2", "--sweep-interval", "500ms")
	p.start(0)
	p.start(1)
	p.paired()
	before := b.seenLIDs(t, env, b.cas[4])
	same := func(when string) {
		t.Helper()
		if now := b.seenLIDs(t, env, b.cas[4]); !maps.Equal(now, before) {
			t.Errorf("%s: LIDs changed:\n%s", when, lidDiff(before, now))
		}
	}
	osm := b.opensm(t, env, b.cas[5], 5)
	osm.await("SUBNET UP", osm.await("Entering MASTER", 0, upTime), upTime)
	active := p.copied(func(int) bool { return true })
	awaitState(t, &b, p.addr[active], "STANDBY", upTime)
	same("after the handover to OpenSM")

	p.prog[active].stop(syscall.SIGKILL)
	p.until(1-active, "active", func(h api.HA) bool { return h.Active })
	awaitState(t, &b, p.addr[1-active], "STANDBY", upTime)
	same("after the active one was killed beside OpenSM")

	osm.stop(syscall.SIGKILL)
	awaitState(t, &b, p.addr[1-active], "MASTER", upTime)
	same("after OpenSM was killed")
	p.start(active)
	p.paired()
	same("at the end")
}
