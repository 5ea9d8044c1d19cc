package sa

import (
	"bytes"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/subnet"
)

// byLID returns the range of end ports (indices in Snapshot.Ports) that a
// query's LID component allows: one port, or all. none is true where the LID
// belongs to nobody.
func (q *query) byLID() (only int32, none bool) {
	if !q.head.ComponentMask.Has(compLID) {
		return -1, false
	}
	only = q.s.PortByLID(ib.LID(be.Uint16(q.req.Data[sa.HeaderLen:])))
	return only, only < 0
}

// want returns the record of the query, zero padded to size.
func (q *query) want(buf []byte) []byte {
	n := copy(buf, q.req.Data[sa.HeaderLen:])
	clear(buf[n:])
	return buf
}

// nodes finds NodeRecords: one for each end port.
func (q *query) nodes() ib.Status {
	q.begin(sa.NodeRecordLen)
	var wantBuf, maskBuf [sa.NodeRecordLen]byte
	want, mask := q.want(wantBuf[:]), maskBuf[:]
	nodeLayout.mask(q.head.ComponentMask, mask)
	byDesc := q.head.ComponentMask.Has(compNodeDesc)
	only, none := q.byLID()
	if none {
		return ib.StatusOK
	}
	for i := range q.s.Ports {
		if !q.wantsMore() {
			break
		}
		p := &q.s.Ports[i]
		if p.EndPort < 0 || only >= 0 && int32(i) != only || !q.visible(int32(i)) {
			continue
		}
		b := q.next()
		if b == nil {
			break
		}
		n := &q.s.Nodes[p.Node]
		rec := sa.NodeRecord{LID: p.LID, NodeInfo: n.Info}
		rec.NodeInfo.PortGUID, rec.NodeInfo.LocalPortNum = p.GUID, p.Num
		copy(rec.NodeDescription[:], n.Desc)
		rec.Put(b)
		if !matches(b, want, mask) || byDesc && !bytes.Equal(upToNUL(b[44:108]), upToNUL(want[44:108])) {
			q.drop()
		}
	}
	return ib.StatusOK
}

func upToNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// Where PortInfoRecord has the fields that are treated apart, in bytes.
const (
	offCapMask  = 4 + 20
	offCapMask2 = 4 + 60
)

const (
	compCapMask  sa.CompMask = 1 << 7
	compCapMask2 sa.CompMask = 1 << 53
	compMKey     sa.CompMask = 1 << 3
)

// ports finds PortInfoRecords: one for each port of a switch, port 0
// included, and for each found port of a CA or router.
func (q *query) ports() ib.Status {
	q.begin(sa.PortInfoRecordLen)
	var wantBuf, maskBuf [sa.PortInfoRecordLen]byte
	want, mask := q.want(wantBuf[:]), maskBuf[:]
	comp := q.head.ComponentMask
	if !q.trusted {
		comp &^= compMKey // nobody finds out an M_Key by asking for guesses
	}
	subset := q.attrMod&sa.PortInfoCapMatch != 0
	exact := comp
	if subset {
		exact &^= compCapMask | compCapMask2
	}
	portLayout.mask(exact, mask)
	only, none := q.byLID()
	if none {
		return ib.StatusOK
	}
	first, last := int32(0), int32(len(q.s.Ports))
	if only >= 0 { // a LID names an end port; that of a switch all its ports
		n := &q.s.Nodes[q.s.Ports[only].Node]
		first, last = only, only+1
		if n.SwitchIndex >= 0 {
			first, last = n.First, n.First+int32(n.Info.NumPorts)+1
		}
	}
	raw := comp.Has(1<<2) && want[3]&sa.PortInfoRawOption != 0
	for i := first; i < last && q.wantsMore(); i++ {
		p := &q.s.Ports[i]
		if !p.Known || !q.visible(i) {
			continue
		}
		b := q.next()
		if b == nil {
			break
		}
		q.portRecord(p, raw).Put(b)
		if !matches(b, want, mask) {
			q.drop()
			continue
		}
		if subset && (comp.Has(compCapMask) && !covers(b[offCapMask:offCapMask+4], want[offCapMask:]) ||
			comp.Has(compCapMask2) && !covers(b[offCapMask2:offCapMask2+2], want[offCapMask2:])) {
			q.drop()
		}
	}
	return ib.StatusOK
}

func (q *query) portRecord(p *subnet.Port, raw bool) *sa.PortInfoRecord {
	rec := sa.PortInfoRecord{LID: p.LID, PortNum: p.Num, PortInfo: p.Info}
	if raw {
		rec.Options = sa.PortInfoRawOption
	} else {
		legacySpeeds(&rec.PortInfo)
	}
	if !q.trusted {
		rec.PortInfo.MKey = 0
	}
	return &rec
}

// legacySpeeds lets a port at an extended speed look like one at QDR in the
// old fields, for clients that know no others; they ask for the truth with
// the raw option.
func legacySpeeds(p *smp.PortInfo) {
	const qdr = 4
	if p.LinkSpeedExtActive != 0 {
		p.LinkSpeedActive |= qdr
	}
	if p.LinkSpeedExtSupported != 0 {
		p.LinkSpeedSupported |= qdr
	}
	if p.LinkSpeedExtEnabled != 0 {
		p.LinkSpeedEnabled |= qdr
	}
}

// covers reports whether have has all bits of the first bytes of want.
func covers(have, want []byte) bool {
	for i, h := range have {
		if want[i]&^h != 0 {
			return false
		}
	}
	return true
}
