package smp

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"heddle/ib"
)

// Sizes of the attributes of this file in bytes.
const (
	NodeInfoLen        = 40
	NodeDescriptionLen = 64
)

// NodeInfo is the NodeInfo attribute, 40 bytes, read only (IBA §14.2.5.3).
// All but PortGUID and LocalPortNum are the same on every port of a node.
type NodeInfo struct {
	BaseVersion     uint8
	ClassVersion    uint8
	NodeType        ib.NodeType
	NumPorts        uint8 // physical ports, 1–254; a switch does not count port 0
	SystemImageGUID ib.GUID
	NodeGUID        ib.GUID
	PortGUID        ib.GUID // of the port that was asked; of port 0 on a switch
	PartitionCap    uint16  // P_Keys per CA port or switch port 0
	DeviceID        uint16
	Revision        uint32
	LocalPortNum    uint8  // the port on which the SMP arrived
	VendorID        uint32 // 24 bits: IEEE OUI
}

// Decode reads the attribute. It refuses a node type that does not exist, a port count outside
// 1–254 and a local port beyond the count: callers may index by them without further checks.
func (n *NodeInfo) Decode(b []byte) error {
	if len(b) != NodeInfoLen && len(b) != DataLen {
		return check("NodeInfo", b, NodeInfoLen)
	}
	b = b[:NodeInfoLen]
	switch {
	case b[2] < 1 || b[2] > 3:
		return ib.BadValue("NodeInfo", "NodeType", int(b[2]))
	case b[3] < 1 || b[3] > 254:
		return ib.BadValue("NodeInfo", "NumPorts", int(b[3]))
	case b[36] > b[3]:
		return ib.BadValue("NodeInfo", "LocalPortNum", int(b[36]))
	}
	n.get(b)
	return nil
}

// DecodeTemplate reads the attribute as a query of subnet administration
// carries it: any field may be 0, and nothing is checked but the length.
func (n *NodeInfo) DecodeTemplate(b []byte) error {
	if len(b) != NodeInfoLen && len(b) != DataLen {
		return check("NodeInfo", b, NodeInfoLen)
	}
	n.get(b[:NodeInfoLen])
	return nil
}

func (n *NodeInfo) get(b []byte) {
	be := binary.BigEndian
	lv := be.Uint32(b[36:])
	*n = NodeInfo{
		BaseVersion: b[0], ClassVersion: b[1], NodeType: ib.NodeType(b[2]), NumPorts: b[3],
		SystemImageGUID: ib.GUID(be.Uint64(b[4:])), NodeGUID: ib.GUID(be.Uint64(b[12:])),
		PortGUID: ib.GUID(be.Uint64(b[20:])), PartitionCap: be.Uint16(b[28:]), DeviceID: be.Uint16(b[30:]),
		Revision: be.Uint32(b[32:]), LocalPortNum: uint8(lv >> 24), VendorID: lv & 0xFFFFFF,
	}
}

// Put writes the 40 bytes.
func (n *NodeInfo) Put(b []byte) {
	b = b[:NodeInfoLen]
	be := binary.BigEndian
	b[0], b[1], b[2], b[3] = n.BaseVersion, n.ClassVersion, byte(n.NodeType), n.NumPorts
	be.PutUint64(b[4:], uint64(n.SystemImageGUID))
	be.PutUint64(b[12:], uint64(n.NodeGUID))
	be.PutUint64(b[20:], uint64(n.PortGUID))
	be.PutUint16(b[28:], n.PartitionCap)
	be.PutUint16(b[30:], n.DeviceID)
	be.PutUint32(b[32:], n.Revision)
	be.PutUint32(b[36:], uint32(n.LocalPortNum)<<24|n.VendorID&0xFFFFFF)
}

// NodeDescription is the NodeDescription attribute: 64 bytes UTF-8, padded
// with zeroes and not terminated when full (IBA §14.2.5.2).
type NodeDescription [NodeDescriptionLen]byte

// Decode reads the attribute.
func (d *NodeDescription) Decode(b []byte) error {
	if len(b) != NodeDescriptionLen {
		return check("NodeDescription", b, NodeDescriptionLen)
	}
	*d = NodeDescription(b)
	return nil
}

// Put writes the 64 bytes.
func (d *NodeDescription) Put(b []byte) { copy(b[:NodeDescriptionLen], d[:]) }

// Set stores s, cut to 64 bytes at a character border.
func (d *NodeDescription) Set(s string) {
	if len(s) > NodeDescriptionLen {
		n := NodeDescriptionLen
		for n > NodeDescriptionLen-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	*d = NodeDescription{}
	copy(d[:], s)
}

// String is the text up to the first zero byte. It comes from a stranger:
// bytes that are not UTF-8 and control characters are replaced.
func (d *NodeDescription) String() string {
	b := d[:]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	clean := utf8.Valid(b)
	for _, c := range b {
		clean = clean && c >= 0x20 && c != 0x7F
	}
	if clean {
		return string(b)
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7F && r < 0xA0 {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(string(b), string(utf8.RuneError)))
}
