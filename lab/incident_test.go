package lab

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/incident"
	"heddle/internal/fabrictest"
	"heddle/sim"
	"heddle/sm"
)

// incidents puts the notices of a manager together, as the daemon does.
type incidents struct {
	c      *Cluster
	m      *Manager
	core   *incident.Core
	read   int
	next   uint64
	events []incident.Event
	facts  []incident.Fact
}

func watchIncidents(c *Cluster, m *Manager) *incidents {
	x := &incidents{c: c, m: m, core: incident.New(), read: len(m.Notices), next: 1}
	m.OnStep = x.step
	return x
}

func (x *incidents) step() {
	at := time.Unix(0, int64(x.c.Sim.Now())).UTC()
	if due := x.core.Due(); !due.IsZero() && !at.Before(due) {
		x.add(x.core.Release(x.next, x.m.Snap))
	}
	for ; x.read < len(x.m.Notices); x.read++ {
		n := &x.m.Notices[x.read]
		if n.Level < sm.Info {
			continue
		}
		f := incident.Fact{
			Kind: n.Kind.String(), At: at, Node: n.Where.Node, NodeDesc: n.Where.Desc, Port: n.Where.Port,
			Peer: n.Peer.Node, PeerDesc: n.Peer.Desc, PeerPort: n.Peer.Port, Snap: x.m.Snap, Tag: n,
		}
		x.facts = append(x.facts, f)
		x.add(x.core.Step(&f, x.next))
	}
}

func (x *incidents) add(list []incident.Event) {
	x.events = append(x.events, list...)
	x.next += uint64(len(list))
}

// since are the events of some kinds from a place in the list on.
func (x *incidents) since(n int, kinds ...string) (list []incident.Event) {
	x.add(x.core.Release(x.next, x.m.Snap))
	for _, e := range x.events[n:] {
		if slices.Contains(kinds, e.Kind) {
			list = append(list, e)
		}
	}
	return list
}

var (
	downKinds = []string{"node_gone", "link_down", "node_silent"}
	upKinds   = []string{"node_new", "link_up", "node_answers"}
)

// TestSpinePulled: a spine with 36 cables that is pulled, comes back, or stops answering is one event with
// its 36 links, and what the manager does about it has its cause.
func TestSpinePulled(t *testing.T) {
	f, err := fabrictest.Generate("xgft", []string{"2", "2,36", "1,3"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 3 * time.Microsecond}, TrialConfig())
	x := watchIncidents(c, m)
	spine := ""
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() && f.Nodes[i].NumPorts == 36 {
			spine = f.Nodes[i].ID
		}
	}
	for _, step := range []struct {
		what        string
		do          func() error
		kinds       []string
		kind, text  string
		links, with int
	}{
		{"pulled", func() error { return c.Sim.NodeDown(spine) }, downKinds, "node_gone", "left the subnet: 36 links", 36, 0},
		{"back", func() error { return c.Sim.NodeUp(spine) }, upKinds, "node_new", "joined the subnet: 36 links", 36, 0},
		{"mute", func() error { return c.Sim.MuteSMA(spine, true) }, downKinds, "node_silent", "does not answer; its links are up: 36 links", 36, 0},
	} {
		from := len(x.events)
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		c.Run(20 * time.Second)
		list := x.since(from, step.kinds...)
		if len(list) != 1 || list[0].Kind != step.kind || list[0].NodeDesc != spine || len(list[0].Links) != step.links || list[0].Text != step.text {
			t.Errorf("%s: %d events: %+v", step.what, len(list), list)
			continue
		}
		for _, l := range list[0].Links {
			if l.NodeDesc != spine || l.PeerDesc == "" || l.Port == 0 || l.PeerPort == 0 {
				t.Errorf("%s: link %+v", step.what, l)
			}
		}
		if step.what != "pulled" {
			continue
		}
		for _, e := range x.events[from:] {
			if own := slices.Contains([]string{"sweep_start", "routed", "repair", "node_gone", "sweep_end"}, e.Kind); own && e.Number <= list[0].Number+3 && e.Cause != x.events[from].Number {
				t.Errorf("%s has the cause %d, want %d", e.Kind, e.Cause, x.events[from].Number)
			}
		}
		finding := incident.Fact{Kind: "finding_opened", At: list[0].At.Add(5 * time.Minute), Node: list[0].Node, Port: -1, Subject: "finding 1"}
		x.add(x.core.Step(&finding, x.next))
		if e := x.events[len(x.events)-1]; e.Cause != list[0].Cause {
			t.Errorf("the finding has the cause %d, want %d", e.Cause, list[0].Cause)
		}
		closed := incident.Fact{Kind: "finding_closed", At: finding.At.Add(10 * time.Hour), Subject: "finding 1"}
		x.add(x.core.Step(&closed, x.next))
		if e := x.events[len(x.events)-1]; e.Cause != list[0].Cause {
			t.Errorf("its end has the cause %d, want %d", e.Cause, list[0].Cause)
		}
	}
}

// TestIncidents: of random faults at one time, each lost node and each lost link between switches is in one
// event, nothing else is, and there are no more events than faults. The same facts give the same events.
func TestIncidents(t *testing.T) {
	runs, faults, merged := 60, 0, 0
	if testing.Short() {
		runs = 15
	}
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 11))
		kind := [][]string{
			{"xgft", "2", "3,8", "1,4"},
			{"torus", "4x4", "hosts=2"},
			{"xgft", "3", "2,4,4", "1,2,2"},
		}[rng.IntN(3)]
		f, err := fabrictest.Generate(kind[0], kind[1:], seed)
		if err != nil {
			t.Fatal(err)
		}
		cfg := TrialConfig()
		cfg.DampHold = 0
		c, m := bringUp(t, f, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 3 * time.Microsecond}, cfg)
		x := watchIncidents(c, m)
		for range 4 {
			n, m := oneIncident(t, x, f, rng, fmt.Sprintf("seed %d, %v", seed, kind))
			faults, merged = faults+n, merged+m
		}
		again := incident.New()
		var list []incident.Event
		for i := range x.facts {
			if due := again.Due(); !due.IsZero() && !x.facts[i].At.Before(due) {
				list = append(list, again.Release(uint64(len(list)+1), x.facts[i].Snap)...)
			}
			list = append(list, again.Step(&x.facts[i], uint64(len(list)+1))...)
		}
		n := min(len(list), 20)
		if !reflect.DeepEqual(list[:n], x.events[:n]) {
			t.Errorf("seed %d: the same facts give other events", seed)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d faults, %d notices were merged", faults, merged)
}

// oneIncident injects faults, checks their events, and undoes them.
func oneIncident(t *testing.T, x *incidents, f *fabric.Fabric, rng *rand.Rand, what string) (faults, merged int) {
	t.Helper()
	own := firstCA(f)
	before := x.m.Snap
	var undo []func() error
	faults = 1 + rng.IntN(3)
	for range faults {
		n := &f.Nodes[rng.IntN(len(f.Nodes))]
		if n.ID == own || n.IsSwitch() && slices.ContainsFunc(n.Ports, func(p fabric.Port) bool { return p.Cabled() && f.Nodes[p.Peer.Node].ID == own }) {
			continue
		}
		if port := 1 + rng.IntN(n.NumPorts); n.IsSwitch() && rng.IntN(2) == 0 && n.Ports[port].Cabled() {
			what += fmt.Sprintf(", link %s[%d]", n.ID, port)
			if x.c.Sim.LinkDown(n.ID, port) == nil {
				undo = append(undo, func() error { return x.c.Sim.LinkUp(n.ID, port) })
			}
			continue
		}
		what += ", node " + n.ID
		if x.c.Sim.NodeDown(n.ID) == nil {
			undo = append(undo, func() error { return x.c.Sim.NodeUp(n.ID) })
		}
	}
	from := len(x.events)
	x.c.Run(30 * time.Second)
	list := x.since(from, downKinds...)
	now := x.m.Snap
	lost := map[ib.GUID]int{}
	for i := range before.Nodes {
		if g := before.Nodes[i].Info.NodeGUID; now.NodeByGUID(g) < 0 {
			lost[g] = 0
		}
	}
	type end struct {
		node ib.GUID
		port int
	}
	links := map[end]int{} // by the ends at switches that are there
	for i := range before.Nodes {
		g := before.Nodes[i].Info.NodeGUID
		j := now.NodeByGUID(g)
		if j < 0 || before.Nodes[i].Info.NodeType != ib.NodeSwitch {
			continue
		}
		for _, p := range before.NodePorts(int32(i)) {
			if p.Num > 0 && p.Peer.Node >= 0 && now.NodePorts(j)[p.Num].Peer.Node < 0 {
				links[end{g, int(p.Num)}] = 0
			}
		}
	}
	for _, e := range list {
		if merged += e.Merged; e.More != 0 {
			t.Errorf("%s: %d more", what, e.More)
		}
		nodes := map[ib.GUID]bool{}
		for _, n := range e.Nodes {
			nodes[n.GUID] = true
		}
		if e.Kind != "link_down" {
			nodes[e.Node] = true
		}
		for n := range nodes {
			if _, ok := lost[n]; !ok {
				t.Errorf("%s: %v is not lost: %+v", what, n, e)
			}
			lost[n]++
		}
		for _, l := range e.Links {
			for _, at := range []end{{l.Node, l.Port}, {l.Peer, l.PeerPort}} {
				if _, ok := links[at]; ok {
					links[at]++
				} else if _, ok := lost[at.node]; !ok && e.Kind == "link_down" && now.NodeByGUID(at.node) >= 0 && before.Nodes[before.NodeByGUID(at.node)].Info.NodeType == ib.NodeSwitch {
					t.Errorf("%s: link %+v is not lost", what, l)
				}
			}
		}
	}
	for n, k := range lost {
		if k != 1 {
			t.Errorf("%s: node %v is in %d events", what, n, k)
		}
	}
	for at, k := range links {
		if k != 1 {
			t.Errorf("%s: link %v is in %d events", what, at, k)
		}
	}
	if len(list) > faults || len(list) == 0 && len(lost)+len(links) > 0 {
		t.Errorf("%s: %d events of %d faults: %+v", what, len(list), faults, list)
	}
	from = len(x.events)
	for _, do := range undo {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	x.c.Run(60 * time.Second)
	for _, e := range x.since(from, upKinds...) {
		merged += e.Merged
	}
	if n := len(x.since(from, upKinds...)); n > faults {
		t.Errorf("%s: %d events when they come back", what, n)
	}
	return faults, merged
}
