package daemon_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/drain"
	"heddle/fabric"
	"heddle/fabric/cabling"
	"heddle/internal/need"
	"heddle/perf"
	"heddle/sim"
	"heddle/subnet"
)

// untilEvent looks again after each event, and now and then, until ok.
func (r *rig) untilEvent(what string, ok func() bool) {
	r.t.Helper()
	limit, again := time.After(need.Patience), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		_, more := r.d.Events(math.MaxUint64)
		if ok() {
			return
		}
		select {
		case <-more:
		case <-again.C:
		case <-limit:
			r.t.Fatal("this did not happen: " + what)
		}
	}
}

// plan is the fabric as it is published now, as a plan.
func (r *rig) plan(s *subnet.Snapshot) *daemon.CablingPlan {
	return &daemon.CablingPlan{Name: "plan", Plan: cabling.FromFabric(s.Fabric(), true)}
}

// A cable that is pulled is a finding once, beside those of counters and on the map, until it is back; a
// plan can come and go while the manager runs.
func TestCablingFollows(t *testing.T) {
	r := newRig(t, false, "kary", "2", "2")
	s := r.awaitUp()
	if c := r.d.Cabling(); c.Plan != "" || c.Compared != nil {
		t.Errorf("without a plan: %+v", c)
	}
	r.d.SetCabling(r.plan(s))
	r.untilEvent("the cables are compared", func() bool { return r.d.Cabling().Compared != nil })
	if c := r.d.Cabling(); c.Right != 8 || len(c.Open) != 0 {
		t.Errorf("as planned: %+v", c)
	}
	change := func(down bool) {
		r.sim.Do(func(x *sim.Subnet) {
			err := x.LinkUp("sw-1-1", 3)
			if down {
				err = x.LinkDown("sw-1-1", 3)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	change(true)
	r.untilEvent("the cable is missed", func() bool { return len(r.d.Cabling().Open) > 0 })
	c, f := r.d.Cabling(), r.d.Findings(api.FindingsQuery{})
	if len(c.Open) != 1 || c.Open[0].Kind != "missing" || c.Counts["missing"] != 1 || c.Right != 7 {
		t.Errorf("%+v", c)
	}
	if len(f.Open) != 1 || f.Open[0].Rule != "cabling_missing" || f.Open[0].ID != c.Open[0].ID || len(f.Open[0].Ends) != 2 || f.Counts.Warning != 1 {
		t.Errorf("findings: %+v", f)
	}
	change(false)
	r.untilEvent("the cable is there", func() bool { return len(r.d.Cabling().Open) == 0 })
	if c := r.d.Cabling(); len(c.Closed) != 1 || c.Right != 8 {
		t.Errorf("back: %+v", c)
	}
	other := r.plan(s)
	other.Plan.Cables = other.Plan.Cables[1:]
	r.d.SetCabling(other)
	r.untilEvent("another plan", func() bool { return len(r.d.Cabling().Open) == 1 })
	r.d.SetCabling(nil)
	r.untilEvent("no plan", func() bool { return r.d.Cabling().Compared == nil })
	if f := r.d.Findings(api.FindingsQuery{}); len(f.Open) != 0 {
		t.Errorf("without a plan: %+v", f.Open)
	}
}

// A rule says of a link with errors what it would do; when it may act, it drains the link, which the map
// marks, and an operator takes it back.
func TestRuleActs(t *testing.T) {
	counters := perf.Defaults()
	counters.Period = 100 * time.Millisecond
	actions := drain.Defaults()
	r := newRigWith(t, func(c *daemon.Config) { c.Perf, c.Actions = &counters, actions }, "kary", "2", "2")
	s := r.awaitUp()
	f := s.Fabric()
	var at fabric.Ref
	for a, z := range f.Links {
		if f.Nodes[a.Node].IsSwitch() && f.Nodes[z.Node].IsSwitch() {
			at = a
		}
	}
	name := f.Nodes[at.Node].Desc
	count := func() {
		r.sim.Do(func(x *sim.Subnet) {
			node, err := x.Node(name)
			if err != nil {
				t.Error(err)
			}
			var n sim.Tally
			n.Errors[0] = 200
			x.Count(node, int(at.Port), &n)
		})
	}
	var said string
	var attrs map[string]string
	look := func(kind string) bool {
		count()
		list, err := r.d.FindEvents(api.EventsQuery{Kinds: []string{kind}, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			said, attrs = list[0].Message, list[0].Attrs
		}
		return len(list) > 0
	}
	r.untilEvent("a dry run", func() bool { return look("port_rule") })
	if !strings.Contains(said, "would be drained by rule bad_cable (dry run)") || len(r.d.PortActions()) != 0 {
		t.Errorf("said %q, actions %+v", said, r.d.PortActions())
	}
	if attrs["node"] == "" || attrs["node_guid"] == "" || attrs["port"] == "" {
		t.Errorf("the event has %v", attrs)
	}
	if f := r.d.Findings(api.FindingsQuery{}); len(f.Open) != 1 || f.Open[0].Event == 0 || f.Open[0].Cause == 0 || !strings.Contains(f.Open[0].Action, "would be drained") {
		t.Errorf("%+v", f.Open)
	}
	actions.Mode = drain.Act
	r.d.SetActions(actions)
	r.untilEvent("the link is drained", func() bool { return look("port_requested") })
	list := r.d.PortActions()
	if attrs["node"] == "" || attrs["peer_node"] == "" || attrs["peer_port"] == "" || attrs["rule"] != "bad_cable" || attrs["action"] != "drain" {
		t.Errorf("the event has %v", attrs)
	}
	if len(list) != 1 || list[0].Rule != "bad_cable" || list[0].Until == nil {
		t.Fatalf("%+v", list)
	}
	r.untilEvent("the map has it", func() bool {
		m, err := r.d.Map(api.MapQuery{Level: 1})
		for _, p := range m.Problems {
			if err == nil && p.State == "drained" {
				return true
			}
		}
		return false
	})
	if _, err := r.d.ActOnPort(t.Context(), api.PortRequest{Action: "restore", GUID: list[0].GUID, Port: list[0].Port, By: "ops"}); err != nil {
		t.Fatal(err)
	}
	if len(r.d.PortActions()) != 0 {
		t.Error("the link is not restored")
	}
	// A plan says when the port is disabled: packets of before may be under way.
	for action, want := range map[string]bool{"drain": false, "isolate": true} {
		p, err := r.d.ActOnPort(t.Context(), api.PortRequest{Action: action, GUID: list[0].GUID, Port: list[0].Port, DryRun: true})
		if err != nil || p.Applied || (p.Wait > 60) != want {
			t.Errorf("%s: %v, disabled after %v s", action, err, p.Wait)
		}
	}

	// An isolated link says when it is disabled; a time that ends before that is refused.
	ask := api.PortRequest{Action: "isolate", GUID: list[0].GUID, Port: list[0].Port, For: time.Minute}
	if _, err := r.d.ActOnPort(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "give a longer time") {
		t.Errorf("for a minute: %v", err)
	}
	ask.For = time.Hour
	if _, err := r.d.ActOnPort(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	r.untilEvent("the link waits for packets", func() bool {
		list = r.d.PortActions()
		return len(list) == 1 && list[0].DisableAt != nil && list[0].DisableAt.Sub(list[0].Since) > time.Minute
	})
}
