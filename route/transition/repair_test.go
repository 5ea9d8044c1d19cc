package transition_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dnup"
	"heddle/route/engine/dor"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/transition"
)

// tally counts what became of faults that no plan to the engine's tables could
// repair without a wait.
type tally struct {
	faults, waits         int // all, and those
	now, late, left       int // repaired in one step, in two, only by the engine's tables
	levels, levelLIDs     int // repaired with new service levels; for so many destinations
	pairs, latePairs      int
	rounds, stalled, kept int // rounds of Approach; faults, destinations that it left
	guarded, guards       int // repairs with new levels that are proved; SL-to-VL tables that discard then
	risky                 int // of those
	lifted                int // faults after which destinations were moved to other levels
	asked, mute           int // connections between hosts while guards are in force; those that cannot begin
}

func (a tally) String() string {
	return fmt.Sprintf("%d faults, %d would wait: %d repaired in one step, %d in two, %d with new levels for %d destinations (%d guarded by %d tables, %d at risk), %d not; of %d pairs %d in the second; %d rounds, lifted %d times, stalled %d times with %d destinations; %d of %d connections cannot begin",
		a.faults, a.waits, a.now, a.late, a.levels, a.levelLIDs, a.guarded, a.guards, a.risky, a.left, a.pairs, a.latePairs, a.rounds, a.lifted, a.stalled, a.kept, a.mute, a.asked)
}

// TestRepair: after one fault of a link or switch, under every engine, the oracle finds
// no time during a repair or the following rounds at which packets could loop or wait
// for each other in a cycle; and the remaining pairs are connected.
func TestRepair(t *testing.T) {
	engines := []route.Updater{
		updn.Engine{},
		dnup.Engine{},
		minhop.Engine{},
		ftree.Engine{},
		dor.Engine{},
		torus.Engine{},
		lash.Engine{},
		sssp.Engine{},
		sssp.DFEngine{},
		nue.Engine{},
	}
	nets := []struct {
		name string
		make func(draw func(int) int) *routetest.Net
	}{
		{"random, 30 switches", func(d func(int) int) *routetest.Net { return routetest.Random(30, 15, 2, 1, d) }},
		{"random, 40 switches", func(d func(int) int) *routetest.Net { return routetest.Random(40, 60, 2, 1, d) }},
		{"torus 5x5", func(func(int) int) *routetest.Net { return routetest.Torus(5, 5, 2) }},
		{"torus 4x4", func(func(int) int) *routetest.Net { return routetest.Torus(4, 4, 2) }},
		{"damaged tree", func(d func(int) int) *routetest.Net { return routetest.Damaged(routetest.Tree(6, 6), 6, d) }},
	}
	var all, several tally // several: engines of several levels
	for _, n := range nets {
		for _, e := range engines {
			var sum tally
			for _, seed := range need.Seeds(2, 200) {
				draw := routetest.Draws(seed, 77)
				g := n.make(draw).Graph()
				tb, err := e.Compute(g, route.Options{})
				if err != nil || !check.Verify(g, tb, check.Options{}).OK() {
					continue
				}
				for i := range 4 {
					var switches, cables []int32
					if draw(3) == 0 {
						switches = []int32{int32(draw(len(g.Switches)))}
					} else {
						cables = []int32{int32(draw(len(g.Channels)))}
					}
					h := routetest.Without(g, switches, cables)
					if bad := repairOne(e, g, h, tb, &sum); bad != "" {
						t.Fatalf("%s, %s, seed %d, fault %d (switches %v, channels %v): %s", n.name, e.Name(), seed, i, switches, cables, bad)
					}
				}
			}
			if e.Name() == "lash" && sum.mute*1000 > sum.asked {
				t.Errorf("%s, %s: %d of %d connections cannot begin while guards are in force", n.name, e.Name(), sum.mute, sum.asked)
			}
			if e.Name() == "lash" || e.Name() == "dfsssp" {
				several.waits += sum.waits
				several.left += sum.left
			}
			if sum.faults > 0 {
				t.Logf("%s, %s: %v", n.name, e.Name(), sum)
			}
			all.waits += sum.waits
			all.now += sum.now
			all.late += sum.late
			all.left += sum.left
			all.levels += sum.levels
			all.guarded += sum.guarded
			all.guards += sum.guards
			all.lifted += sum.lifted
			all.stalled += sum.stalled
			all.asked += sum.asked
			all.mute += sum.mute
		}
	}
	if all.waits == 0 || all.now == 0 || all.late == 0 {
		t.Errorf("not every kind of repair was seen: %v", all)
	}
	if several.left > 1+several.waits/50 {
		t.Errorf("other tables were written after %d of %d faults where new levels for a few pairs would do", several.left, several.waits)
	}
	if all.levels == 0 || all.guards == 0 {
		t.Errorf("no destination got new levels, or no table discards anything: %v", all)
	}
	if all.guarded != all.levels {
		t.Errorf("%d of %d repairs with new levels are not proved", all.levels-all.guarded, all.levels)
	}
	if all.lifted == 0 || all.stalled > all.lifted {
		t.Errorf("levels did not help: %v", all)
	}
	if all.left*10 > all.waits {
		t.Errorf("more than a tenth of the faults could not be repaired in steps: %v", all)
	}
}

// repairOne repairs one change of the fabric from g to h and says what is wrong.
func repairOne(e route.Updater, g, h *fabric.Graph, tb *route.Tables, sum *tally) string {
	w, err := e.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), route.Options{})
	if err != nil {
		return "" // the engine does without this fabric
	}
	proof := check.Prove(h, w, check.Options{})
	if !proof.OK() {
		return ""
	}
	sum.faults++
	inst := tb.Follow(g, h)
	o := limited
	o.Proved, o.ProvedOrder = proof.Dependencies()
	o.Before, o.RepathTime = g, 30*time.Second
	if !waits(transition.New(h, inst, w, o)) {
		return ""
	}
	sum.waits++
	r := transition.Repair(h, inst, w, o)
	if r == nil {
		return "no repair"
	}
	sum.pairs += r.Broken
	sum.latePairs += r.Late
	final := r.Tables
	switch {
	case final == nil:
		sum.left++
		final = w
	case r.NewLevels > 0:
		sum.levels++
		sum.levelLIDs += r.NewLevels
		if r.Guarded {
			sum.guarded++
			sum.guards += r.Guards
			sum.connect(h, r.Tables)
		}
	case final == r.First:
		sum.now++
	default:
		sum.late++
	}
	for _, strict := range []bool{false, true} {
		p := transition.NewRepair(h, inst, final, r, o, strict)
		if p == nil {
			if (r.Tables == nil || r.NewLevels > 0 && !r.Guarded) && strict {
				continue
			}
			return "no plan"
		}
		tl := planned(h, inst, p)
		tl.before = g
		if r.Guarded {
			tl.guarded(p, final)
		}
		if r.Guarded && p.Risk != nil && !strict {
			sum.risky++ // packets may wait already at turns that are to discard them
		} else if (p.Risk == nil) != (strict || r.Tables != nil && r.Tables == r.First || r.Guarded) {
			return fmt.Sprintf("strict %v, risk %v: %s", strict, p.Risk, p.Reason)
		}
		if p.Risk != nil && (len(p.Risk.Cycle) == 0 || p.Risk.Worst <= 0) {
			return fmt.Sprintf("a risk without a cycle or an end: %+v", p.Risk)
		}
		if p.Risk == nil {
			if bad := tl.check(len(p.Stages)); bad != "" {
				return fmt.Sprintf("strict %v: %s: %s", strict, p.Reason, bad)
			}
		}
		if bad := differ(tl.states[len(tl.states)-1], final); bad != "" {
			return "in the end " + bad
		}
		if bad := tl.keeps(); bad != "" {
			return p.Reason + ": " + bad
		}
	}
	if r.Tables == nil {
		return ""
	}
	if err := check.Prove(h, r.Tables, check.Options{}).Err(); err != nil {
		return err.Error()
	}
	return approach(g, h, r.Tables, w, o, sum)
}

// connect counts connections between hosts whose request, or the answer on its level, a guard discards.
func (a *tally) connect(g *fabric.Graph, t *route.Tables) {
	arrives := func(from, to *fabric.EndPort, sl ib.SL) bool {
		s, in := from.Switch, from.Port
		for range g.Switches {
			out := t.LFT[s][to.LID]
			if t.Lanes != nil {
				if row := t.Lanes.Row(s, in, out); row != nil && row[sl] == 15 {
					return false
				}
			}
			if s == to.Switch {
				return out == to.Port
			}
			c := g.PortChannel[s][out]
			if c < 0 {
				return true // the fault cut it off
			}
			s, in = g.Channels[c].To, g.Channels[c].InPort
		}
		return false
	}
	for i := range g.EndPorts {
		for k := range g.EndPorts {
			from, to := &g.EndPorts[i], &g.EndPorts[k]
			if from.Switch == to.Switch || from.Type == ib.NodeSwitch || to.Type == ib.NodeSwitch {
				continue
			}
			sl := t.PathSL(from.Switch, to.LID)
			if a.asked++; !arrives(from, to, sl) || !arrives(to, from, sl) {
				a.mute++
			}
		}
	}
}

// approach goes on in rounds to the engine's tables.
func approach(g, h *fabric.Graph, at, w *route.Tables, o transition.Options, sum *tally) string {
	for {
		a := transition.Approach(h, at, w, o)
		if a != nil && a.Moved+a.Entries+a.Levels == 0 && a.Waiting > 0 {
			if b := transition.Lift(h, at, w, o); b != nil && b.Levels > 0 && !o.Lifted {
				a, o.Lifted = b, true
				sum.lifted++
			}
		}
		if a == nil || a.Moved+a.Entries+a.Levels == 0 && !a.Lanes {
			if a != nil && a.Waiting > 0 {
				sum.stalled++
				sum.kept += a.Waiting
			} else if a != nil {
				return differ(at, w)
			}
			return ""
		}
		sum.rounds++
		if err := check.Prove(h, a.Tables, check.Options{}).Err(); err != nil {
			return "a round: " + err.Error()
		}
		p := transition.NewRepair(h, at, a.Tables, a, o, true)
		if p == nil {
			return "a round has no plan"
		}
		tl := planned(h, at, p)
		tl.before = g
		last := tl.states[len(tl.states)-1]
		last.SL, last.Class, last.NumClasses = a.Tables.SL, a.Tables.Class, a.Tables.NumClasses
		if bad := tl.check(len(p.Stages)); bad != "" && !a.Lanes {
			return "a round: " + bad
		}
		if bad := tl.keeps(); bad != "" {
			return "a round: " + bad
		}
		at = a.Tables
	}
}

// waits reports whether a plan waits for anything, or discards.
func waits(p *transition.Plan) bool {
	if p.Mode == transition.ModeRefused {
		return true
	}
	for i := range p.Stages {
		if st := &p.Stages[i]; st.Drain != 0 || st.Repath > 0 || st.Discards {
			return true
		}
	}
	return false
}

// TestApproachTopLID: a LID without an owner may be far above all wanted ones, as with
// floating LIDs. The result ends at the wanted top.
func TestApproachTopLID(t *testing.T) {
	g := routetest.Torus(3, 3, 1).Graph()
	w, err := updn.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const gone = ib.LID(0xBFFF)
	inst := *w
	inst.TopLID, inst.LFT = gone, make([][]byte, len(w.LFT))
	for s := range inst.LFT {
		row := bytes.Repeat([]byte{route.Drop}, route.RowLen(gone))
		copy(row, w.LFT[s])
		row[gone] = row[g.EndPorts[0].LID] // it was that of the first port
		inst.LFT[s] = row
	}
	proof := check.Prove(g, w, check.Options{})
	if !proof.OK() {
		t.Fatal(proof.Err())
	}
	o := limited
	o.Proved, o.ProvedOrder = proof.Dependencies()
	o.Before, o.RepathTime = g, 30*time.Second
	a := transition.Approach(g, &inst, w, o)
	if a == nil {
		t.Fatal("nothing to do")
	}
	if bad := differ(a.Tables, w); a.Waiting != 0 || bad != "" {
		t.Errorf("%d destinations wait; %s", a.Waiting, bad)
	}
}
