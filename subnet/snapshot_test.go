package subnet

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
)

// The subnet of the tests, node GUIDs ascending:
//
//	10 CA, port GUID 11, LID 8-11 (LMC 2) --- port 1 [20 switch, LID 2] port 2 --- port 2 [30 switch, LID 3] port 1 --- 40 CA, port GUID 41, LID 4
//	                                                 [20 switch]        port 3 --- port 3 [30 switch] (2048 bytes, 4x SDR)
//	50 CA, port GUIDs 51, 52 --- 60 CA, port GUID 61 (back to back, LIDs 5 and 6)
//	70 switch, left out, no LID
const (
	hostA, sw1, sw2, hostB, back1, back2, out = 0, 1, 2, 3, 4, 5, 6
)

var (
	fast = ib.RateOf(ib.Width4x, ib.SpeedEDR)
	slow = ib.RateOf(ib.Width4x, ib.SpeedSDR)
)

// copies are ports that may be changed.
func copies(list []*Port) []*Port {
	list = slices.Clone(list)
	for i, p := range list {
		q := *p
		list[i] = &q
	}
	return list
}

func add(s *Snapshot, t ib.NodeType, guid ib.GUID, ports int) {
	n := Node{First: int32(len(s.Ports)), SwitchIndex: -1, OK: true}
	n.Info = smp.NodeInfo{NodeType: t, NodeGUID: guid, PortGUID: guid, NumPorts: uint8(ports)}
	for p := 0; p <= ports; p++ {
		q := Port{Node: int32(len(s.Nodes)), Num: uint8(p), Peer: NoRef(), EndPort: -1, GUID: guid, MTU: 5, Rate: slow}
		if t != ib.NodeSwitch {
			q.GUID += ib.GUID(p)
		}
		s.Ports = append(s.Ports, &q)
	}
	s.Nodes = append(s.Nodes, n)
}

func (s *Snapshot) at(n int32, p uint8) *Port { return s.Port(Ref{n, p}) }

func connect(s *Snapshot, a, b Ref, mtu ib.MTU, rate ib.Rate) {
	for _, x := range [2][2]Ref{{a, b}, {b, a}} {
		p := s.Port(x[0])
		p.Peer, p.MTU, p.Rate = x[1], mtu, rate
		p.Info.PortState = ib.StateActive
	}
}

func bed(t *testing.T) *Snapshot {
	t.Helper()
	s := &Snapshot{Prefix: 0xFEC0_0000_0000_0001, Problems: []Problem{{Kind: "x"}, {Kind: "y"}}}
	add(s, ib.NodeCA, 10, 1)
	add(s, ib.NodeSwitch, 20, 4)
	add(s, ib.NodeSwitch, 30, 4)
	add(s, ib.NodeCA, 40, 1)
	add(s, ib.NodeCA, 50, 2)
	add(s, ib.NodeRouter, 60, 1)
	add(s, ib.NodeSwitch, 70, 2)
	s.Nodes[out].OK = false
	connect(s, Ref{hostA, 1}, Ref{sw1, 1}, 5, fast)
	connect(s, Ref{sw1, 2}, Ref{sw2, 2}, 5, fast)
	connect(s, Ref{sw1, 3}, Ref{sw2, 3}, 4, slow)
	connect(s, Ref{hostB, 1}, Ref{sw2, 1}, 5, fast)
	connect(s, Ref{back1, 1}, Ref{back2, 1}, 3, fast)
	s.at(sw2, 3).Info.PortState = ib.StateArmed
	s.Nodes[sw1].SwitchIndex, s.Nodes[sw2].SwitchIndex = 0, 1
	for i, e := range []struct {
		r   Ref
		lid ib.LID
		lmc uint8
	}{{Ref{hostA, 1}, 8, 2}, {Ref{sw1, 0}, 2, 0}, {Ref{sw2, 0}, 3, 0}, {Ref{hostB, 1}, 4, 0}, {Ref{back1, 1}, 5, 0}, {Ref{back2, 1}, 6, 0}} {
		p := s.Port(e.r)
		p.LID, p.LMC, p.EndPort = e.lid, e.lmc, int32(i)
	}
	for n := int32(sw1); n <= sw2; n++ { // as buildSnapshot does: external ports show port 0's
		for p := uint8(1); p <= 4; p++ {
			s.at(n, p).LID = s.at(n, 0).LID
		}
	}
	const d = route.Drop
	//             0  1  2  3  4  5  6  7  8  9 10 11
	s.Tables = &route.Tables{TopLID: 11, LFT: [][]byte{
		{d, d, 0, 2, 2, d, d, d, 1, 1, 1, 1},
		{d, d, 2, 0, 1, d, d, d, 2, 3, 2, 3},
	}, SL: []ib.SL{0, 1, 2, 3}, NumClasses: 2, Class: []int32{-1, -1, 0, 1, 1, -1, -1, -1, 0, 0, 0, 0}}
	s.Graph = &fabric.Graph{}
	s.Finish()
	return s
}

func (s *Snapshot) index(n int32, p uint8) int32 { return s.PortIndex(Ref{n, p}) }

func TestPortByLID(t *testing.T) {
	s := bed(t)
	want := map[ib.LID]int32{
		2: s.index(sw1, 0), 3: s.index(sw2, 0), 4: s.index(hostB, 1), 5: s.index(back1, 1), 6: s.index(back2, 1),
		8: s.index(hostA, 1), 9: s.index(hostA, 1), 10: s.index(hostA, 1), 11: s.index(hostA, 1),
	}
	for l := range 1 << 16 {
		w, ok := want[ib.LID(l)]
		if !ok {
			w = -1
		}
		if got := s.PortByLID(ib.LID(l)); got != w {
			t.Errorf("LID %d: port %d, want %d", l, got, w)
		}
	}
	empty := &Snapshot{}
	if empty.PortByLID(1) != -1 {
		t.Error("a snapshot that was never finished knows LID 1")
	}
	empty.Finish()
	if empty.PortByLID(0) != -1 || empty.PortByLID(1) != -1 {
		t.Error("an empty snapshot knows a LID")
	}
}

func TestPortByGUID(t *testing.T) {
	s := bed(t)
	for g, w := range map[ib.GUID]int32{
		11: s.index(hostA, 1), 20: s.index(sw1, 0), 30: s.index(sw2, 0), 41: s.index(hostB, 1), 51: s.index(back1, 1), 61: s.index(back2, 1),
		0: -1, 10: -1, 12: -1, 52: -1, 70: -1, ^ib.GUID(0): -1, // node GUIDs of CAs, ports without a LID, unknown ones
	} {
		if got := s.PortByGUID(g); got != w {
			t.Errorf("GUID %v: port %d, want %d", g, got, w)
		}
	}
}

// A GID is resolved by its own prefix and by the default one (IBA §4.1.1:
// fe80::/64 is always valid within a subnet), never by a foreign one.
func TestPortByGID(t *testing.T) {
	s := bed(t)
	w := s.index(hostB, 1)
	for _, c := range []struct {
		prefix ib.SubnetPrefix
		want   int32
	}{{s.Prefix, w}, {ib.DefaultSubnetPrefix, w}, {s.Prefix + 1, -1}, {0, -1}} {
		if got := s.PortByGID(ib.MakeGID(c.prefix, 41)); got != c.want {
			t.Errorf("prefix %v: port %d, want %d", c.prefix, got, c.want)
		}
	}
	if got := s.PortByGID(ib.MakeGID(s.Prefix, 42)); got != -1 {
		t.Errorf("unknown GUID: %d", got)
	}
	if g := s.GID(w); g != ib.MakeGID(s.Prefix, 41) || s.PortByGID(g) != w {
		t.Errorf("GID %v", g)
	}
}

func TestNodeByGUID(t *testing.T) {
	s := bed(t)
	for i := range s.Nodes {
		if got := s.NodeByGUID(s.Nodes[i].Info.NodeGUID); got != int32(i) {
			t.Errorf("node %d found as %d", i, got)
		}
	}
	for _, g := range []ib.GUID{0, 11, 71, ^ib.GUID(0)} {
		if got := s.NodeByGUID(g); got != -1 {
			t.Errorf("GUID %v: node %d", g, got)
		}
	}
}

func TestPortIndex(t *testing.T) {
	s := bed(t)
	for _, r := range []Ref{NoRef(), {-2, 0}, {7, 0}, {hostA, 2}, {sw1, 5}, {sw1, 255}} {
		if s.PortIndex(r) != -1 || s.Port(r) != nil {
			t.Errorf("%v is a port", r)
		}
	}
	for i := range s.Ports {
		p := s.Ports[i]
		if s.Port(Ref{p.Node, p.Num}) != p {
			t.Errorf("port %d of node %d is found elsewhere", p.Num, p.Node)
		}
	}
	ports := s.NodePorts(sw2)
	if len(ports) != 5 || ports[0].Num != 0 || ports[4].Num != 4 || ports[0].Node != sw2 {
		t.Errorf("ports of a switch: %+v", ports)
	}
	if s.LFT(sw2)[9] != 3 || s.LFT(hostA) != nil || s.LFT(out) != nil {
		t.Error("forwarding tables")
	}
}

func TestCounts(t *testing.T) {
	s := bed(t)
	want := Counts{Switches: 2, CAs: 3, Routers: 1, EndPorts: 6, LIDs: 9, Links: 5, LinksActive: 4, Problems: 2}
	if s.Counts != want {
		t.Errorf("%+v, want %+v", s.Counts, want)
	}
	// A loopback plug is one link, a cable between two ports of one switch too.
	connect(s, Ref{sw1, 4}, Ref{sw1, 4}, 5, fast)
	connect(s, Ref{out, 1}, Ref{out, 2}, 5, fast)
	s.Finish()
	want.Links, want.LinksActive = 7, 6
	if s.Counts != want {
		t.Errorf("%+v, want %+v", s.Counts, want)
	}
}

func TestPath(t *testing.T) {
	s := bed(t)
	// Data does not flow where one end is only Armed.
	if a, ok := s.Path(s.index(hostB, 1), 9); ok {
		t.Errorf("a path over a link that is not Active: %+v", a)
	}
	s.at(sw2, 3).Info.PortState = ib.StateActive
	old := s
	s = &Snapshot{}
	*s = *old
	s.Carry(old, []int32{sw1, sw2})
	if _, ok := old.Path(s.index(hostB, 1), 9); ok {
		t.Error("Carry changed the snapshot that it carried over")
	}
	for _, c := range []struct {
		name string
		src  Ref
		lid  ib.LID
		want PathAttr
		ok   bool
	}{
		{"CA to CA", Ref{hostA, 1}, 4, PathAttr{MTU: 5, Rate: fast, SL: 1, Hops: 2}, true},
		{"back", Ref{hostB, 1}, 8, PathAttr{MTU: 5, Rate: fast, SL: 2, Hops: 2}, true},
		{"back by the slow link", Ref{hostB, 1}, 9, PathAttr{MTU: 4, Rate: slow, SL: 2, Hops: 2}, true},
		{"to oneself", Ref{hostA, 1}, 10, PathAttr{MTU: 5, Rate: fast}, true},
		{"CA to its switch", Ref{hostA, 1}, 2, PathAttr{MTU: 5, Rate: fast}, true},
		{"CA to a far switch", Ref{hostA, 1}, 3, PathAttr{MTU: 5, Rate: fast, SL: 1, Hops: 1}, true},
		{"switch to its CA", Ref{sw1, 0}, 8, PathAttr{MTU: 5, Rate: fast, Hops: 1}, true},
		{"switch to a far CA", Ref{sw2, 0}, 11, PathAttr{MTU: 4, Rate: slow, SL: 2, Hops: 2}, true},
		{"switch to switch", Ref{sw1, 0}, 3, PathAttr{MTU: 5, Rate: fast, SL: 1, Hops: 1}, true},
		{"switch to itself", Ref{sw1, 0}, 2, PathAttr{MTU: 5, Rate: slow}, true},
		{"CAs back to back", Ref{back1, 1}, 6, PathAttr{MTU: 3, Rate: fast}, true},
		{"out of a pair", Ref{back1, 1}, 4, PathAttr{}, false},
		{"into a pair", Ref{hostA, 1}, 5, PathAttr{}, false},
		{"nobody's LID", Ref{hostA, 1}, 7, PathAttr{}, false},
		{"LID 0", Ref{hostA, 1}, 0, PathAttr{}, false},
		{"beyond the tables", Ref{hostA, 1}, 0xBFFF, PathAttr{}, false},
		{"no cable", Ref{back1, 2}, 4, PathAttr{}, false},
		{"left-out switch", Ref{out, 0}, 4, PathAttr{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := s.Path(s.PortIndex(c.src), c.lid)
			if ok != c.ok || ok && got != c.want {
				t.Errorf("%+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
			hops, traced := s.Trace(s.PortIndex(c.src), c.lid, nil)
			if traced != c.ok {
				t.Errorf("traced: %v, want %v", traced, c.ok)
			}
			// Path counts links left by switches, Trace the switches: one more
			// where the last of them is the end itself.
			if n := len(hops); ok && n > 0 {
				if hops[n-1].Out == 0 {
					n--
				}
				if n != int(c.want.Hops) {
					t.Errorf("%d hops traced, want %d: %+v", n, c.want.Hops, hops)
				}
			}
		})
	}
	got, ok := s.Trace(s.index(hostB, 1), 9, nil)
	if want := []Hop{{sw2, 1, 3}, {sw1, 3, 1}}; !ok || !slices.Equal(got, want) {
		t.Errorf("the way from B to A: %v, want %v (%v)", got, want, ok)
	}
	if _, ok := s.Path(-1, 4); ok {
		t.Error("a path from nowhere")
	}
}

// TestPathBroken: tables that lead nowhere give no path, and end.
func TestPathBroken(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(s *Snapshot)
	}{
		{"dropped", func(s *Snapshot) { s.Tables.LFT[1][4] = route.Drop }},
		{"no cable", func(s *Snapshot) { s.Tables.LFT[1][4] = 4 }},
		{"no such port", func(s *Snapshot) { s.Tables.LFT[1][4] = 5 }},
		{"loop of two", func(s *Snapshot) { s.Tables.LFT[1][4] = 3 }},
		{"back where it came from", func(s *Snapshot) { s.Tables.LFT[0][4] = 1 }},
		{"port 0 of another switch", func(s *Snapshot) { s.Tables.LFT[1][4] = 0 }},
		{"short row", func(s *Snapshot) { s.Tables.LFT[1] = s.Tables.LFT[1][:4] }},
		{"no row", func(s *Snapshot) { s.Tables.LFT[1] = nil }},
		{"no tables", func(s *Snapshot) { s.Tables = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := bed(t)
			c.spoil(s)
			if a, ok := s.Path(s.index(hostA, 1), 4); ok {
				t.Errorf("a path %+v", a)
			}
			if hops, ok := s.Trace(s.index(hostA, 1), 4, nil); ok || len(hops) > 65 {
				t.Errorf("a trace of %d hops", len(hops))
			}
		})
	}
	s := bed(t)
	s.Tables.SL = nil // single-lane tables
	if a, ok := s.Path(s.index(hostA, 1), 4); !ok || a.SL != 0 {
		t.Errorf("%+v, %v", a, ok)
	}
}

func TestAllocations(t *testing.T) {
	s := bed(t)
	gid, src := s.GID(s.index(hostB, 1)), s.index(hostA, 1)
	if n := testing.AllocsPerRun(100, func() {
		s.PortByLID(9)
		s.PortByGID(gid)
		s.NodeByGUID(40)
		s.Path(src, 4)
	}); n != 0 {
		t.Errorf("lookups allocate %v times", n)
	}
}

func TestSMStateString(t *testing.T) {
	for st, w := range map[SMState]string{NotActive: "NOTACTIVE", Discovering: "DISCOVERING", Standby: "STANDBY", Master: "MASTER", 4: "SMSTATE?"} {
		if st.String() != w {
			t.Errorf("%d: %s", st, st)
		}
	}
}
