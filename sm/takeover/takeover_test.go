package takeover

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/route/engine/minhop"
	"heddle/sm/topo"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

func published(tb testing.TB, kind string, params ...string) *subnet.Snapshot {
	tb.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return snaptest.New(tb, f, minhop.Engine{}, 1)
}

func noKey(ib.GUID) ib.MKey { return 0 }

// TestChart: the route to every port of the chart leads there in the snapshot, is as short as its
// distance, and crosses Active links only. Everything that such routes reach is in the chart.
func TestChart(t *testing.T) {
	for _, net := range [][]string{{"xgft", "2", "3,4", "1,3"}, {"torus", "4x4"}, {"irregular", "24", "ports=8"}} {
		s := published(t, net[0], net[1:]...)
		for k := len(s.EndPortPort) - 1; ; k-- { // the last host has no Active link
			i := s.EndPortPort[k]
			if p := s.Ports[i]; p.Num > 0 {
				n := &subnet.Snapshot{}
				*n = *s
				n.Edit(s, i).Info.PortState = ib.StateDown
				n.Carry(s, []int32{min(p.Node, p.Peer.Node), max(p.Node, p.Peer.Node)})
				s = n
				break
			}
		}
		self := s.Ports[s.EndPortPort[0]]
		for _, i := range s.EndPortPort {
			if self = s.Ports[i]; self.Num > 0 {
				break
			}
		}
		c, ok := draw(s, self.GUID, func(g ib.GUID) ib.MKey { return ib.MKey(g) }, false)
		if !ok {
			t.Fatalf("%v: no chart", net)
		}
		walk := func(path []byte) (at *subnet.Port) {
			at = self
			for k, out := range path {
				n := at.Node
				if k == 0 {
					n = self.Node
				}
				p := s.NodePorts(n)[out]
				if q := s.Port(p.Peer); q == nil || p.State() != ib.StateActive || q.State() != ib.StateActive {
					t.Fatalf("%v: route %v crosses a link that is not Active", net, path)
				}
				at = s.Port(p.Peer)
			}
			return at
		}
		for k := range c.f.Nodes {
			nd := &c.f.Nodes[k]
			if at := walk(c.f.Path(nd.Path)); at.Node != c.at[k] || int(nd.Path.N) != int(c.hops[k]) {
				t.Errorf("%v: the route to %v leads to node %d in %d hops", net, nd.Info.NodeGUID, at.Node, nd.Path.N)
			}
			for j := range c.f.NodePorts(int32(k)) {
				p := c.f.PortOf(int32(k), uint8(j))
				if p.Has(topo.PortEnd) && p.MKey != ib.MKey(p.GUID) {
					t.Errorf("%v: port %v has M_Key %v", net, p.GUID, p.MKey)
				}
			}
		}
		if len(c.f.Nodes) != len(s.Nodes)-1 {
			t.Errorf("%v: %d of %d nodes are in the chart, and one is cut off", net, len(c.f.Nodes), len(s.Nodes))
		}
		last, leaves := uint8(0), true
		for _, n := range c.order() {
			leaf := false
			for j := range c.f.NodePorts(n) {
				p := c.f.PortOf(n, uint8(j))
				leaf = leaf || p.Has(topo.PortLinked) && !c.f.Nodes[p.Peer.Node].IsSwitch()
			}
			switch {
			case leaf && !leaves, leaf == leaves && c.hops[n] < last:
				t.Errorf("%v: switch %d is asked too late", net, n)
			case leaf != leaves:
				leaves = leaf
			}
			last = c.hops[n]
		}
	}
	if _, ok := draw(published(t, "torus", "3x3"), 1, noKey, false); ok {
		t.Error("a chart for a port that is not there")
	}
}

// FuzzChart: whatever a file or another manager says of a subnet has a chart, or none.
func FuzzChart(f *testing.F) {
	s := published(f, "xgft", "1", "4", "1")
	msg := mirror.NewEncoder(1).Next(s)
	f.Add(bytes.Clone(msg[:len(msg)-4]))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m mirror.Mirror
		if m.Apply(binary.BigEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))) != nil {
			return
		}
		s := m.Snapshot()
		for i := range min(s.FirstVPort(), 16) {
			if c, ok := draw(s, s.Ports[i].GUID, noKey, false); ok {
				c.order()
			}
		}
	})
}

// BenchmarkDraw is the chart of 11,664 hosts.
func BenchmarkDraw(b *testing.B) {
	s := published(b, "xgft", "3", "18,18,36", "1,18,18")
	self := s.Ports[s.EndPortPort[0]].GUID
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := draw(s, self, noKey, false); !ok {
			b.Fatal("no chart")
		}
	}
}
