// Package acm is the wire format of ibacm's service protocol, which librdmacm and ib_acme
// speak over a stream socket: requests with a 16-byte header and up to eight 72-byte endpoint
// records, one answer each. The lengths of RESOLVE, and flags and types of records, are in the
// host's byte order; addresses and path records are in the network's.
//
// Values and functions only, safe for concurrent use.
package acm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"heddle/ib"
	wire "heddle/ib/sa"
)

// Sizes of the protocol.
const (
	Version      = 1
	HeaderLen    = 16
	EndpointLen  = 72
	MaxEndpoints = 8
	MaxLen       = HeaderLen + MaxEndpoints*EndpointLen // of a request, and of a RESOLVE answer
	infoLen      = 64
)

// Op is an operation.
type Op uint8

// The operations. Ack is set in answers.
const (
	Resolve   Op = 1
	PerfQuery Op = 2
	EPQuery   Op = 3
	opMask    Op = 0x0F
	Ack       Op = 0x80
)

// Status is the result in an answer.
type Status uint8

// The statuses.
const (
	OK           Status = 0
	NoMemory     Status = 1
	Invalid      Status = 2
	NoData       Status = 3
	NotConnected Status = 5
	TimedOut     Status = 6
	BadSource    Status = 7
	BadSrcType   Status = 8
	BadDest      Status = 9
	BadDestType  Status = 10
)

// Type is the type of an endpoint record.
type Type uint16

// The types.
const (
	TypeName Type = 1
	TypeIPv4 Type = 2
	TypeIPv6 Type = 3
	TypePath Type = 0x10
)

// Flags of endpoint records in requests.
const (
	FlagSource  uint32 = 1 << 0
	FlagDest    uint32 = 1 << 1
	FlagNoDelay uint32 = 1 << 30 // answer from the cache alone
	FlagQuerySA uint32 = 1 << 31 // ask the SA, whatever the cache holds
)

// PathFlags are the flags of a path in an answer: GMP, PRIMARY and BIDIRECTIONAL. The kernel
// takes a path from a program only with exactly these.
const PathFlags uint32 = 0x2B

// Endpoint is an endpoint record.
type Endpoint struct {
	Flags uint32
	Type  Type
	Info  [infoLen]byte
}

// Header is the header of a message.
type Header struct {
	Op     Op // with Ack in answers
	Status Status
	Data   [3]uint8 // by Op; in requests EP_QUERY: index, port
	Length int
	TID    uint64 // opaque
}

// Request is a request.
type Request struct {
	Header
	Endpoints []Endpoint
}

// ErrMalformed: a message of another version, or of a length that no request has. The service
// closes the connection.
var ErrMalformed = errors.New("malformed request")

// DecodeHeader reads the header of a request, and checks its length.
func DecodeHeader(b []byte) (h Header, err error) {
	if len(b) < HeaderLen {
		return h, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	h = Header{Op: Op(b[1]), Status: Status(b[2]), Data: [3]uint8(b[3:6]), TID: binary.NativeEndian.Uint64(b[8:])}
	if h.Op&opMask == Resolve {
		h.Length = int(binary.NativeEndian.Uint16(b[6:]))
	} else {
		h.Length = int(binary.BigEndian.Uint16(b[6:]))
	}
	if b[0] != Version || h.Length < HeaderLen || h.Length > MaxLen || (h.Length-HeaderLen)%EndpointLen != 0 {
		return h, fmt.Errorf("%w: version %d, operation %#x, length %d", ErrMalformed, b[0], b[1], h.Length)
	}
	return h, nil
}

// Decode reads a whole request.
func Decode(b []byte) (r Request, err error) {
	if r.Header, err = DecodeHeader(b); err != nil {
		return r, err
	}
	if len(b) != r.Length {
		return r, fmt.Errorf("%w: %d bytes of %d", ErrMalformed, len(b), r.Length)
	}
	for b = b[HeaderLen:]; len(b) > 0; b = b[EndpointLen:] {
		r.Endpoints = append(r.Endpoints, Endpoint{
			Flags: binary.NativeEndian.Uint32(b), Type: Type(binary.NativeEndian.Uint16(b[4:])), Info: [infoLen]byte(b[8:EndpointLen]),
		})
	}
	return r, nil
}

// Append encodes a message with endpoint records. Its length is written as op has it.
func Append(b []byte, h Header, eps ...Endpoint) []byte {
	n := HeaderLen + len(eps)*EndpointLen
	b = appendHeader(b, h, n)
	for i := range eps {
		e := &eps[i]
		b = binary.NativeEndian.AppendUint32(b, e.Flags)
		b = binary.NativeEndian.AppendUint16(b, uint16(e.Type))
		b = append(b, 0, 0)
		b = append(b, e.Info[:]...)
	}
	return b
}

func appendHeader(b []byte, h Header, n int) []byte {
	b = append(b, Version, byte(h.Op), byte(h.Status), h.Data[0], h.Data[1], h.Data[2])
	if h.Op&opMask == Resolve {
		b = binary.NativeEndian.AppendUint16(b, uint16(n))
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	}
	return binary.NativeEndian.AppendUint64(b, h.TID)
}

// Answer is the header of an answer to r.
func (r *Request) Answer(st Status) Header {
	h := Header{Op: r.Op | Ack, Status: st, TID: r.TID}
	if r.Op&opMask != Resolve {
		h.Data = r.Data
	}
	return h
}

// Question is what a RESOLVE request asks.
type Question struct {
	// Path: the question is for Record's components in Mask.
	Path   bool
	Mask   wire.CompMask
	Record wire.PathRecord
	// Otherwise it is for the path from Source to Dest; a Source that is nil is to be chosen.
	Source, Dest *Endpoint
	Flags        uint32 // NoDelay and QuerySA
}

// Question evaluates a RESOLVE request.
func (r *Request) Question() (q Question, st Status) {
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		q.Flags |= e.Flags & (FlagNoDelay | FlagQuerySA)
		switch {
		case e.Type == TypePath && !q.Path:
			q.Mask, q.Record = e.components()
			q.Path = q.Mask.Any(wire.PathCompDGID | wire.PathCompDLID)
		case e.Type == TypePath:
		case e.Flags&FlagSource != 0 && q.Source == nil:
			if q.Source = e; e.Type < TypeName || e.Type > TypeIPv6 {
				return q, BadSrcType
			}
		case e.Flags&FlagDest != 0 && q.Dest == nil:
			if q.Dest = e; e.Type < TypeName || e.Type > TypeIPv6 {
				return q, BadDestType
			}
		default:
			return q, Invalid
		}
	}
	if !q.Path && q.Dest == nil {
		return q, Invalid
	}
	return q, OK
}

// components reads a path record of a request, whose components are those that are not zero.
func (e *Endpoint) components() (mask wire.CompMask, r wire.PathRecord) {
	_ = r.Decode(e.Info[:]) // fails by length alone
	for _, c := range []struct {
		comp wire.CompMask
		set  bool
	}{
		{wire.PathCompServiceID8 | wire.PathCompServiceID56, r.ServiceID != 0},
		{wire.PathCompDGID, !r.DGID.IsZero()},
		{wire.PathCompSGID, !r.SGID.IsZero()},
		{wire.PathCompDLID, r.DLID != 0},
		{wire.PathCompSLID, r.SLID != 0},
		{wire.PathCompRawTraffic, r.RawTraffic},
		{wire.PathCompFlowLabel, r.FlowLabel != 0},
		{wire.PathCompHopLimit, r.HopLimit != 0},
		{wire.PathCompTClass, r.TClass != 0},
		{wire.PathCompReversible, r.Reversible},
		{wire.PathCompPKey, r.PKey != 0},
		{wire.PathCompQoSClass, r.QoSClass != 0},
		{wire.PathCompSL, r.SL != 0},
		{wire.PathCompMTUSelector | wire.PathCompMTU, r.MTU != 0},
		{wire.PathCompRateSelector | wire.PathCompRate, r.Rate != 0},
		{wire.PathCompLifeSelector | wire.PathCompPacketLifeTime, r.PacketLifeTime != 0},
	} {
		if c.set {
			mask |= c.comp
		}
	}
	return mask, r
}

// PathEndpoint is a path as an answer has it.
func PathEndpoint(r wire.PathRecord) Endpoint {
	e := Endpoint{Flags: PathFlags, Type: TypePath}
	if r.NumbPath == 0 {
		r.NumbPath = 1
	}
	r.Put(e.Info[:])
	return e
}

// Address is the IP address of an endpoint record.
func (e *Endpoint) Address() (netip.Addr, bool) {
	switch e.Type {
	case TypeIPv4:
		return netip.AddrFrom4([4]byte(e.Info[:4])), true
	case TypeIPv6:
		return netip.AddrFrom16([16]byte(e.Info[:16])), true
	}
	return netip.Addr{}, false
}

// Name is the text of an endpoint record of TypeName.
func (e *Endpoint) Name() string {
	for i, c := range e.Info {
		if c == 0 {
			return string(e.Info[:i])
		}
	}
	return string(e.Info[:])
}

// AddressEndpoint is an address as a record.
func AddressEndpoint(a netip.Addr, flags uint32) Endpoint {
	e := Endpoint{Flags: flags}
	if a.Is4() {
		e.Type = TypeIPv4
	} else {
		e.Type = TypeIPv6
	}
	copy(e.Info[:], a.AsSlice())
	return e
}

// counters is how many counters a PERF_QUERY answer has.
const counters = 7

// Counters are those of a PERF_QUERY answer, in its order.
type Counters struct {
	Errors, Resolves, NoData, AddrQueries, AddrHits, RouteQueries, RouteHits uint64
}

// AppendCounters encodes the answer to a PERF_QUERY.
func AppendCounters(b []byte, r *Request, c Counters) []byte {
	h := r.Answer(OK)
	h.Data[0] = counters
	b = appendHeader(b, h, HeaderLen+8*counters)
	for _, v := range [counters]uint64{c.Errors, c.Resolves, c.NoData, c.AddrQueries, c.AddrHits, c.RouteQueries, c.RouteHits} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// EP describes a port in the answer to an EP_QUERY.
type EP struct {
	NodeGUID  ib.GUID
	Port      uint8
	Ports     uint8 // of the device
	PKey      ib.PKey
	Provider  string
	Addresses []string // at most maxAddresses are sent
}

const maxAddresses = 64

// AppendEP encodes the answer to an EP_QUERY.
func AppendEP(b []byte, r *Request, e *EP) []byte {
	list := e.Addresses[:min(len(e.Addresses), maxAddresses)]
	b = appendHeader(b, r.Answer(OK), HeaderLen+16+infoLen+infoLen*len(list))
	b = binary.BigEndian.AppendUint64(b, uint64(e.NodeGUID))
	b = append(b, e.Port, e.Ports, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(e.PKey))
	b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
	for _, s := range append([]string{e.Provider}, list...) {
		var text [infoLen]byte
		copy(text[:infoLen-1], s)
		b = append(b, text[:]...)
	}
	return b
}
