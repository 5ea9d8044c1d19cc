package sm

import (
	"bytes"

	"heddle/ib/smp"
	"heddle/sm/topo"
)

// repath gives nodes whose directed route leads over a link that is gone
// another one, as short as can be. Nodes that cannot be reached for now have
// none.
func (c *Core) repath() {
	f := c.Fabric
	defer c.staleHosts()
	broken := false
	for _, x := range c.reg.cut {
		for k, a := range x {
			if f.Nodes[x[1-k].Node].Via == a && !f.Port(a).Has(topo.PortLinked) {
				broken = true
			}
		}
	}
	for _, n := range c.reg.nodes {
		broken = broken || !f.Nodes[n].Path.Set
	}
	if !broken {
		return
	}
	c.reg.moved = true
	const (
		unknown = iota
		good
		bad
	)
	state := make([]uint8, len(f.Nodes))
	state[f.Self.Node] = good
	stack := make([]int32, 0, 64)
	for i := range f.Nodes {
		if f.Nodes[i].Flags&topo.NodeGone != 0 || !f.Nodes[i].IsSwitch() {
			continue
		}
		stack = append(stack[:0], int32(i))
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			nd := &f.Nodes[n]
			v := nd.Via
			switch {
			case state[n] != unknown:
			case !nd.Path.Set || v.Node < 0 || !f.Port(v).Has(topo.PortLinked) || f.Port(v).Peer.Node != n:
				state[n] = bad
			case state[v.Node] == unknown:
				stack = append(stack, v.Node)
				continue
			default:
				state[n] = state[v.Node]
			}
			stack = stack[:len(stack)-1]
		}
	}
	// Breadth first by length, from the switches whose way is good.
	var rings [smp.MaxHops + 1][]int32
	for i := range f.Nodes {
		if n := &f.Nodes[i]; state[i] == good && (n.IsSwitch() || int32(i) == f.Self.Node) {
			rings[n.Path.N] = append(rings[n.Path.N], int32(i))
		} else if n.IsSwitch() && n.Flags&topo.NodeGone == 0 {
			n.Path.Set = false
		}
	}
	for d := range smp.MaxHops {
		for k := 0; k < len(rings[d]); k++ {
			n := rings[d][k]
			ports := f.NodePorts(n)
			for i := range ports {
				p := &ports[i]
				if !p.Has(topo.PortLinked) || p.Num == 0 || !f.Nodes[n].IsSwitch() && p.Num != f.Self.Port {
					continue
				}
				q := &f.Nodes[p.Peer.Node]
				if !q.IsSwitch() || q.Path.Set {
					continue
				}
				at := ref{Node: n, Port: p.Num}
				q.Path, q.Via = f.AddPath(c.hop(at)), at
				rings[d+1] = append(rings[d+1], p.Peer.Node)
				c.repathHosts(p.Peer.Node)
			}
		}
	}
}

// staleHosts gives the CA ports on a switch that the region reached by another way than
// before, as it was cut off for a while, their route along that way.
func (c *Core) staleHosts() {
	f := c.Fabric
	for _, n := range c.reg.nodes {
		if nd := &f.Nodes[n]; !nd.IsSwitch() || !nd.Path.Set || nd.Flags&topo.NodeGone != 0 {
			continue
		}
		for _, p := range f.NodePorts(n) {
			if !p.Has(topo.PortLinked) || p.Num == 0 || f.Nodes[p.Peer.Node].IsSwitch() || p.Peer.Node == f.Self.Node {
				continue
			}
			if q := f.Port(p.Peer); q.Path.Set && !bytes.Equal(f.Path(q.Path), c.hop(ref{Node: n, Port: p.Num})) {
				c.repathHosts(n)
				c.reg.moved = true
				break
			}
		}
	}
}

// repathHosts gives the CA ports on a switch whose route is new their new one.
func (c *Core) repathHosts(n int32) {
	f := c.Fabric
	ports := f.NodePorts(n)
	for i := range ports {
		p := &ports[i]
		if !p.Has(topo.PortLinked) || p.Num == 0 {
			continue
		}
		q := &f.Nodes[p.Peer.Node]
		if q.IsSwitch() || p.Peer.Node == f.Self.Node {
			continue
		}
		at := ref{Node: n, Port: p.Num}
		f.Port(p.Peer).Path = f.AddPath(c.hop(at))
		if q.Via == at {
			q.Path = f.Port(p.Peer).Path
		}
	}
}

// pathBytes is how many bytes of paths are in use.
func (c *Core) pathBytes() (n int) {
	for i := range c.Fabric.Nodes {
		n += int(c.Fabric.Nodes[i].Path.N)
	}
	return 2*n + 1024
}

// packPaths drops the paths that nobody uses any more.
func (c *Core) packPaths() {
	f := c.Fabric
	old := f.Paths
	f.Paths = make([]byte, 0, c.pathBytes())
	move := func(r *topo.PathRef) {
		if r.Set {
			*r = f.AddPath(old[r.Off : r.Off+uint32(r.N)])
		}
	}
	for i := range f.Nodes {
		move(&f.Nodes[i].Path)
	}
	for i := range f.Ports {
		move(&f.Ports[i].Path)
	}
}
