package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/sm"
	"heddle/subnet"
)

// TestForecast: a plan's forecast of the loss of a link or a switch equals what the manager
// then reports.
func TestForecast(t *testing.T) {
	compared, touched := 0, int64(0)
	for _, kind := range []int{1, 4, 6, 11} {
		for seed := range uint64(4) {
			k := RepairFabrics()[kind]
			name := fmt.Sprintf("%s, seed %d", k.Name, seed)
			f, err := k.Make(seed)
			if err != nil {
				t.Fatal(err)
			}
			// One engine: a plan does not know whose tables a chain has led to.
			cfg := ProductionConfig(RepairChain{Engines: []route.Engine{updn.Engine{}}})
			cfg.ImproveDelay = 0
			c, m := bringUp(t, f, repairSim(seed), cfg)
			c.Run(10 * time.Minute) // no packet of the bring-up is under way any more
			p := planOn(t, c, firstCA(f), cfg)
			rng := rand.New(rand.NewPCG(seed, 0))
			trial := &RepairTrial{Fabric: f, c: c, m: m, rng: rng}
			links := trial.links()
			r := links[rng.IntN(len(links))]
			fault := sm.Fault{Kind: sm.FaultLink, Node: f.Nodes[r.Node].GUID, Port: r.Port}
			if seed%2 == 1 {
				fault.Kind = sm.FaultSwitch
			}
			cast, err := p.Forecast([]sm.Fault{fault}, 1)
			if errors.Is(err, sm.ErrCutOff) {
				continue
			}
			if err != nil {
				t.Fatal(name, err)
			}
			n, before := len(m.Notices), m.Snap
			if id := f.Nodes[r.Node].ID; fault.Kind == sm.FaultSwitch {
				err = c.Sim.NodeDown(id)
			} else {
				err = c.Sim.LinkDown(id, int(r.Port))
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Run(time.Minute)
			var got *sm.Repair
			for _, o := range m.Notices[n:] {
				if o.Repair != nil {
					if got != nil {
						t.Errorf("%s: more than one repair: %v, %v", name, got, o.Repair)
					}
					got = o.Repair
				}
			}
			w := cast.Repair
			if got == nil {
				if w.Broken != 0 {
					t.Errorf("%s: predicted are %d broken pairs, and nothing is reported", name, w.Broken)
				}
				continue
			}
			compared++
			if got.Broken != w.Broken || got.First != w.First || got.Late != w.Late || got.Mode != w.Mode || got.Stages != w.Stages || (got.Risk != nil) != (w.Risk != nil) {
				t.Errorf("%s: predicted\n%v\nreported\n%v", name, &w, got)
			}
			hosts, paths := changedPaths(before, m.Snap)
			if x := cast.Touched; x == nil || x.Hosts != hosts || x.Paths != paths {
				t.Errorf("%s: predicted are changes for hosts and paths %+v; they are %d and %d", name, x, hosts, paths)
			}
			touched += paths
			reach := map[ib.LID]bool{}
			for i := range m.Snap.Ports {
				reach[m.Snap.Ports[i].LID] = true
			}
			for _, x := range cast.Cut {
				if reach[x.LID] {
					t.Errorf("%s: LID %v was to be cut off, and is there", name, x.LID)
				}
			}
		}
	}
	if compared < 8 || touched == 0 {
		t.Errorf("only %d faults broke anything, and %d paths changed", compared, touched)
	}
}

// changedPaths counts, pair by pair, the hosts in both snapshots with paths of other attributes,
// and these paths.
func changedPaths(old, now *subnet.Snapshot) (hosts int, paths int64) {
	for _, is := range now.EndPortPort {
		p := now.Ports[is]
		was := old.PortByPortGUID(p.GUID)
		if p.Num == 0 || was < 0 {
			continue
		}
		n := int64(0)
		for l := ib.LID(1); l <= max(old.TopLID(), now.TopLID()); l++ {
			if l == p.LID {
				continue
			}
			a, had := old.Path(was, l)
			b, has := now.Path(is, l)
			if a.Hops, b.Hops = 0, 0; had != has || a != b {
				n++
			}
		}
		if paths += n; n > 0 {
			hosts++
		}
	}
	return hosts, paths
}

// planOn is what a manager that only plans finds on a node.
func planOn(t *testing.T, c *Cluster, node string, cfg sm.Config) *sm.Plan {
	t.Helper()
	cfg.PlanOnly = true
	m, err := c.Start(node, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool { return m.Plan != nil }); err != nil {
		t.Fatal(err)
	}
	m.Kill()
	return m.Plan
}

// TestForecastErrors: faults without a forecast are refused, with the reason.
func TestForecastErrors(t *testing.T) {
	f := ring8()
	cfg := ProductionConfig(RepairChains()[0])
	c, _ := bringUp(t, f, repairSim(1), cfg)
	p := planOn(t, c, firstCA(f), cfg)
	node := map[string]ib.GUID{}
	for i := range f.Nodes {
		node[f.Nodes[i].ID] = f.Nodes[i].GUID
	}
	for _, x := range []struct {
		fault sm.Fault
		want  string
	}{
		{sm.Fault{Kind: sm.FaultSwitch, Node: node["H3"]}, `"H3" (` + node["H3"].String() + `) is no switch of the subnet`},
		{sm.Fault{Kind: sm.FaultLink, Node: node["S3"], Port: 4}, `port 4 of "S3" (` + node["S3"].String() + `) has no link to another node of the subnet`},
		{sm.Fault{Kind: sm.FaultSwitch, Node: node["S0"]}, sm.ErrCutOff.Error()},
		{sm.Fault{Kind: sm.FaultLink, Node: node["S0"], Port: 1}, sm.ErrCutOff.Error()},
	} {
		if _, err := p.Forecast([]sm.Fault{x.fault}, 1); err == nil || err.Error() != x.want {
			t.Errorf("%v: %v, want %s", x.fault, err, x.want)
		}
	}
	// Two cables of a ring part it: what is behind them is cut off, and nothing is broken.
	cast, err := p.Forecast([]sm.Fault{{Kind: sm.FaultLink, Node: node["S2"], Port: 2}, {Kind: sm.FaultLink, Node: node["S5"], Port: 2}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"S3": true, "S4": true, "S5": true, "H3": true, "H4": true, "H5": true}
	for _, x := range cast.Cut {
		if !want[x.Desc] {
			t.Errorf("%s is told to be cut off", x.Desc)
		}
		delete(want, x.Desc)
	}
	if len(want) > 0 {
		t.Errorf("%v are not told to be cut off", want)
	}
	// A host's own cable: nothing is broken for anybody else.
	cast, err = p.Forecast([]sm.Fault{{Kind: sm.FaultLink, Node: node["H3"], Port: 1}}, 1)
	if err != nil || len(cast.Cut) != 1 || cast.Cut[0].Desc != "H3" || cast.Repair.Broken != 0 {
		t.Errorf("%+v, %v", cast, err)
	}
}
