package interop

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
)

// actions are the links that a manager has out of use.
func actions(t *testing.T, dir, addr string) (list []api.PortAction) {
	t.Helper()
	out := must(t, upTime, dir, nil, heddle, "ctl", "port", "list", "--json", "--api", addr)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return list
}

// awaitActions waits until what a manager has out of use is as it should be.
func awaitActions(t *testing.T, dir, addr, what string, ok func([]api.PortAction) bool) {
	t.Helper()
	for end := time.Now().Add(need.Patience); ; {
		list := actions(t, dir, addr)
		if ok(list) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %+v", what, list)
		}
		<-time.After(askAgain)
	}
}

// awaitDrained waits until a link is drained, and has no entries.
func awaitDrained(t *testing.T, dir, addr, port string) {
	t.Helper()
	awaitActions(t, dir, addr, port+" is drained", func(l []api.PortAction) bool {
		return len(l) == 1 && l[0].Action == "drain" && fmt.Sprintf("%s:%d", l[0].Description, l[0].Port) == port && l[0].Entries == 0
	})
}

// TestDrainTools: real tools see what is done to a link. While it is drained, ibroute has no entry through
// it, ibtracert goes around it and iblinkinfo shows it up; isolated, iblinkinfo shows the port disabled; after
// the restore the path leads over the link again.
func TestDrainTools(t *testing.T) {
	for _, x := range []string{"ibroute", "ibtracert", "iblinkinfo"} {
		need.Tool(t, x)
	}
	b := testNet{name: "tree", gen: []string{"xgft", "2", "3,3", "1,2"}}.build(t)
	_, env := b.simulate(t)
	addr := need.Addr(t)
	// Packets are short-lived, so that an isolated port need not wait for them.
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="), "--api", addr,
		"--packet-life", "8", "--hoq-life", "8", "--leaf-hoq-life", "8")
	sm.await("SUBNET UP\n", 0, upTime)
	env = append(env, "SIM_HOST="+b.cas[1])
	tool := func(args ...string) string {
		t.Helper()
		return must(t, upTime, b.dir, env, "ibsim-run", args...)
	}
	lids := map[string]int{} // by node
	for k, l := range b.seenLIDs(t, env[:1], b.cas[1]) {
		guid, _, _ := strings.Cut(k, "[")
		g, _ := ib.ParseGUID(guid)
		lids[b.fab.Nodes[b.fab.FindGUID(g)].ID] = l
	}
	at, dst := b.carrying(t, tool, lids)
	leaf := &b.fab.Nodes[at.Node]
	port := fmt.Sprintf("%s:%d", leaf.ID, at.Port)
	peer := b.fab.Port(at).Peer
	through := func(r fabric.Ref) int {
		n := 0
		for l := range strings.Lines(tool("ibroute", fmt.Sprint(lids[b.fab.Nodes[r.Node].ID]))) {
			if f := strings.Fields(l); len(f) > 2 && strings.HasPrefix(f[0], "0x") && f[1] == fmt.Sprintf("%03d", r.Port) {
				n++
			}
		}
		return n
	}
	trace := func() string { return tool("ibtracert", fmt.Sprint(lids[b.cas[0]]), fmt.Sprint(dst)) }
	step := regexp.MustCompile(fmt.Sprintf(`\[%d\] -> switch port \{0x0*%x\}`, at.Port, uint64(b.fab.Nodes[peer.Node].GUID)))
	link := func() string {
		for l := range strings.Lines(tool("iblinkinfo", "-S", leaf.GUID.String(), "-l")) {
			if strings.Contains(l, fmt.Sprintf(" %d[  ] ==(", at.Port)) {
				return l
			}
		}
		return ""
	}
	before := [2]int{through(at), through(peer)}
	if !step.MatchString(trace()) || before[0] == 0 || !strings.Contains(link(), "Active") {
		t.Fatalf("the link at %s carries nothing: %d entries\n%s%s", port, before[0], trace(), link())
	}
	act := func(verb string) {
		t.Helper()
		must(t, upTime, b.dir, nil, heddle, "ctl", "port", verb, port, "--apply", "--api", addr)
	}
	act("drain")
	awaitDrained(t, b.dir, addr, port)
	if through(at)+through(peer) != 0 || step.MatchString(trace()) || !strings.Contains(link(), "Active") {
		t.Errorf("drained: %d entries\n%s%s", through(at)+through(peer), trace(), link())
	}
	act("isolate")
	awaitActions(t, b.dir, addr, port+" is isolated", func(l []api.PortAction) bool { return len(l) == 1 && l[0].Disabled })
	if l := link(); !strings.Contains(l, "Down") || !strings.Contains(l, "Disabled") || step.MatchString(trace()) {
		t.Errorf("isolated: %s%s", l, trace())
	}
	act("restore")
	for end := time.Now().Add(need.Patience); !step.MatchString(trace()) || through(at) == 0 || through(peer) == 0 || !strings.Contains(link(), "Active"); {
		if time.Now().After(end) {
			t.Fatalf("restored: %d and %d entries, before %v\n%s%s", through(at), through(peer), before, trace(), link())
		}
		<-time.After(askAgain)
	}
}

// carrying is the port of a leaf over whose link to a switch the path from the first host to dst leads.
func (b *built) carrying(t *testing.T, tool func(...string) string, lids map[string]int) (at fabric.Ref, dst int) {
	t.Helper()
	for _, id := range b.cas[1:] {
		out := tool("ibtracert", fmt.Sprint(lids[b.cas[0]]), fmt.Sprint(lids[id]))
		for a, z := range b.fab.Links {
			for _, e := range [2][2]fabric.Ref{{a, z}, {z, a}} {
				x, y := &b.fab.Nodes[e[0].Node], &b.fab.Nodes[e[1].Node]
				if x.Type == ib.NodeSwitch && y.Type == ib.NodeSwitch && strings.HasPrefix(x.ID, "sw-1-") &&
					regexp.MustCompile(fmt.Sprintf(`\[%d\] -> switch port \{0x0*%x\}`, e[0].Port, uint64(y.GUID))).MatchString(out) {
					return e[0], lids[id]
				}
			}
		}
	}
	t.Fatal("no path leads over two switches")
	return at, 0
}
