// Package sa is subnet administration (class 0x03 on QP1). Answer answers
// queries from a published snapshot; Core processes the requests that change
// state.
//
// Answer is a pure function of snapshot, view and request, safe for concurrent
// use; it may note which paths it hands out (Source.Held). The same query gives the same records in the same order: by port GUID,
// then port number. Unsupported requests are refused with status 0x000C.
// Requests get no response if their SM_Key is wrong, or while this manager is
// not the master of a subnet that is up, nor has what its predecessor published (Snapshot.Serves).
// From that queries are answered, and requests processed; no registration ends because of it.
//
// A requester sees only ports with which it shares a partition (IBA §15.4.1.2).
// Keys and P_Key tables are visible only with the SA_Key.
//
// A GetTable response is one message, a header followed by all records, for
// transports that segment (kernel RMPP agents, and transport/rmpp). If the far
// end cannot reassemble, the response is a single MAD of whole records, at most
// 168 bytes, because clients of public simulators receive no more intact; a
// larger result is refused with ERR_TOO_MANY_RECORDS. A response is never
// truncated.
package sa

import (
	"encoding/binary"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/qos"
	"heddle/sa/holder"
	"heddle/subnet"
)

// Request is one query.
type Request struct {
	From mad.Addr
	Data []byte // the MAD
	// SingleMAD: the far end cannot reassemble RMPP.
	SingleMAD bool
	// Asked is when it arrived; a Core copies it to the Reply.
	Asked mad.Time
}

const (
	// singleData is the capacity in bytes of a single-MAD table response.
	singleData = 168
	// maxData bounds the response to one query.
	maxData = 128 << 20
	// maxPairs bounds the pairs of LIDs that one query examines, whether or not it
	// finds a path: as many as maxData holds paths.
	maxPairs = maxData / wire.PathRecordLen
)

// PublicKey is the SA_Key of OpenSM's default configuration. Administration tools have it
// built in (osmtest) or usually get it (saquery --smkey 1). It is public, so it grants no
// trust, unless TrustLocal or an SAKey of the same value says otherwise.
const PublicKey = 1

// Status codes of the class (IBA §15.2.1).
const (
	statusNoResources  ib.Status = 0x0100
	statusInvalid      ib.Status = 0x0200
	statusNoRecords    ib.Status = 0x0300
	statusTooMany      ib.Status = 0x0400
	statusInvalidGID   ib.Status = 0x0500
	statusInsufficient ib.Status = 0x0600
	statusDenied       ib.Status = 0x0700
)

// Options configure the answers. They are immutable once in use.
type Options struct {
	// SAKey is the SM_Key value that makes a request trusted; 0: no key does.
	SAKey uint64
	// TrustLocal trusts requests with PublicKey from QP1 of the manager's own port, which
	// only privileged programs of its host can send. It has no effect while virtual
	// functions share the port.
	TrustLocal bool
	// QoS is the policy of path answers; nil: none.
	QoS *qos.Policy
	// PathCaching is the value of the 3 reserved bits at bit offset 353 of
	// PathRecord responses, which permit hosts to cache the path; 0: no
	// permission. It is given only for paths to destinations whose GID keeps its
	// LID (subnet.Snapshot.KeepsAddress).
	PathCaching uint8
	// VirtHopLimit is the HopLimit of paths within the subnet whose packets need a
	// GRH because an end is a VPort that shares its LID. Clients add a GRH if it is
	// above 1. 0: 2.
	VirtHopLimit uint8
	// VirtRecords includes VPorts that have their own LIDs in NodeRecord and
	// PortInfoRecord responses, as NVIDIA's OpenSM does with enable_virt_rec_ext.
	VirtRecords bool
	// PrefixRoutes are the routers to other subnets; the first match applies.
	PrefixRoutes []PrefixRoute
}

// Source is the data from which answers are made. Each part is immutable.
type Source struct {
	Snap *subnet.Snapshot
	View *View    // groups, services, subscriptions; nil: none yet
	Opt  *Options // nil: the zero value
	// Held, if set, is where the paths in answers are noted. It is the only thing that Answer
	// changes.
	Held *holder.Table
}

// Verdict is the outcome of Answer.
type Verdict uint8

// The verdicts.
const (
	Drop     Verdict = iota // the request gets no answer
	Answered                // the answer was appended
	ForCore                 // pass the request to Core: it changes state, or has to wait
)

// query is the state of a request during Answer.
type query struct {
	s       *subnet.Snapshot
	v       *View
	opt     *Options
	held    *holder.Table
	req     *Request
	mask    wire.CompMask
	mod     uint32
	data    []byte // of the request, 200 bytes
	method  ib.Method
	attr    ib.AttrID // attribute of the answer
	table   bool      // GetTable: any number of records is allowed
	trusted bool
	me      int32 // index in Ports of the requester's port, which may be a virtual one; -1: unknown

	out    []byte
	recLen int
	n      int       // records found
	limit  int       // bytes of records that fit
	full   bool      // no more records are wanted
	budget int       // pairs of LIDs that a path query may still examine
	unread []ib.GUID // nodes whose lane tables the answer needs
	status ib.Status
}

// Answer appends the response to resp. Requests that change state, and those
// that need tables that were not read yet, are for a Core. It does not allocate
// for a PathRecord if resp has room.
func Answer(src *Source, req *Request, resp []byte) ([]byte, Verdict) {
	resp, v, _ := answer(src, req, resp)
	return resp, v
}

// answer is Answer; with ForCore it also returns the nodes whose lane tables
// must be read first.
func answer(src *Source, req *Request, resp []byte) ([]byte, Verdict, []ib.GUID) {
	q, m, v := open(src, req)
	if v != Answered {
		return resp, v, nil
	}
	mm := (*ib.MAD)(m)
	if mm.ClassVersion() != wire.ClassVersion || mm.BaseVersion() != 1 {
		return refuse(resp, m, ib.StatusBadVersion), Answered, nil
	}
	q.method, q.attr = mm.Method(), mm.AttrID()
	if changes(q.method, q.attr) {
		return resp, ForCore, nil
	}
	start := len(resp)
	q.out = append(resp, m[:wire.HeaderLen]...)
	if q.attr == wire.AttrPathRecord && (q.method == ib.MethodGet || q.method == ib.MethodGetTable) {
		q.room(wire.PathRecordLen)
		pathRecords(&q)
	} else {
		p := new(query) // keeps q itself on the stack
		*p = q
		p.dispatch()
		q = *p
	}
	if len(q.unread) > 0 && q.status == 0 {
		return q.out[:start], ForCore, q.unread
	}
	if q.status == 0 && !q.table {
		switch {
		case q.n == 0:
			q.status = statusNoRecords
		case q.n > 1:
			q.status = statusTooMany
		}
	}
	if q.status != 0 {
		resp = refuse(q.out[:start], m, q.status)
		binary.BigEndian.PutUint16(resp[start+16:], uint16(q.attr))
		return resp, Answered, nil
	}
	q.finish(start)
	return q.out, Answered, nil
}

// dispatch calls the function for the query's method and attribute.
func (q *query) dispatch() {
	var serve func(*query)
	size := 0
	switch {
	case q.method == ib.MethodGetMulti && q.attr == wire.AttrMultiPathRecord:
		serve, size = multiPaths, wire.PathRecordLen
		q.attr = wire.AttrPathRecord
	case q.method == ib.MethodGetTraceTable && (q.attr == wire.AttrTraceRecord || q.attr == wire.AttrPathRecord):
		serve, size = traceRecords, wire.TraceRecordLen
		q.attr = wire.AttrTraceRecord
	case q.attr == wire.AttrClassPortInfo && q.method != ib.MethodGet:
		q.status = statusInvalid
		return
	case q.method == ib.MethodGet || q.method == ib.MethodGetTable:
		serve, size = server(q.attr)
	}
	if serve == nil {
		q.status = ib.StatusBadMethodAttr
		return
	}
	q.room(size)
	serve(q)
}

// room sets the record size, and with it how many records fit.
func (q *query) room(size int) {
	q.recLen, q.limit = size, maxData
	q.table = q.method != ib.MethodGet
	switch {
	case !q.table:
		q.limit = 2 * size // Get returns one record; a second one proves ambiguity
	case q.req.SingleMAD:
		q.limit = singleData / size * size
	}
}

var (
	noOptions Options
	noView    View
)

// open checks what precedes method and attribute: this manager is master,
// SM_Key is 0 or correct, and the requester belongs to this subnet. It drops
// everything else.
func open(src *Source, req *Request) (q query, m []byte, v Verdict) {
	s := src.Snap
	m, ok := header(req)
	if !ok || s == nil || !s.Serves() {
		return q, nil, Drop
	}
	var h wire.Header
	if h.Decode(m) != nil || wire.RMPPTypeOf(m) > wire.RMPPData {
		return q, nil, Drop // an ACK, STOP or ABORT of a transfer
	}
	opt := src.Opt
	if opt == nil {
		opt = &noOptions
	}
	keyed := h.SMKey != 0 && h.SMKey == opt.SAKey
	if h.SMKey != 0 && h.SMKey != PublicKey && !keyed {
		return q, nil, Drop
	}
	q = query{
		s: s, v: src.View, opt: opt, held: src.Held, req: req, mask: h.ComponentMask, mod: (*ib.MAD)(m).AttrMod(), data: m[wire.DataOffset:],
		trusted: keyed, me: -1,
	}
	if q.v == nil {
		q.v = &noView
	}
	if req.From.LID == 0 {
		q.me = s.PortIndex(s.Self)
	} else if q.me = requester(s, &req.From); q.me < 0 {
		return q, nil, Drop // not a port of this subnet
	}
	q.trusted = keyed || h.SMKey == PublicKey && opt.TrustLocal && q.local()
	return q, m, Answered
}

// local reports whether a request comes from QP1 of the manager's own port, and no virtual
// function shares that port. Only the kernel can send from QP1. A function that shares the
// port's LID has an alias GUID there, or a VPort.
func (q *query) local() bool {
	self := q.s.PortIndex(q.s.Self)
	if self < 0 || q.me != self || q.req.From.QP != 1 {
		return false
	}
	p := q.s.Ports[self]
	if p.Adapter != nil && p.Adapter.Model != subnet.SharedPort {
		return false
	}
	for _, g := range p.Aliases {
		if g != 0 && g != p.GUID {
			return false
		}
	}
	return true
}

// changes reports whether a request changes state.
func changes(m ib.Method, a ib.AttrID) bool {
	switch m {
	case ib.MethodSet:
		return a == wire.AttrMCMemberRecord || a == wire.AttrServiceRecord || a == wire.AttrInformInfo || a == wire.AttrGUIDInfoRecord
	case ib.MethodDelete:
		return a == wire.AttrMCMemberRecord || a == wire.AttrServiceRecord || a == wire.AttrGUIDInfoRecord
	}
	return false
}

// Busy appends a response with status BUSY.
func Busy(req *Request, resp []byte) ([]byte, bool) {
	m, ok := header(req)
	if !ok || wire.RMPPTypeOf(m) > wire.RMPPData {
		return resp, false
	}
	return refuse(resp, m, ib.StatusBusy), true
}

// header checks that the request is an SA request. An RMPP request may be
// shorter than a MAD (a MultiPathRecord with few GIDs); the rest is zero.
func header(req *Request) ([]byte, bool) {
	n := len(req.Data)
	if n < wire.HeaderLen || n < ib.MADLen && req.Data[26]&wire.RMPPActive == 0 {
		return nil, false
	}
	if n < ib.MADLen {
		req.Data = append(req.Data[:n:n], zeros[:ib.MADLen-n]...)
	}
	m := req.Data[:ib.MADLen]
	mm := (*ib.MAD)(m)
	if mm.Class() != ib.ClassSA || mm.Method().IsResponse() || mm.Method() == ib.MethodTrapRepress {
		return nil, false
	}
	return m, true
}

// respond turns a request's header into that of its response.
func respond(h []byte, st ib.Status) {
	mm := ib.Method(h[3])
	if mm == ib.MethodSet {
		mm = ib.MethodGet
	}
	h[3] = byte(mm | ib.MethodResponseBit)
	binary.BigEndian.PutUint16(h[4:], uint16(st))
	clear(h[24:46]) // RMPP header, SM_Key, AttributeOffset
}

// refuse appends an error response: a copy of the request with a status.
func refuse(resp, m []byte, st ib.Status) []byte {
	n := len(resp)
	resp = append(resp, m...)
	respond(resp[n:], st)
	return resp
}

// finish completes the header of a response with records.
func (q *query) finish(start int) {
	h := q.out[start : start+wire.HeaderLen]
	respond(h, 0)
	binary.BigEndian.PutUint16(h[16:], uint16(q.attr))
	var off uint16
	if q.attr != wire.AttrClassPortInfo {
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

// record returns space for one more record; nil if no more are wanted.
func (q *query) record() []byte {
	if q.full {
		return nil
	}
	if (q.n+1)*q.recLen > q.limit {
		q.full = true
		switch {
		case q.limit == maxData:
			q.status = statusNoResources
		case q.table:
			q.status = statusTooMany // reported to the requester
		}
		return nil
	}
	n := len(q.out)
	q.out = append(q.out, zeros[:q.recLen]...)
	q.n++
	return q.out[n:]
}

// drop removes the last record.
func (q *query) drop() {
	q.out = q.out[:len(q.out)-q.recLen]
	q.n--
}

// has reports whether the request selects a component.
func (q *query) has(c wire.CompMask) bool { return q.mask.Has(c) }

// server returns the function that answers an attribute, and its record size.
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
	case wire.AttrSLtoVLRecord:
		return slToVLRecords, wire.SLtoVLRecordLen
	case wire.AttrVLArbRecord:
		return vlArbRecords, wire.VLArbRecordLen
	case wire.AttrMFTRecord:
		return mftRecords, wire.MFTRecordLen
	case wire.AttrPKeyTableRecord:
		return pKeyRecords, wire.PKeyTableRecordLen
	case wire.AttrMCMemberRecord:
		return memberRecords, wire.MCMemberRecordLen
	case wire.AttrServiceRecord:
		return serviceRecords, wire.ServiceRecordLen
	case wire.AttrInformInfoRecord:
		return informRecords, wire.InformInfoRecordLen
	case wire.AttrGUIDInfoRecord:
		return guidInfoRecords, wire.GUIDInfoRecordLen
	case wire.AttrPathChangeRecord:
		return pathChanges, wire.PathChangeRecordLen
	}
	return virtualServer(a)
}
