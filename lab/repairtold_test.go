package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

// TestRepairTold compares a manager's reports on faults with what the simulated switches held:
// the pairs broken, and when the last of them worked again. Faults come one by one.
func TestRepairTold(t *testing.T) {
	for _, policy := range []sm.Transition{sm.TransitionAvailability, sm.TransitionStrict} {
		t.Run(policy.String(), func(t *testing.T) { repairTold(t, policy) })
	}
}

func repairTold(t *testing.T, policy sm.Transition) {
	told, drains := 0, 0
	for _, kind := range []int{1, 4, 6, 11, 13} {
		for seed := range uint64(3) {
			k := RepairFabrics()[kind]
			name := fmt.Sprintf("%s, seed %d", k.Name, seed)
			f, err := k.Make(seed)
			if err != nil {
				t.Fatal(err)
			}
			cfg := ProductionConfig(RepairChains()[0])
			cfg.ImproveDelay = 0 // no other change of tables than a repair
			cfg.Transition = policy
			c, m := bringUp(t, f, repairSim(seed), cfg)
			c.Run(15 * time.Second)
			host := map[ib.LID]bool{}
			for _, e := range c.Sim.LIDs() {
				host[e.LID] = !f.Nodes[e.Node].IsSwitch()
			}
			pairs := c.Sim.WatchPairs(m.ep.NodeIndex())
			broken, worked := 0, mad.Time(0)
			open := map[repairPair]bool{}
			pairs.OnPair = func(at mad.Time, node int, lid ib.LID, was, now sim.PairState) {
				key := repairPair{node, lid}
				switch {
				case !host[lid]:
				case now == sim.PairBroken:
					open[key] = true
					broken++
				case open[key]:
					delete(open, key)
					if now == sim.PairWorks {
						worked = at
					} else {
						broken-- // nothing connects it
					}
				}
			}
			rng := rand.New(rand.NewPCG(seed, 0))
			trial := &RepairTrial{Fabric: f, c: c, m: m, rng: rng}
			for range 4 {
				links := trial.links()
				if len(links) == 0 {
					break
				}
				r := links[rng.IntN(len(links))]
				if trial.partWithout(r, -1) < trial.switchesUp() {
					continue // it cuts switches off
				}
				n := len(m.Notices)
				broken, worked = 0, 0
				clear(open)
				began := c.Sim.Now()
				if err := c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port)); err != nil {
					t.Fatal(err)
				}
				pairs.Settle()
				was := broken
				c.Run(10 * time.Minute) // also when packets have to leave
				pairs.Settle()
				sum := sm.Repair{}
				for _, o := range m.Notices[n:] {
					if p := o.Repair; p != nil {
						sum.Broken += p.Broken
						sum.Left += p.Left
						sum.Took = max(sum.Took, p.Took)
						drains += p.Drains
						if p.Policy != policy || policy == sm.TransitionStrict && p.Risk != nil {
							t.Errorf("%s: %v", name, p)
						}
						if len(p.Faults) != 1 || p.Faults[0].Kind != sm.FaultLink {
							t.Errorf("%s: it names %v", name, p.Faults)
						}
						if p.Broken != p.First+p.Late+p.Left {
							t.Errorf("%s: %+v does not add up", name, p)
						}
					}
				}
				took := worked.Sub(began)
				if worked == 0 {
					took = 0
				}
				if sum.Broken != was || sum.Left != 0 || len(open) != 0 {
					t.Errorf("%s: %d pairs broke and %d are broken; told are %d and %d", name, was, len(open), sum.Broken, sum.Left)
				}
				// A trap takes a while to the manager, and an answer to come back from a switch.
				if d := took - sum.Took; d < -2*time.Millisecond || d > 2*time.Millisecond {
					t.Errorf("%s: repaired after %v; told are %v", name, took, sum.Took)
				}
				if sum.Broken > 0 {
					told++
				}
			}
		}
	}
	if (drains > 0) != (policy == sm.TransitionStrict) {
		t.Errorf("%d drains", drains)
	}
	if told < 20 {
		t.Errorf("only %d faults broke anything", told)
	}
}
