package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
)

func hostGUID(c *Cluster, i int) ib.GUID { return c.Fabric.Nodes[host(c, i)].Ports[1].GUID }

// members are full members of a partition, by host.
func members(c *Cluster, name string, key ib.PKey, hosts ...int) partition.Partition {
	p := partition.Partition{Name: name, PKey: key}
	for _, i := range hosts {
		p.Members = append(p.Members, partition.Member{GUID: hostGUID(c, i), As: partition.Full})
	}
	return p
}

func wantKeys(t *testing.T, c *Cluster, m *Manager, want map[int][]ib.PKey) {
	t.Helper()
	for i, keys := range want {
		if got := keysAt(c, host(c, i), 1); !slices.Equal(got, keys) {
			t.Errorf("host %d holds %v, want %v\n%s", i, got, keys, strings.Join(m.Events(sm.Info), "\n"))
		}
	}
}

// addMembers sets the members and waits until ports hold what they should.
func (m *Manager) addMembers(t *testing.T, tag uint64, list ...partition.Partition) {
	t.Helper()
	m.SetMembers(list, tag)
	if err := m.c.RunUntil(time.Minute, func() bool { n := lastNotice(m, sm.KindPartitionsApplied); return n != nil && n.Tag == tag }); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(m.Events(sm.Debug), "\n"))
	}
}

// TestMembers: members are added to the policy, leave when they are removed, and stay when the
// policy changes. A request without effect sends and stores nothing.
func TestMembers(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
	base := policyOf(t, c, "Default:ALL=full; a=5:H1=full,H2=full;")
	m.apply(t, base, 1)
	m.addMembers(t, 2, members(c, "", 5, 3), members(c, "vm", 6, 4, 5))
	wantKeys(t, c, m, map[int][]ib.PKey{1: {0xFFFF, 0x8005}, 2: {0xFFFF, 0x8005}, 3: {0xFFFF, 0x8005}, 4: {0xFFFF, 0x8006}, 5: {0xFFFF, 0x8006}})
	if s := m.Snap; s.BasePartitions != base || s.Partitions.Find(6) == nil || len(s.Partitions.Find(5).Members) != 3 || m.Status().Partitions.Count != 3 {
		t.Error("the snapshot does not show both policies")
	}
	sent, published := m.Status().Sent, m.Snap.Gen
	m.Store.FailNext = 1
	m.addMembers(t, 3, members(c, "", 5, 3), members(c, "vm", 6, 4, 5))
	if m.Status().Sent != sent || m.Store.FailNext != 1 || m.Snap.Gen != published {
		t.Error("the same members again are not for nothing")
	}
	m.Store.FailNext = 0
	m.apply(t, policyOf(t, c, "Default:ALL=full; b=7:H1=full;"), 4)
	wantKeys(t, c, m, map[int][]ib.PKey{1: {0xFFFF, 0x8007}, 2: {0xFFFF}, 3: {0xFFFF, 0x8005}, 4: {0xFFFF, 0x8006}})
	m.addMembers(t, 5, members(c, "vm", 6, 4))
	wantKeys(t, c, m, map[int][]ib.PKey{1: {0xFFFF, 0x8007}, 3: {0xFFFF}, 4: {0xFFFF, 0x8006}, 5: {0xFFFF}})

	// What could not be stored is tried again: who set it does not ask twice.
	m.Store.FailNext = 1
	m.SetMembers([]partition.Partition{members(c, "vm", 6, 4), members(c, "new", 9, 5)}, 50)
	if n := lastNotice(m, sm.KindPartitionsRefused); n == nil || n.Tag != 50 {
		t.Errorf("told %v", n)
	}
	c.Run(30 * time.Second)
	wantKeys(t, c, m, map[int][]ib.PKey{5: {0xFFFF, 0x8009}})
	m.addMembers(t, 51, members(c, "vm", 6, 4))

	// What cannot be leaves everything as it is, until it can be.
	clash := partition.Partition{Name: "x", PKey: 8, Members: []partition.Member{{GUID: hostGUID(c, 5), As: partition.Full}}, Groups: []partition.Group{{MGID: ib.GID{0xFF, 0x12, 9}, MTU: 4, Rate: 3}}}
	withGroup := policyOf(t, c, "Default:ALL=full; b=7:mgid=ff12:900::\nH1=full;")
	m.apply(t, withGroup, 6)
	m.SetMembers([]partition.Partition{members(c, "vm", 6, 4), clash}, 7)
	c.Run(10 * time.Second)
	if n := lastNotice(m, sm.KindPartitionsRefused); n == nil || n.Tag != 7 || n.Err == nil || !strings.Contains(n.Err.Error(), "0x0008") {
		t.Errorf("told %v", n)
	}
	wantKeys(t, c, m, map[int][]ib.PKey{1: {0xFFFF, 0x8007}, 4: {0xFFFF, 0x8006}, 5: {0xFFFF}})
	if m.Snap.Partitions.Find(8) != nil {
		t.Error("members that were refused are shown")
	}
	m.apply(t, policyOf(t, c, "Default:ALL=full; b=7:H1=full,H2=full;"), 8)
	wantKeys(t, c, m, map[int][]ib.PKey{2: {0xFFFF, 0x8007}, 4: {0xFFFF, 0x8006}, 5: {0xFFFF, 0x8008}})
}

// TestMembersAcrossRestart: members that are set before the start are in force with the stored
// policy, so no port loses a key temporarily.
func TestMembersAcrossRestart(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H1=full;"), 1)
	list := []partition.Partition{members(c, "", 5, 2), members(c, "vm", 6, 3, 4)}
	m.addMembers(t, 2, list...)
	for _, fresh := range []bool{false, true} {
		m.Kill()
		st := m.Store.Reopen()
		if fresh { // without a policy of its own, and so without a store's word on quarantine
			st = nil
		}
		writes := 0
		c.Sim.OnChange = func(x sim.Change) {
			if x.Kind == sim.ChangeSet && x.Attr == smp.AttrPKeyTable {
				writes++
			}
		}
		var err error
		if m, err = c.Attach(m.Node, quietConfig(), st); err != nil {
			t.Fatal(err)
		}
		m.SetMembers(list, 3)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, m)
		c.Run(20 * time.Second)
		want := map[int][]ib.PKey{1: {0xFFFF, 0x8005}, 2: {0xFFFF, 0x8005}, 3: {0xFFFF, 0x8006}, 4: {0xFFFF, 0x8006}}
		if writes > 0 {
			t.Errorf("%d writes of P_Key tables", writes)
		}
		wantKeys(t, c, m, want)
		// A store that was lost cannot know who is in a: host 1 keeps its key, and that is told.
		if kept := len(told(m, sm.KindKept)); fresh != (kept == 1) {
			t.Errorf("told %d times of kept keys", kept)
		}
	}
}

// TestMembersInQuarantine: a P_Key that members had under one name is not given to
// others before the last of them has lost it, even if the change came while no
// manager ran.
func TestMembersInQuarantine(t *testing.T) {
	for _, restart := range []bool{false, true} {
		c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
		m.addMembers(t, 1, members(c, "tenant1", 5, 1, 2, 3))
		mute := c.Fabric.Nodes[host(c, 2)].ID
		if err := c.Sim.MuteSMA(mute, true); err != nil {
			t.Fatal(err)
		}
		next := []partition.Partition{members(c, "tenant2", 5, 3, 4)}
		if restart {
			m.Kill()
			var err error
			if m, err = c.Attach(m.Node, quietConfig(), m.Store.Reopen()); err != nil {
				t.Fatal(err)
			}
			m.SetMembers(next, 2)
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			if err := c.RunUntil(time.Minute, m.Up); err != nil {
				t.Fatal(err)
			}
		} else {
			m.SetMembers(next, 2)
		}
		c.Run(20 * time.Second)
		wantKeys(t, c, m, map[int][]ib.PKey{1: {0xFFFF}, 3: {0xFFFF, 0x8005}, 4: {0xFFFF}})
		if q := m.Status().Partitions.Quarantined; !slices.Equal(q, []ib.PKey{5}) {
			t.Errorf("restart %v: quarantined %v", restart, q)
		}
		if err := c.Sim.MuteSMA(mute, false); err != nil {
			t.Fatal(err)
		}
		c.Run(time.Minute)
		wantKeys(t, c, m, map[int][]ib.PKey{2: {0xFFFF}, 4: {0xFFFF, 0x8005}})
	}
}
