package smp

import (
	"encoding/binary"
	"strconv"

	"heddle/ib"
)

// SMInfoLen is the size of SMInfo in bytes.
const SMInfoLen = 21

// SMState is the state of a subnet manager (IBA §14.4.1).
type SMState uint8

// The states.
const (
	SMNotActive   SMState = 0
	SMDiscovering SMState = 1
	SMStandby     SMState = 2
	SMMaster      SMState = 3
)

// String prints the state in the specification's words.
func (s SMState) String() string {
	switch s {
	case SMNotActive:
		return "NotActive"
	case SMDiscovering:
		return "Discovering"
	case SMStandby:
		return "Standby"
	case SMMaster:
		return "Master"
	}
	return "SM state " + strconv.Itoa(int(s))
}

// SMInfo is the SMInfo attribute, 21 bytes (IBA §14.2.5.13). In a Set it
// describes the sender.
type SMInfo struct {
	GUID     ib.GUID // of the port the SM runs on
	SMKey    uint64  // 0 unless the requester is trusted
	ActCount uint32
	Priority uint8 // 4 bits, higher wins
	SMState  SMState
}

// Decode reads the attribute.
func (s *SMInfo) Decode(b []byte) error {
	if len(b) != SMInfoLen && len(b) != DataLen {
		return check("SMInfo", b, SMInfoLen)
	}
	b = b[:SMInfoLen]
	be := binary.BigEndian
	*s = SMInfo{
		GUID: ib.GUID(be.Uint64(b)), SMKey: be.Uint64(b[8:]), ActCount: be.Uint32(b[16:]),
		Priority: b[20] >> 4, SMState: SMState(b[20] & 0xF),
	}
	return nil
}

// Put writes the 21 bytes.
func (s *SMInfo) Put(b []byte) {
	b = b[:SMInfoLen]
	be := binary.BigEndian
	be.PutUint64(b, uint64(s.GUID))
	be.PutUint64(b[8:], s.SMKey)
	be.PutUint32(b[16:], s.ActCount)
	b[20] = s.Priority<<4 | byte(s.SMState)&0xF
}

// Beats reports whether s wins against t: the higher priority, then the lower
// GUID (IBA §14.4.1).
func (s *SMInfo) Beats(t *SMInfo) bool {
	if s.Priority != t.Priority {
		return s.Priority > t.Priority
	}
	return s.GUID < t.GUID
}
