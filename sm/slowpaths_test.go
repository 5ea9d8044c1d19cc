package sm_test

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/lab"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/transition"
	"heddle/sim"
	"heddle/sm"
	"heddle/sm/job"
	"heddle/subnet"
)

// TestSlowPathsInPlans: a plan takes the levels of the paths on a slow lane into account, back and
// forth, until no host can use them any more; while it is made and carried out no new ones are let
// there.
func TestSlowPathsInPlans(t *testing.T) {
	f, node := generate(t, "torus", "4x4")
	cfg := lab.TrialConfig()
	cfg.Engines, cfg.Explicit, cfg.SlowLane = []route.Engine{lash.Engine{}}, true, true
	cfg.RepathTime = 30 * time.Second
	h := newShell(t, f, sim.Config{HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, cfg, node)
	var (
		snap  *subnet.Snapshot
		jobs  []*job.Job
		slow  []*subnet.SlowPaths
		onJob func()
	)
	held := 0 // plans that know of level 5
	h.see = func(ev sm.Event, out *sm.Output) {
		if x, ok := ev.(sm.JobDone); ok && x.Result.Transition.Held != nil {
			for _, m := range x.Result.Transition.Held.Mask {
				if m>>5&1 != 0 {
					held++
					break
				}
			}
		}
		if out.Publish != nil {
			snap = out.Publish
		}
		if out.Slow != nil {
			slow = append(slow, out.Slow.Paths)
		}
		for _, j := range out.Jobs {
			if jobs = append(jobs, j); onJob != nil {
				onJob()
			}
		}
	}
	h.step(sm.Start{})
	h.run(2 * time.Second)
	if !h.up || snap.Tables.OneLane() {
		t.Fatal("the subnet is not up with layers")
	}
	var hosts []*subnet.Port
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Info.NodeType == ib.NodeCA {
			hosts = append(hosts, snap.Ports[n.First+1])
		}
	}
	paths := func(from ...int) *subnet.SlowPaths {
		var list []subnet.PortPair
		for _, i := range from {
			list = append(list, subnet.PortPair{From: hosts[i].GUID, To: hosts[0].GUID})
		}
		return subnet.NewSlowPaths(5, list)
	}
	ask := func(p *subnet.SlowPaths) sm.SetSlowPaths {
		return sm.SetSlowPaths{Paths: p, Snap: snap, Until: h.s.Now().Add(time.Minute)}
	}
	two, three := paths(5, 10), paths(5, 10, 15)
	h.step(ask(two))
	if len(slow) != 1 || !slow[0].Equal(two) {
		t.Fatalf("the SA gets %v", slow)
	}
	// levels compares those of the last job with the paths from some hosts to host 0, and back.
	levels := func(from ...int) {
		t.Helper()
		g := jobs[len(jobs)-1].Graph
		at := func(p *subnet.Port) int32 { return g.EndPorts[g.LIDOwner[p.LID]].Switch }
		want := map[transition.HeldLevel]bool{}
		for _, i := range from {
			want[transition.HeldLevel{LID: hosts[0].LID, Switch: at(hosts[i]), SL: 5}] = true
			want[transition.HeldLevel{LID: hosts[i].LID, Switch: at(hosts[0]), SL: 5}] = true
		}
		got := jobs[len(jobs)-1].SlowLevels
		if len(got) != len(want) {
			t.Errorf("%d levels, want %d: %+v", len(got), len(want), got)
		}
		for _, x := range got {
			if !want[x] {
				t.Errorf("%+v", x)
			}
		}
	}
	// A cable is lost; while the job is computed there is another contributor.
	jobs, slow = nil, nil
	onJob = func() { h.in, onJob = append(h.in, ask(three)), nil }
	if _, err := h.s.Exec("link down \"sw-1-1\"[2]"); err != nil {
		t.Fatal(err)
	}
	h.run(time.Second)
	if len(jobs) == 0 || len(slow) != 1 || !slow[0].Equal(two) {
		t.Fatalf("%d jobs; the SA gets %v", len(jobs), slow)
	}
	if levels(5, 10); held == 0 {
		t.Error("no plan knows of the slow lane")
	}
	h.run(time.Second)
	if h.step(ask(three)); len(slow) != 2 || !slow[1].Equal(three) {
		t.Errorf("the SA gets %v", slow)
	}
	// They end. Hosts have the repath time to leave them.
	h.step(ask(nil))
	reroute := func() {
		h.step(sm.Reroute{})
		h.run(time.Second)
	}
	if reroute(); slow[2].Len() > 0 {
		t.Errorf("%d paths are slow", slow[2].Len())
	}
	levels(5, 10, 15)
	h.run(cfg.RepathTime + time.Minute)
	reroute()
	levels()
	// No round comes for so long that hosts have left them. They are new to a plan that is made then.
	h.run(2 * cfg.RepathTime) // a plan may wait for hosts
	if h.step(ask(two)); !slow[len(slow)-1].Equal(two) {
		t.Fatalf("the SA gets %v", slow)
	}
	h.run(cfg.RepathTime + 2*time.Minute)
	slow = nil
	onJob = func() { h.in, onJob = append(h.in, ask(two)), nil }
	reroute()
	if levels(); len(slow) != 1 || slow[0].Len() > 0 {
		t.Errorf("the SA gets %v", slow)
	}
}
