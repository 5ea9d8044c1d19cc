package mad

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"heddle/ib"
)

// RMPP header fields of a MAD, from byte 24 (IBA §13.6.2).
const (
	offRMPPVersion = 24
	offRMPPType    = 25
	offRMPPFlags   = 26 // RRespTime in the upper 5 bits
	offRMPPStatus  = 27
	offRMPPData1   = 28 // DATA: segment number
	offRMPPData2   = 32 // DATA: payload length; ACK: new window last
	rmppHeaderEnd  = 36
)

// RMPPType is the type of an RMPP packet.
type RMPPType uint8

const (
	RMPPNone  RMPPType = 0 // no RMPP: an ordinary MAD
	RMPPData  RMPPType = 1
	RMPPAck   RMPPType = 2
	RMPPStop  RMPPType = 3
	RMPPAbort RMPPType = 4
)

// Flags of an RMPP packet.
const (
	RMPPActive uint8 = 1
	RMPPFirst  uint8 = 2
	RMPPLast   uint8 = 4
)

// RMPPStatus is the reason of a STOP or ABORT.
type RMPPStatus uint8

const (
	RMPPResources    RMPPStatus = 1 // in a STOP
	RMPPTooLong      RMPPStatus = 118
	RMPPBadLength    RMPPStatus = 119
	RMPPBadSegment   RMPPStatus = 120
	RMPPBadType      RMPPStatus = 121
	RMPPWindowSmall  RMPPStatus = 122
	RMPPSegmentBig   RMPPStatus = 123
	RMPPBadStatus    RMPPStatus = 124
	RMPPBadVersion   RMPPStatus = 125
	RMPPTooManyTries RMPPStatus = 126
	RMPPUnspecified  RMPPStatus = 127
)

func (s RMPPStatus) String() string {
	switch s {
	case RMPPResources:
		return "resources exhausted"
	case RMPPTooLong:
		return "total time too long"
	case RMPPBadLength:
		return "inconsistent last segment or payload length"
	case RMPPBadSegment:
		return "inconsistent first segment or segment number"
	case RMPPBadType:
		return "bad RMPP type"
	case RMPPWindowSmall:
		return "new window last too small"
	case RMPPSegmentBig:
		return "segment number too big"
	case RMPPBadStatus:
		return "illegal status"
	case RMPPBadVersion:
		return "unsupported version"
	case RMPPTooManyTries:
		return "too many retries"
	case RMPPUnspecified:
		return "unspecified"
	}
	return "status"
}

// RMPPError ends a transfer.
type RMPPError struct {
	Type   RMPPType // RMPPStop or RMPPAbort
	Status RMPPStatus
	ByPeer bool
}

func (e *RMPPError) Error() string {
	what, who := "aborted", "by us"
	if e.Type == RMPPStop {
		what = "stopped"
	}
	if e.ByPeer {
		who = "by the peer"
	}
	return fmt.Sprintf("mad: RMPP transfer %s %s: %v (%d)", what, who, e.Status, uint8(e.Status))
}

// RMPPTypeOf is the RMPP type of a MAD; RMPPNone if its class has no RMPP or
// the Active flag is clear. Check it before the method: the ACK of a
// GetTableResp has the method GetTable.
func RMPPTypeOf(m *ib.MAD) RMPPType {
	if RMPPHeaderLen(m.Class()) == 0 || m[offRMPPFlags]&RMPPActive == 0 {
		return RMPPNone
	}
	return RMPPType(m[offRMPPType])
}

// RMPPHeaderLen is how many bytes of a MAD of class c every segment repeats:
// 56 for the SA, 64 for device management, 40 for the vendor classes with an
// OUI. 0: the class has no RMPP.
func RMPPHeaderLen(c ib.Class) int {
	switch {
	case c == ib.ClassSA:
		return 56
	case c == ib.ClassDM, c == 0x10, c == 0x12:
		return 64
	case c >= 0x30 && c <= 0x4F:
		return 40
	}
	return 0
}

// RMPPSegments is how many segments a message with n bytes after the header
// takes; one if there are none.
func RMPPSegments(c ib.Class, n int) int {
	d := ib.MADLen - RMPPHeaderLen(c)
	return max(1, (n+d-1)/d)
}

// RMPPConfig holds the times and limits of RMPP transfers. The zero value of
// a field means its default, which is the Linux kernel's where it has one.
type RMPPConfig struct {
	// AckTimeout is the longest wait of a sender for an ACK, default 2 s. It gives
	// up after Retries+1 time-outs without progress.
	AckTimeout time.Duration
	// Retries, default 3; negative means none.
	Retries int
	// MinAckTimeout is the shortest wait before a sender repeats a window, used if
	// ACKs came quickly; default 20 ms. Set it to AckTimeout for the kernel's
	// fixed time-out.
	MinAckTimeout time.Duration
	// Window is the number of segments by which an ACK opens the window; default
	// 64.
	Window int
	// RecvTimeout bounds a whole reception; default 40 s, like the kernel's. A
	// message above 16 MiB gets as much again for each 16 MiB that has arrived. A
	// sender gives up AckTimeout later at the latest, counted from the first ACK.
	RecvTimeout time.Duration
	// Linger is how long a finished reception still acknowledges repeated
	// segments, default 10 s.
	Linger time.Duration
	// MaxBytes bounds the data of a received message; default 16 MiB (a table
	// of the largest subnet takes 11 MB).
	MaxBytes int
	// MaxTransfers bounds the simultaneous transfers of an RMPP port in each
	// direction, MaxPerPeer those with one LID; default 1024 and 64. Complete
	// receptions do not count. See RMPP for the share of a peer.
	MaxTransfers, MaxPerPeer int
	// MaxSending and MaxReceiving bound the bytes of all messages of an RMPP port
	// in each direction; default 256 MiB and 64 MiB. A single message is sent
	// regardless of its length, and the last message received may exceed the bound
	// by up to MaxBytes.
	MaxSending, MaxReceiving int
	// Burst is how many segments a sender sends in a row, even if its window
	// permits more, before other transfers may send; default 64.
	Burst int
}

// perRecvTimeout is how many bytes of a message must arrive in RecvTimeout.
const perRecvTimeout = 16 << 20

// recvTime is the time limit of a transfer of which n bytes have arrived.
func (c *RMPPConfig) recvTime(n int) time.Duration {
	return c.RecvTimeout * time.Duration(1+n/perRecvTimeout)
}

func (c *RMPPConfig) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.AckTimeout, 2*time.Second)
	def(&c.MinAckTimeout, 20*time.Millisecond)
	def(&c.RecvTimeout, 40*time.Second)
	def(&c.Linger, 10*time.Second)
	c.MinAckTimeout = min(c.MinAckTimeout, c.AckTimeout)
	if c.Retries == 0 {
		c.Retries = 3
	}
	for _, x := range []struct {
		v   *int
		def int
	}{
		{&c.Window, 64},
		{&c.MaxBytes, 16 << 20},
		{&c.MaxTransfers, 1024},
		{&c.MaxPerPeer, 64},
		{&c.MaxSending, 256 << 20},
		{&c.MaxReceiving, 64 << 20},
		{&c.Burst, 64},
	} {
		if *x.v <= 0 {
			*x.v = x.def
		}
	}
}

// withDefaults returns the configuration of a stand-alone sender or receiver.
func (c *RMPPConfig) withDefaults() *RMPPConfig {
	var d RMPPConfig
	if c != nil {
		d = *c
	}
	d.setDefaults()
	return &d
}

// ErrNoRMPP: the class of a message has no RMPP, or the message is shorter
// than its header.
var ErrNoRMPP = errors.New("mad: message cannot be segmented")

func putRMPP(m *ib.MAD, t RMPPType, flags uint8, st RMPPStatus, data1, data2 uint32) {
	m[offRMPPVersion] = 1
	m[offRMPPType] = byte(t)
	m[offRMPPFlags] = m[offRMPPFlags]&0xF8 | flags | RMPPActive
	m[offRMPPStatus] = byte(st)
	binary.BigEndian.PutUint32(m[offRMPPData1:], data1)
	binary.BigEndian.PutUint32(m[offRMPPData2:], data2)
}

func rmppData(m *ib.MAD) (data1, data2 uint32) {
	return binary.BigEndian.Uint32(m[offRMPPData1:]), binary.BigEndian.Uint32(m[offRMPPData2:])
}

// rmppReply initializes out as an ACK, STOP or ABORT in response to in: its
// header with the R bit toggled.
func rmppReply(out, in *ib.MAD) {
	n := copy(out[:], in[:max(RMPPHeaderLen(in.Class()), rmppHeaderEnd)])
	clear(out[n:])
	out.SetMethod(in.Method() ^ ib.MethodResponseBit)
	out[offRMPPFlags] = 0xF8 // RRespTime: none
}
