package sa

import "heddle/ib/sa"

// component is where a component of a record stands.
type component struct {
	bit       int // of the component mask
	off, bits int // of the record, in bits; the first bit is the most significant of byte 0
}

// layout lists the components of a record that can be matched bit by bit.
type layout []component

// mask sets the bits of b, as long as a record, that the component mask
// selects. Comparing a record with a query is then two operations a byte.
func (l layout) mask(m sa.CompMask, b []byte) {
	clear(b)
	for _, c := range l {
		if m>>c.bit&1 == 0 {
			continue
		}
		for i := c.off; i < c.off+c.bits; i++ {
			b[i>>3] |= 0x80 >> (i & 7)
		}
	}
}

// matches reports whether rec equals want in the bits of mask.
func matches(rec, want, mask []byte) bool {
	var d byte
	for i, m := range mask {
		d |= (rec[i] ^ want[i]) & m
	}
	return d == 0
}

// The LID of a record is matched apart: any LID of a port's range names it.
const compLID sa.CompMask = 1

// nodeLayout is NodeRecord from NodeInfo on (IBA §15.2.5.2). NodeDescription
// is matched apart, up to its first NUL.
var nodeLayout = layout{
	{2, 4 * 8, 8}, {3, 5 * 8, 8}, {4, 6 * 8, 8}, {5, 7 * 8, 8}, {6, 8 * 8, 64}, {7, 16 * 8, 64}, {8, 24 * 8, 64},
	{9, 32 * 8, 16}, {10, 34 * 8, 16}, {11, 36 * 8, 32}, {12, 40 * 8, 8}, {13, 41 * 8, 24},
}

const compNodeDesc sa.CompMask = 1 << 14

// portLayout is PortInfoRecord after its LID (IBA §15.2.5.3). M_Key (bit 3)
// is matched only for trusted requesters, the capability masks (7, 53) apart
// when they are to be compared as subsets.
var portLayout = func() layout {
	l := layout{{1, 16, 8}}
	at := func(bit, off, bits int) { l = append(l, component{bit, 32 + off, bits}) } // offsets inside PortInfo
	at(3, 0, 64)
	at(4, 64, 64)
	at(5, 128, 16)
	at(6, 144, 16)
	at(7, 160, 32)
	at(8, 192, 16)
	at(9, 208, 16)
	at(10, 224, 8)
	at(11, 232, 8)
	at(12, 240, 8)
	at(13, 248, 8)
	at(14, 256, 4)
	at(15, 260, 4)
	at(16, 264, 4)
	at(17, 268, 4)
	at(18, 272, 2)
	at(20, 277, 3)
	at(21, 280, 4)
	at(22, 284, 4)
	at(23, 288, 4)
	at(24, 292, 4)
	at(25, 296, 4)
	at(26, 300, 4)
	at(27, 304, 8)
	at(28, 312, 8)
	at(29, 320, 8)
	at(30, 328, 4)
	at(31, 332, 4)
	at(32, 336, 3)
	at(33, 339, 5)
	at(34, 344, 4)
	at(35, 348, 1)
	at(36, 349, 1)
	at(37, 350, 1)
	at(38, 351, 1)
	at(39, 352, 16)
	at(40, 368, 16)
	at(41, 384, 16)
	at(42, 400, 8)
	at(43, 408, 1)
	at(44, 409, 2)
	at(45, 411, 5)
	at(47, 419, 5)
	at(48, 424, 4)
	at(49, 428, 4)
	at(50, 432, 16)
	at(52, 456, 24)
	at(53, 480, 16)
	at(54, 496, 4)
	at(55, 500, 4)
	at(57, 507, 5)
	return l
}()
