// Package sa answers Subnet Administration queries from a published snapshot.
//
// Answer is a pure function of the snapshot and the request, so any number of
// goroutines may serve from one snapshot at once; nothing is locked and,
// given a reply buffer that is large enough, nothing is allocated for a Get.
//
// Served are ClassPortInfo (Get), and NodeRecord, PortInfoRecord and
// PathRecord (Get and GetTable). Every other attribute and method is answered
// with status 0x000C, never with silence: silence costs the client its
// time-outs. Silence remains for what must not be answered: MADs from a LID
// that the subnet does not have, a wrong SM_Key, responses, and RMPP control
// packets.
package sa

import (
	"encoding/binary"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
	"heddle/subnet"
)

var be = binary.BigEndian

// singleMADData is what of an SA answer survives ibsim's client library, in
// bytes: it hands out the last 32 bytes of a MAD as garbage.
const singleMADData = 168

// maxTable bounds a table answer, in bytes of records: a query for more is
// answered with "no resources". A full subnet's PortInfoRecords fit several
// times over; all pairs of paths of a large subnet do not, and nobody can use
// them.
const maxTable = 256 << 20

// Request is a query as it arrived.
type Request struct {
	From mad.Addr
	Data []byte // one MAD, or one reassembled RMPP message
	// SingleMAD: the requester cannot reassemble RMPP, so a table is one MAD
	// with as many whole records as survive.
	SingleMAD bool
}

// Answer appends the reply to req to buf and returns it. ok is false where
// there must be no reply. A table reply may be longer than a MAD: it is then
// one RMPP message whose segments the port makes.
func Answer(s *subnet.Snapshot, req *Request, buf []byte) (reply []byte, ok bool) {
	q := query{s: s, req: req, base: len(buf), out: buf, limit: maxTable}
	if !q.accept() {
		return buf, false
	}
	if req.SingleMAD && q.method == ib.MethodGetTable {
		q.limit = singleMADData
	}
	return q.run(), true
}

// Busy appends the answer that a full queue gives: "busy, try again".
func Busy(req *Request, buf []byte) (reply []byte, ok bool) {
	q := query{req: req, base: len(buf), out: buf}
	if !q.parse() {
		return buf, false
	}
	return q.fail(ib.StatusBusy), true
}

// query is one request on its way to an answer.
type query struct {
	s       *subnet.Snapshot
	req     *Request
	head    sa.Header
	method  ib.Method
	attr    ib.AttrID
	attrMod uint32
	trusted bool
	self    int32 // index in Snapshot.Ports of the requester

	out   []byte
	base  int // where the reply begins in out
	limit int // bytes of records
	size  int // bytes of one record
	n     int // records found
	cut   bool
}

// parse reads the headers; false for what is not a request.
func (q *query) parse() bool {
	b := q.req.Data
	if q.head.Decode(b) != nil {
		return false
	}
	q.method, q.attr, q.attrMod = ib.Method(b[3]), ib.AttrID(be.Uint16(b[16:])), be.Uint32(b[20:])
	if ib.Class(b[1]) != ib.ClassSA || q.method.IsResponse() || q.method == ib.MethodTrapRepress {
		return false
	}
	// An ACK copies the header of the DATA that it acknowledges and toggles
	// the R bit, so the type must be looked at before the method.
	return q.head.RMPPType == sa.RMPPNone || q.head.RMPPType == sa.RMPPData || q.head.RMPPFlags&sa.RMPPActive == 0
}

// accept decides whether there is an answer at all.
func (q *query) accept() bool {
	if q.s == nil || q.s.State != subnet.Master || !q.parse() {
		return false
	}
	if q.head.SMKey != 0 {
		if q.trusted = q.head.SMKey == q.s.SMKey; !q.trusted {
			return false
		}
	}
	if lid := q.req.From.LID; lid == ib.LIDNone { // our own node, before or without a LID in the packet
		q.self = q.s.PortIndex(q.s.Self)
	} else {
		q.self = q.s.PortByLID(lid)
	}
	return q.self >= 0
}

func (q *query) run() []byte {
	b := q.req.Data
	if b[0] != 1 || b[2] != sa.ClassVersion {
		return q.fail(ib.StatusBadVersion)
	}
	table := q.method == ib.MethodGetTable
	if q.method != ib.MethodGet && !table {
		return q.fail(ib.StatusBadMethodAttr)
	}
	if q.attr == sa.AttrClassPortInfo {
		if table {
			return q.fail(ib.StatusBadMethodAttr)
		}
		return q.classPortInfo()
	}
	var status ib.Status
	switch q.attr {
	case sa.AttrNodeRecord:
		status = q.nodes()
	case sa.AttrPortInfoRecord:
		status = q.ports()
	case sa.AttrPathRecord:
		status = q.paths()
	default:
		return q.fail(ib.StatusBadMethodAttr)
	}
	switch {
	case status != ib.StatusOK:
		return q.fail(status)
	case table && q.cut && !q.req.SingleMAD:
		return q.fail(ib.StatusSANoResources)
	case table:
		return q.table()
	case q.n == 0:
		return q.fail(ib.StatusSANoRecords)
	case q.n > 1 && q.attr != sa.AttrPathRecord:
		return q.fail(ib.StatusSATooManyRecords)
	}
	return q.single()
}

// begin makes room for the header at the first record.
func (q *query) begin(size int) {
	q.size = size
	q.out = append(q.out[:q.base], q.req.Data[:sa.HeaderLen]...)
}

// next returns the room for one more record, nil when no more are wanted.
func (q *query) next() []byte {
	have := len(q.out) - q.base - sa.HeaderLen
	if have+q.size > q.limit {
		q.cut = true
		return nil
	}
	if q.method == ib.MethodGet && q.n >= 2 {
		return nil // two are too many already
	}
	q.n++
	at := len(q.out)
	if cap(q.out)-at < q.size {
		grown := make([]byte, at, 2*cap(q.out)+q.size)
		copy(grown, q.out)
		q.out = grown
	}
	q.out = q.out[:at+q.size]
	return q.out[at:]
}

// wantsMore reports whether another record may still be needed.
func (q *query) wantsMore() bool {
	if q.method == ib.MethodGet {
		if q.attr == sa.AttrPathRecord {
			return q.n == 0
		}
		return q.n < 2
	}
	return !q.cut
}

// drop takes the last record back.
func (q *query) drop() {
	q.n--
	q.out = q.out[:len(q.out)-q.size]
}

// header fills in the reply's headers.
func (q *query) header(status ib.Status, rmpp sa.Header) {
	b := q.out[q.base:]
	b[3] = byte(q.method.Response())
	be.PutUint16(b[4:], uint16(status))
	rmpp.ComponentMask = q.head.ComponentMask
	rmpp.Put(b)
}

// fail makes the reply an error: a copy of the request with the status.
func (q *query) fail(status ib.Status) []byte {
	q.out = append(q.out[:q.base], q.req.Data[:min(len(q.req.Data), ib.MADLen)]...)
	q.pad()
	q.header(status, sa.Header{})
	return q.out
}

// single is the reply of a Get.
func (q *query) single() []byte {
	q.out = q.out[:q.base+sa.HeaderLen+q.size]
	q.pad()
	q.header(ib.StatusOK, sa.Header{AttrOffset: sa.OffsetWords(q.size)})
	return q.out
}

// table is the reply of a GetTable.
func (q *query) table() []byte {
	h := sa.Header{RMPPVersion: sa.RMPPVersion, RMPPType: sa.RMPPData, RMPPFlags: sa.RMPPActive, RRespTime: sa.NoRRespTime}
	if q.n > 0 {
		h.AttrOffset = sa.OffsetWords(q.size)
	}
	if q.req.SingleMAD {
		h.RMPPFlags |= sa.RMPPFirst | sa.RMPPLast
		h.SegmentNumber = 1
		h.PayloadLength = uint32(sa.SegmentHeader + q.n*q.size)
	}
	q.header(ib.StatusOK, h)
	return q.out
}

// pad makes the reply a whole MAD.
func (q *query) pad() {
	for len(q.out)-q.base < ib.MADLen {
		q.out = append(q.out, 0)
	}
}

func (q *query) classPortInfo() []byte {
	q.begin(sa.ClassPortInfoLen)
	c := sa.ClassPortInfo{
		BaseVersion: 1, ClassVersion: sa.ClassVersion,
		CapabilityMask:  sa.CapPortInfoCapMatch,
		CapabilityMask2: sa.Cap2FullPortInfo | sa.Cap2ExtSpeeds | sa.Cap2PortInfoCap2Match | sa.Cap2Width2x | sa.Cap2HDR | sa.Cap2NDR,
		RespTimeValue:   respTime, RedirectQP: 1, RedirectQKey: ib.QKeyGSI, TrapQKey: ib.QKeyGSI,
	}
	c.Put(q.next())
	q.pad()
	q.header(ib.StatusOK, sa.Header{})
	return q.out
}

// respTime is how long a requester should wait: 4.096 µs × 2^16 = 268 ms.
const respTime = 16

// shares reports whether two ports have a partition in common: both have the
// default P_Key and one of them as a full member. A port whose table was not
// read, or a path to itself, always does.
func (q *query) shares(a, b int32) bool {
	if a == b {
		return true
	}
	x, y := q.s.Ports[a].DefaultPKey, q.s.Ports[b].DefaultPKey
	return x == 0 || y == 0 || (x|y)&0x8000 != 0
}

// visible applies shares between the requester and the end port that stands
// for port i: of a switch port 0.
func (q *query) visible(i int32) bool {
	p := &q.s.Ports[i]
	if p.EndPort < 0 {
		i = q.s.Nodes[p.Node].First
	}
	return q.shares(q.self, i)
}
