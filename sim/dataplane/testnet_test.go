package dataplane

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// Rates of the tests.
var (
	sdr1 = LinkRate(ib.Width1x, ib.SpeedSDR)
	edr  = LinkRate(ib.Width4x, ib.SpeedEDR)
	ndr  = LinkRate(ib.Width4x, ib.SpeedNDR)
	ddr  = LinkRate(ib.Width4x, ib.SpeedDDR)
	qdr  = LinkRate(ib.Width4x, ib.SpeedQDR)
)

// Lengths of RC middle packets.
const (
	rc256 = 256 + OverheadRC
	rc2k  = 2048 + OverheadRC
	rc4k  = 4096 + OverheadRC
)

// net is a topology under construction: hosts first, then switches.
type net struct {
	Topology
	used []uint8 // ports, by node
}

// newNet makes so many hosts and switches of so many ports.
func newNet(hosts, switches, ports int) *net {
	n := &net{}
	for i := range hosts + switches {
		nd := Node{Name: "h" + string(rune('a'+i%26)), Ports: 1}
		if i >= hosts {
			nd = Node{Name: "s" + string(rune('a'+(i-hosts)%26)), Switch: true, Ports: ports}
		}
		n.Nodes = append(n.Nodes, nd)
	}
	n.used = make([]uint8, len(n.Nodes))
	return n
}

// link connects two nodes by their next free ports and returns the one at a.
func (n *net) link(a, b int, r Rate) fabric.Ref {
	return n.cable(a, b, r, DefaultCable)
}

func (n *net) cable(a, b int, r Rate, d Time) fabric.Ref {
	n.used[a]++
	n.used[b]++
	x := fabric.Ref{Node: int32(a), Port: n.used[a]}
	n.Links = append(n.Links, Link{x, fabric.Ref{Node: int32(b), Port: n.used[b]}, r, d})
	return x
}

// tables routes every end port by a shortest path, the lowest port first.
func (n *net) tables(lanes int) *Plain {
	p := NewPlain(&n.Topology, lanes)
	type hop struct {
		node int32
		port uint8
	}
	adj := make([][]hop, len(n.Nodes)) // [node]: neighbor, and its port towards node
	for _, l := range n.Links {
		adj[l.A.Node] = append(adj[l.A.Node], hop{l.B.Node, l.B.Port})
		adj[l.B.Node] = append(adj[l.B.Node], hop{l.A.Node, l.A.Port})
	}
	for d := range n.Nodes {
		lid, seen := p.lidOf(d), map[int32]bool{int32(d): true}
		if n.Nodes[d].Switch {
			p.SetRoute(int32(d), lid, 0)
		}
		for q := []int32{int32(d)}; len(q) > 0; q = q[1:] {
			for _, h := range adj[q[0]] {
				if !seen[h.node] {
					seen[h.node] = true
					if n.Nodes[h.node].Switch {
						p.SetRoute(h.node, lid, h.port)
						q = append(q, h.node)
					}
				}
			}
		}
	}
	return p
}

// lidOf is the LID of a node.
func (p *Plain) lidOf(node int) ib.LID {
	if len(p.Attr[node]) > 1 && p.Attr[node][1].LID != 0 {
		return p.Attr[node][1].LID
	}
	return p.Attr[node][0].LID
}

// testConfig is Defaults with all assertions.
func testConfig() Config {
	c := Defaults()
	c.Checks = true
	c.Buffer, c.HostBuffer = 2048, 2048
	return c
}

func mustNew(t testing.TB, n *Topology, p Tables, c Config) *Engine {
	t.Helper()
	if c.Workers == 0 {
		c.Workers = crew.workers
	}
	e, err := New(n, p, c)
	if err != nil {
		t.Fatal(err)
	}
	e.workers.always = crew.always
	if crew.made != nil {
		*crew.made = append(*crew.made, e)
	}
	return e
}

// crew is how many workers the engines of mustNew have, whether they use
// goroutines in any case, and where engines are noted.
var crew struct {
	workers int
	always  bool
	made    *[]*Engine
}

func mustAdd(t testing.TB, e *Engine, s Stream) int {
	t.Helper()
	n, err := e.AddStream(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// chain is a host, k switches in a row, and a host; rates are those of the k+1
// links.
func chain(rates ...Rate) *net {
	k := len(rates) - 1
	n := newNet(2, k, 2)
	if k == 0 {
		n.link(0, 1, rates[0])
		return n
	}
	n.link(0, 2, rates[0])
	for i := 1; i < k; i++ {
		n.link(1+i, 2+i, rates[i])
	}
	n.link(1+k, 1, rates[k])
	return n
}

// mustCheck runs Check.
func mustCheck(t testing.TB, e *Engine) {
	t.Helper()
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
}
