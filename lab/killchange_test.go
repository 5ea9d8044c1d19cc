package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sim"
)

// TestKilledInAChange: a manager that was killed in the middle of a change, after a fault, while
// it evens the load out or while it brings the subnet up, is started again at once, with its store or an empty one. It is up in
// milliseconds: nothing drains. Pairs that work are not broken, and those that the fault broke,
// or the change left broken, are connected.
func TestKilledInAChange(t *testing.T) {
	killed, slow := 0, time.Duration(0)
	for _, net := range []RepairFabric{RepairFabrics()[2], RepairFabrics()[4], RepairFabrics()[8], RepairFabrics()[11]} {
		for _, chain := range RepairChains() {
			for _, seed := range need.Seeds(6, 100) {
				f, err := net.Make(seed)
				if err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(seed, 11))
				c, err := NewCluster(f, repairSim(seed))
				if err != nil {
					t.Fatal(err)
				}
				cfg := ProductionConfig(chain)
				m, err := c.Attach(firstCA(f), cfg, nil)
				if err != nil {
					t.Fatal(err)
				}
				kind := seed % 3
				if kind == 2 {
					m.KillAfter = 200 + rng.IntN(800)
				}
				if err := m.Start(); err != nil {
					t.Fatal(err)
				}
				if err := c.RunUntil(time.Minute, func() bool { return m.Dead || m.Up() && m.Idle() }); err != nil {
					t.Fatal(err)
				}
				if !m.Dead && chain.Want != "" && m.Snap.Engine != chain.Want {
					continue
				}
				if !m.Dead {
					c.Run(time.Duration(rng.IntN(30)) * time.Second)
					m.KillAfter = 1 + rng.IntN(60)
				}
				pairs := c.Sim.WatchPairs(m.ep.NodeIndex())
				switch {
				case m.Dead:
				case kind == 0:
					trial := &RepairTrial{Fabric: f, c: c, m: m}
					links := trial.links()
					for _, i := range rng.Perm(len(links)) {
						if r := links[i]; trial.partWithout(r, -1) == trial.switchesUp() {
							if err := c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port)); err != nil {
								t.Fatal(err)
							}
							break
						}
					}
				default:
					m.Reroute(true)
				}
				c.Run(100 * time.Millisecond)
				if !m.Dead {
					continue // it was done before
				}
				killed++
				what := fmt.Sprintf("seed %d, %s, %s", seed, net.Name, chain.Name)
				st := m.Store
				if rng.IntN(2) == 0 {
					st = nil
				}
				broke := ""
				pairs.Settle()
				pairs.OnPair = func(at mad.Time, node int, lid ib.LID, was, now sim.PairState) {
					if was == sim.PairWorks && broke == "" {
						broke = fmt.Sprintf("%v: %s to LID %v", at, f.Nodes[node].ID, lid)
					}
				}
				began := c.Sim.Now()
				n, err := c.Start(m.Node, cfg, st)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.RunUntil(5*time.Minute, n.Up); err != nil {
					t.Fatalf("%s: %v\n%s", what, err, tail(n))
				}
				took := c.Sim.Now().Sub(began)
				slow = max(slow, took)
				pairs.Settle()
				if took > 200*time.Millisecond {
					t.Errorf("%s: up after %v\n%s", what, took, tail(n))
				}
				if broke != "" {
					t.Errorf("%s: a pair that worked was broken at %s, killed at %v\n%s", what, broke, began, tail(n))
				}
				if err := c.RunUntil(5*time.Minute, n.Idle); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := c.Check(n); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
	if killed < 40 {
		t.Errorf("only %d managers were killed in a change", killed)
	}
	t.Logf("%d killed; up after %v at most", killed, slow)
}
