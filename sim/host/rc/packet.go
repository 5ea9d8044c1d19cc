package rc

import (
	"heddle/ib"
	"heddle/sim/dataplane"
)

// Time is that of the data plane.
type Time = dataplane.Time

// psnMask is for 24-bit sequence numbers (IBA §9.7.2).
const psnMask = 1<<24 - 1

// psnAfter is how far a lies after b, −2²³ … 2²³−1.
func psnAfter(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// psnAdd adds to a sequence number.
func psnAdd(a uint32, n int) uint32 { return (a + uint32(n)) & psnMask }

// Opcode is the operation of a packet (BTH, IBA §9.2.1).
type Opcode uint8

// The operations of a connection that sends.
const (
	SendFirst   Opcode = 0x00
	SendMiddle  Opcode = 0x01
	SendLast    Opcode = 0x02
	SendOnly    Opcode = 0x04
	Acknowledge Opcode = 0x11
)

// begins and ends report whether a request packet is the first or last of a message.
func (o Opcode) begins() bool { return o == SendFirst || o == SendOnly }
func (o Opcode) ends() bool   { return o == SendLast || o == SendOnly }

// Syndrome is that of the AETH (IBA §9.7.5.1.2): the kind in bits 6 and 5, and a
// credit count, an RNR timer or a NAK code below.
type Syndrome uint8

const (
	ackKind   Syndrome = 0 << 5
	rnrKind   Syndrome = 1 << 5
	nakKind   Syndrome = 3 << 5
	kindMask  Syndrome = 3 << 5
	valueMask Syndrome = 1<<5 - 1

	// NAKSequence is the NAK of a packet that is not the expected one.
	NAKSequence = nakKind
	// NAKInvalid is the NAK of a request that the responder cannot carry out.
	NAKInvalid = nakKind | 1
	// noCredits is the credit count of a responder that does not count.
	noCredits Syndrome = 31
)

// Packet is a packet of a connection: its BTH, its AETH if it acknowledges, and
// what it carries.
type Packet struct {
	Opcode    Opcode
	RemoteQPN uint32 // 24 bits: the destination QP
	PSN       uint32 // 24 bits
	AckReq    bool
	// MigReq is set by a QP in Migrated (IBA §17.2.8.1).
	MigReq   bool
	BECN     bool
	Syndrome Syndrome // with Acknowledge
	MSN      uint32   // with Acknowledge: 24 bits
	Length   int      // payload in bytes, at most 4096
	Message  uint64   // stands for the content
}

// HeaderBytes is the length of all headers and checks of a packet on the wire, in
// bytes: LRH, BTH, ICRC, VCRC, and AETH with Acknowledge.
func (p *Packet) HeaderBytes() int {
	if p.Opcode == Acknowledge {
		return dataplane.OverheadRC + 4
	}
	return dataplane.OverheadRC
}

// Path is the way to the other end: an address vector (IBA §11.2.2.1).
type Path struct {
	DLID ib.LID
	SL   ib.SL
}

// Pack writes the packet into a payload of the data plane; word 3 stays free.
func (p *Packet) Pack(w *dataplane.Payload) {
	w[0] = uint64(p.Opcode)<<56 | uint64(p.Syndrome)<<48 | uint64(p.RemoteQPN&psnMask)<<24 | uint64(p.PSN&psnMask)
	w[1] = uint64(p.MSN&psnMask)<<40 | uint64(p.Length)<<8 | bit(p.AckReq, 0) | bit(p.MigReq, 1) | bit(p.BECN, 2)
	w[2] = p.Message
}

// Unpack is the inverse of Pack.
func (p *Packet) Unpack(w *dataplane.Payload) {
	*p = Packet{
		Opcode: Opcode(w[0] >> 56), Syndrome: Syndrome(w[0] >> 48), RemoteQPN: uint32(w[0]>>24) & psnMask,
		PSN: uint32(w[0]) & psnMask, MSN: uint32(w[1]>>40) & psnMask, Length: int(w[1] >> 8 & 0xFFFF),
		AckReq: w[1]&1 != 0, MigReq: w[1]&2 != 0, BECN: w[1]&4 != 0, Message: w[2],
	}
}

func bit(on bool, n uint) uint64 {
	if on {
		return 1 << n
	}
	return 0
}

// AckTimeout is the transport timer of a code: 4.096 µs·2ⁿ, n 1 to 31; 0: never
// (IBA §9.9.2.1.1).
func AckTimeout(code uint8) Time {
	if code == 0 {
		return dataplane.Never
	}
	return 4096 * dataplane.Nanosecond << (code & 31)
}

// rnrTimes are the RNR NAK timers in units of 10 µs (IBA table 45).
var rnrTimes = [32]Time{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTime is how long a requester waits after an RNR NAK with a timer code.
func RNRTime(code uint8) Time { return rnrTimes[code&31] * 10 * dataplane.Microsecond }

// creditsOf is the number of receives that a credit code stands for (IBA table 46):
// 0, 1, 2, 3, 4, 6, 8, 12, … 32,768; negative: not counted.
func creditsOf(code Syndrome) int32 {
	switch {
	case code == noCredits:
		return -1
	case code < 2:
		return int32(code)
	}
	n := int32(1) << (code / 2)
	if code%2 == 1 {
		n += n / 2
	}
	return n
}

// creditCode is the largest code for at most n receives.
func creditCode(n int32) Syndrome {
	c := Syndrome(0)
	for c < noCredits-1 && creditsOf(c+1) <= n {
		c++
	}
	return c
}
