package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// vGUID is the alias GUID of virtual machine i.
func vGUID(i int) ib.GUID { return ib.GUID(0x0014_0500_0000_0000 + uint64(i)) }

// guidSMPs counts the GUIDInfo requests of a manager while fn runs.
func guidSMPs(m *Manager, fn func()) (gets, sets int) {
	old := m.OnSend
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrGUIDInfo {
			if k.Method() == ib.MethodSet {
				sets++
			} else {
				gets++
			}
		}
	}
	fn()
	m.OnSend = old
	return gets, sets
}

// aliasesHeld compares what hosts hold with what the list says, and the
// snapshot with what they hold.
func aliasesHeld(c *Cluster, m *Manager, list []subnet.Alias) error {
	guids, at := hosts(c.Fabric)
	for i, u := range guids {
		want := []ib.GUID{u}
		for _, a := range list {
			if a.Port == u {
				for len(want) <= int(a.Index) {
					want = append(want, 0)
				}
				want[a.Index] = a.GUID
			}
		}
		held := c.Sim.GUIDs(at[i], 1)
		for len(held) > 1 && held[len(held)-1] == 0 {
			held = held[:len(held)-1]
		}
		if !slices.Equal(held, want) {
			return fmt.Errorf("port %v holds %v, want %v", u, held, want)
		}
		p := m.Snap.PortByGUID(u)
		if p < 0 {
			return fmt.Errorf("port %v is not in the snapshot", u)
		}
		if shown := m.Snap.Ports[p].Aliases; len(held) > 1 && (len(shown) != len(held) || shown[0] != 0 || !slices.Equal(shown[1:], held[1:])) || len(held) == 1 && shown != nil {
			return fmt.Errorf("port %v is shown with %v, holds %v", u, shown, held)
		}
		for _, g := range held {
			if g != 0 && m.Snap.PortByGUID(g) != p {
				return fmt.Errorf("GUID %v leads to port %d, want %d", g, m.Snap.PortByGUID(g), p)
			}
		}
	}
	return nil
}

// nobodyTwice checks that no GUID is in the tables of two hosts.
func nobodyTwice(c *Cluster) error {
	guids, at := hosts(c.Fabric)
	owner := map[ib.GUID]ib.GUID{}
	for i, u := range guids {
		for _, g := range c.Sim.GUIDs(at[i], 1) {
			if o, ok := owner[g]; g != 0 && ok && o != u {
				return fmt.Errorf("%v and %v both hold %v", o, u, g)
			}
			owner[g] = u
		}
	}
	return nil
}

// TestAliases: virtual machines come, move, swap places and go while the fabric
// loses datagrams and nodes reboot; no GUID is ever at two ports at a time, and
// in the end each is where it should be and shown there.
func TestAliases(t *testing.T) {
	first, n := seeds(28, 300)
	engines := inForce{}
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 11))
		d := drawRouting(seed)
		f := d.fabric
		sc := sim.Config{Seed: seed, HopLatency: time.Microsecond}
		if pick(seed, "loss", true, false) {
			sc.Drop, sc.Duplicate, sc.Reorder = 0.02, 0.01, 0.02
		}
		cfg := TrialConfig()
		d.apply(&cfg)
		c, m := bringUp(t, f, sc, cfg)
		d.watch(m)
		guids, at := hosts(f)
		where := map[int]int{} // virtual machine → host
		list := func() (l []subnet.Alias) {
			used := map[int]int{}
			for v := range 20 {
				if h, ok := where[v]; ok {
					used[h]++
					l = append(l, subnet.Alias{Port: guids[h], Index: uint8(used[h]), GUID: vGUID(v)})
				}
			}
			return l
		}
		for round := range 12 {
			for range 1 + rng.IntN(6) {
				if v := rng.IntN(20); rng.IntN(4) == 0 {
					delete(where, v)
				} else {
					where[v] = rng.IntN(len(guids))
				}
			}
			m.SetAliases(list())
			if rng.IntN(3) == 0 {
				if h := rng.IntN(len(guids)); f.Nodes[at[h]].ID != m.Node {
					_ = c.Sim.NodeUp(f.Nodes[at[h]].ID) // a reboot
				}
			}
			end := c.Sim.Now().Add(60 * time.Second)
			if err := c.RunUntil(2*time.Minute, func() bool {
				if err := nobodyTwice(c); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
				return c.Sim.Now() > end || m.Up() && m.Idle() && aliasesHeld(c, m, list()) == nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := aliasesHeld(c, m, list()); err != nil {
				t.Fatalf("seed %d, round %d: %v\n%s", seed, round, err, tail(m))
			}
			if err := nobodyTwice(c); err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
		}
		mustSettle(t, c, m, 30*time.Second)
		engines.add(d.inForce)
	}
	engines.check(t, n)
}

// TestAliasesIdle: without changes nothing is sent, one alias costs one block, and a restarted
// manager writes nothing.
func TestAliasesIdle(t *testing.T) {
	f := gen(t, "fattree", "324")
	c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
	guids, _ := hosts(f)
	var l []subnet.Alias
	for i := range 100 {
		l = append(l, subnet.Alias{Port: guids[i%10], Index: uint8(1 + i/10), GUID: vGUID(i)})
	}
	// Block 0 of each host is read once, and on to the first that is empty.
	if gets, sets := guidSMPs(m, func() { m.SetAliases(l); c.Run(time.Second) }); gets != len(guids)+20 || sets != 20 {
		t.Errorf("%d Gets and %d Sets, want %d and 20", gets, sets, len(guids)+20)
	}
	if err := aliasesHeld(c, m, l); err != nil {
		t.Fatal(err)
	}
	if gets, sets := guidSMPs(m, func() { m.SetAliases(l); m.Sweep(true); c.Run(time.Minute) }); gets+sets != 0 {
		t.Errorf("%d Gets and %d Sets though nothing changed", gets, sets)
	}
	before := m.Snap
	l[17].GUID = vGUID(1000)
	if gets, sets := guidSMPs(m, func() { m.SetAliases(l); c.Run(time.Second) }); gets != 0 || sets != 1 {
		t.Errorf("%d Gets and %d Sets for one alias, want 1 Set", gets, sets)
	}
	if m.Snap == before || before.PortByGUID(vGUID(17)) < 0 || before.PortByGUID(vGUID(1000)) >= 0 {
		t.Error("a published snapshot was changed")
	}
	if m.Snap.PortByGUID(vGUID(17)) >= 0 || m.Snap.PortByGUID(vGUID(1000)) < 0 {
		t.Error("the snapshot does not show the change")
	}
	n, _ := restart(t, c, m, true)
	var sets int
	_, sets = guidSMPs(n, func() {
		n.SetAliases(l)
		mustUp(t, c, n)
		c.Run(time.Second)
	})
	if sets != 0 {
		t.Errorf("a manager that came back wrote %d blocks", sets)
	}
	if err := aliasesHeld(c, n, l); err != nil {
		t.Fatal(err)
	}
}

// TestAliasesFound: aliases that an earlier manager assigned stay and are shown. One that is
// assigned to another port is removed first, also from the second block.
func TestAliasesFound(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, err := NewCluster(f, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	guids, at := hosts(f)
	for i := 1; i <= 9; i++ {
		c.Sim.SetGUID(at[3], 1, i, vGUID(i))
	}
	m, err := c.Start(firstCA(f), DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	m.SetAliases(nil)
	c.Run(time.Second)
	var held []subnet.Alias
	for i := 1; i <= 9; i++ {
		held = append(held, subnet.Alias{Port: guids[3], Index: uint8(i), GUID: vGUID(i)})
	}
	if err := aliasesHeld(c, m, held); err != nil {
		t.Fatal(err)
	}
	l := []subnet.Alias{{Port: guids[5], Index: 4, GUID: vGUID(9)}, {Port: guids[3], Index: 2}, {Port: guids[3], Index: 3, GUID: vGUID(33)}}
	m.SetAliases(l)
	if err := c.RunUntil(time.Second, func() bool {
		if err := nobodyTwice(c); err != nil {
			t.Fatal(err)
		}
		return m.Snap.PortByGUID(vGUID(9)) == m.Snap.PortByGUID(guids[5])
	}); err != nil {
		t.Fatal(err)
	}
	c.Run(time.Second)
	held[1].GUID, held[2].GUID = 0, vGUID(33)
	if err := aliasesHeld(c, m, append(held[:8], l[0])); err != nil {
		t.Fatal(err)
	}
}

// TestAliasesRefused: aliases that are impossible are reported, and the others are written.
func TestAliasesRefused(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
	guids, at := hosts(f)
	ok := []subnet.Alias{{Port: guids[2], Index: 1, GUID: vGUID(1)}, {Port: guids[4], Index: 31, GUID: vGUID(2)}}
	m.SetAliases(append([]subnet.Alias{
		{Port: guids[2], Index: 0, GUID: vGUID(3)},
		{Port: guids[2], Index: 32, GUID: vGUID(4)},
		{Port: guids[2], Index: 255, GUID: vGUID(5)},
		{Port: guids[3], Index: 1, GUID: guids[5]},
		{Port: guids[3], Index: 2, GUID: guids[3]},
		{Port: 0x4711, Index: 1, GUID: vGUID(6)},
	}, append(ok, subnet.Alias{Port: guids[6], Index: 1, GUID: vGUID(1)})...))
	c.Run(time.Second)
	if err := aliasesHeld(c, m, ok); err != nil {
		t.Fatal(err)
	}
	told := strings.Join(m.Events(sm.Warn), "\n")
	for _, want := range []string{
		vGUID(3).String() + " at index 0: entry 0 of a port's table is its own GUID",
		vGUID(4).String() + " at index 32: its table has 32 entries",
		vGUID(5).String() + " at index 255: its table has 32 entries",
		guids[5].String() + " at index 1: it is the own GUID of a port",
		guids[3].String() + " at index 2: it is the own GUID of a port",
		"port " + guids[6].String() + " does not get the alias GUID " + vGUID(1).String() + " at index 1: another entry has it: port " + guids[2].String(),
	} {
		if strings.Count(told, want) != 1 {
			t.Errorf("told %d times: %s\n%s", strings.Count(told, want), want, told)
		}
	}
	// A port that holds it keeps it, whatever the order of the list.
	m.SetAliases([]subnet.Alias{{Port: guids[6], Index: 1, GUID: vGUID(1)}, ok[0], ok[1]})
	c.Run(time.Second)
	if err := aliasesHeld(c, m, ok); err != nil {
		t.Fatal(err)
	}
	// A port that does not answer is tried again, less and less often.
	_ = c.Sim.MuteSMA(f.Nodes[at[4]].ID, true)
	l := []subnet.Alias{ok[0], {Port: guids[4], Index: 31, GUID: vGUID(7)}, {Port: guids[7], Index: 1, GUID: vGUID(2)}}
	m.SetAliases(l)
	gets, sets := guidSMPs(m, func() { c.Run(90 * time.Second) })
	if gets+sets < 8 || gets+sets > 24 {
		t.Errorf("%d Gets and %d Sets in 90 s to a port that does not answer", gets, sets)
	}
	if err := nobodyTwice(c); err != nil {
		t.Error(err)
	}
	if m.Snap.PortByGUID(vGUID(2)) != m.Snap.PortByGUID(guids[4]) {
		t.Error("the alias was given to the next port before the one before let go of it")
	}
	_ = c.Sim.MuteSMA(f.Nodes[at[4]].ID, false)
	c.Run(200 * time.Second)
	if err := aliasesHeld(c, m, l); err != nil {
		t.Fatalf("%v\n%s", err, tail(m))
	}
}

// TestTrapsForSubscribers: each trap is forwarded, vendor traps too, but not a storm.
func TestTrapsForSubscribers(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
	guids, at := hosts(f)
	ep, err := c.Sim.Attach(f.Nodes[at[4]].ID)
	if err != nil {
		t.Fatal(err)
	}
	lid := m.Snap.Ports[m.Snap.PortByGUID(guids[4])].LID
	send := func(n *smp.Notice) {
		var k ib.MAD
		smp.NewLID(&k, ib.MethodTrap, smp.AttrNotice, 0, 0)
		k.SetTID(77)
		n.Put(smp.Data(&k))
		ep.Send(&mad.Packet{Addr: mad.Addr{LID: m.Snap.LID}, Data: k[:]})
	}
	c.Run(5 * time.Second)
	m.Traps = nil
	link := smp.NewTrap(smp.TrapLocalPhyErrors, smp.ProducerCA, lid, smp.DetailPort{LID: lid, PortNum: 1})
	vendor := smp.Notice{Type: smp.NoticeUrgent, Producer: 0x123456, TrapNumber: 9, IssuerLID: lid}
	send(&link)
	send(&vendor)
	c.Run(time.Second)
	if len(m.Traps) != 2 || m.Traps[0].Notice != link || m.Traps[1].Notice != vendor || m.Traps[0].From.LID != lid {
		t.Fatalf("handed on: %+v", m.Traps)
	}
	for range 200 {
		send(&link)
		send(&vendor)
		c.Run(10 * time.Millisecond)
	}
	if n := len(m.Traps); n != 18 {
		t.Errorf("%d of 402 traps of a storm handed on, want 9 of each", n)
	}
	c.Run(10 * time.Second)
	m.Traps = nil
	send(&link)
	c.Run(time.Second)
	if len(m.Traps) != 1 {
		t.Error("a trap after the storm was not handed on")
	}
}
