package sm

// item is one piece of work of a phase, small enough that a full subnet's
// list costs little: it becomes a request only when the window has room, and
// is the request's token.
//
//	bits 63:56 op   55:32 node   31:24 port   23:0 extra
type item uint64

// op is what an item does.
type op uint8

const (
	opNodeInfo   op = 1 + iota // ask who is behind (node, port); extra: which key is tried
	opNodeDesc                 // NodeDescription of node
	opSwitchInfo               // SwitchInfo of node
	opPortInfo                 // PortInfo; extra bit 0: without the extended-speed bit; above: keys tried
	opPKeys                    // P_KeyTable; extra: block
	opSMInfo                   // SMInfo of (node, port)

	opSetSwitch // Set(SwitchInfo): extra 1 clear PortStateChange, 2 lower the top, 3 raise it
	opSetPort   // Set(PortInfo) without a change of state
	opSetPKeys  // likewise
	opArm
	opActive
	opDown // static2003 only
	opGetLFT
	opSetLFT
	opGetSL // SL2VL; extra: input port
	opSetSL
	opGetArb // VLArb; extra: part
	opSetArb
	opGetMFT // port: position, extra: block
	opSetMFT // likewise

	opPortAgain // PortInfo after PortStateChange was cleared
	opReread    // PortInfo of a port that is known, in a sweep of a region; extra: rereadPath

	opLightSwitch
	opLightProbe
	opLightDesc
	opLightSM
	opLightPort

	opPoll
	opHandover
	opAcknowledge
	opDescNow // NodeDescription after trap 144
	opOwnInfo // our own PortInfo, for a trap to the master; extra: its change flags

	opGetGUIDs // GUIDInfo; extra: block
	opSetGUIDs // likewise
	opReadSL   // as opGetSL, for those who want to know
	opReadArb  // as opGetArb, likewise
	opBackSL   // as opGetSL, of a table in doubt

	// Of virtual ports; port is the physical one. extra: VPort index in 15:0, block
	// in 23:16, but for opGetVStates.
	opGetVirt    // VirtualizationInfo
	opSetVirt    // likewise
	opGetVStates // VPortState; extra: block
	opGetVPort   // VPortInfo
	opSetVPort   // likewise
	opGetVNode   // VNodeInfo
	opGetVDesc   // VNodeDescription
	opGetVGUIDs  // VPortGUIDInfo
	opSetVGUIDs  // likewise
	opGetVPKeys  // VPortPartitionTable
	opSetVPKeys  // likewise
	opLightVirt  // VirtualizationInfo, in a light sweep

	opEnforce  // Set(PortInfo) of what a switch port enforces, between sweeps
	opEnforced // Get(PortInfo) of it

	opPeek     // SwitchInfo, which no phase waits for
	opPeekPort // PortInfo, outside any phase
	opImageNow // NodeInfo after trap 145
)

// rereadPath marks an opReread that looks for the place where a path is cut.
const rereadPath = 1

func mk(o op, node int32, port uint8, extra uint32) item {
	return item(o)<<56 | item(uint32(node)&0xFFFFFF)<<32 | item(port)<<24 | item(extra&0xFFFFFF)
}

func (i item) op() op        { return op(i >> 56) }
func (i item) port() uint8   { return uint8(i >> 24) }
func (i item) extra() uint32 { return uint32(i) & 0xFFFFFF }

// beside reports whether an item is of no phase.
func (i item) beside() bool {
	switch i.op() {
	case opPoll, opHandover, opAcknowledge, opDescNow, opOwnInfo, opPeek, opPeekPort, opImageNow:
		return true
	}
	return false
}

// node is the node index, -1 for none.
func (i item) node() int32 {
	n := int32(i >> 32 & 0xFFFFFF)
	if n == 0xFFFFFF {
		return -1
	}
	return n
}

// queue is a first-in first-out list of items.
type queue struct {
	buf  []item
	head int
	n    int
}

func (q *queue) push(it item) {
	if q.n == len(q.buf) {
		grown := make([]item, max(64, 2*len(q.buf)))
		for i := range q.n {
			grown[i] = q.buf[(q.head+i)%len(q.buf)]
		}
		q.buf, q.head = grown, 0
	}
	i := q.head + q.n
	if i >= len(q.buf) {
		i -= len(q.buf)
	}
	q.buf[i] = it
	q.n++
}

func (q *queue) pop() item {
	it := q.buf[q.head]
	q.head++
	if q.head == len(q.buf) {
		q.head = 0
	}
	q.n--
	return it
}

func (q *queue) clear() { q.head, q.n = 0, 0 }
