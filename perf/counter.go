package perf

import (
	"heddle/ib/pm"
)

// Counter is one of the counters that every port is to have (IBA §16.1.3.5 and §16.1.4.11).
type Counter uint8

// The counters, in the order of CounterSelect and CounterSelect2 of PortCountersExtended.
const (
	XmitData Counter = iota // words of 4 bytes
	RcvData
	XmitPkts
	RcvPkts
	UnicastXmitPkts
	UnicastRcvPkts
	MulticastXmitPkts
	MulticastRcvPkts
	SymbolErrors
	LinkErrorRecovery
	LinkDowned
	RcvErrors
	RcvRemotePhysErrors
	RcvSwitchRelayErrors
	XmitDiscards
	XmitConstraintErrors
	RcvConstraintErrors
	LocalLinkIntegrity
	ExcessiveBufOverrun
	VL15Dropped
	XmitWait // ticks, see Round.WaitShare
	QP1Dropped
	NumCounters
)

var counterNames = [NumCounters]string{
	"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortUnicastXmitPkts", "PortUnicastRcvPkts",
	"PortMulticastXmitPkts", "PortMulticastRcvPkts", "SymbolErrorCounter", "LinkErrorRecoveryCounter",
	"LinkDownedCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors",
	"PortXmitDiscards", "PortXmitConstraintErrors", "PortRcvConstraintErrors", "LocalLinkIntegrityErrors",
	"ExcessiveBufferOverrunErrors", "VL15Dropped", "PortXmitWait", "QP1Dropped",
}

// String is the field's name in the specification.
func (c Counter) String() string {
	if c < NumCounters {
		return counterNames[c]
	}
	return "counter?"
}

// IsError reports whether a counter counts errors: neither traffic nor waiting.
func (c Counter) IsError() bool { return c >= SymbolErrors && c != XmitWait && c < NumCounters }

// set is a set of counters, bit by bit.
type set uint32

// wideTraffic and wideErrors in a set of a column say which counters have 64 bits.
const (
	wideTraffic set = 1 << 30
	wideErrors  set = 1 << 31
)

// widthOf are these bits for the counters of x.
func (x *values) widthOf() (w set) {
	if x.wide&traffic != 0 {
		w |= wideTraffic
	}
	if x.wide&errorSet != 0 {
		w |= wideErrors
	}
	return w
}

func (s set) has(c Counter) bool { return s>>c&1 != 0 }

// Sets of counters that one Set clears: those of tools clear everything, all traffic, or all errors.
const (
	traffic  set = 1<<SymbolErrors - 1
	basic    set = 1<<UnicastXmitPkts - 1 // traffic that every port counts
	waiting  set = 1 << XmitWait
	errorSet set = (1<<NumCounters - 1) &^ traffic &^ waiting
)

// narrowBits is the width of each counter in PortCounters, 0 if it is not there.
var narrowBits = [NumCounters]uint8{
	32, 32, 32, 32, 0, 0, 0, 0, 16, 8, 8, 16, 16, 16, 16, 8, 8, 4, 4, 16, 32, 16,
}

// end is the largest value of a counter in PortCounters.
func (c Counter) end() uint64 { return 1<<narrowBits[c] - 1 }

// values are the counters as one answer gives them; have says which.
type values struct {
	have set
	wide set // of have, those of 64 bits
	v    [NumCounters]uint64
}

// narrow takes over PortCounters; wait and qp1: it has these two. With keep it leaves what is
// there already, from a wider attribute.
func (x *values) narrow(p *pm.PortCounters, wait, qp1 bool) {
	x.put(XmitData, uint64(p.PortXmitData))
	x.put(RcvData, uint64(p.PortRcvData))
	x.put(XmitPkts, uint64(p.PortXmitPkts))
	x.put(RcvPkts, uint64(p.PortRcvPkts))
	x.put(SymbolErrors, uint64(p.SymbolErrorCounter))
	x.put(LinkErrorRecovery, uint64(p.LinkErrorRecoveryCounter))
	x.put(LinkDowned, uint64(p.LinkDownedCounter))
	x.put(RcvErrors, uint64(p.PortRcvErrors))
	x.put(RcvRemotePhysErrors, uint64(p.PortRcvRemotePhysicalErrors))
	x.put(RcvSwitchRelayErrors, uint64(p.PortRcvSwitchRelayErrors))
	x.put(XmitDiscards, uint64(p.PortXmitDiscards))
	x.put(XmitConstraintErrors, uint64(p.PortXmitConstraintErrors))
	x.put(RcvConstraintErrors, uint64(p.PortRcvConstraintErrors))
	x.put(LocalLinkIntegrity, uint64(p.LocalLinkIntegrityErrors))
	x.put(ExcessiveBufOverrun, uint64(p.ExcessiveBufferOverrunErrors))
	x.put(VL15Dropped, uint64(p.VL15Dropped))
	if wait {
		x.put(XmitWait, uint64(p.PortXmitWait))
	}
	if qp1 {
		x.put(QP1Dropped, uint64(p.QP1Dropped))
	}
}

// put adds a counter of PortCounters, unless a wider one is there.
func (x *values) put(c Counter, v uint64) {
	if !x.have.has(c) {
		x.have |= 1 << c
		x.v[c] = v
	}
}

// extended takes over PortCountersExtended; ietf: it has unicast and multicast packets, errors: it
// has the second group.
func (x *values) extended(p *pm.PortCountersExtended, ietf, errors bool) {
	x.have = basic
	x.v = [NumCounters]uint64{
		p.PortXmitData, p.PortRcvData, p.PortXmitPkts, p.PortRcvPkts, p.PortUnicastXmitPkts, p.PortUnicastRcvPkts,
		p.PortMulticastXmitPkts, p.PortMulticastRcvPkts, p.SymbolErrorCounter, p.LinkErrorRecoveryCounter,
		p.LinkDownedCounter, p.PortRcvErrors, p.PortRcvRemotePhysicalErrors, p.PortRcvSwitchRelayErrors,
		p.PortXmitDiscards, p.PortXmitConstraintErrors, p.PortRcvConstraintErrors, p.LocalLinkIntegrityErrors,
		p.ExcessiveBufferOverrunErrors, p.VL15Dropped, p.PortXmitWait, p.QP1Dropped,
	}
	if ietf {
		x.have |= traffic
	}
	if errors {
		x.have |= errorSet | waiting
	}
	x.wide = x.have
}
