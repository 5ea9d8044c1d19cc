package sa

import "heddle/ib"

// PathRecordLen is the size of PathRecord in bytes.
const PathRecordLen = 64

// Component bits of PathRecord. A query gives both ServiceID bits or neither.
const (
	PathCompServiceID8     CompMask = 1 << 0 // 8 most significant bits
	PathCompServiceID56    CompMask = 1 << 1 // 56 least significant bits
	PathCompDGID           CompMask = 1 << 2
	PathCompSGID           CompMask = 1 << 3
	PathCompDLID           CompMask = 1 << 4
	PathCompSLID           CompMask = 1 << 5
	PathCompRawTraffic     CompMask = 1 << 6
	PathCompReserved       CompMask = 1 << 7 // see PathRecord.Reserved3
	PathCompFlowLabel      CompMask = 1 << 8
	PathCompHopLimit       CompMask = 1 << 9
	PathCompTClass         CompMask = 1 << 10
	PathCompReversible     CompMask = 1 << 11
	PathCompNumbPath       CompMask = 1 << 12
	PathCompPKey           CompMask = 1 << 13
	PathCompQoSClass       CompMask = 1 << 14
	PathCompSL             CompMask = 1 << 15
	PathCompMTUSelector    CompMask = 1 << 16
	PathCompMTU            CompMask = 1 << 17
	PathCompRateSelector   CompMask = 1 << 18
	PathCompRate           CompMask = 1 << 19
	PathCompLifeSelector   CompMask = 1 << 20
	PathCompPacketLifeTime CompMask = 1 << 21
	PathCompPreference     CompMask = 1 << 22
)

// PathRecord is the record of that name, 64 bytes (IBA §15.2.5.16).
type PathRecord struct {
	ServiceID  uint64
	DGID, SGID ib.GID
	DLID, SLID ib.LID
	RawTraffic bool
	// Reserved3 is the reserved field before FlowLabel (3 bits, byte 44 mask
	// 0x70). The path-caching scheme of Tasoulas et al. uses it as the
	// permission to cache, so it is kept; everyone else sends 0.
	Reserved3              uint8
	FlowLabel              uint32 // 20 bits
	HopLimit               uint8
	TClass                 uint8
	Reversible             bool
	NumbPath               uint8 // 7 bits
	PKey                   ib.PKey
	QoSClass               uint16 // 12 bits
	SL                     ib.SL
	MTUSelector            uint8 // 2 bits: SelGreater …
	MTU                    ib.MTU
	RateSelector           uint8
	Rate                   ib.Rate
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8 // 6 bits: 4.096 µs × 2^n
	Preference             uint8
}

// Decode reads the record.
func (r *PathRecord) Decode(b []byte) error {
	b, err := rec("PathRecord", b, PathRecordLen, PathRecordLen)
	if err != nil {
		return err
	}
	w := be.Uint32(b[44:])
	q := be.Uint16(b[52:])
	*r = PathRecord{
		ServiceID: be.Uint64(b), DGID: ib.GID(b[8:24]), SGID: ib.GID(b[24:40]),
		DLID: ib.LID(be.Uint16(b[40:])), SLID: ib.LID(be.Uint16(b[42:])),
		RawTraffic: w>>31 != 0, Reserved3: uint8(w >> 28 & 7), FlowLabel: w >> 8 & 0xFFFFF, HopLimit: uint8(w),
		TClass: b[48], Reversible: bit(b[49], 0x80), NumbPath: b[49] & 0x7F, PKey: ib.PKey(be.Uint16(b[50:])),
		QoSClass: q >> 4, SL: ib.SL(q & 0xF), MTUSelector: b[54] >> 6, MTU: ib.MTU(b[54] & 0x3F),
		RateSelector: b[55] >> 6, Rate: ib.Rate(b[55] & 0x3F),
		PacketLifeTimeSelector: b[56] >> 6, PacketLifeTime: b[56] & 0x3F, Preference: b[57],
	}
	return nil
}

// Put writes the 64 bytes.
func (r *PathRecord) Put(b []byte) {
	b = b[:PathRecordLen]
	be.PutUint64(b, r.ServiceID)
	copy(b[8:24], r.DGID[:])
	copy(b[24:40], r.SGID[:])
	be.PutUint16(b[40:], uint16(r.DLID))
	be.PutUint16(b[42:], uint16(r.SLID))
	w := uint32(r.Reserved3&7)<<28 | r.FlowLabel&0xFFFFF<<8 | uint32(r.HopLimit)
	if r.RawTraffic {
		w |= 1 << 31
	}
	be.PutUint32(b[44:], w)
	b[48] = r.TClass
	b[49] = flag(r.Reversible, 0x80) | r.NumbPath&0x7F
	be.PutUint16(b[50:], uint16(r.PKey))
	be.PutUint16(b[52:], r.QoSClass<<4|uint16(r.SL&0xF))
	b[54] = r.MTUSelector<<6 | byte(r.MTU)&0x3F
	b[55] = r.RateSelector<<6 | byte(r.Rate)&0x3F
	b[56] = r.PacketLifeTimeSelector<<6 | r.PacketLifeTime&0x3F
	b[57] = r.Preference
	clear(b[58:])
}

// MaxMultiPathGIDs is how many GIDs fit in one MAD.
const MaxMultiPathGIDs = 11

const multiPathFixed = 24

// MultiPathRecordLen is the size of the largest MultiPathRecord in bytes.
const MultiPathRecordLen = multiPathFixed + 16*MaxMultiPathGIDs

// Component bits of MultiPathRecord.
const (
	MultiPathCompRawTraffic     CompMask = 1 << 0
	MultiPathCompFlowLabel      CompMask = 1 << 2
	MultiPathCompHopLimit       CompMask = 1 << 3
	MultiPathCompTClass         CompMask = 1 << 4
	MultiPathCompReversible     CompMask = 1 << 5
	MultiPathCompNumbPath       CompMask = 1 << 6
	MultiPathCompPKey           CompMask = 1 << 7
	MultiPathCompQoSClass       CompMask = 1 << 8
	MultiPathCompSL             CompMask = 1 << 9
	MultiPathCompMTUSelector    CompMask = 1 << 10
	MultiPathCompMTU            CompMask = 1 << 11
	MultiPathCompRateSelector   CompMask = 1 << 12
	MultiPathCompRate           CompMask = 1 << 13
	MultiPathCompLifeSelector   CompMask = 1 << 14
	MultiPathCompPacketLifeTime CompMask = 1 << 15
	MultiPathCompServiceID8     CompMask = 1 << 16
	MultiPathCompIndependence   CompMask = 1 << 17
	MultiPathCompSGIDCount      CompMask = 1 << 19
	MultiPathCompDGIDCount      CompMask = 1 << 20
	MultiPathCompServiceID56    CompMask = 1 << 21
)

// MultiPathRecord is a query for paths between sets of ports, 24 bytes and 16
// for each GID (IBA §15.2.5). The answer is PathRecords.
type MultiPathRecord struct {
	RawTraffic             bool
	FlowLabel              uint32 // 20 bits
	HopLimit               uint8
	TClass                 uint8
	Reversible             bool
	NumbPath               uint8 // 7 bits
	PKey                   ib.PKey
	QoSClass               uint16 // 12 bits
	SL                     ib.SL
	MTUSelector            uint8
	MTU                    ib.MTU
	RateSelector           uint8
	Rate                   ib.Rate
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8
	ServiceID              uint64
	IndependenceSelector   uint8 // 2 bits
	SGIDCount, DGIDCount   uint8
	// GIDs has SGIDCount sources, then DGIDCount destinations; the rest is 0.
	GIDs [MaxMultiPathGIDs]ib.GID
}

// SGIDs are the sources.
func (r *MultiPathRecord) SGIDs() []ib.GID { return r.GIDs[:r.SGIDCount] }

// DGIDs are the destinations.
func (r *MultiPathRecord) DGIDs() []ib.GID {
	return r.GIDs[r.SGIDCount : r.SGIDCount+r.DGIDCount]
}

// Len is the size of the record in bytes.
func (r *MultiPathRecord) Len() int {
	return multiPathFixed + 16*(int(r.SGIDCount)+int(r.DGIDCount))
}

// Decode reads the record: exactly as long as its counts say, or a whole data
// area. More GIDs than MaxMultiPathGIDs are refused.
func (r *MultiPathRecord) Decode(b []byte) error {
	if len(b) < multiPathFixed {
		return ib.CheckLen("MultiPathRecord", b, multiPathFixed)
	}
	n := int(b[15]) + int(b[16])
	if n > MaxMultiPathGIDs {
		return ib.BadValue("MultiPathRecord", "SGIDCount+DGIDCount", n)
	}
	if want := multiPathFixed + 16*n; len(b) != want && len(b) != DataLen {
		return ib.CheckLen("MultiPathRecord", b, want)
	}
	w := be.Uint32(b)
	q := be.Uint16(b[8:])
	*r = MultiPathRecord{
		RawTraffic: w>>31 != 0, FlowLabel: w >> 8 & 0xFFFFF, HopLimit: uint8(w), TClass: b[4],
		Reversible: bit(b[5], 0x80), NumbPath: b[5] & 0x7F, PKey: ib.PKey(be.Uint16(b[6:])),
		QoSClass: q >> 4, SL: ib.SL(q & 0xF), MTUSelector: b[10] >> 6, MTU: ib.MTU(b[10] & 0x3F),
		RateSelector: b[11] >> 6, Rate: ib.Rate(b[11] & 0x3F),
		PacketLifeTimeSelector: b[12] >> 6, PacketLifeTime: b[12] & 0x3F,
		ServiceID: uint64(b[13])<<56 | be.Uint64(b[16:])&(1<<56-1), IndependenceSelector: b[14] >> 6,
		SGIDCount: b[15], DGIDCount: b[16],
	}
	for i := range n {
		r.GIDs[i] = ib.GID(b[multiPathFixed+16*i : multiPathFixed+16*i+16])
	}
	return nil
}

// Put writes Len bytes. The counts must not exceed MaxMultiPathGIDs together.
func (r *MultiPathRecord) Put(b []byte) {
	b = b[:r.Len()]
	w := r.FlowLabel&0xFFFFF<<8 | uint32(r.HopLimit)
	if r.RawTraffic {
		w |= 1 << 31
	}
	be.PutUint32(b, w)
	b[4] = r.TClass
	b[5] = flag(r.Reversible, 0x80) | r.NumbPath&0x7F
	be.PutUint16(b[6:], uint16(r.PKey))
	be.PutUint16(b[8:], r.QoSClass<<4|uint16(r.SL&0xF))
	b[10] = r.MTUSelector<<6 | byte(r.MTU)&0x3F
	b[11] = r.RateSelector<<6 | byte(r.Rate)&0x3F
	b[12] = r.PacketLifeTimeSelector<<6 | r.PacketLifeTime&0x3F
	b[13] = byte(r.ServiceID >> 56)
	b[14] = r.IndependenceSelector << 6
	be.PutUint64(b[16:], r.ServiceID)
	b[15], b[16] = r.SGIDCount, r.DGIDCount
	for i := range int(r.SGIDCount) + int(r.DGIDCount) {
		copy(b[multiPathFixed+16*i:], r.GIDs[i][:])
	}
}
