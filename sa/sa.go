// Package sa is subnet administration (class 0x03 on QP1): Answer answers
// queries from a published snapshot, Core takes what changes something.
//
// Answer is a pure function of snapshot, view and request; any number of
// goroutines may call it. The same query gives the same records in the same
// order: by port GUID, then port number. What is not served is refused with
// status 0x000C, never with silence. Silence is kept for those who must not
// learn anything: requests with a wrong SM_Key, and all requests while this
// manager is not the master of a subnet that is up.
//
// Nobody sees a port that he shares no partition with (IBA §15.4.1.2); keys and
// P_Key tables are told only to those who know the SA's key.
//
// A whole table is one message: one header and all records behind it, for
// transports that segment (kernel RMPP agents, and transport/rmpp). Where the
// far end cannot reassemble, a table is a single MAD of whole records, at most
// 168 bytes of them, because public simulators' clients receive no more intact;
// what does not fit is refused with ERR_TOO_MANY_RECORDS. No answer leaves
// records out.
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
	// maxPairs bounds the pairs of LIDs that one query looks at, whether it finds
	// a path between them or not: as many as there are paths in maxData.
	maxPairs = maxData / wire.PathRecordLen
)

// PublicKey is the SA key of OpenSM's default configuration, which administration tools
// have built in (osmtest) or are given by habit (saquery --smkey 1). Everybody knows it, so
// it is worth no more than no key, except where TrustLocal or an SAKey of the same value
// says otherwise.
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

// Options are the settings of the answers. They are not changed once in use.
type Options struct {
	// SAKey makes a request that carries it in SM_Key trusted; 0: no key does.
	SAKey uint64
	// TrustLocal makes a request trusted that carries PublicKey and comes from QP1 of the
	// manager's own port: only privileged programs of its host send from there. It does not
	// count while virtual functions share the port.
	TrustLocal bool
	// QoS is the policy of path answers; nil: none.
	QoS *qos.Policy
	// PathCaching is what PathRecord answers carry in the 3 reserved bits at bit
	// offset 353, by which hosts are told that they may cache; 0: nothing.
	PathCaching uint8
	// VirtHopLimit is the HopLimit of paths whose packets must have a GRH although
	// they stay in the subnet, because an end is a VPort that shares its LID: above
	// 1, which clients take as that. 0: 2.
	VirtHopLimit uint8
	// VirtRecords has NodeRecord and PortInfoRecord answers include the VPorts that
	// have LIDs of their own, as NVIDIA's OpenSM does with enable_virt_rec_ext.
	VirtRecords bool
	// PrefixRoutes are the routers to other subnets; the first that fits counts.
	PrefixRoutes []PrefixRoute
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
	ForCore                 // it changes something, or has to wait: give it to Core
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
	method  ib.Method
	attr    ib.AttrID // of the answer
	table   bool      // any number of records is an answer
	trusted bool
	me      int32 // index in Ports of the requester's port, which may be a virtual one; -1 if it is not known yet

	out    []byte
	recLen int
	n      int       // records found
	limit  int       // bytes of records that fit
	full   bool      // no more records are wanted
	budget int       // pairs of LIDs that a path query may still look at
	unread []ib.GUID // nodes whose lane tables the answer needs
	status ib.Status
}

// Answer appends the answer to resp. Requests that change something, and those
// that need tables which nobody has read, are for a Core. It allocates nothing
// for a PathRecord if resp has room.
func Answer(src *Source, req *Request, resp []byte) ([]byte, Verdict) {
	resp, v, _ := answer(src, req, resp)
	return resp, v
}

// answer is Answer; with ForCore it names the nodes whose lane tables must be
// read first.
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
		p := new(query) // q itself stays where it costs nothing
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

// dispatch has a query answered by the function for its method and attribute.
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

// room says how large records are, and with it how many fit.
func (q *query) room(size int) {
	q.recLen, q.limit = size, maxData
	q.table = q.method != ib.MethodGet
	switch {
	case !q.table:
		q.limit = 2 * size // the second one shows that there are too many
	case q.req.SingleMAD:
		q.limit = singleData / size * size
	}
}

var (
	noOptions Options
	noView    View
)

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
		opt = &noOptions
	}
	keyed := h.SMKey != 0 && h.SMKey == opt.SAKey
	if h.SMKey != 0 && h.SMKey != PublicKey && !keyed {
		return q, nil, Drop
	}
	q = query{
		s: s, v: src.View, opt: opt, req: req, mask: h.ComponentMask, mod: (*ib.MAD)(m).AttrMod(), data: m[wire.DataOffset:],
		trusted: keyed, me: -1,
	}
	if q.v == nil {
		q.v = &noView
	}
	if req.From.LID == 0 {
		q.me = s.PortIndex(s.Self)
	} else if q.me = requester(s, &req.From); q.me < 0 {
		return q, nil, Drop // nobody of this subnet
	}
	q.trusted = keyed || h.SMKey == PublicKey && opt.TrustLocal && q.local()
	return q, m, Answered
}

// local reports whether a request comes from QP1 of the manager's own port, which no virtual
// function shares. QP1 is the kernel's: other programs cannot send from it. A function that
// shares the port with its LID has an alias GUID there, or a VPort.
func (q *query) local() bool {
	self := q.s.PortIndex(q.s.Self)
	if self < 0 || q.me != self || q.req.From.QP != 1 {
		return false
	}
	p := &q.s.Ports[self]
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

// header checks that the request is an SA request at all. One that came by RMPP
// has no more data than its sender gave it (a MultiPathRecord of few GIDs): the
// rest is zeros.
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

// record makes room for one more record and returns it, nil if no more are
// wanted.
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
			q.status = statusTooMany // for who asks
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
	}
	return virtualServer(a)
}
