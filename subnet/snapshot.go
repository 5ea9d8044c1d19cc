// Package subnet is the published state of a subnet: the discovered nodes, the
// assigned addresses, the installed tables, and the state of every link. A
// Snapshot is built once, after a sweep, and is immutable: SA queries, the API,
// metrics and dumps read it from any goroutine without locks, and never see a
// partial change.
//
// Nodes are in ascending node-GUID order, the ports of a node in port order,
// and all lookups are by dense index; GUIDs, LIDs and GIDs are resolved once,
// on input.
package subnet

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/pages"
	"heddle/partition"
	"heddle/route"
)

// SMState is the state of a subnet manager as SMInfo carries it (IBA
// §14.2.5.13).
type SMState uint8

// The states; Discovering before Standby as on the wire.
const (
	NotActive   SMState = 0
	Discovering SMState = 1
	Standby     SMState = 2
	Master      SMState = 3
)

// String prints the state as the field does.
func (s SMState) String() string {
	switch s {
	case NotActive:
		return "NOTACTIVE"
	case Discovering:
		return "DISCOVERING"
	case Standby:
		return "STANDBY"
	case Master:
		return "MASTER"
	}
	return "SMSTATE?"
}

// Ref names a port by node index and port number; Node is -1 for "nothing".
type Ref struct {
	Node int32
	Port uint8
}

// NoRef is the Ref of nothing.
func NoRef() Ref { return Ref{Node: -1} }

// Description is the node's own NodeDescription, up to the first NUL.
func (n *Node) Description() string {
	if n.Said != "" {
		return n.Said
	}
	return n.Desc
}

// Node is one node of the subnet.
type Node struct {
	Info  smp.NodeInfo // as read through the first port that was found
	Desc  string       // its name: NodeDescription up to the first NUL, or the operator's
	Said  string       // NodeDescription where Desc is another name, else empty
	First int32        // index in Snapshot.Ports of its port 0
	// SwitchIndex is the index in Graph.Switches, -1 for other nodes.
	SwitchIndex int32
	Switch      smp.SwitchInfo // switches only
	Path        []byte         // directed route from the manager: output ports, first hop first
	OK          bool           // false: found, but left out of the subnet (see Snapshot.Problems)
	// Unseen: the node does not answer. It is shown as it was last read.
	Unseen bool
}

// Port is one port of a node. Of CAs and routers only the discovered ports
// (those with a link into this subnet) are Known.
type Port struct {
	GUID    ib.GUID // port GUID; switch external ports have that of port 0
	Info    smp.PortInfo
	Peer    Ref     // the far end of the link, NoRef if unknown
	Node    int32   // its node
	EndPort int32   // index in Graph.EndPorts, -1 if it has no LID
	LID     ib.LID  // base LID given to it; external switch ports have that of port 0
	LMC     uint8   // the same
	Num     uint8   // port number
	MTU     ib.MTU  // of the link: NeighborMTU, MTUCap for ports without a link
	Rate    ib.Rate // of the link
	Known   bool    // Info was read in the last sweep
	Held    bool    // the link fails repeatedly and is held down
	// PKeys is the P_Key table as it was read back or acknowledged, by index,
	// without the empty entries at its end; nil if it was not read. Ports with
	// equal tables share it.
	PKeys []ib.PKey
	// Aliases are the alias GUIDs that the port acknowledged, by index in its
	// GUIDInfo table; index 0 is the port GUID itself and 0 here. nil: none.
	Aliases []ib.GUID
	// Placed is the GUID of the Placement that has the LID, which follows it to other ports; 0:
	// the LID is that of the port or function; all ones: of a Placement that is not known yet.
	Placed ib.GUID
	// Virtual is set on the entry of a virtual port, which follows those of all
	// physical ports (vport.go).
	Virtual *Virtual
	// Adapter is set on a physical port that can hold virtual functions.
	Adapter *Adapter
}

// State is the logical state of the port as last read or set.
func (p *Port) State() ib.PortState { return p.Info.PortState }

// SM is another subnet manager of the subnet.
type SM struct {
	GUID     ib.GUID
	LID      ib.LID
	Priority uint8
	State    SMState
	ActCount uint32
}

// Problem is a node, port or link that was left out or is degraded, as the
// last sweep saw it.
type Problem struct {
	Node string // node GUID, description, port and directed path, as notices print them
	GUID ib.GUID
	Port uint8
	Kind string // kind of the notice that reported it
	Text string // the problem
}

// Counts are the numbers of a snapshot.
type Counts struct {
	Switches, CAs, Routers int
	EndPorts               int // ports with a LID, without virtual ones
	VPorts                 int // virtual ports that can be reached
	LIDs                   int // LIDs given, LMC ranges in full
	Unseen                 int // nodes that do not answer and have not left
	Links                  int // links between two known ports
	LinksActive            int // of them with both ends Active
	Problems               int
}

// Snapshot is the state of the subnet after a sweep. It is immutable.
type Snapshot struct {
	Gen   uint64
	State SMState // of this manager
	Up    bool    // this manager is master and has brought the subnet up
	// Warm: this manager has just become master, and reads the subnet. Until it is Up the snapshot
	// shows what its predecessor published last. The SA answers from it; nothing else acts on it.
	Warm     bool
	Prefix   ib.SubnetPrefix
	PortGUID ib.GUID // the port through which this manager works
	Self     Ref     // the same, NoRef before the first sweep
	LID      ib.LID  // its LID, 0 if none
	Priority uint8
	ActCount uint32
	SMKey    uint64 // never shown; SA requests that carry it are trusted
	Master   SM     // the master: this manager or another one; GUID 0 if unknown
	SMs      []SM   // other managers, ascending GUID

	Nodes []Node
	// Ports are those of the nodes, node by node, followed by virtual ports in
	// order of their physical port and their index, but for the last few at most.
	// Snapshots share what did not change: Edit and AddVPort make new ones.
	Ports    []*Port
	Problems []Problem
	Counts   Counts

	// Graph and Tables are the installed state; nil until a master has brought the
	// subnet up. Row s of Tables belongs to Graph.Switches[s]. Tables is also
	// nil after a sweep that found other switches and was aborted before it
	// installed its tables.
	Graph       *fabric.Graph
	Tables      *route.Tables
	SwitchNode  []int32 // node index of Graph.Switches[s]
	EndPortPort []int32 // index in Ports of Graph.EndPorts[e]
	Engine      string
	PassedOver  []string // "engine: reason" of each engine of the chain before it
	Transition  string   // mode of the last change and its reason
	PacketLife  uint8    // lifetime code of every path, 4.096 µs × 2^n
	SweepNanos  int64    // how long the last sweep took
	// Partitions is the policy in force, nil before there is one: BasePartitions,
	// which the administrator set, with the members added to it.
	Partitions     *partition.Policy
	BasePartitions *partition.Policy
	// Kept are the entries that stay although no store knows them, in the order of SortKept.
	Kept []Kept
	// Lanes, by node, and MFTs, by switch of the graph, are the known lane and
	// multicast tables; SLtoVL, VLArb and MFTBlocks read them.
	Lanes []*LaneTables
	MFTs  [][]MFTBlock

	// Unsure are ports without a LID, by ascending port GUID, that may still be in the
	// subnet: they do not answer, or are behind an excluded switch that does not. Their
	// hosts' registrations stay.
	Unsure []ib.GUID
	// Veiled: this manager has not seen all of the subnet since it became master. Any port
	// may be in the unseen part, except those in Gone (ascending port GUID), whose last
	// known locations were seen.
	Veiled bool
	Gone   []ib.GUID

	vfirst   int32 // index in Ports of the first virtual port
	vsorted  int32 // of the first that came after those in order of port and index
	lidPort  lidTable
	guidPort pages.List[guidRef]
	delta    delta
	links
}

// guidRef is an entry of guidPort, which is in ascending order: a port's own
// GUID comes before aliases that are the same.
type guidRef struct {
	guid  ib.GUID
	port  int32
	alias bool
}

// Finish builds the lookups and counts. The builder of a snapshot calls it once
// before publishing; others must not.
func (s *Snapshot) Finish() {
	c := Counts{Problems: len(s.Problems)}
	s.vfirst = int32(len(s.Ports))
	for s.vfirst > 0 && s.Ports[s.vfirst-1].Virtual != nil {
		s.vfirst--
	}
	s.vsorted = s.inOrder()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Unseen {
			c.Unseen++
		}
		if n.OK {
			switch n.Info.NodeType {
			case ib.NodeSwitch:
				c.Switches++
			case ib.NodeRouter:
				c.Routers++
			default:
				c.CAs++
			}
		}
	}
	for i := range s.Ports {
		p := s.Ports[i]
		if p.Peer.Node >= 0 && p.Virtual == nil {
			q := s.Port(p.Peer)
			if q != nil && (p.Node < p.Peer.Node || p.Node == p.Peer.Node && p.Num <= p.Peer.Port) {
				c.Links++
				if p.State() == ib.StateActive && q.State() == ib.StateActive {
					c.LinksActive++
				}
			}
		}
	}
	l := lookups{}
	for i := range s.Ports {
		l.add(s, int32(i), 1)
	}
	l.replace(s, nil, nil)
	c.EndPorts, c.VPorts, c.LIDs = l.ends, l.vports, l.lids
	s.Counts = c
	s.lay()
}

// Carry finishes a snapshot that is a copy of old, a finished one, with changes only
// in the head, the problems, the state, links, LIDs and alias GUIDs of some nodes'
// ports, and virtual ports. nodes are all those nodes, and those at the far end of a
// changed link, before or after the change. vports are the indices in Ports of the
// virtual ports that changed or were added, if the others stayed where they were;
// otherwise all are compared. It takes time proportional to the changes, plus copies of some pages of
// the lookups by GUID and by LID if an address changed.
func (s *Snapshot) Carry(old *Snapshot, nodes []int32, vports ...int32) {
	c := old.Counts
	c.Problems = len(s.Problems)
	in := make(map[int32]bool, len(nodes))
	for _, n := range nodes {
		in[n] = true
	}
	count := func(t *Snapshot, sign int) {
		for _, n := range nodes {
			ports := t.NodePorts(n)
			for i := range ports {
				p := ports[i]
				q := t.Port(p.Peer)
				if q == nil || in[p.Peer.Node] && (n > p.Peer.Node || n == p.Peer.Node && p.Num > p.Peer.Port) {
					continue
				}
				c.Links += sign
				if p.State() == ib.StateActive && q.State() == ib.StateActive {
					c.LinksActive += sign
				}
			}
		}
	}
	count(old, -1)
	count(s, 1)
	s.Counts = c
	s.relook(old, nodes, vports)
	s.layAgain(nodes)
}

// IsUnsure reports whether g is among Unsure.
func (s *Snapshot) IsUnsure(g ib.GUID) bool {
	_, ok := slices.BinarySearch(s.Unsure, g)
	return ok
}

// MayHide reports whether a port that has not been seen since this manager became master
// may be in an unseen part of the subnet.
func (s *Snapshot) MayHide(g ib.GUID) bool {
	if !s.Veiled {
		return false
	}
	_, gone := slices.BinarySearch(s.Gone, g)
	return !gone
}

// Serves reports whether the SA answers from this snapshot: this manager is master, and the subnet is
// up or what its predecessor published stands in for it.
func (s *Snapshot) Serves() bool { return s.State == Master && (s.Up || s.Warm) }

// Port returns the port that r names, nil if there is none.
func (s *Snapshot) Port(r Ref) *Port {
	if i := s.PortIndex(r); i >= 0 {
		return s.Ports[i]
	}
	return nil
}

// PortIndex returns the index in Ports of the port that r names, or -1.
func (s *Snapshot) PortIndex(r Ref) int32 {
	if r.Node < 0 || int(r.Node) >= len(s.Nodes) || int(r.Port) > int(s.Nodes[r.Node].Info.NumPorts) {
		return -1
	}
	return s.Nodes[r.Node].First + int32(r.Port)
}

// TopLID is the highest LID of any port, 0 without one.
func (s *Snapshot) TopLID() ib.LID { return ib.LID(max(s.lidPort.n, 1) - 1) }

// PortByLID returns the index in Ports of the end port to which packets for lid go,
// or -1: its owner, not virtual ports that share it.
func (s *Snapshot) PortByLID(lid ib.LID) int32 {
	return s.lidPort.at(lid)
}

// PortByGUID returns the index in Ports of the end port with that port GUID
// or alias GUID, or -1.
func (s *Snapshot) PortByGUID(g ib.GUID) int32 {
	if r, ok := s.guidPort.Find(func(r guidRef) bool { return r.guid < g }); ok && r.guid == g {
		return r.port
	}
	return -1
}

// PortByGID resolves a unicast GID of this subnet (or of the default prefix),
// or returns -1.
func (s *Snapshot) PortByGID(g ib.GID) int32 {
	if p := g.Prefix(); p != s.Prefix && p != ib.DefaultSubnetPrefix {
		return -1
	}
	return s.PortByGUID(g.GUID())
}

// NodeByGUID returns the index of the node with that node GUID, or -1.
func (s *Snapshot) NodeByGUID(g ib.GUID) int32 {
	i, ok := slices.BinarySearchFunc(s.Nodes, g, func(n Node, g ib.GUID) int {
		switch {
		case n.Info.NodeGUID < g:
			return -1
		case n.Info.NodeGUID > g:
			return 1
		}
		return 0
	})
	if !ok {
		return -1
	}
	return int32(i)
}

// NodePorts returns the ports of node n, port 0 first.
func (s *Snapshot) NodePorts(n int32) []*Port {
	nd := &s.Nodes[n]
	return s.Ports[nd.First : int(nd.First)+int(nd.Info.NumPorts)+1]
}

// LFT returns the installed forwarding table of switch node n, nil if unknown.
func (s *Snapshot) LFT(n int32) []byte {
	if i := s.Nodes[n].SwitchIndex; i >= 0 && s.Tables != nil && int(i) < s.Tables.Switches() {
		return s.Tables.Row(i)
	}
	return nil
}

// GID is the GID of the port with index i in Ports.
func (s *Snapshot) GID(i int32) ib.GID { return ib.MakeGID(s.Prefix, s.Ports[i].GUID) }
