package dataplane

import (
	"fmt"

	"heddle/fabric"
)

// Topology is the hardware: nodes, and cables between their ports. Nodes keep
// their order, and a fabric.Ref names a port.
type Topology struct {
	Nodes []Node
	Links []Link
}

// Node is a switch or an adapter.
type Node struct {
	Name   string
	Switch bool
	Ports  int // external ports, 1–254, numbered from 1
}

// Link is a cable.
type Link struct {
	A, B  fabric.Ref
	Rate  Rate
	Delay Time // one way; copper and fiber have about 5 ns/m
}

// DefaultCable is the delay of 2 m of cable.
const DefaultCable = 10 * Nanosecond

// FromFabric is the topology of f: rates as the netlist says, all cables with
// the same delay. It refuses a link whose width or speed is not known.
func FromFabric(f *fabric.Fabric, delay Time) (*Topology, error) {
	t := &Topology{Nodes: make([]Node, len(f.Nodes))}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		t.Nodes[i] = Node{Name: n.Name(), Switch: n.IsSwitch(), Ports: n.NumPorts}
	}
	for a, b := range f.Links {
		p := f.Port(a)
		r := LinkRate(p.Width, p.Speed)
		if r.Unlimited() {
			return nil, fmt.Errorf("dataplane: link at %s: width %v and speed %v give no rate", f.PortName(a), p.Width, p.Speed)
		}
		t.Links = append(t.Links, Link{a, b, r, delay})
	}
	return t, nil
}

// check reports what is wrong with a topology.
func (t *Topology) check() error {
	for i, n := range t.Nodes {
		if n.Ports < 1 || n.Ports > fabric.MaxPorts {
			return fmt.Errorf("dataplane: node %d (%q) has %d ports; 1 to %d are possible", i, n.Name, n.Ports, fabric.MaxPorts)
		}
	}
	used := map[fabric.Ref]bool{}
	for i, l := range t.Links {
		for _, r := range [2]fabric.Ref{l.A, l.B} {
			if r.Node < 0 || int(r.Node) >= len(t.Nodes) || r.Port == 0 || int(r.Port) > t.Nodes[r.Node].Ports {
				return fmt.Errorf("dataplane: link %d ends at node %d port %d, which does not exist", i, r.Node, r.Port)
			}
			if used[r] {
				return fmt.Errorf("dataplane: link %d ends at %s, which has a link already", i, t.PortName(r))
			}
			used[r] = true
		}
		if l.Rate.Unlimited() || l.Delay < 0 {
			return fmt.Errorf("dataplane: link %d at %s: a rate and a delay of at least 0 are required", i, t.PortName(l.A))
		}
	}
	return nil
}

// PortName names a port: the node and, in brackets, the number of the port.
func (t *Topology) PortName(r fabric.Ref) string {
	return fmt.Sprintf("%q[%d]", t.Nodes[r.Node].Name, r.Port)
}
