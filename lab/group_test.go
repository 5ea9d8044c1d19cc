package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sim"
	"heddle/sm"
)

// hosts are the port GUIDs of all hosts, by node index.
func hosts(f *fabric.Fabric) (guids []ib.GUID, at []int) {
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() {
			guids = append(guids, n.Ports[1].GUID)
			at = append(at, i)
		}
	}
	return guids, at
}

// delivered checks that a packet of the group from each member reaches each
// other member once and nobody else, by the tables that the switches hold.
func delivered(c *Cluster, g sm.Group) error {
	f := c.Fabric
	guids, at := hosts(f)
	in := map[int]bool{}
	for i, u := range guids {
		if slices.Contains(g.Members, u) {
			in[at[i]] = true
		}
	}
	for src := range in {
		if !linkActive(c, src, 1) {
			continue
		}
		got := map[int]int{}
		type hop struct {
			sw, port int
		}
		p := f.Nodes[src].Ports[1].Peer
		queue := []hop{{int(p.Node), int(p.Port)}}
		for steps := 0; len(queue) > 0; steps++ {
			if steps > 10_000 {
				return fmt.Errorf("group %v: packets of %s multiply", g.MLID, f.Nodes[src].ID)
			}
			h := queue[0]
			queue = queue[1:]
			for _, out := range c.Sim.MFT(h.sw, g.MLID) {
				if out == 0 || int(out) == h.port || !linkActive(c, h.sw, int(out)) {
					continue
				}
				q := f.Nodes[h.sw].Ports[out].Peer
				if f.Nodes[q.Node].IsSwitch() {
					queue = append(queue, hop{int(q.Node), int(q.Port)})
				} else {
					got[int(q.Node)]++
				}
			}
		}
		for n := range in {
			want := 1
			if n == src || !linkActive(c, n, 1) {
				want = 0
			}
			if got[n] != want {
				return fmt.Errorf("group %v: %s gets %d copies from %s, want %d", g.MLID, f.Nodes[n].ID, got[n], f.Nodes[src].ID, want)
			}
			delete(got, n)
		}
		if len(got) > 0 {
			return fmt.Errorf("group %v: %d hosts get packets of %s that are no members", g.MLID, len(got), f.Nodes[src].ID)
		}
	}
	return nil
}

func linkActive(c *Cluster, n, p int) bool {
	r, ok := c.Sim.Peer(n, p)
	return ok && c.Sim.PortInfo(n, p).PortState == ib.StateActive && c.Sim.PortInfo(int(r.Node), int(r.Port)).PortState == ib.StateActive
}

func groupOf(mlid ib.LID, members ...ib.GUID) sm.Group {
	return sm.Group{MLID: mlid, PKey: ib.PKeyDefaultFull, MTU: 4, Members: members}
}

// TestGroups: members join and leave while links fail and return; packets of
// each group reach its members once, and only blocks that differ are written.
func TestGroups(t *testing.T) {
	first, n := seeds(28, 1000)
	engines := inForce{}
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := drawRouting(seed)
		f := d.fabric
		cfg := TrialConfig()
		d.apply(&cfg)
		cfg.ImproveDelay = 0 // tables change when something changes, and then only
		c, m := bringUp(t, f, sim.Config{Seed: seed, HopLatency: time.Microsecond}, cfg)
		d.watch(m)
		guids, _ := hosts(f)
		groups := make([]sm.Group, 3)
		cab := cables(f)
		for round := range 8 {
			for i := range groups {
				groups[i] = groupOf(0xC000 + ib.LID(i*20))
				groups[i].SL = ib.SL(i) // lanes that min-hop does not use
				for _, u := range guids {
					if rng.IntN(2) == 0 {
						groups[i].Members = append(groups[i].Members, u)
					}
				}
			}
			m.SetGroups(groups)
			for range rng.IntN(3) {
				r := cab[rng.IntN(len(cab))]
				if rng.IntN(2) == 0 {
					_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
				} else {
					_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
				}
			}
			if err := settled(c, m, 30*time.Second); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, tail(m))
			}
			for _, g := range groups {
				have := m.Snap.Tables
				if have == nil || have.Multicast == nil || slices.ContainsFunc(have.Multicast.Refused, func(r route.RefusedGroup) bool { return r.MLID == g.MLID }) {
					continue
				}
				if err := delivered(c, g); err != nil && reached(c, m, g) {
					t.Fatalf("seed %d, round %d: %v\n%s", seed, round, err, tail(m))
				}
			}
			// A trap that was sent while there was no route is repeated, or the
			// next light sweep finds what it told.
			c.Run(3 * time.Second)
			if err := settled(c, m, 30*time.Second); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, tail(m))
			}
			if mc := m.Snap.Tables.Multicast; mc != nil && len(mc.Refused) > 0 {
				t.Errorf("seed %d, round %d: refused %v", seed, round, mc.Refused)
			}
			sent := mftSets(m, func() { m.SetGroups(groups); c.Run(time.Second) })
			if sent != 0 {
				t.Fatalf("seed %d: %d multicast blocks written though nothing changed", seed, sent)
			}
		}
		m.SetGroups(nil)
		c.Run(2 * time.Second)
		reach := c.reachable(m)
		for _, g := range groups {
			for i := range f.Nodes {
				if reach[f.Nodes[i].GUID] && len(c.Sim.MFT(i, g.MLID)) > 0 {
					t.Fatalf("seed %d: %s still forwards group %v", seed, f.Nodes[i].ID, g.MLID)
				}
			}
		}
		engines.add(d.inForce)
	}
	engines.check(t, n)
}

// mftSets counts the multicast blocks written while fn runs.
func mftSets(m *Manager, fn func()) (n int) {
	old := m.OnSend
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrMFT && k.Method() == ib.MethodSet {
			n++
		}
	}
	fn()
	m.OnSend = old
	return n
}

// reached reports whether the manager can reach all members that have a link.
func reached(c *Cluster, m *Manager, g sm.Group) bool {
	reach := c.reachable(m)
	guids, at := hosts(c.Fabric)
	for i, u := range guids {
		if slices.Contains(g.Members, u) && linkActive(c, at[i], 1) && !reach[c.Fabric.Nodes[at[i]].GUID] {
			return false
		}
	}
	return true
}

// TestGroupTakeover: a manager that comes back writes no multicast block, except blocks that
// changed while no manager ran.
func TestGroupTakeover(t *testing.T) {
	f := gen(t, "torus", "4x4")
	c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
	guids, _ := hosts(f)
	g := groupOf(0xC005, guids[:9]...)
	m.SetGroups([]sm.Group{g})
	c.Run(time.Second)
	if err := delivered(c, g); err != nil {
		t.Fatal(err)
	}
	for i := range f.Nodes {
		if si, ok := c.Sim.SwitchInfo(i); ok && si.MulticastFDBTop != g.MLID {
			t.Fatalf("MulticastFDBTop of %s is %v, want %v", f.Nodes[i].ID, si.MulticastFDBTop, g.MLID)
		}
	}
	n, k := restart(t, c, m, true)
	n.SetGroups([]sm.Group{g})
	mustUp(t, c, n)
	c.Run(time.Second)
	if k.lft != 0 || k.state != 0 || k.top != 0 {
		t.Errorf("%d LFT blocks, %d SwitchInfo, %d port states set", k.lft, k.top, k.state)
	}
	if err := delivered(c, g); err != nil {
		t.Fatal(err)
	}
	if mftSets(n, func() { n.Sweep(true); c.Run(time.Second) }) != 0 {
		t.Error("an audit writes multicast blocks that are right")
	}
}

// TestGroupRefused: a group that a table cannot hold is refused and reported.
func TestGroupRefused(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, sim.Config{}, TrialConfig())
	guids, _ := hosts(f)
	m.SetGroups([]sm.Group{groupOf(0xFFF0, guids[:2]...), groupOf(0xC001, guids[:2]...)})
	c.Run(time.Second)
	if !strings.Contains(strings.Join(m.Events(sm.Warn), "\n"), "group_refused: multicast group 0xfff0 has no tree") {
		t.Errorf("not told:\n%s", strings.Join(m.Events(sm.Info), "\n"))
	}
	if err := delivered(c, groupOf(0xC001, guids[:2]...)); err != nil {
		t.Error(err)
	}
}

// TestGroupBurst: while tables are being computed joins gather, so that a burst
// of them costs a few jobs; all of them are in the end result.
func TestGroupBurst(t *testing.T) {
	f := gen(t, "torus", "4x4")
	c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond}, TrialConfig())
	guids, _ := hosts(f)
	jobs := 0
	m.OnJob = func(*sm.JobResult) { jobs++ }
	m.JobTime = 20 * time.Millisecond
	var g sm.Group
	for k := range 200 {
		g = groupOf(0xC000+ib.LID(k%3), guids[:2+k*(len(guids)-2)/199]...)
		m.SetGroups([]sm.Group{g})
		c.Run(time.Millisecond)
	}
	if err := c.RunUntil(5*time.Second, func() bool { return m.Idle() && delivered(c, g) == nil }); err != nil {
		t.Fatalf("%v: %v\n%s", err, delivered(c, g), tail(m))
	}
	if jobs > 12 { // one after the other, of 20 ms each
		t.Errorf("%d routing jobs for a burst of 200 joins in 200 ms", jobs)
	}
	for l := range ib.LID(3) {
		if l+0xC000 != g.MLID {
			if err := delivered(c, groupOf(0xC000+l, guids[0], guids[1])); err == nil {
				t.Errorf("group %v is still forwarded", 0xC000+l)
			}
		}
	}
}
