// Package topo holds a subnet as one discovery sees it: nodes, ports, the links between them, and
// the directed routes that lead to their agents.
//
// A Topology belongs to the manager that discovers it, which writes its fields. Nothing in it is
// safe for use by several goroutines.
package topo

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/forward"
	"heddle/sm/pkey"
	"heddle/subnet"
)

// PortID names a port by its node, whatever index that has in a topology.
type PortID struct {
	Node ib.GUID
	Port uint8
}

// PathRef is a directed route in Topology.Paths.
type PathRef struct {
	Off uint32
	N   uint8
	Set bool
}

// PortFlags are facts about a port.
type PortFlags uint16

// The flags of ports.
const (
	PortKnown    PortFlags = 1 << iota // info was read in this discovery
	PortMeasured                       // peer was asked through this port
	PortProved                         // peer found this port; the answer proved the far port number
	PortLinked                         // both ends agree: the link is part of the subnet
	PortSilent                         // up, but the far end does not answer
	PortNoExt                          // the device does not take the extended-speed bit
	PortEnd                            // end port: has a LID
	PortFailed                         // a Set of this sweep failed
	PortLoop                           // cabled to itself
	PortBadPeer                        // the far end is no part of the subnet, reported
	PortLeftOut                        // end port left out: no LID for it
	PortHeld                           // it flaps: held down, nothing behind it is asked or routed to
	PortAsked                          // read in this sweep because a way leads over it
	PortDrained                        // its link is up, and no route is to lead over it
)

// Port is a port of a node, port 0 of a switch included.
type Port struct {
	Info  smp.PortInfo
	GUID  ib.GUID
	MKey  ib.MKey // key that the port wants to see in a header
	Peer  subnet.Ref
	Path  PathRef // CA and router ports, and port 0: the way to the agent
	Node  int32
	LID   ib.LID      // given to it; end ports only
	PKeys *pkey.Table // nil if nothing is known of it
	Flags PortFlags
	LMC   uint8
	Num   uint8
}

// Has reports whether one of the flags f is set.
func (p *Port) Has(f PortFlags) bool { return p.Flags&f != 0 }

// LinkUp reports whether the port was read with a physical link.
func (p *Port) LinkUp() bool { return p.Info.PortState > ib.StateDown }

// NodeFlags are facts about a node.
type NodeFlags uint16

// The flags of nodes.
const (
	NodeSwitchInfo NodeFlags = 1 << iota // SwitchInfo was read
	NodeDesc                             // NodeDescription was read
	NodeOut                              // left out of the subnet
	NodeNew                              // was not there in the last sweep
	NodeGone                             // not there any more: its slots wait for its return or the next full sweep
	NodeTouched                          // of the region that the sweep explores
	NodeSuspect                          // a switch of the region that is still to be read
	NodeRead                             // a switch of the region that was read
	NodeMoved                            // one of its ports was found in another state than before
	NodeReset                            // its agent forgot its LID or key
	NodeAgain                            // its port 0 was read again
	NodeSeen                             // … or its far ends were looked at to find out why it says so
	NodeUnseen                           // does not answer; it is as it was last read
	NodeNonsense                         // one of its answers in this discovery cannot be true
	NodeLight                            // a question of the light sweep about its ports has no answer yet
)

// Node is a switch, a CA or a router.
type Node struct {
	Info        smp.NodeInfo
	Switch      smp.SwitchInfo
	Desc        string // its name: NodeDescription, or the operator's
	Said        string // NodeDescription where Desc is another name
	First       int32  // index of port 0 in Topology.Ports
	GraphSwitch int32  // index in graph.Switches, -1
	Path        PathRef
	Via         subnet.Ref // the port that path's last hop leaves by; NoRef for our own node
	Flags       NodeFlags
	LFT         *forward.Linear    // switches of a master
	MFT         *forward.Multicast // switches of a master
	Reason      string             // why it is left out
}

// IsSwitch reports whether the node is a switch.
func (n *Node) IsSwitch() bool { return n.Info.NodeType == ib.NodeSwitch }

// OK reports whether the node is part of the subnet, not left out.
func (n *Node) OK() bool { return n.Flags&NodeOut == 0 }

// Topology is a subnet as one discovery sees it. Nodes are in the order they
// were found; node 0 is our own.
type Topology struct {
	Nodes  []Node
	Ports  []Port
	ByGUID map[ib.GUID]int32
	Paths  []byte
	Self   subnet.Ref // our port
	Gone   int        // nodes that are gone and still have slots

	Graph      *fabric.Graph
	SwitchNode []int32 // node of graph.Switches[i]
	EndPort    []int32 // index in ports of graph.EndPorts[i]
	Problems   []subnet.Problem
	Drained    []subnet.Ref // the ports with PortDrained, and some that had it; sm/linkmgr writes it
}

// New returns an empty topology with room for as much as sizeHint has, which may be nil.
func New(sizeHint *Topology) *Topology {
	f := &Topology{ByGUID: map[ib.GUID]int32{}, Self: subnet.NoRef()}
	if sizeHint != nil {
		f.Nodes = make([]Node, 0, len(sizeHint.Nodes)+8)
		f.Ports = make([]Port, 0, len(sizeHint.Ports)+64)
		f.ByGUID = make(map[ib.GUID]int32, len(sizeHint.Nodes))
		f.Paths = make([]byte, 0, len(sizeHint.Paths)+64)
	}
	return f
}

// Port returns the port that r names; r is valid.
func (f *Topology) Port(r subnet.Ref) *Port { return &f.Ports[f.Nodes[r.Node].First+int32(r.Port)] }

// Has reports whether r, which may be of another discovery, names a port.
func (f *Topology) Has(r subnet.Ref) bool {
	return r.Node >= 0 && int(r.Node) < len(f.Nodes) && r.Port <= f.Nodes[r.Node].Info.NumPorts
}

// PortOf returns port p of the node with index n.
func (f *Topology) PortOf(n int32, p uint8) *Port { return &f.Ports[f.Nodes[n].First+int32(p)] }

// NodePorts are all ports of a node, port 0 first.
func (f *Topology) NodePorts(n int32) []Port {
	nd := &f.Nodes[n]
	return f.Ports[nd.First : int(nd.First)+int(nd.Info.NumPorts)+1]
}

// Path returns a stored path; it must not be changed.
func (f *Topology) Path(r PathRef) []byte { return f.Paths[r.Off : r.Off+uint32(r.N)] }

// AddPath stores a path; it is at most 63 long.
func (f *Topology) AddPath(p []byte) PathRef {
	r := PathRef{uint32(len(f.Paths)), uint8(len(p)), true}
	f.Paths = append(f.Paths, p...)
	return r
}

// AgentPath is the directed route to the agent that answers for a port.
func (f *Topology) AgentPath(n int32, p uint8) []byte {
	nd := &f.Nodes[n]
	if !nd.IsSwitch() {
		if q := f.PortOf(n, p); q.Path.Set {
			return f.Path(q.Path)
		}
	}
	return f.Path(nd.Path)
}

// AgentPort is the port whose M_Key guards a port: port 0 of a switch, the
// port itself elsewhere.
func (f *Topology) AgentPort(n int32, p uint8) *Port {
	if f.Nodes[n].IsSwitch() {
		p = 0
	}
	return f.PortOf(n, p)
}

// Find returns the node with a GUID, unless it is gone.
func (f *Topology) Find(g ib.GUID) (int32, bool) {
	i, ok := f.ByGUID[g]
	return i, ok && f.Nodes[i].Flags&NodeGone == 0
}

// AddNode appends a node with its ports. One that was here before gets its
// old place.
func (f *Topology) AddNode(ni *smp.NodeInfo, path PathRef) int32 {
	if i, ok := f.ByGUID[ni.NodeGUID]; ok && f.Nodes[i].Info.NumPorts == ni.NumPorts {
		n := &f.Nodes[i]
		*n = Node{Info: *ni, First: n.First, GraphSwitch: -1, Path: path, Via: subnet.NoRef()}
		for p := range f.NodePorts(i) {
			f.Ports[int(n.First)+p] = Port{Node: i, Num: uint8(p), Peer: subnet.NoRef(), GUID: ni.PortGUID}
		}
		f.Gone--
		return i
	}
	i := int32(len(f.Nodes))
	f.Nodes = append(f.Nodes, Node{Info: *ni, First: int32(len(f.Ports)), GraphSwitch: -1, Path: path, Via: subnet.NoRef()})
	for p := 0; p <= int(ni.NumPorts); p++ {
		f.Ports = append(f.Ports, Port{Node: i, Num: uint8(p), Peer: subnet.NoRef(), GUID: ni.PortGUID})
	}
	f.ByGUID[ni.NodeGUID] = i
	return i
}

// Where names a port for people; port -1 means the node.
func (f *Topology) Where(n int32, p int) Where {
	nd := &f.Nodes[n]
	w := Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: p, Known: true}
	ap := uint8(0)
	if p > int(nd.Info.NumPorts) {
		p = -1 // of another node that claims this one's GUID; there is nothing here to look up
	} else if p > 0 {
		ap = uint8(p)
	}
	if nd.IsSwitch() {
		w.LID = f.PortOf(n, 0).LID
	} else if p > 0 {
		w.LID = f.PortOf(n, ap).LID
	}
	if w.LID == 0 {
		if q := f.AgentPort(n, ap); q.Has(PortKnown) {
			w.LID = q.Info.LID
		}
	}
	w.Path = append([]byte(nil), f.AgentPath(n, ap)...)
	return w
}

// Behind names the unknown far end of a port.
func (f *Topology) Behind(r subnet.Ref) Where {
	w := Where{Port: -1, Known: true}
	if r.Node < 0 {
		return w
	}
	w.Path = append([]byte(nil), f.AgentPath(r.Node, r.Port)...)
	if f.Nodes[r.Node].IsSwitch() || len(w.Path) == 0 {
		w.Path = append(w.Path, r.Port)
	}
	return w
}

// Keep has a port be as it was last read.
func (p *Port) Keep(o *Port) {
	p.Info, p.GUID, p.MKey, p.PKeys = o.Info, o.GUID, o.MKey, o.PKeys
	p.Flags = o.Flags & (PortKnown | PortNoExt | PortEnd | PortLoop)
}
