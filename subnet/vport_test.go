package subnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/route"
)

// addVPort puts VPort index of a port into a snapshot that is being built; lid 0
// shares that of the port.
func addVPort(s *Snapshot, port int32, index uint16, guid ib.GUID, lid ib.LID) *Port {
	q := s.Ports[port]
	p := Port{
		GUID: guid, Peer: q.Peer, Node: q.Node, Num: q.Num, EndPort: q.EndPort, MTU: q.MTU, Rate: q.Rate, LID: lid, Known: true,
		Virtual: &Virtual{Port: port, Index: index, OwnLID: lid != 0},
	}
	if lid == 0 {
		p.LID = q.LID
	}
	p.Info.PortState = ib.StateActive
	s.Ports = append(s.Ports, &p)
	return &p
}

// virtualBed is bed with VPorts: of host A, 1 sharing, 2 with LID 12, and 3 sharing
// LID 12; of host B, 1 with LID 7, and 2, which is down.
func virtualBed(t *testing.T) *Snapshot {
	s := bed(t)
	a, b := s.index(hostA, 1), s.index(hostB, 1)
	addVPort(s, a, 1, 0x111, 0)
	addVPort(s, a, 2, 0x112, 12)
	p := addVPort(s, a, 3, 0x113, 12)
	p.Virtual = &Virtual{Port: a, Index: 3}
	addVPort(s, b, 1, 0x411, 7).Aliases = []ib.GUID{0, 0x999}
	addVPort(s, b, 2, 0x412, 0).EndPort = -1
	const d = route.Drop
	s.Tables = &route.Tables{TopLID: 12, LFT: [][]byte{
		{d, d, 0, 2, 2, d, d, 2, 1, 1, 1, 1, 1},
		{d, d, 2, 0, 1, d, d, 1, 2, 3, 2, 3, 2},
	}, SL: []ib.SL{0, 1, 2, 3}, NumClasses: 2, Class: []int32{-1, -1, 0, 1, 1, -1, -1, 1, 0, 0, 0, 0, 0}}
	s.Finish()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVPortLookups(t *testing.T) {
	s := virtualBed(t)
	a, b, v := s.index(hostA, 1), s.index(hostB, 1), s.FirstVPort()
	for lid, want := range map[ib.LID]int32{8: a, 9: a, 4: b, 12: v + 1, 7: v + 3, 13: -1} {
		if got := s.PortByLID(lid); got != want {
			t.Errorf("LID %v leads to port %d, want %d", lid, got, want)
		}
	}
	for g, want := range map[ib.GUID]int32{0x111: v, 0x112: v + 1, 0x113: v + 2, 0x411: v + 3, 0x999: v + 3, 0x412: -1} {
		if got := s.PortByGID(ib.MakeGID(s.Prefix, g)); got != want {
			t.Errorf("GUID %v leads to port %d, want %d", g, got, want)
		}
	}
	if s.TopLID() != 12 || s.Counts.VPorts != 4 || s.Counts.EndPorts != 6 || s.Counts.LIDs != 9+2 {
		t.Errorf("top LID %v, %+v", s.TopLID(), s.Counts)
	}
	if list := slices.Collect(s.VPortsOf(a)); !slices.Equal(list, []int32{v, v + 1, v + 2}) || s.VPort(a, 2) != v+1 || s.VPort(b, 2) != v+4 || s.VPort(b, 3) != -1 || s.VPort(0, 1) != -1 {
		t.Errorf("VPorts of host A: %v", list)
	}
	for i, want := range []bool{true, false, true, false} {
		if s.NeedsGRH(v+int32(i)) != want {
			t.Errorf("port %d needs a GRH: %v", i, !want)
		}
	}
	if s.NeedsGRH(a) || s.Physical(a) != a || s.Physical(v+3) != b {
		t.Error("physical ports")
	}
}

// Paths of virtual ports are those of their physical ports; between two behind one
// port they cross no switch.
func TestVPortPaths(t *testing.T) {
	s := virtualBed(t)
	a, v := s.index(hostA, 1), s.FirstVPort()
	for _, c := range []struct {
		src  int32
		lid  ib.LID
		want string
	}{
		{a, 7, "{5 16 1 2} true"},
		{v, 7, "{5 16 1 2} true"},
		{v + 1, 4, "{5 16 1 2} true"},
		{v + 3, 12, "{5 16 2 2} true"},
		{v + 3, 8, "{5 16 2 2} true"},
		{v, 12, "{5 16 0 0} true"},
		{v + 1, 8, "{5 16 0 0} true"},
		{a, 12, "{5 16 0 0} true"},
		{v + 1, 13, "{0 0 0 0} false"},
	} {
		at, ok := s.Path(c.src, c.lid)
		if got := fmt.Sprintf("{%d %d %d %d} %v", at.MTU, at.Rate, at.SL, at.Hops, ok); got != c.want {
			t.Errorf("from port %d to LID %v: %s, want %s", c.src, c.lid, got, c.want)
		}
	}
	if hops, ok := s.Trace(v, 12, nil); len(hops) != 0 || !ok {
		t.Errorf("inside the adapter: %v %v", hops, ok)
	}
	if hops, ok := s.Trace(v, 7, nil); !ok || !slices.Equal(hops, []Hop{{sw1, 1, 2}, {sw2, 2, 1}}) {
		t.Errorf("%v %v", hops, ok)
	}
}

// TestCarryVPorts: the lookups of a snapshot that was carried are those of one that
// was finished from scratch, whatever happened to virtual ports.
func TestCarryVPorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var guids []ib.GUID
	for i := range 10 {
		guids = append(guids, ib.GUID(100*i+11))
	}
	old := row(guids...)
	for round := range 1000 {
		s := &Snapshot{}
		*s = *old
		s.Gen++
		s.Ports = copies(old.Ports)
		var vports []int32
		switch rng.IntN(4) {
		case 1: // VPorts that had no entry yet
			for k := range rng.IntN(9) {
				at, index := s.PortIndex(Ref{int32(rng.IntN(10)), 1}), uint16(1+rng.IntN(30))
				if s.VPort(at, index) >= 0 {
					continue
				}
				p := addVPort(&Snapshot{Ports: slices.Clone(s.Ports)}, at, index, ib.GUID(0x10000+rng.IntN(100)), ib.LID(rng.IntN(2)*(1000+10*round+k)))
				if i := s.AddVPort(old, p); i >= 0 {
					vports = append(vports, i)
				}
			}
		case 0: // another set of VPorts
			s.Ports = s.Ports[:s.FirstVPort()]
			for n := range int32(10) {
				for k := range rng.IntN(4) {
					i := s.PortIndex(Ref{n, 1})
					lid := ib.LID(0)
					if rng.IntN(2) == 0 {
						lid = ib.LID(20 + len(s.Ports))
					}
					p := addVPort(s, i, uint16(3*k+rng.IntN(3)+1), ib.GUID(0x10000+rng.IntN(100)), lid)
					if rng.IntN(4) == 0 {
						p.EndPort = -1
					}
				}
			}
		default: // some of them have other addresses, or change places
			for k := range rng.IntN(4) {
				if len(s.VPorts()) == 0 {
					break
				}
				i := s.FirstVPort() + int32(rng.IntN(len(s.VPorts())))
				p := s.Ports[i]
				if j := s.FirstVPort() + int32(rng.IntN(len(s.VPorts()))); k == 0 {
					q := s.Ports[j]
					p.GUID, q.GUID = q.GUID, p.GUID
					vports = append(vports, j)
				}
				p.Aliases = []ib.GUID{0, ib.GUID(0x10000 + rng.IntN(100))}
				if p.EndPort = -1; rng.IntN(3) > 0 {
					p.EndPort = s.Ports[p.Virtual.Port].EndPort
				}
				if !slices.Contains(vports, i) {
					vports = append(vports, i)
				}
			}
			if slices.Sort(vports); rng.IntN(2) == 0 {
				vports = nil
			}
			vports = slices.Compact(vports)
		}
		var nodes []int32
		if rng.IntN(3) == 0 { // a port takes another LID, as a floating one does
			nodes = []int32{int32(rng.IntN(10))}
			s.at(nodes[0], 1).LID = ib.LID(500 + round)
			for i := s.FirstVPort(); int(i) < len(s.Ports); i++ {
				if p := s.Ports[i]; p.Virtual.Port == s.index(nodes[0], 1) && !p.Virtual.OwnLID {
					if p.LID = s.at(nodes[0], 1).LID; vports != nil && !slices.Contains(vports, i) {
						vports = append(vports, i)
					}
				}
			}
		}
		s.Carry(old, nodes, vports...)
		if err := s.Check(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		old = s
	}
}

// A virtual port that is at another place in the next snapshot neither came nor
// went; one that two places show, for a moment, is one address.
func TestDiffVPorts(t *testing.T) {
	a := row(11, 21)
	b := row(11, 21)
	addVPort(a, 1, 1, 0x77, 0)
	addVPort(a, 1, 2, 0x78, 0)
	addVPort(b, 1, 1, 0x79, 0)
	addVPort(b, 3, 1, 0x77, 0)
	addVPort(b, 3, 2, 0x77, 0)
	a.Finish()
	b.Finish()
	diff := func(a, b *Snapshot) (out string) {
		DiffEndPorts(a, b, func(i int32) { out += fmt.Sprintf("-%x", uint64(a.Ports[i].GUID)) }, func(i int32) { out += fmt.Sprintf("+%x", uint64(b.Ports[i].GUID)) })
		return out
	}
	if got := diff(a, b) + " " + diff(b, a); got != "-78+79 +78-79" {
		t.Error(got)
	}
}

// BenchmarkCarryVPort is one VPort of 46,256 that moves, by itself and with the copy
// of the ports that its builder makes.
func BenchmarkCarryVPort(b *testing.B) {
	var guids []ib.GUID
	for i := range 2891 {
		guids = append(guids, ib.GUID(0x1000*(i+1)))
	}
	old := row(guids...)
	for i := range int32(2891) {
		for k := range uint16(16) {
			v := addVPort(old, old.index(i, 1), k+1, guids[i]+ib.GUID(k)+1, ib.LID(2892+int(i)*16+int(k)))
			if k == 15 {
				v.EndPort = -1
			}
		}
	}
	old.Finish()
	from, to := old.PortByGUID(guids[5]+3), old.FirstVPort()+16*2000+15
	for _, c := range []struct {
		name  string
		clone bool
		named bool
	}{{"named", false, true}, {"copied", true, true}, {"compared", true, false}} {
		b.Run(c.name, func(b *testing.B) {
			ports := slices.Clone(old.Ports)
			b.ReportAllocs()
			for b.Loop() {
				s := *old
				if !c.clone {
					s.Ports = ports
					s.Ports[from], s.Ports[to] = old.Ports[from], old.Ports[to]
				}
				p, q := s.Edit(old, from), s.Edit(old, to)
				p.EndPort, q.EndPort, q.GUID, q.LID = -1, s.Ports[q.Virtual.Port].EndPort, p.GUID, p.LID
				if c.named {
					s.Carry(old, nil, from, to)
				} else {
					s.Carry(old, nil)
				}
				if s.PortByGUID(guids[5]+3) != to {
					b.Fatal("it is not there")
				}
			}
		})
	}
}
