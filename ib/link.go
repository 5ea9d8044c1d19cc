package ib

import "strconv"

// LinkWidth is a link width or a mask of widths: one bit for each.
type LinkWidth uint8

// The widths (IBA §14.2.5.6). 2x needs CapabilityMask2 bit 4.
const (
	Width1x  LinkWidth = 1
	Width4x  LinkWidth = 2
	Width8x  LinkWidth = 4
	Width12x LinkWidth = 8
	Width2x  LinkWidth = 16

	// WidthAll in a Set of LinkWidthEnabled copies LinkWidthSupported.
	WidthAll LinkWidth = 255
)

// Lanes is the number of lanes of a single width, 0 for a mask or none.
func (w LinkWidth) Lanes() int {
	switch w {
	case Width1x:
		return 1
	case Width2x:
		return 2
	case Width4x:
		return 4
	case Width8x:
		return 8
	case Width12x:
		return 12
	}
	return 0
}

// Widest is the widest width of a mask, 0 if it has none.
func (w LinkWidth) Widest() LinkWidth {
	for _, v := range [...]LinkWidth{Width12x, Width8x, Width4x, Width2x, Width1x} {
		if w&v != 0 {
			return v
		}
	}
	return 0
}

// String prints "4X", or "1X or 4X" for a mask.
func (w LinkWidth) String() string {
	if w == 0 {
		return "none"
	}
	s := ""
	for _, v := range [...]LinkWidth{Width1x, Width2x, Width4x, Width8x, Width12x} {
		if w&v != 0 {
			if s != "" {
				s += " or "
			}
			s += strconv.Itoa(v.Lanes()) + "X"
		}
	}
	if rest := w &^ 0x1F; rest != 0 {
		if s != "" {
			s += " or "
		}
		s += hex(uint64(rest), 2)
	}
	return s
}

// ParseLinkWidth reads "4x", "4X" or "4".
func ParseLinkWidth(s string) (LinkWidth, error) {
	t := s
	if n := len(t); n > 0 && (t[n-1] == 'x' || t[n-1] == 'X') {
		t = t[:n-1]
	}
	for _, v := range [...]LinkWidth{Width1x, Width2x, Width4x, Width8x, Width12x} {
		if t == strconv.Itoa(v.Lanes()) {
			return v, nil
		}
	}
	return 0, parseError("link width", s)
}

// LinkSpeed is the signaling of one lane, over all three families of
// PortInfo fields. Values are ordered by speed.
type LinkSpeed uint8

// The lane speeds.
const (
	SpeedNone  LinkSpeed = iota
	SpeedSDR             // 2.5 Gb/s
	SpeedDDR             // 5
	SpeedQDR             // 10
	SpeedFDR10           // 10.3125, 64b/66b, vendor attribute 0xFF90
	SpeedFDR             // 14.0625
	SpeedEDR             // 25.78125
	SpeedHDR             // 53.125
	SpeedNDR             // 106.25
	SpeedXDR             // 212.5

	numSpeeds
)

var speedNames = [numSpeeds]string{"none", "SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"}

// laneGbps is the raw signaling rate of a lane in Gb/s.
var laneGbps = [numSpeeds]float64{0, 2.5, 5, 10, 10.3125, 14.0625, 25.78125, 53.125, 106.25, 212.5}

// LaneGbps is the signaling rate of one lane in Gb/s.
func (s LinkSpeed) LaneGbps() float64 {
	if s >= numSpeeds {
		return 0
	}
	return laneGbps[s]
}

// dataGbps is what a lane carries after the line code: 8b/10b up to QDR, 64b/66b
// or a code with the same data rate from FDR10 on.
var dataGbps = [numSpeeds]float64{0, 2, 4, 8, 10, 14.0625 * 64 / 66, 25, 50, 100, 200}

// DataGbps is the data rate of one lane in Gb/s: without the line code.
func (s LinkSpeed) DataGbps() float64 {
	if s >= numSpeeds {
		return 0
	}
	return dataGbps[s]
}

// String prints "EDR".
func (s LinkSpeed) String() string {
	if s >= numSpeeds {
		return "speed " + strconv.Itoa(int(s))
	}
	return speedNames[s]
}

// ParseLinkSpeed reads "EDR" in any case.
func ParseLinkSpeed(s string) (LinkSpeed, error) {
	for i := SpeedSDR; i < numSpeeds; i++ {
		if equalFold(s, speedNames[i]) {
			return i, nil
		}
	}
	return 0, parseError("link speed", s)
}

// Bits gives s as PortInfo's three families and the vendor attribute say it:
// exactly one of them is not zero.
func (s LinkSpeed) Bits() (b SpeedBits, ext SpeedExtBits, ext2 SpeedExt2Bits, fdr10 bool) {
	switch s {
	case SpeedSDR:
		b = SpeedBitSDR
	case SpeedDDR:
		b = SpeedBitDDR
	case SpeedQDR:
		b = SpeedBitQDR
	case SpeedFDR10:
		fdr10 = true
	case SpeedFDR:
		ext = SpeedExtBitFDR
	case SpeedEDR:
		ext = SpeedExtBitEDR
	case SpeedHDR:
		ext = SpeedExtBitHDR
	case SpeedNDR:
		ext = SpeedExtBitNDR
	case SpeedXDR:
		ext2 = SpeedExt2BitXDR
	}
	return b, ext, ext2, fdr10
}

// SpeedBits is a value or mask of PortInfo.LinkSpeed*, 4 bits. In a Set of
// LinkSpeedEnabled 0 is no change and 15 copies LinkSpeedSupported.
type SpeedBits uint8

// The bits of SpeedBits.
const (
	SpeedBitSDR SpeedBits = 1
	SpeedBitDDR SpeedBits = 2
	SpeedBitQDR SpeedBits = 4
	SpeedBitAll SpeedBits = 15
)

// Fastest is the fastest speed of the mask.
func (b SpeedBits) Fastest() LinkSpeed {
	switch {
	case b&SpeedBitQDR != 0:
		return SpeedQDR
	case b&SpeedBitDDR != 0:
		return SpeedDDR
	case b&SpeedBitSDR != 0:
		return SpeedSDR
	}
	return SpeedNone
}

// String prints "2.5 Gbps or 5.0 Gbps" as the diagnostics do.
func (b SpeedBits) String() string {
	return maskString(uint64(b), []string{"2.5 Gbps", "5.0 Gbps", "10.0 Gbps"})
}

// SpeedExtBits is a value or mask of PortInfo.LinkSpeedExt*, 4 bits (5 in
// LinkSpeedExtEnabled: 30 none, 31 copy LinkSpeedExtSupported).
type SpeedExtBits uint8

// The bits of SpeedExtBits.
const (
	SpeedExtBitFDR  SpeedExtBits = 1
	SpeedExtBitEDR  SpeedExtBits = 2
	SpeedExtBitHDR  SpeedExtBits = 4
	SpeedExtBitNDR  SpeedExtBits = 8
	SpeedExtBitNone SpeedExtBits = 30
	SpeedExtBitAll  SpeedExtBits = 31
)

// Fastest is the fastest speed of the mask.
func (b SpeedExtBits) Fastest() LinkSpeed {
	switch {
	case b&SpeedExtBitNDR != 0:
		return SpeedNDR
	case b&SpeedExtBitHDR != 0:
		return SpeedHDR
	case b&SpeedExtBitEDR != 0:
		return SpeedEDR
	case b&SpeedExtBitFDR != 0:
		return SpeedFDR
	}
	return SpeedNone
}

// String prints "14.0625 Gbps or 25.78125 Gbps".
func (b SpeedExtBits) String() string {
	return maskString(uint64(b), []string{"14.0625 Gbps", "25.78125 Gbps", "53.125 Gbps", "106.25 Gbps"})
}

// SpeedExt2Bits is a value or mask of PortInfo.LinkSpeedExt*2, 2 bits (3 in
// LinkSpeedExtEnabled2: 7 copies the supported ones).
type SpeedExt2Bits uint8

// The bits of SpeedExt2Bits.
const (
	SpeedExt2BitXDR SpeedExt2Bits = 1
	SpeedExt2BitAll SpeedExt2Bits = 7
)

// Fastest is the fastest speed of the mask.
func (b SpeedExt2Bits) Fastest() LinkSpeed {
	if b&SpeedExt2BitXDR != 0 {
		return SpeedXDR
	}
	return SpeedNone
}

// String prints "212.5 Gbps".
func (b SpeedExt2Bits) String() string { return maskString(uint64(b), []string{"212.5 Gbps"}) }

func maskString(v uint64, names []string) string {
	if v == 0 {
		return "none"
	}
	s := ""
	for i, n := range names {
		if v&(1<<i) != 0 {
			if s != "" {
				s += " or "
			}
			s += n
		}
	}
	if rest := v >> len(names) << len(names); rest != 0 {
		if s != "" {
			s += " or "
		}
		s += hex(rest, 1)
	}
	return s
}
