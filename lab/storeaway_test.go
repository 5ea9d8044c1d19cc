package lab

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// forEver is more writes than a test makes.
const forEver = 1 << 30

// TestStoreAway: a manager takes over while nothing can be stored, as with etcd away. It answers all the
// time, also after its first sweep; routes around a link that fails then; asks a port that it does not
// know to wait; leaves P_Keys alone that the store may know; and acknowledges no change. When the store is
// back, all that waited is done, without a change of a LID. If others are known to have stored what it
// lacks, it writes nothing.
func TestStoreAway(t *testing.T) {
	for _, how := range []string{"warm", "cold", "lacks"} {
		t.Run(how, func(t *testing.T) {
			first, n := seeds(2, 100)
			for seed := first; seed < first+n; seed++ {
				storeAway(t, seed, how)
			}
		})
	}
}

func storeAway(t *testing.T, seed uint64, how string) {
	t.Helper()
	f := gen(t, "xgft", "2", "4,4", "1,2")
	hosts := cas(f)
	late := hosts[len(hosts)-1] // no manager has seen it
	c, err := NewCluster(f, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
	must(t, err)
	must(t, c.Sim.LinkDown(late, 1))
	was, err := c.Attach(hosts[0], TrialConfig(), nil)
	must(t, err)
	was.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
	must(t, was.Start())
	must(t, c.RunUntil(time.Minute, was.Up))
	member, err := c.Client(hosts[3])
	must(t, err)
	gid := was.Snap.GID(was.Snap.PortByLID(member.Endpoint().PortInfo().LID))
	acked := func(b []byte, err error) bool { return err == nil && binary.BigEndian.Uint16(b[4:]) == 0 }
	if b, err := member.Ask(time.Second, joinMAD(ib.MethodSet, slowGroup(0), gid)); !acked(b, err) {
		t.Fatalf("a first join: %v", err)
	}
	c.Run(20 * time.Second)
	warm := mirrorOf(t, was.Snap)
	if how == "cold" {
		warm = nil
	}
	lids := lidsOf(c)
	// Another manager gave a P_Key that this store does not know.
	tenant := f.Find(hosts[5])
	(&pairBed{cloud: &cloud{Cluster: c, t: t, hosts: hosts}}).setKeys(5, 0xFFFF, 0x8005)
	was.Kill()
	m, err := c.Attach(hosts[1], TrialConfig(), was.Store.Reopen())
	must(t, err)
	cfg := SAConfig(1)
	cfg.MustSave = true
	m.ServeSA(cfg, sa.Options{SAKey: 1})
	m.SetWarm(warm)
	m.Store.FailNext = forEver
	stored := m.Commits
	sets := map[ib.AttrID]int{}
	m.OnSend = func(p *mad.Packet) {
		if d := (*ib.MAD)(p.Data); d.Class().IsSMP() && d.Method() == ib.MethodSet {
			sets[d.AttrID()]++
		}
	}
	serves, silent := false, time.Duration(0)
	m.OnPublish = func() {
		if m.State() == subnet.Master && !serves {
			m.sm.Step(sm.SetUnsure{Unsure: true, Lacks: how == "lacks"})
		}
		serves = serves || m.Snap.Serves()
	}
	must(t, m.Start())
	began := c.Sim.Now()
	run := func(d time.Duration) {
		for end := c.Sim.Now().Add(d); c.Sim.Now() < end; c.Run(time.Millisecond) {
			if serves && !m.Snap.Serves() {
				silent += time.Millisecond
			}
		}
	}
	run(time.Second)
	if !serves || silent > 0 {
		t.Fatalf("seed %d: serves %v, silent for %v after that\n%s", seed, serves, silent, tail(m))
	}
	up := c.uplink(t, m, m.Snap.Ports[m.Snap.PortByLID(member.Endpoint().PortInfo().LID)].Peer.Node)
	if how == "lacks" {
		must(t, c.Sim.LinkDown(f.Nodes[up.Node].ID, int(up.Port)))
		run(time.Minute)
		if silent > 0 || sets[smp.AttrLFT]+sets[smp.AttrMFT]+sets[smp.AttrPKeyTable]+sets[smp.AttrSwitchInfo] > 0 {
			t.Fatalf("seed %d: silent for %v, Sets %v\n%s", seed, silent, sets, tail(m))
		}
	} else {
		if !m.Up() {
			t.Fatalf("seed %d: not up after %v\n%s", seed, c.Sim.Now().Sub(began), tail(m))
		}
		must(t, c.Check(m))
		must(t, c.Sim.LinkDown(f.Nodes[up.Node].ID, int(up.Port)))
		run(2 * time.Second)
		if err := c.Check(m); err != nil || sets[smp.AttrLFT] == 0 {
			t.Fatalf("seed %d: a link failed: %v, %d LFT blocks\n%s", seed, err, sets[smp.AttrLFT], tail(m))
		}
	}
	if b, err := member.Ask(time.Second, joinMAD(ib.MethodSet, slowGroup(0), gid)); !acked(b, err) {
		t.Fatalf("seed %d: the join of a member: %v", seed, err)
	}
	if b, err := member.Ask(time.Second, joinMAD(ib.MethodSet, slowGroup(7), gid)); acked(b, err) {
		t.Fatalf("seed %d: a change was acknowledged", seed)
	}
	must(t, c.Sim.LinkUp(late, 1))
	run(30 * time.Second)
	if l := c.Sim.PortInfo(f.Find(late), 1); l.LID != 0 || l.PortState > ib.StateInit {
		t.Fatalf("seed %d: a new host has LID %v, state %v, and nothing was stored\n%s", seed, l.LID, l.PortState, tail(m))
	}
	if keys := keysAt(c, tenant, 1); !slices.Contains(keys, 0x8005) {
		t.Fatalf("seed %d: a P_Key was revoked that the store may know: %v\n%s", seed, keys, tail(m))
	}
	if silent > 0 || m.Commits == stored {
		t.Fatalf("seed %d: silent for %v, %d attempts to store", seed, silent, m.Commits-stored)
	}

	m.Store.FailNext = 0
	m.sm.Step(sm.SetUnsure{})
	if st, err := m.Store.Load(); how != "lacks" && (err != nil || len(st.LIDs) != len(lids)+1) {
		t.Errorf("seed %d: %d LIDs are stored when the store is back: %v", seed, len(st.LIDs), err)
	}
	run(30 * time.Second)
	if l := c.Sim.PortInfo(f.Find(late), 1); l.LID == 0 || l.PortState != ib.StateActive || silent > 0 {
		t.Fatalf("seed %d: the new host has LID %v, state %v, 30 s after the store was back; silent for %v\n%s", seed, l.LID, l.PortState, silent, tail(m))
	}
	must(t, c.Check(m))
	if keys := keysAt(c, tenant, 1); slices.Contains(keys, 0x8005) {
		t.Errorf("seed %d: a P_Key that the store does not know is still there: %v\n%s", seed, keys, tail(m))
	}
	st, err := m.Store.Load()
	must(t, err)
	if len(st.LIDs) != len(lids)+1 {
		t.Errorf("seed %d: %d LIDs are stored, of %d ports", seed, len(st.LIDs), len(lids)+1)
	}
	for at, l := range lids {
		if now := lidsOf(c)[at]; now != l {
			t.Errorf("seed %d: %s had LID %v, and has %v", seed, at, l, now)
		}
	}
}

// lidsOf are the LIDs of all end ports that have one.
func lidsOf(c *Cluster) map[string]ib.LID {
	out := map[string]ib.LID{}
	for i := range c.Fabric.Nodes {
		p := 1
		if c.Fabric.Nodes[i].IsSwitch() {
			p = 0
		}
		if l := c.Sim.PortInfo(i, p).LID; l != 0 {
			out[fmt.Sprint(c.Fabric.Nodes[i].ID, " port ", p)] = l
		}
	}
	return out
}
