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
	addrLen = 32 // follows a data message if both sides support canAddress
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

// Extension of heddle sim in CONNECT, after the 44 bytes that stock clients
// read: a magic number; in the reply, how many unanswered requests the server
// accepts from one client; and the sender's capabilities.
const (
	offExtMagic = 44
	offExtMax   = 48
	offExtCan   = 52
	extMagic    = 0x48444C45
	extAsk      = 0x48444C51 // in the request, which ibsim returns as its reply

	// canReassemble of a client: it reassembles RMPP messages. Of the server:
	// flagReassembles in the flags (padding for others) of a forwarded request
	// says that the requester does.
	canReassemble   = 1 << 0
	flagReassembles = 1 << 0
	// canAddress: the fields of an address that a data message lacks (SL, path
	// bits, P_Key index, GRH) follow it.
	canAddress = 1 << 1
	// canTime of a client: the server returns no request to it that is only late.
	canTime  = 1 << 2
	offFlags = 20
)

// stockSlots is how many clients ibsim takes.
const stockSlots = 10

// stockInFlight is how many requests ibsim itself accepts without blocking a
// writer: over UDP what the default socket buffers surely hold, over local
// sockets twice the capacity of a unix datagram queue (requests in the
// server's, responses in ours), minus a reserve for unsolicited packets. ibsim
// burns processor time while our queue is full, but loses nothing.
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

// message is a data message with space for an address after it.
type message [dataLen + addrLen]byte

// putAddr writes the address fields that a data message lacks, if any is set,
// and returns the total length.
func putAddr(b *message, a *mad.Addr) int {
	if a.SL == 0 && a.PathBits == 0 && a.PKeyIndex == 0 && !a.HasGRH {
		return dataLen
	}
	x := b[dataLen:]
	clear(x)
	x[0], x[1] = byte(a.SL), a.PathBits
	binary.BigEndian.PutUint16(x[2:], a.PKeyIndex)
	if g := &a.GRH; a.HasGRH {
		x[4], x[5], x[6], x[7] = 1, g.HopLimit, g.TrafficClass, g.GIDIndex
		binary.BigEndian.PutUint32(x[8:], g.FlowLabel)
		copy(x[12:], g.GID[:])
	}
	return len(b)
}

// getAddr reads the address after a data message.
func getAddr(a *mad.Addr, x []byte) {
	a.SL, a.PathBits, a.PKeyIndex = ib.SL(x[0]&0xF), x[1], binary.BigEndian.Uint16(x[2:])
	if a.HasGRH = x[4] != 0; a.HasGRH {
		a.GRH = mad.GRH{
			HopLimit: x[5], TrafficClass: x[6], GIDIndex: x[7],
			FlowLabel: binary.BigEndian.Uint32(x[8:]), GID: ib.GID(x[12:28]),
		}
	}
}

// putPacket writes p as a data message.
func putPacket(b *message, p *mad.Packet) {
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
	clear(b[32+n : dataLen])
}

// getPacket reads a data message into p. It returns false if the message has no
// MAD. SingleMAD is valid if the server reports it.
func getPacket(p *mad.Packet, b []byte) bool {
	if len(b) != dataLen && len(b) != dataLen+addrLen {
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
		clear(b[32+n : dataLen])
		n = ib.MADLen
	}
	*p = mad.Packet{
		Data: append(p.Data[:0], b[32:32+n]...), LocalQP: be.Uint32(b[8:]),
		Addr: mad.Addr{LID: ib.LID(be.Uint16(b[4:])), QP: be.Uint32(b[12:])},
	}
	if len(b) > dataLen {
		getAddr(&p.Addr, b[dataLen:])
	}
	if be.Uint32(b[16:]) == 0 {
		p.SingleMAD = be.Uint32(b[offFlags:])&flagReassembles == 0 && !ib.Method(b[35]).IsResponse()
		return true
	}
	p.Status = mad.Failed
	if !ib.Method(b[32+3]).IsResponse() {
		// Our own packet returned unchanged: the far end is its destination.
		p.Addr.LID, p.Addr.QP, p.LocalQP = ib.LID(be.Uint16(b[0:])), be.Uint32(b[8:]), be.Uint32(b[12:])
	}
	return true
}

// probeEvery is how often a client that receives nothing checks whether the
// server lives.
const probeEvery = time.Second
