package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/subnet"
)

// TestAliasesLateCopy: a block of alias GUIDs is written twice, and a late copy of the first
// Set undoes the second. The manager detects this when no copy can arrive any more. By then the
// restored GUID belongs to another port.
func TestAliasesLateCopy(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
	guids, at := hosts(c.Fabric)
	m.SetAliases([]subnet.Alias{})
	c.Run(10 * time.Second)
	var sets []mad.Packet
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrGUIDInfo && k.Method() == ib.MethodSet {
			q := *p
			q.Data = slices.Clone(p.Data)
			sets = append(sets, q)
		}
	}
	m.SetAliases([]subnet.Alias{{Port: guids[1], Index: 1, GUID: vGUID(1)}, {Port: guids[1], Index: 2, GUID: vGUID(2)}})
	c.Run(time.Second)
	list := []subnet.Alias{{Port: guids[1], Index: 2, GUID: vGUID(2)}, {Port: guids[2], Index: 1, GUID: vGUID(1)}}
	m.SetAliases(list)
	c.Run(time.Second)
	if err := aliasesHeld(c, m, list); err != nil || len(sets) != 3 {
		t.Fatalf("after %d Sets: %v", len(sets), err)
	}
	m.ep.Send(&sets[0])
	c.Run(time.Second)
	if got := c.Sim.GUIDs(at[1], 1); !slices.Contains(got, vGUID(1)) {
		t.Fatalf("the old copy does no harm: %v", got)
	}
	c.Run(6 * time.Second)
	if err := aliasesHeld(c, m, list); err != nil {
		t.Error(err)
	}
}
