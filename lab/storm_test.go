package lab

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
)

// storm is a client on each host of a subnet, as ibsim's mcast_storm has one
// for each port: all of them ask at once.
type storm struct {
	t     *testing.T
	c     *Cluster
	hosts []*Client
	guids []ib.GUID
}

func newStorm(t *testing.T, c *Cluster) *storm {
	s := &storm{t: t, c: c}
	guids, at := hosts(c.Fabric)
	for i, n := range at {
		k, err := c.Client(c.Fabric.Nodes[n].ID)
		if err != nil {
			t.Fatal(err)
		}
		s.hosts, s.guids = append(s.hosts, k), append(s.guids, guids[i])
	}
	return s
}

// wish is what a host wants of a group.
type wish struct {
	host   int
	method ib.Method
	group  int
	state  uint8
}

func stormMGID(i int) ib.GID {
	m := ib.GID{0xFF, 0x12, 0xA0, 0x1C}
	binary.BigEndian.PutUint32(m[12:], uint32(0x1000+i))
	return m
}

// all sends every wish at once and repeats, as hosts do, what is not answered
// within a second.
func (s *storm) all(list []wish) {
	s.t.Helper()
	open := slices.Clone(list)
	for try := range 10 {
		tids := make([]uint32, len(open))
		for i, w := range open {
			r := wire.MCMemberRecord{
				MGID: stormMGID(w.group), PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, s.guids[w.host]),
				QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: w.state,
			}
			var m ib.MAD
			wire.New(&m, w.method, wire.AttrMCMemberRecord, 0, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|
				wire.MCMemberCompQKey|wire.MCMemberCompPKey|wire.MCMemberCompTClass|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
			r.Put(wire.Data(&m))
			tids[i] = s.hosts[w.host].Send(&m)
		}
		s.c.Run(time.Second)
		var left []wish
		for i, w := range open {
			b, ok := s.hosts[w.host].Got(tids[i])
			if !ok {
				left = append(left, w)
				continue
			}
			st := ib.Status(binary.BigEndian.Uint16(b[4:]))
			if st == 0x0200 && w.method == ib.MethodDelete && try > 0 {
				st = 0 // it left by a request whose answer was lost
			}
			if st != 0 {
				s.t.Fatalf("%v of host %d, group %d, state %d: status %v", w.method, w.host, w.group, w.state, st)
			}
		}
		if open = left; len(open) == 0 {
			return
		}
	}
	s.t.Fatalf("%d requests of %d are not answered", len(open), len(list))
}

// check compares the groups with what they should be and walks packets of each
// of them over the switches' tables.
func (s *storm) check(m *Manager, want map[int]map[int]uint8) {
	s.t.Helper()
	mustSettle(s.t, s.c, m, time.Minute)
	s.c.Run(time.Second)
	for group, in := range want {
		i := slices.IndexFunc(m.View().Groups, func(g *sa.Group) bool { return g.MGID == stormMGID(group) })
		if (i >= 0) != (len(in) > 0) {
			s.t.Fatalf("group %d with %d members: known %v", group, len(in), i >= 0)
		}
		if i < 0 {
			continue
		}
		g := m.View().Groups[i]
		routed := sm.Group{MLID: g.MLID}
		for _, x := range g.Members {
			h := slices.Index(s.guids, x.PortGUID)
			if in[h] != x.JoinState {
				s.t.Errorf("group %d: host %d has join state %d, want %d", group, h, x.JoinState, in[h])
			}
			routed.Members = append(routed.Members, x.PortGUID)
		}
		if len(g.Members) != len(in) {
			s.t.Errorf("group %d: %d members, want %d", group, len(g.Members), len(in))
		}
		if err := delivered(s.c, routed); err != nil {
			s.t.Errorf("group %d: %v\n%s", group, err, tail(m))
		}
	}
}

// TestMulticastStorm: every host of a subnet creates, joins and leaves groups
// at the same moment, over wires that lose MADs as well; what the switches
// then hold delivers to the members and to nobody else. A manager that is
// killed and started again has the same groups under the same MLIDs.
func TestMulticastStorm(t *testing.T) {
	for _, loss := range []float64{0, 0.03} {
		t.Run(fmt.Sprintf("loss %v", loss), func(t *testing.T) {
			f := gen(t, "xgft", "2", "6,6", "1,3")
			c, m := serveUp(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond})
			s := newStorm(t, c)
			c.Sim.SetDrop(loss)
			// Each host: the group of all, and two with neighbours. Whoever comes
			// first creates it.
			want := map[int]map[int]uint8{}
			var joins []wish
			join := func(h, g int, state uint8) {
				joins = append(joins, wish{h, ib.MethodSet, g, state})
				if want[g] == nil {
					want[g] = map[int]uint8{}
				}
				want[g][h] |= state
			}
			n := len(s.hosts)
			for h := range s.hosts {
				join(h, 0, wire.JoinFull)
				join(h, 1+h, wire.JoinFull)
				join(h, 1+(h+1)%n, wire.JoinFull)
				if h%3 == 0 {
					join(h, 0, wire.JoinNon)
				}
			}
			s.all(joins)
			c.Sim.SetDrop(0)
			s.check(m, want)

			// Every second host leaves all, while the others ask again for what they
			// have.
			c.Sim.SetDrop(loss)
			var mixed []wish
			for _, w := range joins {
				if w.host%2 != 0 {
					mixed = append(mixed, w)
					continue
				}
				if w.state = want[w.group][w.host]; w.state != 0 {
					mixed = append(mixed, wish{w.host, ib.MethodDelete, w.group, w.state})
					delete(want[w.group], w.host)
				}
			}
			s.all(mixed)
			c.Sim.SetDrop(0)
			s.check(m, want)

			mlids := map[ib.GID]ib.LID{}
			for _, g := range m.View().Groups {
				mlids[g.MGID] = g.MLID
			}
			m.Kill()
			again, err := c.Attach(m.Node, TrialConfig(), m.Store.Reopen())
			if err != nil {
				t.Fatal(err)
			}
			again.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
			if err := again.Start(); err != nil {
				t.Fatal(err)
			}
			mustUp(t, c, again)
			for _, g := range again.View().Groups {
				if mlids[g.MGID] != g.MLID {
					t.Errorf("group %v had MLID %v and has %v", g.MGID, mlids[g.MGID], g.MLID)
				}
			}
			s.check(again, want)

			// All leave: no switch forwards anything for them.
			var leave []wish
			for g, in := range want {
				for h, state := range in {
					leave = append(leave, wish{h, ib.MethodDelete, g, state})
				}
				want[g] = nil
			}
			slices.SortFunc(leave, func(a, b wish) int { return (a.host-b.host)*1000 + a.group - b.group })
			s.all(leave)
			s.check(again, want)
			for i := range f.Nodes {
				for mgid, l := range mlids {
					if ports := c.Sim.MFT(i, l); len(ports) > 0 && mgid[2] == 0xA0 {
						t.Errorf("%s forwards MLID %v of group %v, which is no more, to %v", f.Nodes[i].ID, l, mgid, ports)
					}
				}
			}
		})
	}
}

// TestMembersReturn: hosts behind a leaf that is cut off leave their groups, though their own
// links never went down; when the leaf is back each of them is asked to register again, as the
// rule for dropping memberships requires.
func TestMembersReturn(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,2")
	c, m := serveUp(t, f, sim.Config{HopLatency: time.Microsecond})
	s := newStorm(t, c)
	want := map[int]map[int]uint8{0: {}}
	var list []wish
	for h := range s.hosts {
		list = append(list, wish{h, ib.MethodSet, 0, wire.JoinFull})
		want[0][h] = wire.JoinFull
	}
	s.all(list)
	s.check(m, want)
	away := map[ib.GUID]int{} // the hosts of the last leaf
	leaf := f.Nodes[f.FindGUID(s.guids[len(s.guids)-1]-1)].Ports[1].Peer.Node
	for h, u := range s.guids {
		if f.Nodes[f.FindGUID(u-1)].Ports[1].Peer.Node == leaf {
			away[u] = h
			delete(want[0], h)
		}
	}
	var uplinks []int
	for p := range f.Nodes[leaf].Ports {
		if q := f.Nodes[leaf].Ports[p].Peer; q.Node >= 0 && f.Nodes[q.Node].IsSwitch() {
			uplinks = append(uplinks, p)
		}
	}
	for _, p := range uplinks {
		if err := c.Sim.LinkDown(f.Nodes[leaf].ID, p); err != nil {
			t.Fatal(err)
		}
	}
	if len(away) != 4 || len(uplinks) != 2 {
		t.Fatalf("%d hosts, %d uplinks", len(away), len(uplinks))
	}
	s.check(m, want)
	asked := 0
	m.OnSend = func(p *mad.Packet) {
		var pi smp.PortInfo
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrPortInfo && k.Method() == ib.MethodSet && pi.Decode(smp.Data(k)) == nil && pi.ClientReregister {
			asked++
		}
	}
	for _, p := range uplinks {
		if err := c.Sim.LinkUp(f.Nodes[leaf].ID, p); err != nil {
			t.Fatal(err)
		}
	}
	s.check(m, want)
	if asked != len(away) {
		t.Errorf("%d ports were asked to register anew, want %d", asked, len(away))
	}
	list = nil
	for _, h := range away {
		list = append(list, wish{h, ib.MethodSet, 0, wire.JoinFull})
		want[0][h] = wire.JoinFull
	}
	slices.SortFunc(list, func(a, b wish) int { return a.host - b.host })
	s.all(list)
	s.check(m, want)
}

// TestSecondPortReturns: a port of a CA that was there all the time by another port loses its
// groups when its link goes, and is asked to register again when it returns; the other port is
// not.
func TestSecondPortReturns(t *testing.T) {
	f := chain(t, 3, func(b *fabric.Builder, sw, ca []int) { b.Connect(sw[2], 4, ca[1], 2) })
	c, m := serveUp(t, f, sim.Config{HopLatency: time.Microsecond})
	asked := map[uint32]int{} // by port number
	m.OnSend = func(p *mad.Packet) {
		var pi smp.PortInfo
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrPortInfo && k.Method() == ib.MethodSet && pi.Decode(smp.Data(k)) == nil && pi.ClientReregister {
			asked[k.AttrMod()&0xFF]++
		}
	}
	for range 3 {
		if err := c.Sim.LinkDown("H1", 2); err != nil {
			t.Fatal(err)
		}
		mustSettle(t, c, m, time.Minute)
		c.Run(10 * time.Minute) // full sweeps, and what damping remembers
		if len(asked) != 0 {
			t.Fatalf("asked while the port is away: %v", asked)
		}
		if err := c.Sim.LinkUp("H1", 2); err != nil {
			t.Fatal(err)
		}
		mustSettle(t, c, m, time.Minute)
		c.Run(10 * time.Minute)
		if len(asked) != 1 || asked[2] != 1 {
			t.Fatalf("asked, by port: %v; want port 2 once", asked)
		}
		clear(asked)
	}
}
