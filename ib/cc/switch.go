package cc

// Sizes of the attributes in bytes.
const (
	SwitchCongestionSettingLen     = 76
	SwitchPortCongestionSettingLen = 128
)

// PortsPerBlock of SwitchPortCongestionSetting.
const PortsPerBlock = 32

// Bits of SwitchCongestionSetting.ControlMap: which fields a Set writes.
const (
	MapVictimMask  uint32 = 1 << 0
	MapCreditMask  uint32 = 1 << 1
	MapThreshold   uint32 = 1 << 2 // and PacketSize
	MapStarvation  uint32 = 1 << 3 // CSThreshold, CSReturnDelay
	MapMarkingRate uint32 = 1 << 4
)

// PortMask is a set of ports of a switch. On the wire it is a number of 256 bits,
// bit n of which is port n.
type PortMask [32]byte

// Has reports whether p is in the set.
func (m *PortMask) Has(p uint8) bool { return m[31-p/8]&(1<<(p%8)) != 0 }

// Add puts p into the set.
func (m *PortMask) Add(p uint8) { m[31-p/8] |= 1 << (p % 8) }

// SwitchCongestionSetting is the attribute of that name, 76 bytes: when a switch marks
// packets as having met congestion (FECN).
type SwitchCongestionSetting struct {
	ControlMap uint32
	// VictimMask has the ports that mark packets also when they themselves wait for
	// credits: ports to hosts, where a slow host is the root of the congestion.
	VictimMask PortMask
	CreditMask PortMask // ports that look for starvation
	// Threshold is 0, no marking, to 15, marking at the shortest queue.
	Threshold  uint8 // 4 bits
	PacketSize uint8 // in 64 bytes; shorter packets are not marked
	// CSThreshold and CSReturnDelay are of credit starvation.
	CSThreshold   uint8 // 4 bits
	CSReturnDelay Delay
	// MarkingRate is how many packets that could be marked lie between two marked
	// ones, on average; 0: all are marked.
	MarkingRate uint16
}

// Decode reads the attribute.
func (s *SwitchCongestionSetting) Decode(b []byte) error {
	if bad(b, SwitchCongestionSettingLen) {
		return lenErr("SwitchCongestionSetting", b, SwitchCongestionSettingLen)
	}
	*s = SwitchCongestionSetting{
		ControlMap: be.Uint32(b), VictimMask: PortMask(b[4:36]), CreditMask: PortMask(b[36:68]),
		Threshold: b[68] >> 4, PacketSize: b[69], CSThreshold: b[70] >> 4,
		CSReturnDelay: Delay(be.Uint16(b[72:])), MarkingRate: be.Uint16(b[74:]),
	}
	return nil
}

// Put writes the 76 bytes.
func (s *SwitchCongestionSetting) Put(b []byte) {
	b = b[:SwitchCongestionSettingLen]
	be.PutUint32(b, s.ControlMap)
	copy(b[4:], s.VictimMask[:])
	copy(b[36:], s.CreditMask[:])
	b[68], b[69], b[70], b[71] = s.Threshold<<4, s.PacketSize, s.CSThreshold<<4, 0
	be.PutUint16(b[72:], uint16(s.CSReturnDelay))
	be.PutUint16(b[74:], s.MarkingRate)
}

// PortSetting of one port takes the place of the switch's setting while it is Valid.
type PortSetting struct {
	Valid bool
	// Starvation selects what the entry is about: credit starvation, or marking.
	Starvation bool
	Threshold  uint8 // 4 bits
	PacketSize uint8 // in 64 bytes; of marking only
	// Parameter is the marking rate, or the Delay after which credits return.
	Parameter uint16
}

// SwitchPortCongestionSetting is the attribute of that name, 128 bytes: the settings
// of 32 ports. Entry i of block b is about port 32b+i.
type SwitchPortCongestionSetting struct {
	Port [PortsPerBlock]PortSetting
}

// Decode reads the attribute.
func (s *SwitchPortCongestionSetting) Decode(b []byte) error {
	if bad(b, SwitchPortCongestionSettingLen) {
		return lenErr("SwitchPortCongestionSetting", b, SwitchPortCongestionSettingLen)
	}
	for i := range s.Port {
		e := b[4*i : 4*i+4]
		s.Port[i] = PortSetting{
			Valid: e[0]&0x80 != 0, Starvation: e[0]&0x40 != 0, Threshold: e[0] & 0x0F,
			PacketSize: e[1], Parameter: be.Uint16(e[2:]),
		}
	}
	return nil
}

// Put writes the 128 bytes.
func (s *SwitchPortCongestionSetting) Put(b []byte) {
	for i := range s.Port {
		p, e := &s.Port[i], b[4*i:4*i+4]
		e[0], e[1] = p.Threshold&0x0F, p.PacketSize
		if p.Valid {
			e[0] |= 0x80
		}
		if p.Starvation {
			e[0] |= 0x40
		}
		be.PutUint16(e[2:], p.Parameter)
	}
}
