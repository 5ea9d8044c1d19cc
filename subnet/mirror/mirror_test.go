package mirror

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/partition"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/vftree"
	"heddle/subnet"
)

// tree is a small subnet with several service levels, tables of all kinds and a virtual port.
func tree(tb testing.TB) *subnet.Snapshot {
	tb.Helper()
	s := generated(tb, vftree.Engine{Lanes: 2}, "xgft", "2", "3,3", "1,3")
	s.Partitions = partition.Default()
	s.Prefix, s.PacketLife, s.Engine = ib.DefaultSubnetPrefix, 18, "vftree"
	s.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
	s.Lanes[0] = &subnet.LaneTables{SL: []uint16{0, 1}, Arb: []uint16{1}, SLRows: make([]smp.SLtoVL, 1), ArbRows: make([]smp.VLArb, 1)}
	s.MFTs = make([][]subnet.MFTBlock, len(s.SwitchNode))
	s.MFTs[0] = []subnet.MFTBlock{{Masks: &smp.MFT{1, 2}}, {Block: 1, Masks: &smp.MFT{3}}}
	s.SMs = []subnet.SM{{GUID: 5, LID: 6, Priority: 7, State: subnet.Standby}}
	s.Unsure = []ib.GUID{3}
	s.Nodes[1].Desc, s.Nodes[1].Said = "the operator's name", s.Nodes[1].Desc
	at := s.EndPortPort[len(s.EndPortPort)-1]
	p := *s.Ports[at]
	p.GUID, p.LID, p.LMC, p.PKeys, p.Aliases = 0xA1, s.TopLID()+1, 0, []ib.PKey{0x8001}, []ib.GUID{0, 0xA2}
	p.Virtual = &subnet.Virtual{Port: at, Index: 3, OwnLID: true, Desc: "vm"}
	s.Ports[at].Adapter = &subnet.Adapter{Model: subnet.VPorts, Functions: 4}
	s.Ports = append(s.Ports, &p)
	s.Finish()
	return s
}

func generated(tb testing.TB, e route.Engine, kind string, params ...string) *subnet.Snapshot {
	tb.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return snaptest.New(tb, f, e, 4)
}

// change returns a copy of s, a generation later, with another state of a port.
func change(s *subnet.Snapshot, port int32, to ib.PortState) *subnet.Snapshot {
	n := &subnet.Snapshot{}
	*n = *s
	n.Gen++
	n.Edit(s, port).Info.PortState = to
	n.Carry(s, []int32{s.Ports[port].Node})
	return n
}

// TestStream: differences lead to the same message as a whole one, also when nodes leave and return.
func TestStream(t *testing.T) {
	s := tree(t)
	e, m := NewEncoder(7), Mirror{}
	if m.Snapshot() != nil || m.Generation() != 0 {
		t.Error("an empty mirror has a snapshot")
	}
	less := &subnet.Snapshot{}
	*less = *s
	less.Gen = 3
	cut := len(s.Nodes) - 1 // the last node leaves: indices of ports and nodes stay
	less.Nodes = s.Nodes[:cut]
	less.Ports = nil
	for _, p := range s.Ports[:s.Nodes[cut].First] {
		q := *p
		if q.Peer.Node == int32(cut) {
			q.Peer = subnet.NoRef()
		}
		less.Ports = append(less.Ports, &q)
	}
	less.EndPortPort, less.Lanes = nil, s.Lanes[:cut]
	for i, p := range less.Ports {
		if p.EndPort >= 0 {
			p.EndPort = int32(len(less.EndPortPort))
			less.EndPortPort = append(less.EndPortPort, int32(i))
		}
	}
	less.Finish()
	back := &subnet.Snapshot{}
	*back = *s
	back.Gen = 4
	for i, now := range []*subnet.Snapshot{s, change(s, 5, ib.StateDown), less, back} {
		msg := bytes.Clone(e.Next(now))
		if err := m.Apply(msg); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if i > 0 && !errors.Is(new(Mirror).Apply(msg), ErrGap) {
			t.Errorf("message %d alone makes a state", i)
		}
		got := m.Snapshot()
		if err := got.Check(); err != nil {
			t.Fatal(err)
		}
		// A message names nothing by index, so equal ones are of equal snapshots.
		a, b := NewEncoder(1).Next(got), NewEncoder(1).Next(now)
		if !bytes.Equal(a, b) {
			t.Errorf("snapshot %d is not mirrored: %d bytes, not %d", i, len(a), len(b))
		}
		if got.Counts != now.Counts || got.TopLID() != now.TopLID() {
			t.Errorf("snapshot %d counts %+v, not %+v", i, got.Counts, now.Counts)
		}
	}
}

// TestRefuses: what does not continue the state, is damaged, or is of another version changes nothing.
func TestRefuses(t *testing.T) {
	s := tree(t)
	e, m := NewEncoder(7), Mirror{}
	if err := m.Apply(e.Next(s)); err != nil {
		t.Fatal(err)
	}
	was := m.Snapshot()
	lost := bytes.Clone(e.Next(change(s, 5, ib.StateDown)))
	next := bytes.Clone(e.Next(change(change(s, 5, ib.StateDown), 5, ib.StateInit)))
	other := NewEncoder(8)
	other.Next(s)
	foreign := bytes.Clone(other.Next(change(s, 5, ib.StateDown)))
	for i, msg := range [][]byte{next, foreign} {
		if err := m.Apply(msg); !errors.Is(err, ErrGap) {
			t.Errorf("%d: %v", i, err)
		}
	}
	for at := range lost {
		bad := bytes.Clone(lost)
		bad[at] ^= 0x10
		if m.Apply(bad) == nil {
			t.Errorf("byte %d is damaged, and taken", at)
		}
		if m.Apply(lost[:at]) == nil {
			t.Errorf("%d bytes of %d are taken", at, len(lost))
		}
	}
	newer := bytes.Clone(lost)
	newer[3]++
	if err := m.Apply(newer); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("a newer version: %v", err)
	}
	if m.Snapshot() != was {
		t.Error("a refused message changed the mirror")
	}
	e.Whole()
	if err := m.Apply(e.Next(change(s, 5, ib.StateInit))); err != nil || m.Generation() != 2 {
		t.Errorf("a whole message after a gap: %v, generation %d", err, m.Generation())
	}
}

// TestKeysStay: no key of the subnet is in a message.
func TestKeysStay(t *testing.T) {
	s := tree(t)
	s.SMKey = 0x1122334455667788
	if msg := NewEncoder(1).Next(s); bytes.Contains(msg, binary.BigEndian.AppendUint64(nil, s.SMKey)) {
		t.Error("the SM_Key is in the message")
	}
}

// FuzzApply: any bytes, with a correct checksum, are refused or lead to a snapshot that is in order
// and that a second mirror takes over unchanged.
func FuzzApply(f *testing.F) {
	s := tree(f)
	e := NewEncoder(7)
	f.Add([]byte(nil), body(e.Next(s)))
	e.Whole()
	first := body(e.Next(s))
	f.Add(first, body(e.Next(change(s, 5, ib.StateDown))))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var m Mirror
		for _, b := range [][]byte{first, second} {
			if m.Apply(sealed(b)) != nil {
				continue
			}
			got := m.Snapshot()
			for i := range got.Ports[:min(4, len(got.Ports))] {
				for l := range min(got.TopLID(), 8) {
					got.Path(int32(i), l)
				}
			}
			msg := NewEncoder(1).Next(got)
			var again Mirror
			if err := again.Apply(msg); err != nil {
				t.Fatalf("what was taken is not taken again: %v", err)
			}
			if !bytes.Equal(NewEncoder(1).Next(again.Snapshot()), msg) {
				t.Fatal("a second mirror has another state")
			}
		}
	})
}

// body is a message without its checksum, sealed adds one.
func body(msg []byte) []byte { return bytes.Clone(msg[:len(msg)-4]) }

func sealed(b []byte) []byte {
	b = bytes.Clone(b)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// BenchmarkMirror is a subnet of 11,664 hosts: making and taking whole messages, building the
// snapshot, and the difference that a link makes.
func BenchmarkMirror(b *testing.B) {
	f, err := fabrictest.Generate("xgft", []string{"3", "18,18,36", "1,18,18"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	s := snaptest.New(b, f, minhop.Engine{}, 4)
	whole := bytes.Clone(NewEncoder(1).Next(s))
	down := change(s, s.PortIndex(linkOf(s)), ib.StateDown)
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewEncoder(1).Next(s)
		}
		b.ReportMetric(float64(len(whole)), "bytes")
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := new(Mirror).Apply(whole); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		var m Mirror
		if err := m.Apply(whole); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			m.made = nil
			m.Snapshot()
		}
	})
	b.Run("link", func(b *testing.B) {
		e := NewEncoder(1)
		e.Next(s)
		n := 0
		for b.Loop() {
			n = len(e.Next(down))
			s, down = down, s
		}
		b.ReportMetric(float64(n), "bytes")
	})
}

// linkOf is a port of a switch with a link to another one.
func linkOf(s *subnet.Snapshot) subnet.Ref {
	for _, p := range s.Ports {
		if p.Peer.Node >= 0 && p.Num > 0 && s.Nodes[p.Node].SwitchIndex >= 0 && s.Nodes[p.Peer.Node].SwitchIndex >= 0 {
			return subnet.Ref{Node: p.Node, Port: p.Num}
		}
	}
	return subnet.NoRef()
}

// TestLevelsBounded: a short message cannot claim tables of service levels that fill the memory.
func TestLevelsBounded(t *testing.T) {
	const switches = maxTables/maxLID + 1
	for classes, want := range map[int]error{1: nil, maxLID: errValue} {
		var w writer
		w.b = append(w.b, magic...)
		w.guid(1)
		w.uint(0)
		w.uint(1)
		w.uint(1)
		putHead(&w, &head{tables: true, levels: true, classes: classes})
		w.flags(false)
		w.flags(false)
		w.uint(uint64(switches))
		for i := range switches {
			w.byte(stepNew)
			w.flags(true, true)
			putNode(&w, &subnet.Node{Info: smp.NodeInfo{NodeType: ib.NodeSwitch, NodeGUID: ib.GUID(i + 1), NumPorts: 1}})
			w.uint(2)
			for num := range 2 {
				w.byte(byte(num))
				putPort(&w, &subnet.Port{EndPort: -1, Peer: subnet.NoRef()}, 0)
			}
		}
		w.uint(0)
		var m Mirror
		if err := m.Apply(sealed(w.b)); !errors.Is(err, want) {
			t.Errorf("%d switches with %d classes: %v", switches, classes, err)
		}
	}
}
