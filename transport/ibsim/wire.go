package ibsim

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Sizes of the datagrams. Any other size is refused by either side.
const (
	ctlLen  = 80
	dataLen = 288
)

const (
	ctlMagic = 0xDEADBEEF

	ctlError       = 0
	ctlConnect     = 1
	ctlDisconnect  = 2
	ctlGetNodeInfo = 7
	ctlGetPortInfo = 8
	ctlSetIsSM     = 9
	ctlGetPKeys    = 10

	nodeIDLen  = 32 // NUL included
	statusTime = 110
)

// Extension of heddle sim in the CONNECT reply: after the 44 bytes that stock
// clients read, this magic number and how many unanswered requests the server
// takes from one client.
const (
	offExtMagic = 44
	offExtMax   = 48
	extMagic    = 0x48444C45
)

// stockInFlight is how many requests ibsim itself takes without a writer ever
// having to wait: over UDP what the default socket buffers surely hold, over
// local sockets twice what a unix datagram queue does (requests in the
// server's, answers in ours), less some places for what comes unasked. ibsim
// burns processor time while our queue is full, but nothing is lost.
func stockInFlight(udp bool) int {
	if udp {
		return 32
	}
	return max(1, min(2*queueLen()-4, 64))
}

// queueLen is net.unix.max_dgram_qlen; 10 unless an administrator changed it.
func queueLen() int {
	b, err := os.ReadFile("/proc/sys/net/unix/max_dgram_qlen")
	if err != nil {
		return 10
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 {
		return 10
	}
	return n
}

// ctl is one control message; integers are in the machine's byte order.
type ctl [ctlLen]byte

func (c *ctl) set(client, typ uint32, data []byte) {
	clear(c[:])
	ne := binary.NativeEndian
	ne.PutUint32(c[0:], ctlMagic)
	ne.PutUint32(c[4:], client)
	ne.PutUint32(c[8:], typ)
	ne.PutUint32(c[12:], uint32(len(data)))
	copy(c[16:], data)
}

func (c *ctl) typ() uint32  { return binary.NativeEndian.Uint32(c[8:]) }
func (c *ctl) data() []byte { return c[16:] }

// putPacket writes p as a data message.
func putPacket(b *[dataLen]byte, p *mad.Packet) {
	be := binary.BigEndian
	clear(b[:32])
	be.PutUint16(b[0:], uint16(p.Addr.LID))
	if p.Addr.LID == ib.LIDPermissive {
		be.PutUint16(b[4:], uint16(ib.LIDPermissive))
	}
	be.PutUint32(b[8:], p.Addr.QP)
	be.PutUint32(b[12:], p.LocalQP)
	n := copy(b[32:], p.Data)
	be.PutUint64(b[24:], uint64(n))
	clear(b[32+n:])
}

// getPacket reads a data message into p. It reports false for one that
// carries no MAD.
func getPacket(p *mad.Packet, b []byte) bool {
	if len(b) != dataLen {
		return false
	}
	be := binary.BigEndian
	n := be.Uint64(b[24:])
	if n > ib.MADLen || n < 24 {
		n = ib.MADLen
	}
	if ib.Class(b[33]) != ib.ClassSA || ib.Method(b[35]) != ib.MethodGetTableResp {
		// heddle sim states 224 where the tail is unused, for the sake of the
		// preload library; only a table answer's length means something.
		clear(b[32+n:])
		n = ib.MADLen
	}
	*p = mad.Packet{
		Data: append(p.Data[:0], b[32:32+n]...), LocalQP: be.Uint32(b[8:]),
		Addr: mad.Addr{LID: ib.LID(be.Uint16(b[4:])), QP: be.Uint32(b[12:])},
	}
	if be.Uint32(b[16:]) == 0 {
		return true
	}
	p.Status = mad.Failed
	if !ib.Method(b[32+3]).IsResponse() {
		// Our own packet came back as it was: the far end is its destination.
		p.Addr.LID, p.Addr.QP, p.LocalQP = ib.LID(be.Uint16(b[0:])), be.Uint32(b[8:]), be.Uint32(b[12:])
	}
	return true
}

// probeEvery is how often a client that hears nothing looks whether the server
// still lives.
const probeEvery = time.Second
