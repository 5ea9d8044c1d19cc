package lab

import (
	"testing"
	"time"

	"heddle/sim"
	"heddle/sm"
)

// TestTwinWithMorePorts: a switch that claims the GUID of a host is recognized by a port number
// that the host does not have.
func TestTwinWithMorePorts(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,2")
	hosts, sw := cas(f), switches(f)
	for _, twin := range []int{sw[1], sw[len(sw)-1]} {
		for _, victim := range hosts[1:4] {
			c, err := NewCluster(f, timed(1))
			if err != nil {
				t.Fatal(err)
			}
			guid := f.Nodes[f.Find(victim)].GUID
			if err := c.Sim.SetQuirks(f.Nodes[twin].ID, &sim.Quirks{NodeGUID: guid}); err != nil {
				t.Fatal(err)
			}
			m, err := c.Start(hosts[0], DefaultConfig(), nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Run(30 * time.Second)
			told := false
			for i := range m.Notices {
				told = told || m.Notices[i].Kind == sm.KindDuplicateGUID
			}
			if !told || !m.Up() {
				t.Errorf("%s as %s: told %v, up %v", f.Nodes[twin].ID, victim, told, m.Up())
			}
		}
	}
}
