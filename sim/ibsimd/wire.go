package ibsimd

import (
	"bytes"
	"encoding/binary"
	"errors"

	"heddle/ib"
	"heddle/mad"
)

// Sizes of the two kinds of datagram. All other sizes are rejected, except that
// of a data message followed by an address (extAddr).
const (
	ctlLen  = 80
	dataLen = 288
	addrLen = 32

	ctlMagic   = 0xdeadbeef
	ctlPayload = 64
	nodeIDLen  = 32
)

// ctlOp is the type of a control message.
type ctlOp uint32

const (
	opError       ctlOp = 0
	opConnect     ctlOp = 1
	opDisconnect  ctlOp = 2
	opGetPort     ctlOp = 3
	opGetVendor   ctlOp = 4
	opGetGID      ctlOp = 5
	opGetGUID     ctlOp = 6
	opGetNodeInfo ctlOp = 7
	opGetPortInfo ctlOp = 8
	opSetIsSM     ctlOp = 9
	opGetPKeys    ctlOp = 10
)

var (
	errCtlSize  = errors.New("ibsimd: control message is not 80 bytes")
	errCtlMagic = errors.New("ibsimd: control message without the magic number")
)

// ctlMsg is a control message. Integers are in machine order, unless a
// payload's comment says wire order.
type ctlMsg struct {
	Client uint32
	Op     ctlOp
	Len    uint32 // payload bytes used, according to the sender; echoed
	Data   [ctlPayload]byte
}

func (c *ctlMsg) Decode(b []byte) error {
	if len(b) != ctlLen {
		return errCtlSize
	}
	ne := binary.NativeEndian
	if ne.Uint32(b) != ctlMagic {
		return errCtlMagic
	}
	c.Client, c.Op, c.Len = ne.Uint32(b[4:]), ctlOp(ne.Uint32(b[8:])), ne.Uint32(b[12:])
	copy(c.Data[:], b[16:])
	return nil
}

func (c *ctlMsg) Put(b *[ctlLen]byte) {
	ne := binary.NativeEndian
	ne.PutUint32(b[:], ctlMagic)
	ne.PutUint32(b[4:], c.Client)
	ne.PutUint32(b[8:], uint32(c.Op))
	ne.PutUint32(b[12:], c.Len)
	copy(b[16:], c.Data[:])
}

// clientInfo is the payload of CONNECT, both ways.
type clientInfo struct {
	ID     uint32 // request: process id or UDP port of the data socket; reply: slot
	QP     uint32
	IsSM   bool
	NodeID string // at most 31 bytes; longer names are cut

	// InFlight, in a reply, is how many requests the client may have in flight;
	// see InFlight. 0: unknown.
	InFlight uint32
	// Ext are the extensions that the sender supports.
	Ext uint32
}

// In CONNECT, three words follow ibsim's 44 bytes: extMagic (in a request
// extAsk), the number of requests that may be in flight (in a reply), and the
// extensions that the sender supports. ibsim returns these bytes unchanged,
// which is why the two magic numbers differ; its clients send zeros and ignore
// the reply's.
const (
	extAt    = 44
	extMagic = 0x48444C45
	extAsk   = 0x48444C51
)

// The extensions of clientInfo.Ext.
const (
	// extReassembles, of a client: it reassembles RMPP messages, and reads
	// flagReassembles in requests. Of the server: it sets that flag.
	extReassembles = 1 << 0
	// extAddr: if both sides support it, the part of an address beyond LIDs and
	// QPs follows the data message.
	extAddr = 1 << 1
	// extTimes, of a client: it has timers of its own, so that nothing returns to it
	// only because it is late.
	extTimes = 1 << 2
)

// InFlight reads from the payload of a CONNECT reply (at least 52 bytes,
// machine order) how many unanswered requests the server accepts from one
// client without losing any; 0 if the server, like ibsim, does not say.
func InFlight(payload []byte) int {
	if len(payload) < extAt+8 || binary.NativeEndian.Uint32(payload[extAt:]) != extMagic {
		return 0
	}
	return int(min(binary.NativeEndian.Uint32(payload[extAt+4:]), 1<<16))
}

func (i *clientInfo) Decode(b *[ctlPayload]byte) {
	ne := binary.NativeEndian
	name := b[12 : 12+nodeIDLen-1]
	if n := bytes.IndexByte(name, 0); n >= 0 {
		name = name[:n]
	}
	*i = clientInfo{
		ID: ne.Uint32(b[:]), QP: ne.Uint32(b[4:]), IsSM: ne.Uint32(b[8:]) != 0, NodeID: string(name),
		InFlight: uint32(InFlight(b[:])),
	}
	switch ne.Uint32(b[extAt:]) {
	case extMagic, extAsk:
		i.Ext = ne.Uint32(b[extAt+8:])
	}
}

func (i *clientInfo) Put(b *[ctlPayload]byte) {
	ne := binary.NativeEndian
	clear(b[:])
	ne.PutUint32(b[:], i.ID)
	ne.PutUint32(b[4:], i.QP)
	if i.IsSM {
		ne.PutUint32(b[8:], 1)
	}
	copy(b[12:12+nodeIDLen-1], i.NodeID)
	if i.InFlight != 0 || i.Ext != 0 {
		ne.PutUint32(b[extAt:], extMagic)
		ne.PutUint32(b[extAt+4:], i.InFlight)
		ne.PutUint32(b[extAt+8:], i.Ext)
	}
}

// dataMsg is a data message as on the socket. LIDs are 16 bits big endian
// followed by 16 zero bits, all other fields are big endian. The last addrLen
// bytes are sent only if they hold an address.
type dataMsg [dataLen + addrLen]byte

const (
	offDLID   = 0
	offSLID   = 4
	offDQP    = 8
	offSQP    = 12
	offStatus = 16
	offFlags  = 20 // padding to ibsim and its clients
	offLength = 24
	offMAD    = 32
	offAddr   = offMAD + ib.MADLen
)

// statusTimedOut is what a returned request carries (ETIMEDOUT).
const statusTimedOut = 110

func (d *dataMsg) MAD() *ib.MAD   { return (*ib.MAD)(d[offMAD:]) }
func (d *dataMsg) DLID() ib.LID   { return ib.LID(binary.BigEndian.Uint16(d[offDLID:])) }
func (d *dataMsg) SLID() ib.LID   { return ib.LID(binary.BigEndian.Uint16(d[offSLID:])) }
func (d *dataMsg) DQP() uint32    { return binary.BigEndian.Uint32(d[offDQP:]) }
func (d *dataMsg) SQP() uint32    { return binary.BigEndian.Uint32(d[offSQP:]) }
func (d *dataMsg) Status() uint32 { return binary.BigEndian.Uint32(d[offStatus:]) }

const (
	// flagReassembles in the flags of a request to a client: its sender can
	// reassemble RMPP messages.
	flagReassembles = 1 << 0
	// flagAddr: an address follows the message. A received message shows that by
	// its length.
	flagAddr = 1 << 1
)

// setFlag sets a flag, after PutHeader.
func (d *dataMsg) setFlag(f byte) { d[offFlags+3] |= f }

// size is the number of bytes to send.
func (d *dataMsg) size() int {
	if d[offFlags+3]&flagAddr != 0 {
		return dataLen + addrLen
	}
	return dataLen
}

// The bytes of an address.
const (
	addrSL       = offAddr
	addrPathBits = offAddr + 1
	addrPKey     = offAddr + 2 // index
	addrHasGRH   = offAddr + 4
	addrHops     = offAddr + 5
	addrTClass   = offAddr + 6
	addrGIDIndex = offAddr + 7
	addrFlow     = offAddr + 8
	addrGID      = offAddr + 12
)

// PutAddr writes the part of an address that a data message has no field for;
// nothing if it is all zeros.
func (d *dataMsg) PutAddr(a *mad.Addr) {
	if a.SL == 0 && a.PathBits == 0 && a.PKeyIndex == 0 && !a.HasGRH {
		return
	}
	d.setFlag(flagAddr)
	clear(d[offAddr:])
	d[addrSL], d[addrPathBits] = byte(a.SL), a.PathBits
	binary.BigEndian.PutUint16(d[addrPKey:], a.PKeyIndex)
	if !a.HasGRH {
		return
	}
	g := &a.GRH
	d[addrHasGRH], d[addrHops], d[addrTClass], d[addrGIDIndex] = 1, g.HopLimit, g.TrafficClass, g.GIDIndex
	binary.BigEndian.PutUint32(d[addrFlow:], g.FlowLabel)
	copy(d[addrGID:], g.GID[:])
}

// Addr reads what PutAddr wrote.
func (d *dataMsg) Addr(a *mad.Addr) {
	a.SL, a.PathBits = ib.SL(d[addrSL]&0xF), d[addrPathBits]
	a.PKeyIndex = binary.BigEndian.Uint16(d[addrPKey:])
	if a.HasGRH = d[addrHasGRH] != 0; a.HasGRH {
		a.GRH = mad.GRH{
			HopLimit: d[addrHops], TrafficClass: d[addrTClass], GIDIndex: d[addrGIDIndex],
			FlowLabel: binary.BigEndian.Uint32(d[addrFlow:]), GID: ib.GID(d[addrGID : addrGID+16]),
		}
	}
}

// Length is the number of valid MAD bytes, 0–256.
func (d *dataMsg) Length() int { return int(min(binary.BigEndian.Uint64(d[offLength:]), ib.MADLen)) }

// PutHeader writes everything before the MAD.
func (d *dataMsg) PutHeader(dlid, slid ib.LID, dqp, sqp, status uint32, length int) {
	be := binary.BigEndian
	be.PutUint32(d[offDLID:], uint32(dlid)<<16)
	be.PutUint32(d[offSLID:], uint32(slid)<<16)
	be.PutUint32(d[offDQP:], dqp)
	be.PutUint32(d[offSQP:], sqp)
	be.PutUint32(d[offStatus:], status)
	be.PutUint32(d[offFlags:], 0)
	be.PutUint64(d[offLength:], uint64(length))
}

// tailLen is how many bytes at the end of a received MAD the preload library
// damages if the length includes them.
const tailLen = 32

func tailUnused(m *ib.MAD) bool {
	t := m[ib.MADLen-tailLen:]
	be := binary.BigEndian
	return be.Uint64(t)|be.Uint64(t[8:])|be.Uint64(t[16:])|be.Uint64(t[24:]) == 0
}
