package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sm"
	"heddle/subnet"
)

// delivers reports whether the tables of all switches lead a LID from every switch to a port.
func (k *cloud) delivers(l ib.LID, to ib.GUID) bool {
	g, rows := k.Sim.Graph()
	end := -1
	for e := range g.EndPorts {
		if g.EndPorts[e].GUID == to {
			end = e
		}
	}
	if end < 0 {
		return false
	}
	for s := range g.Switches {
		u, n := int32(s), 0
		for ; u != g.EndPorts[end].Switch; n++ {
			if n > len(g.Switches) || int(l) >= len(rows[u]) {
				return false
			}
			e := rows[u][l]
			if int(e) >= len(g.PortChannel[u]) || g.PortChannel[u][e] < 0 {
				return false
			}
			u = g.Channels[g.PortChannel[u][e]].To
		}
		if int(l) >= len(rows[u]) || rows[u][l] != g.EndPorts[end].Port {
			return false
		}
	}
	return true
}

// TestMoveOutage measures the outage of a VM: from the request to move, with the VM at its new
// place, until every switch leads its LID there and its function is Active.
func TestMoveOutage(t *testing.T) {
	for _, net := range moveNets[:3] {
		for _, name := range []string{"updn", "dnup", "nue", "dfsssp", "lash"} {
			var worst, sum [2]time.Duration
			moves, risks := [2]int{}, 0
			for p, policy := range []sm.Transition{sm.TransitionAvailability, sm.TransitionStrict} {
				for _, chain := range RepairChains() {
					if chain.Name != name {
						continue
					}
					k := moveCloud(t, net.kind, net.params, chain)
					k.cfg.Transition = policy
					k.start(nil)
					k.up()
					if k.m.Snap.Engine != name {
						continue
					}
					k.Run(time.Minute)
					for i := range 4 {
						k.put(fmt.Sprint("v", i), k.social(2+3*i), 1+i, subnet.OwnLID)
					}
					k.set(subnet.PlacementPlaced, k.all()...)
					for step := range 3 {
						for i := range 4 {
							n := fmt.Sprint("v", i)
							l := k.move(n, k.social(k.at(n)+5+2*i+step), 1+i)
							l.Mode = subnet.MoveMinimal
							k.Run(time.Minute)
							r, _ := k.last(l.GUID)
							began := k.Sim.Now()
							k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{l}})
							if err := k.RunUntil(10*time.Minute, func() bool {
								s, _ := k.Sim.VM(n)
								return s.State == ib.StateActive && s.LID == r.LID && k.delivers(r.LID, l.Place.Port)
							}); err != nil {
								t.Fatalf("%s, %s, %v: %v\n%s", net.kind, name, policy, err, k.reports())
							}
							took := k.Sim.Now().Sub(began)
							worst[p], sum[p] = max(worst[p], took), sum[p]+took
							moves[p]++
							k.wait(subnet.PlacementPlaced, l)
						}
					}
					if p == 0 {
						risks = len(told(k.m, sm.KindTransientCycle))
					}
				}
			}
			if moves[0] == 0 || moves[0] != moves[1] {
				continue
			}
			t.Logf("%s, %s: %d moves, mean %v, worst %v, %d at risk; strict: mean %v, worst %v", net.kind, name, moves[0],
				sum[0]/time.Duration(moves[0]), worst[0], risks, sum[1]/time.Duration(moves[1]), worst[1])
			if worst[0] > 10*time.Millisecond {
				t.Errorf("%s, %s: a LID was away for %v", net.kind, name, worst[0])
			}
		}
	}
}
