// Package fabric describes the structure of an InfiniBand subnet: nodes, ports
// and the links between them. A Fabric corresponds to a netlist; a Graph is its
// form for routing algorithms, with dense indices into flat slices.
//
// Fabrics come from three places: a Builder, ReadNetlist (the text that
// ibnetdiscover prints and ibsim reads) and Generate (fat trees, tori,
// dragonflies and other regular and irregular kinds).
//
//	f, err := fabric.Generate(fabric.FatTree{Hosts: 648}, fabric.GenerateOptions{})
//	…
//	err = fabric.AssignLIDs(f, 1)
//	g, err := f.Graph(fabric.GraphOptions{})
//
// The package does no I/O of its own and holds no state. A Fabric and a Graph
// are immutable once built: any number of goroutines may read them. (The one
// exception is AssignLIDs, which writes to the Fabric that it is given.) A
// Builder belongs to one goroutine.
package fabric

import (
	"slices"

	"heddle/ib"
)

// Fabric is a set of nodes and the links between them. Nodes keep the order in
// which they were added or read; indices into Nodes identify them.
type Fabric struct {
	Nodes []Node
	// Console are the console commands (`do` lines) of a netlist in the order
	// of the text; empty unless NetlistOptions.AllowDo was set.
	Console []string
}

// Node is a switch, a channel adapter or a router.
type Node struct {
	ID   string // name in a netlist, unique, at most 64 bytes
	Desc string // NodeDescription, at most 64 bytes

	Type            ib.NodeType
	EnhancedPort0   bool // switches: port 0 is a full port (SwitchInfo.EnhancedPort0)
	GUID            ib.GUID
	SystemImageGUID ib.GUID
	VendorID        uint32 // 24 bits
	DeviceID        uint16
	Revision        uint32
	NumPorts        int // external ports, 1–254

	// Ports has NumPorts+1 entries. Ports[0] is port 0 of a switch, whose GUID
	// and LID are the switch's; CAs and routers do not use it.
	Ports []Port
}

// Port is a port of a node.
//
// A connected port has the width and speed of its link, which are those of the
// far end too. Without a cable both are 0.
type Port struct {
	GUID    ib.GUID // external switch ports have the switch's
	Peer    Ref     // the far end of the cable; NoRef if there is none
	LID     ib.LID  // base LID, 0 if it has none
	NumLIDs uint16  // LIDs from LID upwards; 0: 1<<LMC
	LMC     uint8   // 0–7
	Width   ib.LinkWidth
	Speed   ib.LinkSpeed
}

// Ref names a port: index of the node and number of the port.
type Ref struct {
	Node int32
	Port uint8
}

// NoRef is the Peer of a port without a cable.
func NoRef() Ref { return Ref{Node: -1} }

// Valid reports whether r names a port at all.
func (r Ref) Valid() bool { return r.Node >= 0 }

// Cabled reports whether the port has a cable.
func (p *Port) Cabled() bool { return p.Peer.Node >= 0 }

// LIDCount is how many LIDs the port has, 0 if it has none.
func (p *Port) LIDCount() int {
	switch {
	case p.LID == 0:
		return 0
	case p.NumLIDs != 0:
		return int(p.NumLIDs)
	}
	return 1 << p.LMC
}

// IsSwitch reports whether the node is a switch.
func (n *Node) IsSwitch() bool { return n.Type == ib.NodeSwitch }

// Name is the description, or the id where there is none.
func (n *Node) Name() string {
	if n.Desc != "" {
		return n.Desc
	}
	return n.ID
}

// Port returns the port that r names, nil if there is no such port.
func (f *Fabric) Port(r Ref) *Port {
	if r.Node < 0 || int(r.Node) >= len(f.Nodes) || int(r.Port) >= len(f.Nodes[r.Node].Ports) {
		return nil
	}
	return &f.Nodes[r.Node].Ports[r.Port]
}

// PortName names a port: the ID of the node and, in brackets, the number of the
// port.
func (f *Fabric) PortName(r Ref) string {
	if r.Node < 0 || int(r.Node) >= len(f.Nodes) {
		return "no port"
	}
	return portName(f.Nodes[r.Node].ID, int(r.Port))
}

// Find returns the index of the node with this ID or, if there is none, of the
// first with this description; otherwise -1. It scans all nodes.
func (f *Fabric) Find(name string) int {
	for i := range f.Nodes {
		if f.Nodes[i].ID == name {
			return i
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Desc == name {
			return i
		}
	}
	return -1
}

// FindGUID returns the index of the first node with this node GUID, or -1. It
// scans all nodes.
func (f *Fabric) FindGUID(g ib.GUID) int {
	for i := range f.Nodes {
		if f.Nodes[i].GUID == g {
			return i
		}
	}
	return -1
}

// Count returns how many nodes of a type there are.
func (f *Fabric) Count(t ib.NodeType) (n int) {
	for i := range f.Nodes {
		if f.Nodes[i].Type == t {
			n++
		}
	}
	return n
}

// Links calls yield for every link once, the end with the smaller Ref first, in
// ascending order of it.
func (f *Fabric) Links(yield func(a, b Ref) bool) {
	for i := range f.Nodes {
		ports := f.Nodes[i].Ports
		for p := 1; p < len(ports); p++ {
			a, b := Ref{int32(i), uint8(p)}, ports[p].Peer
			if b.Node < 0 || b.Node < a.Node || b.Node == a.Node && b.Port < a.Port {
				continue
			}
			if !yield(a, b) {
				return
			}
		}
	}
}

// NumLinks is the number of links.
func (f *Fabric) NumLinks() (n int) {
	for range f.Links {
		n++
	}
	return n
}

// Clone returns a copy that shares nothing with f.
func (f *Fabric) Clone() *Fabric {
	c := &Fabric{Nodes: slices.Clone(f.Nodes), Console: slices.Clone(f.Console)}
	total := 0
	for i := range f.Nodes {
		total += len(f.Nodes[i].Ports)
	}
	slab := make([]Port, 0, total)
	for i := range c.Nodes {
		at := len(slab)
		slab = append(slab, c.Nodes[i].Ports...)
		c.Nodes[i].Ports = slab[at:len(slab):len(slab)]
	}
	return c
}
