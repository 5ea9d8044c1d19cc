package sim

import (
	"heddle/ib"
	"heddle/ib/pm"
)

// Error counters, in the order of CounterSelect2 of PortCountersExtended.
const (
	errSymbol = iota
	errRecovery
	errDowned
	errRcv
	errRcvRemPhys
	errRelay
	errDiscard
	errXmitConstraint
	errRcvConstraint
	errIntegrity
	errOverrun
	errVL15Dropped
	errXmitWait
	errQP1Dropped
	numErrs
)

// errMax32 is where PortCounters stops counting each error.
var errMax32 = [numErrs]uint64{
	0xFFFF, 0xFF, 0xFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFF, 0xFF, 0xF, 0xF, 0xFFFF,
	0xFFFFFFFF, 0xFFFF,
}

// detailAttr describes an attribute that is a row of n counters of the same
// width from byte 4 on.
type detailAttr struct {
	attr ib.AttrID
	bits uint8
	n    uint8
}

// The attributes that devices keep.
const (
	detRcvErrors = iota
	detXmitDiscards
	detOpRcv
	detFlowCtl
	detVLPackets
	detVLData
	detVLFlowCtlErrors
	detVLXmitWait
	detXmitDataSL
	detRcvDataSL
	detCongestion
	numDetails
)

var details = [numDetails]detailAttr{
	detRcvErrors:       {pm.AttrPortRcvErrorDetails, 16, 6},
	detXmitDiscards:    {pm.AttrPortXmitDiscardDetails, 16, 4},
	detOpRcv:           {pm.AttrPortOpRcvCounters, 32, 2},
	detFlowCtl:         {pm.AttrPortFlowCtlCounters, 32, 2},
	detVLPackets:       {pm.AttrPortVLOpPackets, 16, 16},
	detVLData:          {pm.AttrPortVLOpData, 32, 16},
	detVLFlowCtlErrors: {pm.AttrPortVLXmitFlowCtlUpdateErrors, 2, 16},
	detVLXmitWait:      {pm.AttrPortVLXmitWait, 16, 16},
	detXmitDataSL:      {pm.AttrPortXmitDataSL, 32, 16},
	detRcvDataSL:       {pm.AttrPortRcvDataSL, 32, 16},
	detCongestion:      {pm.AttrSwPortVLCongestion, 16, 16},
}

// Places in detOpRcv, detRcvErrors and detXmitDiscards.
const (
	opPackets       = 0
	opWords         = 1
	relayDLID       = 3 // DLID mapping
	relayVL         = 4 // VL mapping
	discardInactive = 0
	discardMTU      = 1 // longer than the neighbor's MTU
	discardLifetime = 2 // of packets in a switch
	discardHOQ      = 3 // head of queue life
)

// pmState is the state of a port's PMA besides its traffic counters.
type pmState struct {
	// row is created when a detail attribute is first read or counted, or when the
	// data plane has something for it; datagrams are counted by VL and SL from then on.
	row  *[numDetails][16]uint64
	vl15 uint64 // datagrams that have come in on VL15 and are not in row yet
	err  [numErrs]uint64
	smp  sampler
}

// rows are the detail attributes, brought up to the present.
func (m *pmState) rows() *[numDetails][16]uint64 {
	if m.row == nil {
		m.row = new([numDetails][16]uint64)
	}
	if m.vl15 > 0 {
		m.countVL(15, m.vl15)
		m.vl15 = 0
	}
	return m.row
}

// countVL counts datagrams that have come in on a lane. Devices do not tell operations of the
// transport apart, so OpCode selects nothing.
func (m *pmState) countVL(vl int, n uint64) {
	m.row[detVLPackets][vl] += n
	m.row[detVLData][vl] += n * madWords
	m.row[detOpRcv][opPackets] += n
	m.row[detOpRcv][opWords] += n * madWords
}

func sat32(c *uint32, n uint32) {
	if v := *c + n; v >= n {
		*c = v
	} else {
		*c = 1<<32 - 1
	}
}

// add32 adds to a 32-bit counter, which stops at its end, or goes on from 0.
func add32(to *uint32, n uint64, wraps bool) {
	if wraps {
		*to += uint32(n)
	} else {
		*to = uint32(min(uint64(*to)+n, 1<<32-1))
	}
}

// sent counts a MAD that leaves.
func (c *counters) sent(dlid ib.LID, wraps bool) {
	c.xmitPkts++
	c.xmitData += madWords
	add32(&c.xmitPkts32, 1, wraps)
	add32(&c.xmitData32, madWords, wraps)
	if dlid.IsMulticast() {
		c.mxmit++
	} else {
		c.uxmit++
	}
}

// received counts a MAD that arrives.
func (c *counters) received(dlid ib.LID, wraps bool) {
	c.rcvPkts++
	c.rcvData += madWords
	add32(&c.rcvPkts32, 1, wraps)
	add32(&c.rcvData32, madWords, wraps)
	if dlid.IsMulticast() {
		c.mrcv++
	} else {
		c.urcv++
	}
}

// sentSL counts a datagram that leaves by its SL. SMPs have none.
func (m *pmState) sentSL(f *flight) {
	if m.row != nil && !f.smp {
		m.row[detXmitDataSL][f.sl] += madWords
	}
}

// receivedVL counts a datagram that has come in by VL and SL; an SMP in one cache line.
func (s *Subnet) receivedVL(m *pmState, f *flight) {
	switch {
	case m.row == nil:
	case f.smp:
		m.vl15++
	default:
		m.row[detRcvDataSL][f.sl] += madWords
		m.countVL(int(f.sl)%ib.VLsOf(s.cfg.VLCap), 1)
	}
}

func (s *Subnet) countError(p int32, which int) { s.coldOf(p).pm.err[which]++ }

func (s *Subnet) countDowned(p int32)   { s.countError(p, errDowned) }
func (s *Subnet) countVL15Drop(p int32) { s.countError(p, errVL15Dropped) }

// countDiscard: an outbound packet could not leave.
func (s *Subnet) countDiscard(p int32) {
	c := s.coldOf(p)
	c.pm.err[errDiscard]++
	c.pm.rows()[detXmitDiscards][discardInactive]++
}

// countRelayError: a switch could not forward what came in on p.
func (s *Subnet) countRelayError(p int32, why int) {
	c := s.coldOf(p)
	c.pm.err[errRelay]++
	c.pm.rows()[detRcvErrors][why]++
}

func (s *Subnet) countConstraint(p int32, inbound bool) {
	if inbound {
		s.countError(p, errRcvConstraint)
	} else {
		s.countError(p, errXmitConstraint)
	}
}
