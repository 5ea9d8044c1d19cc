package sm

import (
	"bytes"

	"heddle/ib/smp"
)

// repath gives nodes whose directed route leads over a link that is gone
// another one, as short as can be. Nodes that cannot be reached for now have
// none.
func (c *Core) repath() {
	f := c.f
	defer c.staleHosts()
	broken := false
	for _, x := range c.reg.cut {
		for k, a := range x {
			if f.nodes[x[1-k].Node].via == a && !f.port(a).has(pLinked) {
				broken = true
			}
		}
	}
	for _, n := range c.reg.nodes {
		broken = broken || !f.nodes[n].path.set
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
	state := make([]uint8, len(f.nodes))
	state[f.self.Node] = good
	stack := make([]int32, 0, 64)
	for i := range f.nodes {
		if f.nodes[i].flags&nGone != 0 || !f.nodes[i].isSwitch() {
			continue
		}
		stack = append(stack[:0], int32(i))
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			nd := &f.nodes[n]
			v := nd.via
			switch {
			case state[n] != unknown:
			case !nd.path.set || v.Node < 0 || !f.port(v).has(pLinked) || f.port(v).peer.Node != n:
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
	for i := range f.nodes {
		if n := &f.nodes[i]; state[i] == good && (n.isSwitch() || int32(i) == f.self.Node) {
			rings[n.path.n] = append(rings[n.path.n], int32(i))
		} else if n.isSwitch() && n.flags&nGone == 0 {
			n.path.set = false
		}
	}
	for d := range smp.MaxHops {
		for k := 0; k < len(rings[d]); k++ {
			n := rings[d][k]
			ports := f.nodePorts(n)
			for i := range ports {
				p := &ports[i]
				if !p.has(pLinked) || p.num == 0 || !f.nodes[n].isSwitch() && p.num != f.self.Port {
					continue
				}
				q := &f.nodes[p.peer.Node]
				if !q.isSwitch() || q.path.set {
					continue
				}
				at := ref{Node: n, Port: p.num}
				q.path, q.via = f.addPath(c.hop(at)), at
				rings[d+1] = append(rings[d+1], p.peer.Node)
				c.repathHosts(p.peer.Node)
			}
		}
	}
}

// staleHosts gives the CA ports on a switch that the region reached by another way than
// before, as it was cut off for a while, their route along that way.
func (c *Core) staleHosts() {
	f := c.f
	for _, n := range c.reg.nodes {
		if nd := &f.nodes[n]; !nd.isSwitch() || !nd.path.set || nd.flags&nGone != 0 {
			continue
		}
		for _, p := range f.nodePorts(n) {
			if !p.has(pLinked) || p.num == 0 || f.nodes[p.peer.Node].isSwitch() || p.peer.Node == f.self.Node {
				continue
			}
			if q := f.port(p.peer); q.path.set && !bytes.Equal(f.path(q.path), c.hop(ref{Node: n, Port: p.num})) {
				c.repathHosts(n)
				c.reg.moved = true
				break
			}
		}
	}
}

// repathHosts gives the CA ports on a switch whose route is new their new one.
func (c *Core) repathHosts(n int32) {
	f := c.f
	ports := f.nodePorts(n)
	for i := range ports {
		p := &ports[i]
		if !p.has(pLinked) || p.num == 0 {
			continue
		}
		q := &f.nodes[p.peer.Node]
		if q.isSwitch() || p.peer.Node == f.self.Node {
			continue
		}
		at := ref{Node: n, Port: p.num}
		f.port(p.peer).path = f.addPath(c.hop(at))
		if q.via == at {
			q.path = f.port(p.peer).path
		}
	}
}

// pathBytes is how many bytes of paths are in use.
func (c *Core) pathBytes() (n int) {
	for i := range c.f.nodes {
		n += int(c.f.nodes[i].path.n)
	}
	return 2*n + 1024
}

// packPaths drops the paths that nobody uses any more.
func (c *Core) packPaths() {
	f := c.f
	old := f.paths
	f.paths = make([]byte, 0, c.pathBytes())
	move := func(r *pathRef) {
		if r.set {
			*r = f.addPath(old[r.off : r.off+uint32(r.n)])
		}
	}
	for i := range f.nodes {
		move(&f.nodes[i].path)
	}
	for i := range f.ports {
		move(&f.ports[i].path)
	}
}
