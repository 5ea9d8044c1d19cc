package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
)

// keysAre checks that every end port has key and protection.
func keysAre(c *Cluster, key ib.MKey, prot uint8) error {
	for i := range c.Fabric.Nodes {
		p := 1
		if c.Fabric.Nodes[i].IsSwitch() {
			p = 0
		}
		if pi := c.Sim.PortInfo(i, p); pi.MKey != key || pi.MKeyProtectBits != prot {
			return fmt.Errorf("%s has not key %d, protection %d but %d, %d", c.Fabric.Nodes[i].ID, uint64(key), prot, uint64(pi.MKey), pi.MKeyProtectBits)
		}
	}
	return nil
}

// TestKeys: a manager that dies anywhere in a change of M_Keys leaves no
// port locked: the next one finishes the change, or makes another.
func TestKeys(t *testing.T) {
	f := gen(t, "torus", "3x3")
	up := func(c *Cluster, key ib.MKey, prot uint8, kill int, st *store.Memory) (*Manager, error) {
		cfg := TrialConfig()
		cfg.MKey, cfg.MKeyProtect = key, prot
		m, err := c.Attach(firstCA(f), cfg, st)
		if err != nil {
			return nil, err
		}
		m.KillAfter = kill
		if err := m.Start(); err != nil {
			return nil, err
		}
		if kill > 0 {
			c.Run(5 * time.Second)
			return m, nil
		}
		if err := settled(c, m, 20*time.Second); err != nil {
			return m, fmt.Errorf("%w\n%s", err, tail(m))
		}
		if err := keysAre(c, key, prot); err != nil {
			return m, fmt.Errorf("%w\n%s", err, tail(m))
		}
		return m, nil
	}
	for prot := range uint8(4) {
		for _, next := range []ib.MKey{0xB, 0xC, 0xA, 0} {
			for kill := 100; kill < 300; kill += 37 {
				c, err := NewCluster(f, timed(1))
				if err != nil {
					t.Fatal(err)
				}
				m, err := up(c, 0xA, prot, 0, nil)
				if err != nil {
					t.Fatalf("protection %d: %v", prot, err)
				}
				m.Kill()
				if m, err = up(c, 0xB, prot, kill, m.Store.Reopen()); err != nil {
					t.Fatal(err)
				}
				m.Kill()
				if m, err = up(c, next, prot, 130+kill*5%100, m.Store.Reopen()); err != nil {
					t.Fatal(err)
				}
				m.Kill()
				if _, err = up(c, next, prot, 0, m.Store.Reopen()); err != nil {
					t.Fatalf("protection %d, killed after %d of the change to B, then %d: %v", prot, kill, uint64(next), err)
				}
			}
		}
	}
}

// TestForeignKey: a port locked with an unknown key is reported and left alone; the rest comes
// up. When the M_Key lease ends, the manager takes the port over.
func TestForeignKey(t *testing.T) {
	f := gen(t, "torus", "3x3")
	hosts := cas(f)
	for prot := uint8(1); prot < 4; prot++ {
		for _, lease := range []uint16{0, 8} {
			t.Run(fmt.Sprint(prot, lease), func(t *testing.T) {
				c, err := NewCluster(f, timed(1))
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{hosts[4], f.Nodes[switches(f)[7]].ID} {
					c.setKey(t, id, 0x1234, prot, lease)
				}
				cfg := TrialConfig()
				cfg.MKey = 0xA
				m, err := c.Start(hosts[0], cfg, nil)
				if err != nil {
					t.Fatal(err)
				}
				upWithout(t, c, m, 20*time.Second)
				if prot == 1 && len(told(m, sm.KindMKeyRefused)) == 0 || prot > 1 && len(told(m, sm.KindNodeSilent)) == 0 {
					t.Errorf("not told\n%s", tail(m))
				}
				if lease == 0 {
					return
				}
				c.Run(20 * time.Second)
				mustSettle(t, c, m, 60*time.Second)
				if err := keysAre(c, 0xA, 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// setKey locks a node's end port as another manager would have.
func (c *Cluster) setKey(t testing.TB, id string, key ib.MKey, prot uint8, lease uint16) {
	t.Helper()
	i, err := c.Sim.Node(id)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := c.Sim.Attach(id)
	if err != nil {
		t.Fatal(err)
	}
	num := 1
	if c.Fabric.Nodes[i].IsSwitch() {
		num = 0
	}
	pi := c.Sim.PortInfo(i, num)
	pi.ClearForSet()
	pi.LID, pi.MasterSMLID = 999, 999
	pi.MKey, pi.MKeyProtectBits, pi.MKeyLeasePeriod = key, prot, lease
	var q ib.MAD
	smp.NewDR(&q, ib.MethodSet, smp.AttrPortInfo, 0, 0, nil)
	pi.Put(smp.Data(&q))
	ep.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: q[:]})
	c.Run(time.Millisecond)
	ep.Close()
	if got := c.Sim.PortInfo(i, num); got.MKey != key {
		t.Fatalf("%s has key %v", id, got.MKey)
	}
}
