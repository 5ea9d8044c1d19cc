// Package work encodes what a sweep has to do as items, each of which becomes one request.
package work

// Item is one piece of work of a phase, small enough that a full subnet's
// list costs little: it becomes a request only when the window has room, and
// is the request's token.
//
//	bits 63:56 op   55:32 node   31:24 port   23:0 extra
type Item uint64

// Op is what an item does.
type Op uint8

const (
	OpNodeInfo   Op = 1 + iota // ask who is behind (node, port); extra: which key is tried
	OpNodeDesc                 // NodeDescription of node
	OpSwitchInfo               // SwitchInfo of node
	OpPortInfo                 // PortInfo; extra bit 0: without the extended-speed bit; above: keys tried
	OpPKeys                    // P_KeyTable; extra: block
	OpSMInfo                   // SMInfo of (node, port)

	OpSetSwitch // Set(SwitchInfo): extra 1 clear PortStateChange, 2 lower the top, 3 raise it
	OpSetPort   // Set(PortInfo) without a change of state
	OpSetPKeys  // Set(P_KeyTable); extra: block
	OpArm
	OpActive
	OpDown    // static2003 only
	OpDisable // Set(PortInfo) that disables a port
	OpEnable  // Set(PortInfo) that enables it
	OpGetLFT
	OpSetLFT
	OpGetSL  // SL2VL; extra: input port
	OpSetSL  // extra: input port, or AllInputs
	OpGetArb // VLArb; extra: part
	OpSetArb
	OpGetMFT // port: position, extra: block
	OpSetMFT // Set(MulticastForwardingTable); port and extra as of OpGetMFT

	OpPortAgain // PortInfo after PortStateChange was cleared
	OpReread    // PortInfo of a port that is known, in a sweep of a region; extra: RereadPath

	OpLightSwitch
	OpLightProbe
	OpLightDesc
	OpLightSM
	OpLightPort

	OpPoll
	OpHandover
	OpAcknowledge
	OpDescNow // NodeDescription after trap 144
	OpOwnInfo // our own PortInfo, for a trap to the master; extra: its change flags

	OpGetGUIDs // GUIDInfo; extra: block
	OpSetGUIDs // Set(GUIDInfo); extra: block
	OpReadSL   // as OpGetSL, to read tables that no sweep asks for
	OpReadArb  // as OpGetArb, for the same purpose
	OpBackSL   // as OpGetSL, of a table in doubt

	// Of virtual ports; port is the physical one. extra: VPort index in 15:0, block
	// in 23:16, but for OpGetVStates.
	OpGetVirt    // VirtualizationInfo
	OpSetVirt    // Set(VirtualizationInfo)
	OpGetVStates // VPortState; extra: block
	OpGetVPort   // VPortInfo
	OpSetVPort   // Set(VPortInfo)
	OpGetVNode   // VNodeInfo
	OpGetVDesc   // VNodeDescription
	OpGetVGUIDs  // VPortGUIDInfo
	OpSetVGUIDs  // Set(VPortGUIDInfo)
	OpGetVPKeys  // VPortPartitionTable
	OpSetVPKeys  // Set(VPortPartitionTable)
	OpLightVirt  // VirtualizationInfo, in a light sweep

	OpEnforce  // Set(PortInfo) of what a switch port enforces, between sweeps
	OpEnforced // Get(PortInfo) of it

	OpMapNode   // NodeInfo of a switch that another manager knew
	OpMapSwitch // SwitchInfo of it
	OpMapPort   // PortInfo; extra 1: without the extended-speed bit
	OpMapBlock  // LFT block of it; extra: block
	OpMapWrite  // Set(LinearForwardingTable) of it; extra: block
	OpTell      // Set(PortInfo) that tells a port its manager

	OpPeek     // SwitchInfo, which no phase waits for
	OpPeekPort // PortInfo, outside any phase
	OpImageNow // NodeInfo after trap 145
	OpCapsNow  // PortInfo after trap 144 about capabilities
	OpSMNow    // SMInfo of a port that became a manager's by that trap
	OpLate     // NodeInfo of a node that was hurried in vain; extra: which (package hurry)
)

// AllInputs in the extra field of OpSetSL stands for all input ports: they share one table.
const AllInputs = 0x100

// RereadPath marks an OpReread that looks for the place where a path is cut.
const RereadPath = 1

// Make returns an item; node -1 is none.
func Make(o Op, node int32, port uint8, extra uint32) Item {
	return Item(o)<<56 | Item(uint32(node)&0xFFFFFF)<<32 | Item(port)<<24 | Item(extra&0xFFFFFF)
}

// Op is what the item does.
func (i Item) Op() Op { return Op(i >> 56) }

// Port is the port at the node.
func (i Item) Port() uint8 { return uint8(i >> 24) }

// Extra is 24 bits whose meaning the operation gives.
func (i Item) Extra() uint32 { return uint32(i) & 0xFFFFFF }

// EachInput calls fn with the input ports whose tables an OpSetSL writes to a switch with so many
// external ports.
func (i Item) EachInput(ports uint8, fn func(in uint8)) {
	if i.Port() == 0 {
		return
	}
	for in := range int(ports) + 1 {
		if in != int(i.Port()) && (i.Extra()&AllInputs != 0 || uint32(in) == i.Extra()) {
			fn(uint8(in))
		}
	}
}

// OutOfPhase reports whether the item belongs to no phase.
func (i Item) OutOfPhase() bool {
	switch i.Op() {
	case OpPoll, OpHandover, OpAcknowledge, OpDescNow, OpOwnInfo, OpPeek, OpPeekPort, OpImageNow, OpCapsNow, OpSMNow, OpLate:
		return true
	}
	return false
}

// Node is the index of the node, -1 for none.
func (i Item) Node() int32 {
	n := int32(i >> 32 & 0xFFFFFF)
	if n == 0xFFFFFF {
		return -1
	}
	return n
}

// Queue is a first-in first-out list of items.
type Queue struct {
	Buf  []Item
	head int
	N    int
}

// Push appends an item.
func (q *Queue) Push(it Item) {
	if q.N == len(q.Buf) {
		grown := make([]Item, max(64, 2*len(q.Buf)))
		for i := range q.N {
			grown[i] = q.Buf[(q.head+i)%len(q.Buf)]
		}
		q.Buf, q.head = grown, 0
	}
	i := q.head + q.N
	if i >= len(q.Buf) {
		i -= len(q.Buf)
	}
	q.Buf[i] = it
	q.N++
}

// Pop removes the first item of a queue that is not empty.
func (q *Queue) Pop() Item {
	it := q.Buf[q.head]
	q.head++
	if q.head == len(q.Buf) {
		q.head = 0
	}
	q.N--
	return it
}

// Clear removes all items.
func (q *Queue) Clear() { q.head, q.N = 0, 0 }
