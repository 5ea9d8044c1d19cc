package cc

import "heddle/ib"

// CongestionLogLen is the size of a CongestionLog in bytes.
const CongestionLogLen = 220

// LogType tells which of the two logs a node keeps.
const (
	LogSwitch uint8 = 1
	LogCA     uint8 = 2
)

// NumSwitchEvents and NumCAEvents are how many events a log holds.
const (
	NumSwitchEvents = 15
	NumCAEvents     = 13
)

// SwitchEvent is a flow of which a switch marked a packet.
type SwitchEvent struct {
	SLID, DLID ib.LID
	SL         ib.SL
	Time       uint32 // in TimeUnit
}

// SwitchLog is the CongestionLog of a switch, 220 bytes.
type SwitchLog struct {
	Type   uint8 // LogSwitch
	Flags  uint8
	Events uint16 // since the log was last read
	Now    uint32 // in TimeUnit
	Ports  PortMask
	Event  [NumSwitchEvents]SwitchEvent
}

// Decode reads the log. Its caller looks at Type.
func (l *SwitchLog) Decode(b []byte) error {
	if len(b) != CongestionLogLen && len(b) != LogLen {
		return ib.CheckLen("CongestionLog", b, CongestionLogLen, LogLen)
	}
	l.Type, l.Flags, l.Events, l.Now = b[0], b[1], be.Uint16(b[2:]), be.Uint32(b[4:])
	l.Ports = PortMask(b[8:40])
	for i := range l.Event {
		e := b[40+12*i : 52+12*i]
		l.Event[i] = SwitchEvent{
			SLID: ib.LID(be.Uint16(e)), DLID: ib.LID(be.Uint16(e[2:])), SL: ib.SL(e[4] >> 4), Time: be.Uint32(e[8:]),
		}
	}
	return nil
}

// Put writes the 220 bytes.
func (l *SwitchLog) Put(b []byte) {
	b = b[:CongestionLogLen]
	b[0], b[1] = l.Type, l.Flags
	be.PutUint16(b[2:], l.Events)
	be.PutUint32(b[4:], l.Now)
	copy(b[8:40], l.Ports[:])
	for i := range l.Event {
		v, e := &l.Event[i], b[40+12*i:52+12*i]
		clear(e)
		be.PutUint16(e, uint16(v.SLID))
		be.PutUint16(e[2:], uint16(v.DLID))
		e[4] = uint8(v.SL) << 4
		be.PutUint32(e[8:], v.Time)
	}
}

// CAEvent is a queue pair that passed its trigger. Two layouts are in use; this one is
// of libibmad, which the diagnostic tools read.
type CAEvent struct {
	LocalQP     uint32 // 24 bits
	SL          ib.SL
	ServiceType uint8  // 4 bits
	RemoteQP    uint32 // 24 bits
	LocalLID    ib.LID
	RemoteLID   ib.LID
	Time        uint32 // in TimeUnit
}

// CALog is the CongestionLog of a channel adapter, 220 bytes.
type CALog struct {
	Type     uint8 // LogCA
	Flags    uint8
	Events   uint16 // since the log was last read
	EventMap uint16 // bit n: SL n passed its trigger
	Now      uint32 // in TimeUnit
	Event    [NumCAEvents]CAEvent
}

// Decode reads the log. Its caller looks at Type.
func (l *CALog) Decode(b []byte) error {
	if len(b) != CongestionLogLen && len(b) != LogLen {
		return ib.CheckLen("CongestionLog", b, CongestionLogLen, LogLen)
	}
	l.Type, l.Flags, l.Events, l.EventMap, l.Now = b[0], b[1], be.Uint16(b[2:]), be.Uint16(b[4:]), be.Uint32(b[8:])
	for i := range l.Event {
		e := b[12+16*i : 28+16*i]
		l.Event[i] = CAEvent{
			LocalQP: be.Uint32(e) >> 8, SL: ib.SL(e[3] >> 4), ServiceType: e[3] & 0xF, RemoteQP: be.Uint32(e[4:]) >> 8,
			LocalLID: ib.LID(be.Uint16(e[8:])), RemoteLID: ib.LID(be.Uint16(e[10:])), Time: be.Uint32(e[12:]),
		}
	}
	return nil
}

// Put writes the 220 bytes.
func (l *CALog) Put(b []byte) {
	b = b[:CongestionLogLen]
	b[0], b[1] = l.Type, l.Flags
	be.PutUint16(b[2:], l.Events)
	be.PutUint16(b[4:], l.EventMap)
	be.PutUint16(b[6:], 0)
	be.PutUint32(b[8:], l.Now)
	for i := range l.Event {
		v, e := &l.Event[i], b[12+16*i:28+16*i]
		be.PutUint32(e, v.LocalQP<<8|uint32(v.SL&0xF)<<4|uint32(v.ServiceType&0xF))
		be.PutUint32(e[4:], v.RemoteQP<<8)
		be.PutUint16(e[8:], uint16(v.LocalLID))
		be.PutUint16(e[10:], uint16(v.RemoteLID))
		be.PutUint32(e[12:], v.Time)
	}
}
