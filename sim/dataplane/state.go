package dataplane

import (
	"heddle/ib"
)

const noPort = 255

// noStream is the stream of packets that belong to none.
const noStream = -1 << 31

// node is a switch, an adapter, or the management port of a switch, which is an
// end port on a cable of its own.
type node struct {
	first   int32 // index of port 0 in Engine.out and Engine.in
	ref     int32 // index in Topology.Nodes
	ports   uint8
	sw      bool
	life    Time // lifetime of packets
	delay   Time // of switching
	radix   int32
	busyOff int32 // of its words in Engine.busyIn
}

// outPort is the sending side of a port. What a transmission touches is here;
// what belongs to a lane is in outLane.
type outPort struct {
	busy     Time // until when it sends
	waitFrom Time // since when a packet waits while it is not sending
	gate     Time // nothing starts before (send cap of a host)
	cable    Time
	waited   Time // PortXmitWait
	words    uint64
	packets  uint64
	rate     Rate
	peer     int32 // port at the far end, -1: no cable
	node     int32
	reading  int32 // port whose buffer the transmission empties, -1: none
	// The packet of the last transmission.
	sendStream int32
	sendSeq    uint32
	reqs       int32 // inputs and lanes with a packet for it
	sink       int32 // end port at the far end, -1: a switch
	source     int32 // end port that sends here, -1: a switch
	table      int32 // VL arbitration, -1: lanes take turns
	arb        arbState
	lanes      uint16 // with a packet for it
	maxBytes   uint16
	num        uint8
	vls        uint8
	last       uint8 // lane that sent last
	armed      bool  // an event will come at busy
	gated      bool  // an event will come at gate
	active     bool  // sends data
	filter     bool  // partition filter
	limited    bool  // it has a head of queue life
	far        bool  // the far end belongs to another part
	_          [1]byte
}

// inPort is the receiving side of a port.
type inPort struct {
	busy    Time  // until when its buffer is read, if it has one read port
	rate    Rate  // of the link
	node    int32 // of the port
	up      int32 // the sender: port at the far end, -1: no cable
	readBy  int32 // output of the last read
	n       int32 // packets in its queues
	lanes   uint16
	reads   uint8 // running
	num     uint8
	active  bool // takes data
	filter  bool // partition filter
	far     bool // the sender belongs to another part
	words   uint64
	packets uint64
	_       [8]byte
}

// outLane is a lane of an output, with the credits for the buffer at the far end.
type outLane struct {
	tau      Time  // until the sender knows of a free block
	armedAt  Time  // when a credit event comes, Never: none
	waitFrom Time  // since when a packet of the lane waits
	waited   Time  // PortVLXmitWait
	avail    int32 // blocks free, without those that reads have not freed permanently
	capacity int32
	readHead int32 // reads at the far end whose blocks are not all back, by start
	readTail int32
	packets  uint32
	need     uint16 // blocks that the waiting packet needs, 0: none waits
	rr       uint8  // input served last
	stalls   uint8  // packets dropped in a row for their head of queue life
	reqs     uint16
	stalled  bool
}

// read is a packet that is being taken out of a buffer: its blocks come free one
// by one, the last with its end.
type read struct {
	start, end Time
	rate       Rate
	blocks     int32
	next       int32
}

// freed is how many blocks are free at u, as seen at the buffer.
func (r *read) freed(u Time) int32 {
	if u >= r.end {
		return r.blocks
	}
	if u <= r.start {
		return 0
	}
	return min(r.blocks, int32(uint64(u-r.start)*uint64(r.rate.Den)/(blockBytes*uint64(r.rate.Num))))
}

// when is the time at which k blocks are free, 1 ≤ k ≤ blocks.
func (r *read) when(k int32) Time {
	if k >= r.blocks || r.start == r.end {
		return r.end
	}
	num := uint64(k) * blockBytes * uint64(r.rate.Num)
	return min(r.end, r.start+Time((num+uint64(r.rate.Den)-1)/uint64(r.rate.Den)))
}

// queue is the head and tail of a list of packets.
type queue struct{ head, tail int32 }

// packet is a packet on its way: 64 bytes.
type packet struct {
	created  Time
	injected Time  // start at the source
	tail     Time  // arrival of the last byte at the present node
	since    Time  // when it became head of its queue
	next     int32 // in a queue or in the free list
	stream   int32
	dst      int32  // end port it is meant for, -1: a group
	seq      uint32 // in its stream
	mc       int32  // copies of a multicast packet, -1
	dlid     ib.LID
	bytes    uint16
	blocks   uint16
	out      uint8 // output of the present switch
	lane     uint8 // of arrival
	vl       uint8 // of departure
	sl       ib.SL
	flags    uint16
}

const (
	flagLost    = 1 << iota // the link failed before the tail was in
	flagBadEnd              // cut through from a link that failed: the next node drops it
	flagExposed             // head of its queue, and counted at its output
	flagUnread              // waits at a host that has stopped
	flagClosed              // its source waits for its end
	flagProgram             // of a program
	flagFECN                // it met congestion
	flagNotify              // it tells its destination that a packet did
	flagCounted             // among those that wait for its output
)

// Events, in the order of one instant: what happens to packets, then what comes
// free. The lower bits of the key are the index of the port, lane, queue or
// stream, so no two events of one kind are equal.
const (
	evEligible = iota << keyBits // in port; arg: packet
	evDeliver                    // end port; arg: packet
	evSource                     // stream
	evAck                        // stream
	evProgram                    // end port
	evFree                       // out port
	evCredit                     // out lane
	evGate                       // out port
	evReady                      // queue
	evLimit                      // queue
	evRelease                    // send queue

	keyBits = 28
)

// index makes a free list out of a slice of records.
func (e *part) newPacket() int32 {
	i := e.freePacket
	if i < 0 {
		e.packets = append(e.packets, packet{})
		return int32(len(e.packets) - 1)
	}
	e.freePacket = e.packets[i].next
	return i
}

func (e *part) release(i int32) {
	e.packets[i].next = e.freePacket
	e.packets[i].stream = -1
	e.freePacket = i
}

func (e *part) newRead() int32 {
	i := e.freeRead
	if i < 0 {
		e.reads = append(e.reads, read{})
		return int32(len(e.reads) - 1)
	}
	e.freeRead = e.reads[i].next
	return i
}
