package cm

import "heddle/ib"

// Service is the kind of transport that a REQ asks for (2 bits).
type Service uint8

// The kinds.
const (
	ServiceRC Service = 0
	ServiceUC Service = 1
	ServiceRD Service = 2
	// ServiceExtended is named by REQ.Extended.
	ServiceExtended Service = 3
)

// REQ asks for communication (IBA table 106).
type REQ struct {
	LocalID            uint32 // communication ID of the sender
	ServiceID          uint64
	LocalCA            ib.GUID
	QKey               uint32
	QPN                uint32 // 24 bits, of the sender
	ResponderResources uint8
	LocalEECN          uint32 // 24 bits
	InitiatorDepth     uint8
	RemoteEECN         uint32 // 24 bits
	RemoteTimeout      uint8  // 5 bits: how long the receiver may take to respond
	Service            Service
	FlowControl        bool   // the sender counts receives
	PSN                uint32 // 24 bits, of its first packet
	LocalTimeout       uint8  // 5 bits: how long the sender takes to respond
	Retries            uint8  // 3 bits
	PKey               ib.PKey
	MTU                ib.MTU // 4 bits
	RDCExists          bool
	RNRRetries         uint8 // 3 bits
	MaxCMRetries       uint8 // 4 bits
	SRQ                bool
	Extended           uint8 // 3 bits
	Primary, Alternate Path
	SAPSupported       bool
	PrivateData        [92]byte
}

// Decode reads the message.
func (r *REQ) Decode(b []byte) error {
	b, err := check("REQ", b)
	if err != nil {
		return err
	}
	*r = REQ{
		LocalID: be.Uint32(b), ServiceID: be.Uint64(b[8:]), LocalCA: ib.GUID(be.Uint64(b[16:])), QKey: be.Uint32(b[28:]),
		QPN: get24(b[32:]), ResponderResources: b[35], LocalEECN: get24(b[36:]), InitiatorDepth: b[39], RemoteEECN: get24(b[40:]),
		RemoteTimeout: b[43] >> 3, Service: Service(b[43] >> 1 & 3), FlowControl: bit(b[43], 1), PSN: get24(b[44:]),
		LocalTimeout: b[47] >> 3, Retries: b[47] & 7, PKey: ib.PKey(be.Uint16(b[48:])), MTU: ib.MTU(b[50] >> 4),
		RDCExists: bit(b[50], 0x08), RNRRetries: b[50] & 7, MaxCMRetries: b[51] >> 4, SRQ: bit(b[51], 0x08), Extended: b[51] & 7,
		SAPSupported: bit(b[139], 0x04), PrivateData: [92]byte(b[140:]),
	}
	r.Primary.get(b[52:])
	r.Alternate.get(b[52+pathLen:])
	return nil
}

// Put writes the 232 bytes.
func (r *REQ) Put(b []byte) {
	b = b[:DataLen]
	clear(b[:140])
	be.PutUint32(b, r.LocalID)
	be.PutUint64(b[8:], r.ServiceID)
	be.PutUint64(b[16:], uint64(r.LocalCA))
	be.PutUint32(b[28:], r.QKey)
	put24(b[32:], r.QPN)
	b[35] = r.ResponderResources
	put24(b[36:], r.LocalEECN)
	b[39] = r.InitiatorDepth
	put24(b[40:], r.RemoteEECN)
	b[43] = r.RemoteTimeout<<3 | byte(r.Service&3)<<1 | flag(r.FlowControl, 1)
	put24(b[44:], r.PSN)
	b[47] = r.LocalTimeout<<3 | r.Retries&7
	be.PutUint16(b[48:], uint16(r.PKey))
	b[50] = byte(r.MTU)<<4 | flag(r.RDCExists, 0x08) | r.RNRRetries&7
	b[51] = r.MaxCMRetries<<4 | flag(r.SRQ, 0x08) | r.Extended&7
	r.Primary.put(b[52:])
	r.Alternate.put(b[52+pathLen:])
	b[139] |= flag(r.SAPSupported, 0x04)
	copy(b[140:], r.PrivateData[:])
}

// REP replies to a REQ (IBA table 110).
type REP struct {
	LocalID, RemoteID  uint32
	QKey               uint32
	QPN                uint32 // 24 bits, of the sender
	EECN               uint32 // 24 bits
	PSN                uint32 // 24 bits
	ResponderResources uint8
	InitiatorDepth     uint8
	AckDelay           uint8 // 5 bits: how long its adapter takes to acknowledge
	Failover           uint8 // 2 bits: 0, the alternate path is accepted
	FlowControl        bool
	RNRRetries         uint8 // 3 bits
	SRQ                bool
	LocalCA            ib.GUID
	PrivateData        [196]byte
}

// Decode reads the message.
func (r *REP) Decode(b []byte) error {
	b, err := check("REP", b)
	if err != nil {
		return err
	}
	*r = REP{
		LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), QKey: be.Uint32(b[8:]), QPN: get24(b[12:]), EECN: get24(b[16:]),
		PSN: get24(b[20:]), ResponderResources: b[24], InitiatorDepth: b[25], AckDelay: b[26] >> 3, Failover: b[26] >> 1 & 3,
		FlowControl: bit(b[26], 1), RNRRetries: b[27] >> 5, SRQ: bit(b[27], 0x10), LocalCA: ib.GUID(be.Uint64(b[28:])),
		PrivateData: [196]byte(b[36:]),
	}
	return nil
}

// Put writes the 232 bytes.
func (r *REP) Put(b []byte) {
	b = b[:DataLen]
	clear(b[:36])
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	be.PutUint32(b[8:], r.QKey)
	put24(b[12:], r.QPN)
	put24(b[16:], r.EECN)
	put24(b[20:], r.PSN)
	b[24], b[25] = r.ResponderResources, r.InitiatorDepth
	b[26] = r.AckDelay<<3 | r.Failover&3<<1 | flag(r.FlowControl, 1)
	b[27] = r.RNRRetries<<5 | flag(r.SRQ, 0x10)
	be.PutUint64(b[28:], uint64(r.LocalCA))
	copy(b[36:], r.PrivateData[:])
}

// RTU ends the exchange: the sender of the REQ is ready (IBA table 111).
type RTU struct {
	LocalID, RemoteID uint32
	PrivateData       [224]byte
}

// Decode reads the message.
func (r *RTU) Decode(b []byte) error {
	b, err := check("RTU", b)
	if err != nil {
		return err
	}
	*r = RTU{LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), PrivateData: [224]byte(b[8:])}
	return nil
}

// Put writes the 232 bytes.
func (r *RTU) Put(b []byte) {
	b = b[:DataLen]
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	copy(b[8:], r.PrivateData[:])
}

// MRA says that a message has come and its answer takes longer (IBA table 107).
type MRA struct {
	LocalID, RemoteID uint32
	Message           Message
	Timeout           uint8 // 5 bits: how much longer, 4.096 µs·2ⁿ
	PrivateData       [222]byte
}

// Decode reads the message.
func (r *MRA) Decode(b []byte) error {
	b, err := check("MRA", b)
	if err != nil {
		return err
	}
	*r = MRA{LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), Message: Message(b[8] >> 6), Timeout: b[9] >> 3, PrivateData: [222]byte(b[10:])}
	return nil
}

// Put writes the 232 bytes.
func (r *MRA) Put(b []byte) {
	b = b[:DataLen]
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	b[8], b[9] = byte(r.Message)<<6, r.Timeout<<3
	copy(b[10:], r.PrivateData[:])
}

// Reason is why communication is refused (IBA table 109).
type Reason uint16

// Some reasons.
const (
	ReasonNoQP        Reason = 1
	ReasonNoResources Reason = 3
	ReasonTimeout     Reason = 4
	ReasonInvalidComm Reason = 6
	ReasonServiceID   Reason = 8
	ReasonStale       Reason = 10
	ReasonPrimaryLID  Reason = 13
	ReasonConsumer    Reason = 28
)

// REJ refuses communication (IBA table 108).
type REJ struct {
	LocalID, RemoteID uint32
	Message           Message
	InfoLength        uint8 // 7 bits: bytes of Info
	Reason            Reason
	Info              [72]byte
	PrivateData       [148]byte
}

// Decode reads the message.
func (r *REJ) Decode(b []byte) error {
	b, err := check("REJ", b)
	if err != nil {
		return err
	}
	*r = REJ{
		LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), Message: Message(b[8] >> 6), InfoLength: b[9] >> 1,
		Reason: Reason(be.Uint16(b[10:])), Info: [72]byte(b[12:]), PrivateData: [148]byte(b[84:]),
	}
	return nil
}

// Put writes the 232 bytes.
func (r *REJ) Put(b []byte) {
	b = b[:DataLen]
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	b[8], b[9] = byte(r.Message)<<6, r.InfoLength<<1
	be.PutUint16(b[10:], uint16(r.Reason))
	copy(b[12:84], r.Info[:])
	copy(b[84:], r.PrivateData[:])
}
