package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
)

// flapper is a torus whose link between two switches, or to a host, fails and
// returns.
type flapper struct {
	*testing.T
	c    *Cluster
	m    *Manager
	id   string
	port int
}

func newFlapper(t *testing.T, host bool) *flapper {
	f := gen(t, "torus", "3x3")
	cfg := TrialConfig()
	cfg.DampFree, cfg.DampHold = 2, 5
	cfg.DampDelay, cfg.DampQuiet = 4*time.Second, 30*time.Second
	c, m := bringUp(t, f, sim.Config{}, cfg)
	c.Run(5 * time.Second)
	x := &flapper{T: t, c: c, m: m}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := 1; n.IsSwitch() && p <= n.NumPorts; p++ {
			q := n.Ports[p].Peer
			if q.Valid() && f.Nodes[q.Node].IsSwitch() != host && f.Nodes[q.Node].ID != m.Node {
				x.id, x.port = n.ID, p
			}
		}
	}
	return x
}

func (x *flapper) link() (fabric.Ref, bool) {
	i := -1
	for k := range x.c.Fabric.Nodes {
		if x.c.Fabric.Nodes[k].ID == x.id {
			i = k
		}
	}
	n := x.m.Snap.NodeByGUID(x.c.Fabric.Nodes[i].GUID)
	p := x.m.Snap.NodePorts(n)[x.port]
	return fabric.Ref{Node: p.Peer.Node, Port: p.Peer.Port}, p.Held
}

func (x *flapper) linked() bool { r, _ := x.link(); return r.Node >= 0 }

func (x *flapper) flap() {
	x.Helper()
	if err := x.c.Sim.LinkDown(x.id, x.port); err != nil {
		x.Fatal(err)
	}
	x.c.Run(300 * time.Millisecond)
	if err := x.c.Sim.LinkUp(x.id, x.port); err != nil {
		x.Fatal(err)
	}
	x.c.Run(1500 * time.Millisecond)
}

func (x *flapper) events(k sm.Kind) (n int) {
	for i := range x.m.Notices {
		if x.m.Notices[i].Kind == k {
			n++
		}
	}
	return n
}

// TestFlapDamping: a failing link is activated again immediately at first, then after growing
// delays, then held in Init until a quiet time has passed.
func TestFlapDamping(t *testing.T) {
	for _, host := range []bool{false, true} {
		x := newFlapper(t, host)
		for i := range 2 {
			x.flap()
			if !x.linked() {
				t.Fatalf("host %v: failure %d: the link is kept out", host, i+1)
			}
		}
		x.flap()
		if _, held := x.link(); x.linked() || !held {
			t.Fatalf("host %v: after the third failure the link is not kept out", host)
		}
		x.c.Run(4 * time.Second)
		if !x.linked() {
			t.Fatalf("host %v: the link does not come back after its delay\n%s", host, strings.Join(x.m.Events(sm.Info), "\n"))
		}
		x.flap() // 8 s
		if x.linked() || x.events(sm.KindLinkHeld) != 0 {
			t.Fatalf("host %v: after the fourth failure the link is in, or held down already", host)
		}
		x.c.Run(8 * time.Second)
		if !x.linked() {
			t.Fatalf("host %v: the link does not come back after its second delay", host)
		}
		x.flap()
		if x.events(sm.KindLinkHeld) != 1 || x.linked() {
			t.Fatalf("host %v: the link is not held down:\n%s", host, strings.Join(x.m.Events(sm.Info), "\n"))
		}
		x.shown(true)
		x.c.Run(25 * time.Second)
		if x.linked() {
			t.Fatalf("host %v: the link came back before its quiet time was over", host)
		}
		x.flap() // not quiet: the time begins anew
		x.c.Run(20 * time.Second)
		if x.linked() {
			t.Fatalf("host %v: the quiet time did not begin anew", host)
		}
		x.c.Run(15 * time.Second)
		if !x.linked() || x.events(sm.KindLinkReleased) != 1 {
			t.Fatalf("host %v: the link is not released:\n%s", host, strings.Join(x.m.Events(sm.Info), "\n"))
		}
		x.shown(false)
		if err := x.c.Check(x.m); err != nil {
			t.Fatal(err)
		}
		x.flap() // the next failure holds it at once, for twice as long
		if x.events(sm.KindLinkHeld) != 2 {
			t.Fatalf("host %v: a failure right after the release does not hold the link", host)
		}
		x.c.Run(50 * time.Second)
		if x.linked() {
			t.Fatalf("host %v: the second hold is no longer than the first", host)
		}
		x.c.Run(15 * time.Second)
		if !x.linked() {
			t.Fatalf("host %v: its link is held and never released", host)
		}
	}
}

// shown checks that a held link is a problem of the snapshot, and that its
// port was left alone.
func (x *flapper) shown(want bool) {
	x.Helper()
	got := false
	for _, p := range x.m.Snap.Problems {
		got = got || p.Kind == sm.KindLinkHeld.String()
	}
	if got != want {
		x.Errorf("shown among the problems: %v, want %v", got, want)
	}
	if want {
		for k := range x.c.Fabric.Nodes {
			if x.c.Fabric.Nodes[k].ID == x.id {
				if st := x.c.Sim.PortInfo(k, x.port).PortState; st != ib.StateInit {
					x.Errorf("the held port is %v, want Init", st)
				}
			}
		}
	}
}

// TestFlapDampingFullSweep: a full sweep does not reset the damping, and a restarted manager
// activates the link.
func TestFlapDampingFullSweep(t *testing.T) {
	x := newFlapper(t, false)
	for range 5 {
		x.flap()
		x.c.Run(9 * time.Second)
	}
	if x.events(sm.KindLinkHeld) != 1 {
		t.Fatalf("the link is not held down:\n%s", strings.Join(x.m.Events(sm.Info), "\n"))
	}
	x.m.Sweep(false)
	x.c.Run(time.Second)
	if x.linked() {
		t.Fatal("a full sweep let the link in")
	}
	n, _ := restart(t, x.c, x.m, true)
	mustUp(t, x.c, n)
	x.m = n
	if !x.linked() {
		t.Error("a new manager does not take the link up")
	}
}

// TestHeldInFullSweep: a host is reset, and the full sweep that finds it holds its link,
// because that failed too often. When the link is released the host is discovered again, gets
// its LID and becomes Active.
func TestHeldInFullSweep(t *testing.T) {
	x := newFlapper(t, true)
	for range 2 {
		x.flap()
	}
	loseTraps(t, x.c)
	at, _ := x.c.Sim.Node(x.id)
	host := x.c.Fabric.Nodes[at].Ports[x.port].Peer
	lid := x.c.Sim.PortInfo(int(host.Node), 1).LID
	if err := x.c.Sim.NodeUp(x.c.Fabric.Nodes[host.Node].ID); err != nil {
		t.Fatal(err)
	}
	x.m.Sweep(false)
	x.c.Run(500 * time.Millisecond)
	if x.linked() {
		t.Fatalf("the link is let in at once\n%s", tail(x.m))
	}
	if err := x.c.RunUntil(30*time.Second, func() bool { return x.linked() && x.m.Idle() }); err != nil {
		t.Fatalf("%v\n%s", err, tail(x.m))
	}
	x.c.Run(time.Second)
	if pi := x.c.Sim.PortInfo(int(host.Node), 1); pi.LID != lid || pi.PortState != ib.StateActive {
		t.Errorf("LID %v, was %v, %v\n%s", pi.LID, lid, pi.PortState, tail(x.m))
	}
	mustSettle(t, x.c, x.m, 10*time.Second)
}

// TestFlappingForever: a link that flaps without end causes a bounded number of sweeps that
// change tables.
func TestFlappingForever(t *testing.T) {
	x := newFlapper(t, true)
	x.m.Notices = nil
	for range 120 {
		x.flap()
	}
	if n := x.events(sm.KindRouted); n > 20 {
		t.Errorf("%d changes of tables in two minutes", n)
	}
	x.c.Run(2 * time.Minute)
	if !x.linked() {
		t.Error("the link does not come back")
	}
}
