package fabric

import "heddle/ib"

// NoLID fills Graph.LIDOwner where no end port has the LID.
const NoLID = -1

// Channel is one direction of a link between two switches.
type Channel struct {
	From, To int32 // switch indices
	OutPort  uint8 // port of From
	InPort   uint8 // port of To
	Rev      int32 // index of the channel in the other direction
	VLs      uint8 // data VLs usable on the link, at least 1
	MTU      ib.MTU
	Gbps     float32
}

// EndPort is a port that has LIDs: a CA or router port, or switch port 0. LID
// and LMC give its range, as PortInfo does; it may own any LIDs more, those of
// virtual functions and virtual ports that share its link. All that it owns is
// in Graph.LIDOwner. A port without a LID owns none.
type EndPort struct {
	GUID     ib.GUID
	NodeGUID ib.GUID
	Type     ib.NodeType
	PortNum  uint8 // on its node; 0 for switch port 0
	Switch   int32 // the switch it hangs on (itself for port 0); -1: cabled to no switch
	Port     uint8 // the port of Switch that leads to it; 0 for switch port 0
	LID      ib.LID
	LMC      uint8
	// MTU and Gbps are those of its link; 0 for switch port 0, which has none.
	MTU  ib.MTU
	Gbps float32
}

// SwitchNode is a switch of a Graph.
type SwitchNode struct {
	GUID         ib.GUID
	NumPorts     uint8
	LinearFDBCap uint16
	EndPort      int32 // index of its port 0 in Graph.EndPorts
}

// Graph is a fabric as algorithms see it: dense indices into flat slices, no
// maps, no pointers. Switches are in ascending node-GUID order, EndPorts in
// ascending port-GUID order, the channels of a switch in ascending OutPort
// order. A Graph is immutable once built.
type Graph struct {
	Switches []SwitchNode
	// Channels of switch s are Channels[Off[s]:Off[s+1]]; only links between
	// two different switches that are up.
	Off      []int32
	Channels []Channel
	EndPorts []EndPort
	// TopLID is the highest LID given to an end port.
	TopLID ib.LID
	// LIDOwner[lid] is the index of the end port that has the LID, or NoLID; it
	// has TopLID+1 entries. It defines a port's LIDs, which need not be
	// consecutive, not LID and LMC.
	LIDOwner []int32
	// PortChannel[s][p] is the channel that leaves switch s by port p, or -1.
	PortChannel [][]int32
}
