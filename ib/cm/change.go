package cm

import "heddle/ib"

// DREQ asks to end communication (IBA table 112).
type DREQ struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // 24 bits
	PrivateData       [220]byte
}

// Decode reads the message.
func (r *DREQ) Decode(b []byte) error {
	b, err := check("DREQ", b)
	if err != nil {
		return err
	}
	*r = DREQ{LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), RemoteQPN: get24(b[8:]), PrivateData: [220]byte(b[12:])}
	return nil
}

// Put writes the 232 bytes.
func (r *DREQ) Put(b []byte) {
	b = b[:DataLen]
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	put24(b[8:], r.RemoteQPN)
	b[11] = 0
	copy(b[12:], r.PrivateData[:])
}

// DREP replies to a DREQ (IBA table 113).
type DREP struct {
	LocalID, RemoteID uint32
	PrivateData       [224]byte
}

// Decode reads the message.
func (r *DREP) Decode(b []byte) error {
	b, err := check("DREP", b)
	if err != nil {
		return err
	}
	*r = DREP{LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), PrivateData: [224]byte(b[8:])}
	return nil
}

// Put writes the 232 bytes.
func (r *DREP) Put(b []byte) {
	b = b[:DataLen]
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	copy(b[8:], r.PrivateData[:])
}

// LAP asks the other end to load an alternate path (IBA table 115).
type LAP struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // 24 bits
	RemoteTimeout     uint8  // 5 bits
	Alternate         Path
	PrivateData       [168]byte
}

// Decode reads the message.
func (r *LAP) Decode(b []byte) error {
	b, err := check("LAP", b)
	if err != nil {
		return err
	}
	*r = LAP{
		LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), RemoteQPN: get24(b[12:]), RemoteTimeout: b[15] >> 3,
		Alternate: Path{
			LocalLID: ib.LID(be.Uint16(b[20:])), RemoteLID: ib.LID(be.Uint16(b[22:])), LocalGID: ib.GID(b[24:40]), RemoteGID: ib.GID(b[40:56]),
			FlowLabel: be.Uint32(b[56:]) >> 12, TrafficClass: b[59], HopLimit: b[60], Rate: ib.Rate(b[61] & 0x3F), SL: ib.SL(b[62] >> 4),
			SubnetLocal: bit(b[62], 0x08), AckTimeout: b[63] >> 3,
		},
		PrivateData: [168]byte(b[64:]),
	}
	return nil
}

// Put writes the 232 bytes.
func (r *LAP) Put(b []byte) {
	b = b[:DataLen]
	clear(b[:64])
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	put24(b[12:], r.RemoteQPN)
	b[15] = r.RemoteTimeout << 3
	p := &r.Alternate
	be.PutUint16(b[20:], uint16(p.LocalLID))
	be.PutUint16(b[22:], uint16(p.RemoteLID))
	copy(b[24:40], p.LocalGID[:])
	copy(b[40:56], p.RemoteGID[:])
	be.PutUint32(b[56:], p.FlowLabel<<12)
	b[59], b[60], b[61] = p.TrafficClass, p.HopLimit, byte(p.Rate)&0x3F
	b[62] = byte(p.SL&0xF)<<4 | flag(p.SubnetLocal, 0x08)
	b[63] = p.AckTimeout << 3
	copy(b[64:], r.PrivateData[:])
}

// PathStatus is the answer to a LAP (IBA table 117).
type PathStatus uint8

// Some answers.
const (
	PathLoaded      PathStatus = 0
	PathInvalidComm PathStatus = 1
	PathUnsupported PathStatus = 2
	PathRejected    PathStatus = 3
)

// APR answers a LAP (IBA table 116).
type APR struct {
	LocalID, RemoteID uint32
	InfoLength        uint8
	Status            PathStatus
	Info              [72]byte
	PrivateData       [148]byte
}

// Decode reads the message.
func (r *APR) Decode(b []byte) error {
	b, err := check("APR", b)
	if err != nil {
		return err
	}
	*r = APR{
		LocalID: be.Uint32(b), RemoteID: be.Uint32(b[4:]), InfoLength: b[8], Status: PathStatus(b[9]), Info: [72]byte(b[12:]),
		PrivateData: [148]byte(b[84:]),
	}
	return nil
}

// Put writes the 232 bytes.
func (r *APR) Put(b []byte) {
	b = b[:DataLen]
	be.PutUint32(b, r.LocalID)
	be.PutUint32(b[4:], r.RemoteID)
	b[8], b[9], b[10], b[11] = r.InfoLength, byte(r.Status), 0, 0
	copy(b[12:84], r.Info[:])
	copy(b[84:], r.PrivateData[:])
}
