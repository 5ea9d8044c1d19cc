package cc

// Sizes of the attributes in bytes.
const (
	CongestionInfoLen    = 4
	CongestionKeyInfoLen = 14
	TimeStampLen         = 4
)

// InfoCreditStarvation in CongestionInfo.Info: the switch can find ports that starve
// for credits.
const InfoCreditStarvation uint16 = 1 << 0

// CongestionInfo is the attribute of that name, 4 bytes, read only: what a node can do.
type CongestionInfo struct {
	Info uint16
	// ControlTableCap of a channel adapter is how many blocks of 64 entries its
	// congestion control table has.
	ControlTableCap uint8
}

// Decode reads the attribute.
func (c *CongestionInfo) Decode(b []byte) error {
	if bad(b, CongestionInfoLen) {
		return lenErr("CongestionInfo", b, CongestionInfoLen)
	}
	*c = CongestionInfo{Info: be.Uint16(b), ControlTableCap: b[2]}
	return nil
}

// Put writes the 4 bytes.
func (c *CongestionInfo) Put(b []byte) {
	be.PutUint16(b, c.Info)
	b[2], b[3] = c.ControlTableCap, 0
}

// CongestionKeyInfo is the attribute of that name, 14 bytes: the key that protects
// the settings of this class.
type CongestionKeyInfo struct {
	Key         uint64 // 0: requests with any key are accepted
	Protect     bool   // a wrong key may not read Key
	LeasePeriod uint16 // s
	Violations  uint16
}

// Decode reads the attribute.
func (c *CongestionKeyInfo) Decode(b []byte) error {
	if bad(b, CongestionKeyInfoLen) {
		return lenErr("CongestionKeyInfo", b, CongestionKeyInfoLen)
	}
	*c = CongestionKeyInfo{
		Key: be.Uint64(b), Protect: b[8]&0x80 != 0, LeasePeriod: be.Uint16(b[10:]), Violations: be.Uint16(b[12:]),
	}
	return nil
}

// Put writes the 14 bytes.
func (c *CongestionKeyInfo) Put(b []byte) {
	b = b[:CongestionKeyInfoLen]
	be.PutUint64(b, c.Key)
	b[8], b[9] = 0, 0
	if c.Protect {
		b[8] = 0x80
	}
	be.PutUint16(b[10:], c.LeasePeriod)
	be.PutUint16(b[12:], c.Violations)
}

// TimeStamp is the attribute of that name, 4 bytes: the clock of the node's log.
type TimeStamp struct {
	Time uint32 // in TimeUnit
}

// Decode reads the attribute.
func (t *TimeStamp) Decode(b []byte) error {
	if bad(b, TimeStampLen) {
		return lenErr("TimeStamp", b, TimeStampLen)
	}
	t.Time = be.Uint32(b)
	return nil
}

// Put writes the 4 bytes.
func (t *TimeStamp) Put(b []byte) { be.PutUint32(b, t.Time) }
