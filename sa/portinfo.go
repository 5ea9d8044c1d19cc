package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/subnet"
)

// portComps are the components of PortInfoRecord that are compared for
// equality. LID, PortNum, Options and CapabilityMask are matched separately.
var portComps = func() []comp {
	pi := []struct {
		bit        uint8
		off, width uint16 // within PortInfo
	}{
		{3, 0, 64},
		{4, 64, 64},
		{5, 128, 16},
		{6, 144, 16},
		{8, 192, 16},
		{9, 208, 16},
		{10, 224, 8},
		{11, 232, 8},
		{12, 240, 8},
		{13, 248, 8},
		{14, 256, 4},
		{15, 260, 4},
		{16, 264, 4},
		{17, 268, 4},
		{18, 272, 2},
		{20, 277, 3},
		{21, 280, 4},
		{22, 284, 4},
		{23, 288, 4},
		{24, 292, 4},
		{25, 296, 4},
		{26, 300, 4},
		{27, 304, 8},
		{28, 312, 8},
		{29, 320, 8},
		{30, 328, 4},
		{31, 332, 4},
		{32, 336, 3},
		{33, 339, 5},
		{34, 344, 4},
		{35, 348, 1},
		{36, 349, 1},
		{37, 350, 1},
		{38, 351, 1},
		{39, 352, 16},
		{40, 368, 16},
		{41, 384, 16},
		{42, 400, 8},
		{43, 408, 1},
		{44, 409, 2},
		{45, 411, 5},
		{47, 419, 5},
		{48, 424, 4},
		{49, 428, 4},
		{50, 432, 16},
		{52, 456, 24},
		{54, 496, 4},
		{55, 500, 4},
		{57, 507, 5},
	}
	out := make([]comp, len(pi))
	for i, c := range pi {
		out[i] = comp{c.bit, c.off + 32, c.width}
	}
	return out
}()

func portInfoRecords(q *query) {
	if q.has(wire.PortInfoCompMKey) && !q.trusted {
		return // keys are secret: queries neither return nor match them
	}
	var want wire.PortInfoRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	subset := q.mod&wire.PortInfoCapMatch != 0
	fits := func(have, asked uint32) bool { return have == asked || subset && have&asked == asked }
	add := func(ep *subnet.Port, num uint8, info smp.PortInfo) {
		if q.has(wire.PortInfoCompPortNum) && num != want.PortNum ||
			q.has(wire.PortInfoCompCapabilityMask) && !fits(uint32(info.CapabilityMask), uint32(want.PortInfo.CapabilityMask)) ||
			q.has(wire.PortInfoCompCapabilityMask2) && !fits(uint32(info.CapabilityMask2), uint32(want.PortInfo.CapabilityMask2)) {
			return
		}
		b := q.record()
		if b == nil {
			return
		}
		r := wire.PortInfoRecord{LID: ep.LID, PortNum: num, PortInfo: info}
		if q.has(wire.PortInfoCompOptions) {
			r.Options = want.Options
		}
		if !q.trusted {
			r.PortInfo.MKey = 0
		}
		if r.Put(b); !match(q.mask, portComps, b, q.data) {
			q.drop()
			return
		}
		if r.Options&wire.PortInfoRawOption == 0 {
			oldSpeeds(&r.PortInfo, q.s.Ports[q.endPort(ep)].Info.CapabilityMask)
			r.Put(b)
		}
	}
	each(q, wire.PortInfoCompLID, func(ep *subnet.Port) {
		ports := q.ports(ep)
		for i := range ports {
			if p := ports[i]; p.Known {
				add(ep, p.Num, p.Info)
			}
		}
	})
	if q.opt.VirtRecords {
		eachOwnLID(q, wire.PortInfoCompLID, func(p *subnet.Port) { add(p, p.Virtual.Node.LocalPortNum, q.portInfoOf(p)) })
	}
}

// oldSpeeds shows an extended speed as QDR in the legacy fields, for clients
// that know only those.
func oldSpeeds(p *smp.PortInfo, mask ib.CapMask) {
	if !mask.Has(ib.CapIsExtendedSpeedsSupported) || p.LinkSpeedExtActive == 0 && p.LinkSpeedExtActive2 == 0 {
		return
	}
	p.LinkSpeedSupported |= ib.SpeedBitQDR
	p.LinkSpeedEnabled |= ib.SpeedBitQDR
	p.LinkSpeedActive = ib.SpeedBitQDR
}
