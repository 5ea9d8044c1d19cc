package dataplane

import "heddle/ib"

// Tables is what a manager has written into the devices. Route, Multicast, Lane
// and Admits are asked at the moment a packet needs the answer, so a Set of an
// LFT block holds for every packet that is looked up after it. What Port,
// Arbitration and Life say is read once, and again by Engine.Refresh.
//
// Nodes are indices of Topology.Nodes. Port 0 is the management port of a
// switch; adapters have none.
type Tables interface {
	// Route is the entry of a switch's LFT: the output port, 255: drop.
	Route(sw int32, dlid ib.LID) uint8
	// Multicast adds to ports the outputs of a switch's MFT entry.
	Multicast(sw int32, dlid ib.LID, ports *PortMask)
	// Lane is the entry of an SL-to-VL table; 15: drop. Adapters have in = 0.
	Lane(node int32, in, out uint8, sl ib.SL) ib.VL
	// Admits is the partition filter of a switch port; it is asked only where
	// Port says that it is on.
	Admits(sw int32, port uint8, out bool, key ib.PKey) bool
	// Port is what PortInfo says that matters to packets.
	Port(node int32, port uint8) PortAttr
	// Arbitration is the VL arbitration of an output port.
	Arbitration(node int32, port uint8) Arbitration
	// Life is the lifetime of packets in a switch (SwitchInfo.LifeTimeValue),
	// Never: no limit.
	Life(sw int32) Time
}

// Functions is implemented by Tables whose end ports have virtual functions with LIDs
// of their own.
type Functions interface {
	// Owns reports whether a function of an end port has a LID and takes packets now.
	Owns(node int32, port uint8, lid ib.LID) bool
}

// PortMask is a set of port numbers.
type PortMask [4]uint64

// Add puts a port into the set.
func (m *PortMask) Add(port uint8) { m[port>>6] |= 1 << (port & 63) }

// Has reports whether a port is in the set.
func (m *PortMask) Has(port uint8) bool { return m[port>>6]>>(port&63)&1 != 0 }

// PortAttr is what PortInfo says about a port (IBA §14.2.5.6).
type PortAttr struct {
	State ib.PortState
	Rate  Rate   // of the link as trained; zero: that of Topology
	VLs   uint8  // operational data lanes
	MTU   uint16 // NeighborMTU in bytes
	LID   ib.LID // of an end port: the first one
	LIDs  uint16 // how many follow it, itself included; 0 is 1

	HOQLife    Time  // head of queue life, Never: no limit
	StallCount uint8 // VLStallCount

	// Which partition filters are on.
	FilterIn, FilterOut bool
}

// Arbitration is the VL arbitration of a port (IBA §7.6.9). Without any entry
// the lanes take turns by packet.
type Arbitration struct {
	High, Low []Weight
	// HighLimit times 4 KiB may leave by the high table before a packet of the low
	// one: 0 is one packet, 255 no limit.
	HighLimit uint8
}

// Weight is an entry: Weight blocks of 64 bytes of a lane. The last packet may
// exceed them. An entry of weight 0 is skipped.
type Weight struct {
	VL     ib.VL
	Weight uint8
}

// LifeOf is the time that a code of HOQLife or LifeTimeValue stands for:
// 4.096 µs · 2ⁿ, Never above 19.
func LifeOf(code uint8) Time {
	if code > 19 {
		return Never
	}
	return 4096 * Nanosecond << code
}
