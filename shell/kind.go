package shell

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Kind is the kind of a received packet.
type Kind uint8

// The kinds.
const (
	// Other is for agents that a manager does not have, or a response without a request.
	Other Kind = iota
	// SMP is for the subnet manager.
	SMP
	// Query is an SA request that sa.Answer answers from the published state, or, rarely,
	// passes on to the SA's core.
	Query
	// Change is an SA request that changes the SA's registry, unless sa.Answer refuses it.
	// Changes of one requester keep their order.
	Change
	// ReportAnswer is a response to a Report of the SA, or a Report that came back undelivered.
	// It is for the SA's core.
	ReportAnswer
	// Counters is an answer to the performance manager, or a request of its own that came back.
	Counters
	// Settings is an answer to the congestion control manager, or a request of its own that came
	// back.
	Settings
	// Returned is an answer of the SA that came back undelivered.
	Returned
)

// headerLen is the length of the common MAD header (IBA 13.4.2).
const headerLen = 24

// KindOf sorts a packet.
func KindOf(p *mad.Packet) Kind {
	if len(p.Data) < headerLen {
		return Other
	}
	switch ib.Class(p.Data[1]) {
	case ib.ClassSubnLID, ib.ClassSubnDR:
		return SMP
	case ib.ClassSA:
	case ib.ClassPerf:
		if p.Status == mad.Failed || ib.Method(p.Data[3]).IsResponse() {
			return Counters
		}
		return Other
	case ib.ClassCC:
		if p.Status == mad.Failed || ib.Method(p.Data[3]).IsResponse() {
			return Settings
		}
		return Other
	default:
		return Other
	}
	switch method := ib.Method(p.Data[3]); {
	case method == ib.MethodReportResp, p.Status == mad.Failed && method == ib.MethodReport:
		return ReportAnswer
	case p.Status == mad.Failed:
		return Returned
	case method.IsResponse(), len(p.Data) >= wire.HeaderLen && wire.RMPPTypeOf(p.Data) > wire.RMPPData:
		return Other // an answer, or an acknowledgement of a segment
	case method == ib.MethodSet, method == ib.MethodDelete:
		return Change
	}
	return Query
}
