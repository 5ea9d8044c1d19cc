// Package cm has the messages of communication management: how two hosts agree on
// the numbers, paths and times of a connection (IBA volume 1, chapter 12).
//
// Each message is a datagram of class 0x07 and method Send; its 232 data bytes are a
// struct here, with Decode and Put. A message of another length is refused, reserved
// bits are ignored and written as 0.
package cm

import (
	"encoding/binary"

	"heddle/ib"
)

var be = binary.BigEndian

// Layout of a message.
const (
	ClassVersion = 2
	DataOffset   = 24
	DataLen      = ib.MADLen - DataOffset
)

// Attribute IDs of the messages (IBA table 104).
const (
	AttrREQ  ib.AttrID = 0x0010 // request for communication
	AttrMRA  ib.AttrID = 0x0011 // message receipt acknowledgment
	AttrREJ  ib.AttrID = 0x0012 // reject
	AttrREP  ib.AttrID = 0x0013 // reply to a request
	AttrRTU  ib.AttrID = 0x0014 // ready to use
	AttrDREQ ib.AttrID = 0x0015 // request to end communication
	AttrDREP ib.AttrID = 0x0016 // reply to that
	AttrLAP  ib.AttrID = 0x0019 // load alternate path
	AttrAPR  ib.AttrID = 0x001A // alternate path response
)

// New makes m a message with a transaction ID; the data area is 0.
func New(m *ib.MAD, attr ib.AttrID, tid uint64) {
	clear(m[:])
	m.SetHeader(ib.ClassCM, ClassVersion, ib.MethodSend, attr, 0)
	m.SetTID(tid)
}

// Data is the data area of a message.
func Data(m *ib.MAD) []byte { return m[DataOffset:ib.MADLen:ib.MADLen] }

// check refuses data of another length.
func check(typ string, b []byte) ([]byte, error) {
	switch {
	case len(b) < DataLen:
		return nil, &ib.DecodeError{Type: typ, Want: DataLen, Got: len(b), Err: ib.ErrShort}
	case len(b) > DataLen:
		return nil, &ib.DecodeError{Type: typ, Want: DataLen, Got: len(b), Err: ib.ErrLong}
	}
	return b[:DataLen], nil
}

func get24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func bit(b, mask byte) bool { return b&mask != 0 }

func flag(on bool, mask byte) byte {
	if on {
		return mask
	}
	return 0
}

// Path is a path as the sender of a message sees it.
type Path struct {
	LocalLID, RemoteLID ib.LID
	LocalGID, RemoteGID ib.GID
	FlowLabel           uint32 // 20 bits
	Rate                ib.Rate
	TrafficClass        uint8
	HopLimit            uint8
	SL                  ib.SL
	SubnetLocal         bool
	// AckTimeout is the code of the transport timer of the sender of requests on it: 5
	// bits, 4.096 µs·2ⁿ.
	AckTimeout uint8
}

// pathLen is the length of a path in REQ.
const pathLen = 44

func (p *Path) get(b []byte) {
	*p = Path{
		LocalLID: ib.LID(be.Uint16(b)), RemoteLID: ib.LID(be.Uint16(b[2:])), LocalGID: ib.GID(b[4:20]), RemoteGID: ib.GID(b[20:36]),
		FlowLabel: be.Uint32(b[36:]) >> 12, Rate: ib.Rate(b[39] & 0x3F), TrafficClass: b[40], HopLimit: b[41],
		SL: ib.SL(b[42] >> 4), SubnetLocal: bit(b[42], 0x08), AckTimeout: b[43] >> 3,
	}
}

func (p *Path) put(b []byte) {
	be.PutUint16(b, uint16(p.LocalLID))
	be.PutUint16(b[2:], uint16(p.RemoteLID))
	copy(b[4:20], p.LocalGID[:])
	copy(b[20:36], p.RemoteGID[:])
	be.PutUint32(b[36:], p.FlowLabel<<12)
	b[39] = byte(p.Rate) & 0x3F
	b[40], b[41] = p.TrafficClass, p.HopLimit
	b[42] = byte(p.SL&0xF)<<4 | flag(p.SubnetLocal, 0x08)
	b[43] = p.AckTimeout << 3
}

// Message says which message an MRA or REJ is about (2 bits).
type Message uint8

// The messages.
const (
	MessageREQ   Message = 0
	MessageREP   Message = 1
	MessageOther Message = 2 // REJ: none; MRA: LAP
)
