// Package ipoib is IP over InfiniBand as Linux has it, and a stand-in for TCP above it.
//
// A Device is the network interface of a host or of a virtual machine (RFC 4391, RFC 4392): its
// link-layer address is a queue pair and a GID; it joins the broadcast group of its P_Key, asks for
// the link-layer address of an IP address there (ARP), asks the SA for the path to the GID, and
// sends datagrams (UD). Paths stay in a cache. A path whose LID has changed is replaced by a notice
// (W. L. Guay's thesis, Paper VI, algorithm 3), by an answer of the SA, or when it is too old; until
// then datagrams go to the old LID and are lost.
//
//	Stack ── Sender, Receiver: streams of bytes
//	  │ frames
//	Device ── neighbors (ARP) ── paths ◄── notices, answers of the SA
//	  │ Link.Send: LID, SL, QPN
//
// A Server is the physical machine: what its adapter sends in all, and what a byte costs its
// processor. Streams of the stacks of one server take turns.
//
// Everything here is pure: times, frames and notices go in.
package ipoib

import (
	"fmt"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// IP is an IPv4 address of 10.0.0.0/8: its low 24 bits.
type IP uint32

// String prints "10.0.1.7".
func (a IP) String() string { return fmt.Sprintf("10.%d.%d.%d", uint8(a>>16), uint8(a>>8), uint8(a)) }

// Hardware is a link-layer address (RFC 4391, §9.1.1).
type Hardware struct {
	QPN uint32
	GID ib.GID
}

// Path is what a datagram needs of a path record.
type Path struct {
	DLID ib.LID
	SL   ib.SL
}

// Address is where a datagram goes: to a queue pair, or to the broadcast group.
type Address struct {
	Path Path
	QPN  uint32
	QKey ib.QKey
	GID  ib.GID
}

// Kind is the kind of a frame.
type Kind uint8

// The kinds.
const (
	ARPRequest Kind = iota
	ARPReply
	Data // bytes of a stream
	Ack
)

// Frame is a packet.
type Frame struct {
	Kind     Kind
	From, To IP
	Hardware Hardware // ARP: that of From
	Stream   uint16
	// Seq is the place of the first byte in the stream; in an Ack, of the byte that is expected.
	// It has 64 bits, so no old packet is taken for a new one.
	Seq uint64
	Len int // bytes of the stream
}

const (
	arpBytes = 4 + 8 + 2*20 + 2*4 // with the header of IPoIB (RFC 4391, §9.1)
	tcpBytes = 4 + 20 + 32        // headers of IPoIB, IP, and TCP with time stamps
)

// Bytes is the length of the datagram.
func (f *Frame) Bytes() int {
	if f.Kind <= ARPReply {
		return arpBytes
	}
	return tcpBytes + f.Len
}

// Pack puts a frame without its Len, and without To unless it is ARP, into 64 and 56 bits: what a
// datagram of package adapter carries.
func (f *Frame) Pack() (message, more uint64) {
	more = uint64(f.Kind)<<54 | uint64(f.From&0xFFFFFF)<<30
	if f.Kind <= ARPReply {
		return uint64(f.Hardware.GID.GUID()), more | uint64(f.To&0xFFFFFF)
	}
	return f.Seq, more | uint64(f.Stream)
}

// Unpack is the inverse of Pack: for a datagram of so many bytes from a queue pair in the subnet
// with a prefix.
func (f *Frame) Unpack(message, more uint64, bytes int, qpn uint32, prefix ib.SubnetPrefix) {
	*f = Frame{Kind: Kind(more >> 54 & 3), From: IP(more >> 30 & 0xFFFFFF)}
	if f.Kind <= ARPReply {
		f.To, f.Hardware = IP(more&0xFFFFFF), Hardware{QPN: qpn, GID: ib.MakeGID(prefix, ib.GUID(message))}
		return
	}
	f.Stream, f.Seq, f.Len = uint16(more), message, bytes-tcpBytes
}

// Broadcast is the GID of the IPv4 broadcast group of a P_Key (RFC 4391, §4).
func Broadcast(key ib.PKey) ib.GID {
	g := ib.GID{0xFF, 0x12, 0x40, 0x1B, byte(key>>8) | 0x80, byte(key)}
	for i := 12; i < 16; i++ {
		g[i] = 0xFF
	}
	return g
}

// Link sends datagrams. It is false if the adapter refuses one, because its port is not active.
type Link interface {
	Send(now mad.Time, to Address, f *Frame) bool
}

// SA answers path queries and takes joins; a saclient.Client does. done may be called before the
// call returns.
type SA interface {
	Paths(now mad.Time, q *wire.PathRecord, mask wire.CompMask, one bool, done func(now mad.Time, list []wire.PathRecord, err error))
	Join(now mad.Time, group, port ib.GID, done func(now mad.Time, r wire.MCMemberRecord, err error))
}
