// Package ib holds the values and the common headers that every InfiniBand
// management datagram (MAD) is made of: LIDs, GUIDs, GIDs, keys, port states,
// link speeds and widths, the 24-byte MAD header and the constants of the
// management classes.
//
// The attributes of each class live below: ib/smp (subnet management), ib/sa
// (subnet administration), ib/pm (performance). Everything here is a plain
// value: no I/O, no state, no goroutines, safe for concurrent use as any
// value is. Section numbers are those of the InfiniBand Architecture
// Specification, volume 1 (IBA).
package ib

import "strconv"

// LID is a local identifier, 16 bits. 0 means "not assigned".
type LID uint16

// The ranges of the LID space (IBA §4.1.3).
const (
	LIDNone         LID = 0
	LIDMinUnicast   LID = 0x0001
	LIDMaxUnicast   LID = 0xBFFF
	LIDMinMulticast LID = 0xC000
	LIDMaxMulticast LID = 0xFFFE
	LIDPermissive   LID = 0xFFFF
)

// IsUnicast reports whether l can be given to an end port.
func (l LID) IsUnicast() bool { return l >= LIDMinUnicast && l <= LIDMaxUnicast }

// IsMulticast reports whether l names a multicast group.
func (l LID) IsMulticast() bool { return l >= LIDMinMulticast && l <= LIDMaxMulticast }

// String prints the LID in decimal, as the field does for unicast LIDs, and
// multicast LIDs as 0xc000.
func (l LID) String() string {
	if l >= LIDMinMulticast {
		return "0x" + strconv.FormatUint(uint64(l), 16)
	}
	return strconv.Itoa(int(l))
}

// GUID is an EUI-64 that names a node, a port or a system image.
type GUID uint64

const hexDigits = "0123456789abcdef"

// AppendText appends 0x and 16 hex digits.
func (g GUID) AppendText(b []byte) ([]byte, error) {
	b = append(b, '0', 'x')
	for s := 60; s >= 0; s -= 4 {
		b = append(b, hexDigits[uint64(g)>>s&0xF])
	}
	return b, nil
}

// String prints 0x and 16 hex digits.
func (g GUID) String() string {
	var a [18]byte
	b, _ := g.AppendText(a[:0])
	return string(b)
}

// MarshalText implements encoding.TextMarshaler.
func (g GUID) MarshalText() ([]byte, error) { return g.AppendText(nil) }

// PKey is a partition key: bit 15 full membership, bits 14:0 the key.
type PKey uint16

// The default partition (IBA §10.9.1).
const (
	PKeyDefaultFull    PKey = 0xFFFF
	PKeyDefaultLimited PKey = 0x7FFF
)

// MKey is a management key, QKey a queue key.
type (
	MKey uint64
	QKey uint32
)

// QKeyGSI is the well-known Q_Key of QP1.
const QKeyGSI QKey = 0x80010000

// SL is a service level 0–15, VL a virtual lane 0–15 (15 is management).
type (
	SL uint8
	VL uint8
)

// SubnetPrefix is the upper half of a GID.
type SubnetPrefix uint64

// DefaultSubnetPrefix is fe80::/64.
const DefaultSubnetPrefix SubnetPrefix = 0xFE80000000000000

// NodeType is NodeInfo.NodeType.
type NodeType uint8

// The node types (IBA §14.2.5.3).
const (
	NodeCA     NodeType = 1
	NodeSwitch NodeType = 2
	NodeRouter NodeType = 3
)

// PortState is PortInfo.PortState; 0 in a Set means "no change".
type PortState uint8

// The port states (IBA §14.2.5.6). ActiveDefer is shown only to a requester
// that sets attribute modifier bit 15.
const (
	StateNoChange    PortState = 0
	StateDown        PortState = 1
	StateInit        PortState = 2
	StateArmed       PortState = 3
	StateActive      PortState = 4
	StateActiveDefer PortState = 5
)

// PhysState is PortInfo.PortPhysicalState; 0 in a Set means "no change".
type PhysState uint8

// The physical states (IBA §14.2.5.6). A Set takes 0 to 3 only.
const (
	PhysNoChange      PhysState = 0
	PhysSleep         PhysState = 1
	PhysPolling       PhysState = 2
	PhysDisabled      PhysState = 3
	PhysTraining      PhysState = 4
	PhysLinkUp        PhysState = 5
	PhysErrorRecovery PhysState = 6
	PhysTest          PhysState = 7
)

// MTU is an MTU code: 1 = 256 … 5 = 4096 bytes.
type MTU uint8

// The MTU codes.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes is the payload size, 0 for a code that is not defined.
func (m MTU) Bytes() int {
	if m < 1 || m > 5 {
		return 0
	}
	return 128 << m
}
