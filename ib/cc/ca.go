package cc

// Sizes of the attributes in bytes.
const (
	CACongestionSettingLen    = 132
	CongestionControlTableLen = 132
)

// EntriesPerBlock of CongestionControlTable.
const EntriesPerBlock = 64

// PortControlSL in CACongestionSetting.PortControl: all queue pairs of a service level
// slow down together; without it each does by itself.
const PortControlSL uint16 = 1 << 0

// SLSetting is how an adapter treats one service level.
type SLSetting struct {
	// Timer is the time after which the index into the congestion control table falls
	// by one, in TimeUnit.
	Timer uint16
	// Increase is added to the index when a notification (BECN) comes.
	Increase uint8
	// Trigger is the index from which an event is logged.
	Trigger uint8
	// Min is the index that the timer does not fall below.
	Min uint8
}

// CACongestionSetting is the attribute of that name, 132 bytes.
type CACongestionSetting struct {
	PortControl uint16
	ControlMap  uint16 // bit n: a Set writes the entry of SL n
	SL          [16]SLSetting
}

// Decode reads the attribute.
func (c *CACongestionSetting) Decode(b []byte) error {
	if bad(b, CACongestionSettingLen) {
		return lenErr("CACongestionSetting", b, CACongestionSettingLen)
	}
	c.PortControl, c.ControlMap = be.Uint16(b), be.Uint16(b[2:])
	for i := range c.SL {
		e := b[4+8*i : 12+8*i]
		c.SL[i] = SLSetting{Timer: be.Uint16(e), Increase: e[2], Trigger: e[3], Min: e[4]}
	}
	return nil
}

// Put writes the 132 bytes.
func (c *CACongestionSetting) Put(b []byte) {
	b = b[:CACongestionSettingLen]
	be.PutUint16(b, c.PortControl)
	be.PutUint16(b[2:], c.ControlMap)
	for i := range c.SL {
		s, e := &c.SL[i], b[4+8*i:12+8*i]
		clear(e)
		be.PutUint16(e, s.Timer)
		e[2], e[3], e[4] = s.Increase, s.Trigger, s.Min
	}
}

// Delay is an entry of a congestion control table: a 2-bit shift above a 14-bit
// multiplier. A packet that takes the time t on the link is followed by a pause of
// (t >> shift) × multiplier.
type Delay uint16

// NewDelay makes an entry; shift is 0–3, multiplier 0–16,383.
func NewDelay(shift uint8, multiplier uint16) Delay {
	return Delay(uint16(shift&3)<<14 | multiplier&0x3FFF)
}

// Shift is 0–3.
func (d Delay) Shift() uint8 { return uint8(d >> 14) }

// Multiplier is 0–16,383.
func (d Delay) Multiplier() uint16 { return uint16(d & 0x3FFF) }

// CongestionControlTable is the attribute of that name, 132 bytes: a block of the table
// from which adapters take their pauses.
type CongestionControlTable struct {
	// Limit is the highest index of the whole table that is used.
	Limit uint16
	Entry [EntriesPerBlock]Delay
}

// Decode reads the attribute.
func (c *CongestionControlTable) Decode(b []byte) error {
	if bad(b, CongestionControlTableLen) {
		return lenErr("CongestionControlTable", b, CongestionControlTableLen)
	}
	c.Limit = be.Uint16(b)
	for i := range c.Entry {
		c.Entry[i] = Delay(be.Uint16(b[4+2*i:]))
	}
	return nil
}

// Put writes the 132 bytes.
func (c *CongestionControlTable) Put(b []byte) {
	b = b[:CongestionControlTableLen]
	be.PutUint16(b, c.Limit)
	be.PutUint16(b[2:], 0)
	for i, d := range c.Entry {
		be.PutUint16(b[4+2*i:], uint16(d))
	}
}
