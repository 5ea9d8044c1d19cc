// Package rdmanl is the wire format of the local service of Linux' RDMA netlink (RDMA_NL_LS in
// include/uapi/rdma/rdma_netlink.h): the kernel multicasts questions for path records of its own
// users (IPoIB, rdma_cm, SRP), and a program answers them. Numbers are in the host's byte order,
// GIDs, IP addresses and path records in the network's.
//
// Values and functions only, safe for concurrent use.
package rdmanl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
)

// Numbers of the protocol.
const (
	Protocol   = 20      // NETLINK_RDMA
	Group      = 1 << 2  // mask of the multicast group of the local service
	client     = 4 << 10 // RDMA_NL_LS, in message types
	headerLen  = 16      // netlink header
	resolveLen = 68      // family header of RESOLVE: device name, port, path use, padding
	deviceLen  = 64
	ipLen      = 4 // family header of IP_RESOLVE: interface index
	attrLen    = 4 // attribute header
)

// Op is an operation.
type Op uint16

// The operations.
const (
	Resolve    Op = 0
	SetTimeout Op = 1
	IPResolve  Op = 2
)

// Attribute types; the kernel sets flag bits above them in questions.
const (
	attrPath      = 1
	attrTimeout   = 2
	attrServiceID = 3
	attrDGID      = 4
	attrSGID      = 5
	attrTClass    = 6
	attrPKey      = 7
	attrQoSClass  = 8
	attrIPv4      = 9
	attrIPv6      = 10
	attrMask      = 0x1FFF
)

// Flags of messages.
const (
	flagRequest = 1
	flagAck     = 4
	flagMiss    = 0x100 // RDMA_NL_LS_F_ERR: no answer, ask the SA
)

// Types of messages of netlink itself.
const (
	typeError = 2
	typeDone  = 3
)

// Use says which paths the kernel wants.
type Use uint8

// The uses.
const (
	UseAll            Use = 0 // GMP, and data in both directions
	UseUnidirectional Use = 1
	UseGMP            Use = 2
)

// pathFlags satisfies every Use: GMP, PRIMARY and BIDIRECTIONAL.
const pathFlags = 0x2B

// MinTimeout and MaxTimeout are the bounds of SET_TIMEOUT. The kernel takes nothing outside.
const (
	MinTimeout = 100 * time.Millisecond
	MaxTimeout = 200 * time.Second
)

// ErrMalformed: the message is not one of the local service.
var ErrMalformed = errors.New("malformed netlink message")

// Message is what a socket of the local service receives.
type Message struct {
	Op  Op
	Seq uint32
	// Ack: the message answers one of ours; Errno is 0 or the error.
	Ack   bool
	Errno int

	// Of Resolve:
	Device string
	Port   uint8
	Use    Use
	Mask   wire.CompMask
	Record wire.PathRecord // the components in Mask

	// Of IPResolve:
	IfIndex uint32
	IP      netip.Addr
}

// Decode reads the first message in b, and returns the rest.
func Decode(b []byte) (m Message, rest []byte, err error) {
	if len(b) < headerLen {
		return m, nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	n := int(binary.NativeEndian.Uint32(b))
	if n < headerLen || n > len(b) {
		return m, nil, fmt.Errorf("%w: length %d of %d", ErrMalformed, n, len(b))
	}
	rest = b[min(align(n), len(b)):]
	typ := binary.NativeEndian.Uint16(b[4:])
	m.Seq = binary.NativeEndian.Uint32(b[8:])
	body := b[headerLen:n]
	if typ == typeError {
		if len(body) < 4 {
			return m, rest, fmt.Errorf("%w: an acknowledgment of %d bytes", ErrMalformed, n)
		}
		m.Ack, m.Errno = true, -int(int32(binary.NativeEndian.Uint32(body)))
		return m, rest, nil
	}
	m.Op = Op(typ &^ client)
	switch {
	case typ&^0x3FF != client:
		return m, rest, fmt.Errorf("%w: type %#x", ErrMalformed, typ)
	case m.Op == Resolve:
		err = m.resolve(body)
	case m.Op == IPResolve:
		err = m.ipResolve(body)
	default:
		err = fmt.Errorf("%w: type %#x", ErrMalformed, typ)
	}
	return m, rest, err
}

func (m *Message) resolve(b []byte) error {
	if len(b) < resolveLen {
		return fmt.Errorf("%w: RESOLVE of %d bytes", ErrMalformed, len(b))
	}
	m.Device = text(b[:deviceLen])
	m.Port, m.Use = b[64], Use(b[65])
	r := &m.Record
	if m.Use != UseUnidirectional {
		m.Mask, r.Reversible = wire.PathCompReversible, true
	}
	return attributes(b[resolveLen:], func(typ uint16, v []byte) bool {
		var comp wire.CompMask
		size := 0
		switch typ {
		case attrServiceID:
			if comp, size = wire.PathCompServiceID8|wire.PathCompServiceID56, 8; len(v) == size {
				r.ServiceID = binary.NativeEndian.Uint64(v)
			}
		case attrDGID:
			comp, size = wire.PathCompDGID, copy(r.DGID[:], v)
		case attrSGID:
			comp, size = wire.PathCompSGID, copy(r.SGID[:], v)
		case attrTClass:
			if comp, size = wire.PathCompTClass, 1; len(v) == size {
				r.TClass = v[0]
			}
		case attrPKey:
			if comp, size = wire.PathCompPKey, 2; len(v) == size {
				r.PKey = ib.PKey(binary.NativeEndian.Uint16(v))
			}
		case attrQoSClass:
			if comp, size = wire.PathCompQoSClass, 2; len(v) == size {
				r.QoSClass = binary.NativeEndian.Uint16(v) & 0xFFF
			}
		default:
			return true
		}
		m.Mask |= comp
		return len(v) == size && (comp&(wire.PathCompDGID|wire.PathCompSGID) == 0 || size == len(ib.GID{}))
	})
}

func (m *Message) ipResolve(b []byte) error {
	if len(b) < ipLen {
		return fmt.Errorf("%w: IP_RESOLVE of %d bytes", ErrMalformed, len(b))
	}
	m.IfIndex = binary.NativeEndian.Uint32(b)
	err := attributes(b[ipLen:], func(typ uint16, v []byte) bool {
		switch typ {
		case attrIPv4:
			if len(v) != 4 {
				return false
			}
			m.IP = netip.AddrFrom4([4]byte(v))
		case attrIPv6:
			if len(v) != 16 {
				return false
			}
			m.IP = netip.AddrFrom16([16]byte(v))
		}
		return true
	})
	if err == nil && !m.IP.IsValid() {
		return fmt.Errorf("%w: IP_RESOLVE without an address", ErrMalformed)
	}
	return err
}

// attributes calls fn for each attribute, until it returns false.
func attributes(b []byte, fn func(typ uint16, v []byte) bool) error {
	for len(b) >= attrLen {
		n := int(binary.NativeEndian.Uint16(b))
		typ := binary.NativeEndian.Uint16(b[2:]) & attrMask
		if n < attrLen || n > len(b) {
			return fmt.Errorf("%w: attribute %d of %d bytes in %d", ErrMalformed, typ, n, len(b))
		}
		if !fn(typ, b[attrLen:n]) {
			return fmt.Errorf("%w: attribute %d of %d bytes", ErrMalformed, typ, n)
		}
		b = b[min(align(n), len(b)):]
	}
	return nil
}

func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

func align(n int) int { return (n + 3) &^ 3 }

func header(b []byte, op Op, flags uint16, seq uint32, body int) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(headerLen+body))
	b = binary.NativeEndian.AppendUint16(b, client|uint16(op))
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	return append(b, 0, 0, 0, 0) // port ID: of the kernel
}

func attribute(b []byte, typ uint16, v []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrLen+len(v)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, v...)
	return append(b, make([]byte, align(len(v))-len(v))...)
}

// AppendPath encodes the answer to a Resolve: one path, for every use.
func AppendPath(b []byte, seq uint32, r wire.PathRecord) []byte {
	var v [8 + wire.PathRecordLen]byte
	binary.NativeEndian.PutUint32(v[:], pathFlags)
	if r.NumbPath == 0 {
		r.NumbPath = 1
	}
	r.Put(v[8:])
	return attribute(header(b, Resolve, 0, seq, attrLen+len(v)), attrPath, v[:])
}

// AppendMiss encodes the answer that makes the kernel ask the SA itself.
func AppendMiss(b []byte, op Op, seq uint32) []byte { return header(b, op, flagMiss, seq, 0) }

// AppendGID encodes the answer to an IPResolve.
func AppendGID(b []byte, seq uint32, g ib.GID) []byte {
	return attribute(header(b, IPResolve, 0, seq, attrLen+len(g)), attrDGID, g[:])
}

// AppendTimeout encodes a SetTimeout, which the kernel acknowledges.
func AppendTimeout(b []byte, seq uint32, d time.Duration) []byte {
	b = header(b, SetTimeout, flagRequest|flagAck, seq, 2*attrLen)
	return attribute(b, attrTimeout, binary.NativeEndian.AppendUint32(nil, uint32(d.Milliseconds())))
}
