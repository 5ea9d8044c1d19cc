package sa

import (
	"bytes"

	"heddle/ib"
	"heddle/ib/smp"
)

// Sizes of the records of this file in bytes, padded.
const (
	MCMemberRecordLen   = 56
	ServiceRecordLen    = 176
	InformInfoLen       = 36
	InformInfoRecordLen = 64
	NoticeLen           = 80
)

// Component bits of MCMemberRecord.
const (
	MCMemberCompMGID           CompMask = 1 << 0
	MCMemberCompPortGID        CompMask = 1 << 1
	MCMemberCompQKey           CompMask = 1 << 2
	MCMemberCompMLID           CompMask = 1 << 3
	MCMemberCompMTUSelector    CompMask = 1 << 4
	MCMemberCompMTU            CompMask = 1 << 5
	MCMemberCompTClass         CompMask = 1 << 6
	MCMemberCompPKey           CompMask = 1 << 7
	MCMemberCompRateSelector   CompMask = 1 << 8
	MCMemberCompRate           CompMask = 1 << 9
	MCMemberCompLifeSelector   CompMask = 1 << 10
	MCMemberCompPacketLifeTime CompMask = 1 << 11
	MCMemberCompSL             CompMask = 1 << 12
	MCMemberCompFlowLabel      CompMask = 1 << 13
	MCMemberCompHopLimit       CompMask = 1 << 14
	MCMemberCompScope          CompMask = 1 << 15
	MCMemberCompJoinState      CompMask = 1 << 16
	MCMemberCompProxyJoin      CompMask = 1 << 17
)

// MCMemberRecord is a multicast group or a membership in one, 52 bytes
// (IBA §15.2.5.17).
type MCMemberRecord struct {
	MGID                   ib.GID
	PortGID                ib.GID
	QKey                   ib.QKey
	MLID                   ib.LID
	MTUSelector            uint8
	MTU                    ib.MTU
	TClass                 uint8
	PKey                   ib.PKey
	RateSelector           uint8
	Rate                   ib.Rate
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8
	SL                     ib.SL
	FlowLabel              uint32 // 20 bits
	HopLimit               uint8
	Scope                  uint8 // 4 bits
	JoinState              uint8 // 4 bits: JoinFull …
	ProxyJoin              bool
}

// Decode reads the record. ProxyJoin is bit 7 of byte 49, but OpenSM and
// saquery put it in bit 0: both are taken.
func (r *MCMemberRecord) Decode(b []byte) error {
	b, err := rec("MCMemberRecord", b, 52, MCMemberRecordLen)
	if err != nil {
		return err
	}
	w := be.Uint32(b[44:])
	*r = MCMemberRecord{
		MGID: ib.GID(b[0:16]), PortGID: ib.GID(b[16:32]), QKey: ib.QKey(be.Uint32(b[32:])),
		MLID: ib.LID(be.Uint16(b[36:])), MTUSelector: b[38] >> 6, MTU: ib.MTU(b[38] & 0x3F), TClass: b[39],
		PKey: ib.PKey(be.Uint16(b[40:])), RateSelector: b[42] >> 6, Rate: ib.Rate(b[42] & 0x3F),
		PacketLifeTimeSelector: b[43] >> 6, PacketLifeTime: b[43] & 0x3F,
		SL: ib.SL(w >> 28), FlowLabel: w >> 8 & 0xFFFFF, HopLimit: uint8(w),
		Scope: b[48] >> 4, JoinState: b[48] & 0xF, ProxyJoin: bit(b[49], 0x81),
	}
	return nil
}

// Put writes 56 bytes.
func (r *MCMemberRecord) Put(b []byte) {
	b = b[:MCMemberRecordLen]
	copy(b[0:16], r.MGID[:])
	copy(b[16:32], r.PortGID[:])
	be.PutUint32(b[32:], uint32(r.QKey))
	be.PutUint16(b[36:], uint16(r.MLID))
	b[38] = r.MTUSelector<<6 | byte(r.MTU)&0x3F
	b[39] = r.TClass
	be.PutUint16(b[40:], uint16(r.PKey))
	b[42] = r.RateSelector<<6 | byte(r.Rate)&0x3F
	b[43] = r.PacketLifeTimeSelector<<6 | r.PacketLifeTime&0x3F
	be.PutUint32(b[44:], uint32(r.SL&0xF)<<28|r.FlowLabel&0xFFFFF<<8|uint32(r.HopLimit))
	b[48] = r.Scope<<4 | r.JoinState&0xF
	b[49] = flag(r.ProxyJoin, 0x80)
	clear(b[50:])
}

// Component bits of ServiceRecord. The Data bits are 16 of Data8, 8 of
// Data16, 4 of Data32 and 2 of Data64, in this order from bit 7 on.
const (
	ServiceCompServiceID    CompMask = 1 << 0
	ServiceCompServiceGID   CompMask = 1 << 1
	ServiceCompServicePKey  CompMask = 1 << 2
	ServiceCompServiceLease CompMask = 1 << 4
	ServiceCompServiceKey   CompMask = 1 << 5
	ServiceCompServiceName  CompMask = 1 << 6
	ServiceCompData8_0      CompMask = 1 << 7
	ServiceCompData16_0     CompMask = 1 << 23
	ServiceCompData32_0     CompMask = 1 << 31
	ServiceCompData64_0     CompMask = 1 << 35
)

// ServiceLeaseForever as ServiceLease never ends.
const ServiceLeaseForever uint32 = 0xFFFFFFFF

// ServiceRecord is the record of that name, 176 bytes (IBA §15.2.5).
type ServiceRecord struct {
	ServiceID    uint64
	ServiceGID   ib.GID
	ServicePKey  ib.PKey
	ServiceLease uint32 // seconds
	ServiceKey   [16]byte
	ServiceName  [64]byte // UTF-8, padded with zeroes
	Data8        [16]uint8
	Data16       [8]uint16
	Data32       [4]uint32
	Data64       [2]uint64
}

// Name is ServiceName up to the first zero byte, as it came.
func (r *ServiceRecord) Name() string {
	b, _, _ := bytes.Cut(r.ServiceName[:], []byte{0})
	return string(b)
}

// Decode reads the record.
func (r *ServiceRecord) Decode(b []byte) error {
	b, err := rec("ServiceRecord", b, ServiceRecordLen, ServiceRecordLen)
	if err != nil {
		return err
	}
	*r = ServiceRecord{
		ServiceID: be.Uint64(b), ServiceGID: ib.GID(b[8:24]), ServicePKey: ib.PKey(be.Uint16(b[24:])),
		ServiceLease: be.Uint32(b[28:]), ServiceKey: [16]byte(b[32:48]), ServiceName: [64]byte(b[48:112]),
		Data8: [16]uint8(b[112:128]),
	}
	for i := range r.Data16 {
		r.Data16[i] = be.Uint16(b[128+2*i:])
	}
	for i := range r.Data32 {
		r.Data32[i] = be.Uint32(b[144+4*i:])
	}
	for i := range r.Data64 {
		r.Data64[i] = be.Uint64(b[160+8*i:])
	}
	return nil
}

// Put writes the 176 bytes.
func (r *ServiceRecord) Put(b []byte) {
	b = b[:ServiceRecordLen]
	be.PutUint64(b, r.ServiceID)
	copy(b[8:24], r.ServiceGID[:])
	be.PutUint32(b[24:], uint32(r.ServicePKey)<<16)
	be.PutUint32(b[28:], r.ServiceLease)
	copy(b[32:48], r.ServiceKey[:])
	copy(b[48:112], r.ServiceName[:])
	copy(b[112:128], r.Data8[:])
	for i, v := range r.Data16 {
		be.PutUint16(b[128+2*i:], v)
	}
	for i, v := range r.Data32 {
		be.PutUint32(b[144+4*i:], v)
	}
	for i, v := range r.Data64 {
		be.PutUint64(b[160+8*i:], v)
	}
}

// Wildcards of InformInfo.
const (
	InformAllLIDs      ib.LID = 0xFFFF
	InformAllTypes     uint16 = 0xFFFF
	InformAllTraps     uint16 = 0xFFFF
	InformAllProducers uint32 = 0xFFFFFF
)

// InformInfo subscribes to notices, 36 bytes (IBA §13.4.8.3).
type InformInfo struct {
	GID           ib.GID // 0: use the LID range
	LIDRangeBegin ib.LID // 0xFFFF all
	LIDRangeEnd   ib.LID
	IsGeneric     uint8 // 1 generic, 0 vendor
	Subscribe     uint8 // 1 subscribe, 0 unsubscribe
	Type          uint16
	TrapNumber    uint16 // or DeviceID
	QPN           uint32 // 24 bits
	RespTimeValue uint8  // 5 bits
	Producer      uint32 // ProducerType or VendorID, 24 bits
}

func (r *InformInfo) get(b []byte) {
	q := be.Uint32(b[28:])
	*r = InformInfo{
		GID: ib.GID(b[0:16]), LIDRangeBegin: ib.LID(be.Uint16(b[16:])), LIDRangeEnd: ib.LID(be.Uint16(b[18:])),
		IsGeneric: b[22], Subscribe: b[23], Type: be.Uint16(b[24:]), TrapNumber: be.Uint16(b[26:]),
		QPN: q >> 8, RespTimeValue: uint8(q) & 0x1F, Producer: be.Uint32(b[32:]) & 0xFFFFFF,
	}
}

// Decode reads the attribute.
func (r *InformInfo) Decode(b []byte) error {
	b, err := rec("InformInfo", b, InformInfoLen, InformInfoLen)
	if err != nil {
		return err
	}
	r.get(b)
	return nil
}

// Put writes the 36 bytes.
func (r *InformInfo) Put(b []byte) {
	b = b[:InformInfoLen]
	copy(b[0:16], r.GID[:])
	be.PutUint16(b[16:], uint16(r.LIDRangeBegin))
	be.PutUint16(b[18:], uint16(r.LIDRangeEnd))
	b[20], b[21], b[22], b[23] = 0, 0, r.IsGeneric, r.Subscribe
	be.PutUint16(b[24:], r.Type)
	be.PutUint16(b[26:], r.TrapNumber)
	be.PutUint32(b[28:], r.QPN<<8|uint32(r.RespTimeValue&0x1F))
	be.PutUint32(b[32:], r.Producer&0xFFFFFF)
}

// Component bits of InformInfoRecord.
const (
	InformCompSubscriberGID CompMask = 1 << 0
	InformCompEnum          CompMask = 1 << 1
	InformCompGID           CompMask = 1 << 3
	InformCompLIDRangeBegin CompMask = 1 << 4
	InformCompLIDRangeEnd   CompMask = 1 << 5
	InformCompIsGeneric     CompMask = 1 << 7
	InformCompSubscribe     CompMask = 1 << 8
	InformCompType          CompMask = 1 << 9
	InformCompTrapNumber    CompMask = 1 << 10
	InformCompQPN           CompMask = 1 << 11
	InformCompRespTime      CompMask = 1 << 13
	InformCompProducer      CompMask = 1 << 15
)

// InformInfoRecord is a subscription, 60 bytes (IBA §15.2.5).
type InformInfoRecord struct {
	SubscriberGID ib.GID
	Enum          uint16
	InformInfo    InformInfo
}

// Decode reads the record.
func (r *InformInfoRecord) Decode(b []byte) error {
	b, err := rec("InformInfoRecord", b, 60, InformInfoRecordLen)
	if err != nil {
		return err
	}
	r.SubscriberGID, r.Enum = ib.GID(b[0:16]), be.Uint16(b[16:])
	r.InformInfo.get(b[24:60])
	return nil
}

// Put writes 64 bytes.
func (r *InformInfoRecord) Put(b []byte) {
	b = b[:InformInfoRecordLen]
	copy(b[0:16], r.SubscriberGID[:])
	be.PutUint64(b[16:], uint64(r.Enum)<<48)
	r.InformInfo.Put(b[24:])
	clear(b[60:])
}

// Notice is the Notice attribute as Reports carry it, 80 bytes: that of
// SMPs and the GID of the issuer (IBA §13.4.8.2). Reports of traps 68 and 69
// have a PathRecord behind it.
type Notice struct {
	smp.Notice
	IssuerGID ib.GID
}

// Decode reads the attribute.
func (n *Notice) Decode(b []byte) error {
	b, err := rec("Notice", b, NoticeLen, NoticeLen)
	if err != nil {
		return err
	}
	n.IssuerGID = ib.GID(b[64:80])
	return n.Notice.Decode(b[:64])
}

// Put writes the 80 bytes.
func (n *Notice) Put(b []byte) {
	b = b[:NoticeLen]
	n.Notice.Put(b)
	copy(b[64:80], n.IssuerGID[:])
}
