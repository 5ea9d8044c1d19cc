// Package sa answers queries of the subnet administration class (0x03) from a
// published snapshot: ClassPortInfo, NodeRecord, PortInfoRecord,
// SwitchInfoRecord, SMInfoRecord, LinkRecord, LinearForwardingTableRecord and
// PathRecord.
//
// Answer is a pure function of snapshot and request; any number of goroutines
// may call it. The same query gives the same records in the same order: by
// port GUID, then port number. What is not served is refused with status
// 0x000C, never with silence. Silence is kept for those who must not learn
// anything: requests with a wrong SM_Key, and all requests while this manager
// is not the master of a subnet that is up.
//
// A whole table is one message: one header and all records behind it, for
// transports that segment (kernel RMPP agents, and transport/ibsim with
// rmpp=on). Where the far end cannot reassemble, the answer is a single MAD
// of whole records, at most 168 bytes of them, because public simulators'
// clients receive no more intact.
package sa

import (
	"encoding/binary"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/qos"
	"heddle/subnet"
)

// Request is one query.
type Request struct {
	From mad.Addr
	Data []byte // the MAD
	// SingleMAD: the far end cannot reassemble RMPP.
	SingleMAD bool
}

const (
	// singleData is how much record data a single-MAD table answer carries.
	singleData = 168
	// maxData bounds the answer to one query.
	maxData = 128 << 20
)

// Status codes of the class (IBA §15.2.1).
const (
	statusNoResources  ib.Status = 0x0100
	statusInvalid      ib.Status = 0x0200
	statusNoRecords    ib.Status = 0x0300
	statusTooMany      ib.Status = 0x0400
	statusInvalidGID   ib.Status = 0x0500
	statusInsufficient ib.Status = 0x0600
)

// Options are the settings of the answers. They are not changed once in use.
type Options struct {
	// SAKey makes a request that carries it in SM_Key trusted; 0 trusts nobody.
	SAKey uint64
	// QoS is the policy of path answers; nil: none.
	QoS *qos.Policy
	// PathCaching is what PathRecord answers carry in the 3 reserved bits at bit
	// offset 353, by which hosts are told that they may cache; 0: nothing.
	PathCaching uint8
}

// Source is what answers are made from. Each part is immutable.
type Source struct {
	Snap *subnet.Snapshot
	View *View    // groups, services, subscriptions; nil: none yet
	Opt  *Options // nil: the zero value
}

// Verdict says what becomes of a request.
type Verdict uint8

// The verdicts.
const (
	Drop     Verdict = iota // no answer, and none will come
	Answered                // the answer was appended
	ForCore                 // it changes something: give it to Core
)

// query is a request being answered.
type query struct {
	s       *subnet.Snapshot
	v       *View
	opt     *Options
	req     *Request
	mask    wire.CompMask
	mod     uint32
	data    []byte // of the request, 200 bytes
	table   bool
	trusted bool
	me      int32 // index in Ports of the requester's port

	out    []byte
	recLen int
	n      int  // records found
	limit  int  // bytes of records that fit
	full   bool // no more records are wanted
	status ib.Status
}

// Answer appends the answer to resp. Requests that change something are for a
// Core.
func Answer(src *Source, req *Request, resp []byte) ([]byte, Verdict) {
	q, m, v := open(src, req)
	if v != Answered {
		return resp, v
	}
	mm := (*ib.MAD)(m)
	if mm.ClassVersion() != wire.ClassVersion || mm.BaseVersion() != 1 {
		return refuse(resp, m, ib.StatusBadVersion), Answered
	}
	method := mm.Method()
	if changes(method, mm.AttrID()) {
		return resp, ForCore
	}
	q.table = method == ib.MethodGetTable
	serve, size := server(mm.AttrID())
	if serve == nil || method != ib.MethodGet && !q.table || q.table && mm.AttrID() == wire.AttrClassPortInfo {
		if method != ib.MethodGet && mm.AttrID() == wire.AttrClassPortInfo {
			return refuse(resp, m, statusInvalid), Answered
		}
		return refuse(resp, m, ib.StatusBadMethodAttr), Answered
	}
	start := len(resp)
	q.out = append(resp, m[:wire.HeaderLen]...)
	q.recLen, q.limit = size, maxData
	switch {
	case !q.table:
		q.limit = 2 * size // the second one shows that there are too many
	case req.SingleMAD:
		q.limit = singleData / size * size
	}
	serve(&q)
	if q.status == 0 && !q.table {
		switch {
		case q.n == 0:
			q.status = statusNoRecords
		case q.n > 1:
			q.status = statusTooMany
		}
	}
	if q.status != 0 {
		return refuse(q.out[:start], m, q.status), Answered
	}
	q.finish(start)
	return q.out, Answered
}

// open checks what comes before method and attribute: that it is a request to
// a master, that the SM_Key is 0 or right, and that the requester is one of
// this subnet. Anything else is dropped.
func open(src *Source, req *Request) (q query, m []byte, v Verdict) {
	s := src.Snap
	m, ok := header(req)
	if !ok || s == nil || !s.Up || s.State != subnet.Master {
		return q, nil, Drop
	}
	var h wire.Header
	if h.Decode(m) != nil || wire.RMPPTypeOf(m) > wire.RMPPData {
		return q, nil, Drop // an ACK, STOP or ABORT of a transfer
	}
	opt := src.Opt
	if opt == nil {
		opt = &Options{}
	}
	if h.SMKey != 0 && h.SMKey != opt.SAKey {
		return q, nil, Drop
	}
	q = query{
		s: s, v: src.View, opt: opt, req: req, mask: h.ComponentMask, mod: (*ib.MAD)(m).AttrMod(), data: m[wire.DataOffset:],
		trusted: h.SMKey != 0, me: -1,
	}
	if q.v == nil {
		q.v = &View{}
	}
	if lid := req.From.LID; lid == 0 {
		q.me = s.PortIndex(s.Self)
	} else if q.me = s.PortByLID(lid); q.me < 0 {
		return q, nil, Drop // nobody of this subnet
	}
	return q, m, Answered
}

// changes reports whether a request is one that changes something.
func changes(m ib.Method, a ib.AttrID) bool {
	switch m {
	case ib.MethodSet:
		return a == wire.AttrMCMemberRecord || a == wire.AttrServiceRecord || a == wire.AttrInformInfo || a == wire.AttrGUIDInfoRecord
	case ib.MethodDelete:
		return a == wire.AttrMCMemberRecord || a == wire.AttrServiceRecord || a == wire.AttrGUIDInfoRecord
	}
	return false
}

// Busy appends the answer of a manager that has no time for the request.
func Busy(req *Request, resp []byte) ([]byte, bool) {
	m, ok := header(req)
	if !ok || wire.RMPPTypeOf(m) > wire.RMPPData {
		return resp, false
	}
	return refuse(resp, m, ib.StatusBusy), true
}

// header checks that the request is an SA request at all.
func header(req *Request) ([]byte, bool) {
	if len(req.Data) < ib.MADLen {
		return nil, false
	}
	m := req.Data[:ib.MADLen]
	mm := (*ib.MAD)(m)
	if mm.Class() != ib.ClassSA || mm.Method().IsResponse() || mm.Method() == ib.MethodTrapRepress {
		return nil, false
	}
	return m, true
}

// respond turns the header of a request into that of its answer.
func respond(h []byte, st ib.Status) {
	mm := ib.Method(h[3])
	if mm == ib.MethodSet {
		mm = ib.MethodGet
	}
	h[3] = byte(mm | ib.MethodResponseBit)
	binary.BigEndian.PutUint16(h[4:], uint16(st))
	clear(h[24:46]) // RMPP header, SM_Key, AttributeOffset
}

// refuse appends an error answer: a copy of the request with a status.
func refuse(resp, m []byte, st ib.Status) []byte {
	n := len(resp)
	resp = append(resp, m...)
	respond(resp[n:], st)
	return resp
}

// finish completes the header of an answer with records.
func (q *query) finish(start int) {
	h := q.out[start : start+wire.HeaderLen]
	respond(h, 0)
	var off uint16
	if q.recLen != wire.ClassPortInfoLen || h[17] != byte(wire.AttrClassPortInfo) {
		off = wire.OffsetWords(q.recLen)
	}
	if q.table && q.n == 0 {
		off = 0
	}
	binary.BigEndian.PutUint16(h[44:], off)
	switch {
	case !q.table:
		q.out = append(q.out, zeros[:ib.MADLen-(len(q.out)-start)]...)
	case q.req.SingleMAD:
		n := len(q.out) - start - wire.HeaderLen
		h[24], h[25], h[26] = wire.RMPPVersion, wire.RMPPData, wire.RMPPActive|wire.RMPPFirst|wire.RMPPLast
		binary.BigEndian.PutUint32(h[28:], 1)
		binary.BigEndian.PutUint32(h[32:], uint32(wire.SegmentHeader+n))
	default:
		h[26] = wire.RMPPActive // the transport fills in the rest
	}
}

var zeros [ib.MADLen]byte

// record makes room for one more record and returns it, nil if no more are
// wanted.
func (q *query) record() []byte {
	if q.full {
		return nil
	}
	if (q.n+1)*q.recLen > q.limit {
		q.full = true
		if q.limit == maxData {
			q.status = statusNoResources
		}
		return nil
	}
	n := len(q.out)
	q.out = append(q.out, zeros[:q.recLen]...)
	q.n++
	return q.out[n:]
}

// drop takes the last record back.
func (q *query) drop() {
	q.out = q.out[:len(q.out)-q.recLen]
	q.n--
}

// has reports whether a component is asked for.
func (q *query) has(c wire.CompMask) bool { return q.mask.Has(c) }

// ownsLID reports whether the port has the LID, any of its LMC range.
func ownsLID(p *subnet.Port, lid ib.LID) bool {
	return lid >= p.LID && int(lid) < int(p.LID)+1<<p.LMC
}

// endPort is the index of the end port that a port belongs to: port 0 for
// switch ports.
func (q *query) endPort(p *subnet.Port) int32 {
	nd := &q.s.Nodes[p.Node]
	if nd.Info.NodeType == ib.NodeSwitch {
		return nd.First
	}
	return nd.First + int32(p.Num)
}

// visible reports whether the requester may see a port.
func (q *query) visible(p *subnet.Port) bool {
	return q.me < 0 || q.s.Share(q.me, q.endPort(p))
}

// server is what answers an attribute, and the size of its record.
func server(a ib.AttrID) (func(*query), int) {
	switch a {
	case wire.AttrClassPortInfo:
		return classPortInfo, wire.ClassPortInfoLen
	case wire.AttrNodeRecord:
		return nodeRecords, wire.NodeRecordLen
	case wire.AttrPortInfoRecord:
		return portInfoRecords, wire.PortInfoRecordLen
	case wire.AttrSwitchInfoRecord:
		return switchInfoRecords, wire.SwitchInfoRecordLen
	case wire.AttrSMInfoRecord:
		return smInfoRecords, wire.SMInfoRecordLen
	case wire.AttrLinkRecord:
		return linkRecords, wire.LinkRecordLen
	case wire.AttrLFTRecord:
		return lftRecords, wire.LFTRecordLen
	case wire.AttrPathRecord:
		return pathRecords, wire.PathRecordLen
	case wire.AttrMCMemberRecord:
		return memberRecords, wire.MCMemberRecordLen
	case wire.AttrServiceRecord:
		return serviceRecords, wire.ServiceRecordLen
	case wire.AttrInformInfoRecord:
		return informRecords, wire.InformInfoRecordLen
	case wire.AttrGUIDInfoRecord:
		return guidInfoRecords, wire.GUIDInfoRecordLen
	}
	return nil, 0
}
