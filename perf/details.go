package perf

import (
	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
)

// The fields of PortRcvErrorDetails and PortXmitDiscardDetails, in order.
const (
	LocalPhysicalErrors = iota // of PortRcvErrorDetails
	MalformedPacketErrors
	BufferOverrunErrors
	DLIDMappingErrors
	VLMappingErrors
	LoopingErrors
	NumRcvDetails
)

const (
	InactiveDiscards = iota // of PortXmitDiscardDetails
	NeighborMTUDiscards
	SwLifetimeLimitDiscards
	SwHOQLifetimeLimitDiscards
	NumDiscardDetails
)

// Details are the counters of a port that few ports have to be asked for. They are immutable.
type Details struct {
	// Rcv and Discards add up PortRcvErrorDetails and PortXmitDiscardDetails, of 16 bits each,
	// as totals do.
	Rcv      [NumRcvDetails]uint64
	Discards [NumDiscardDetails]uint64
	// VLWait is PortXmitWait by lane. The counters have 16 bits, so they soon stand at their
	// end until somebody clears them.
	VLWait [16]uint16
	// VLData and VLPackets are words and packets received by lane.
	VLData    [16]uint32
	VLPackets [16]uint16
	// When each of them was read; 0: never.
	RcvAt, DiscardsAt, VLWaitAt, VLDataAt, VLPacketsAt mad.Time

	rcvRaw     [NumRcvDetails]uint16
	discardRaw [NumDiscardDetails]uint16
}

// op is one request to an agent.
type op uint8

const (
	opClassInfo op = iota
	opTick
	opExtended
	opNarrow
	opRcvDetails
	opDiscards
	opVLWait
	opVLData
	opVLPackets
	opSpeeds
	opVPort
	numOps
)

var opAttr = [numOps]ib.AttrID{
	pm.AttrClassPortInfo, pm.AttrPortSamplesControl, pm.AttrPortCountersExtended, pm.AttrPortCounters,
	pm.AttrPortRcvErrorDetails, pm.AttrPortXmitDiscardDetails, pm.AttrPortVLXmitWait, pm.AttrPortVLOpData,
	pm.AttrPortVLOpPackets, pm.AttrPortExtendedSpeedsCounters, pm.AttrVPortCountersExtended,
}

// ops is a set of them.
type ops uint16

func (s ops) has(o op) bool { return s>>o&1 != 0 }

// slowEvery is how many rounds pass between two readings of what changes slowly or says little:
// errors of the line code, data by lane, ports without a link.
const slowEvery = 30

// downEvery is the same for ports without a link.
const downEvery = 6

// waitWorth is the share of time that a port has to wait for its lanes to be asked.
const waitWorth = 0.05

// wanted are the details to be read after the sample of port i.
func (c *Core) wanted(a *agent, i int32) (o ops) {
	if !c.cfg.Details {
		return 0
	}
	x, was := &c.now, &c.before
	first := was.at(i) == 0
	grown := func(k Counter) bool {
		t := x.total(i, k)
		return t != 0 && (first || t != was.total(i, k))
	}
	if x.row(i) != nil {
		if grown(RcvErrors) || grown(RcvSwitchRelayErrors) {
			o |= 1 << opRcvDetails
		}
		if grown(XmitDiscards) {
			o |= 1 << opDiscards
		}
	}
	if d := x.at(i).Sub(was.at(i)); !first && d > 0 {
		share := float64(x.total(i, XmitWait)-was.total(i, XmitWait)) * c.tickSeconds(i) / d.Seconds()
		if share >= waitWorth {
			o |= 1 << opVLWait
		}
	}
	if (c.number+uint64(i))%slowEvery == 0 {
		if SpeedOf(c.snap, i) >= ib.SpeedFDR {
			o |= 1 << opSpeeds
		}
		if c.cfg.Lanes {
			o |= 1<<opVLData | 1<<opVLPackets
		}
	}
	return o &^ a.refused
}

// tickSeconds is Round.waitTick of the columns that are being filled.
func (c *Core) tickSeconds(i int32) float64 {
	speed := SpeedOf(c.snap, i)
	if c.tick[i] == 0 || speed == ib.SpeedNone {
		return 0
	}
	return float64(c.tick[i]) * 10 / (speed.LaneGbps() * 1e9)
}

// takeDetails takes over the answer to a detail request.
func (c *Core) takeDetails(i int32, o op, data []byte) {
	if o == opSpeeds {
		c.takeSpeeds(i, data)
		return
	}
	w := c.own(i)
	d := &Details{}
	if w.det != nil {
		*d = *w.det
	}
	w.det = d
	var wide pm.Counters32
	var narrow pm.Counters16
	switch o {
	case opRcvDetails, opDiscards, opVLWait, opVLPackets:
		if narrow.Decode(data) != nil {
			return
		}
	case opVLData:
		if wide.Decode(data) != nil {
			return
		}
	}
	switch o {
	case opRcvDetails:
		addUp(d.Rcv[:], d.rcvRaw[:], detailRow(data))
		d.RcvAt = c.at
	case opDiscards:
		addUp(d.Discards[:], d.discardRaw[:], detailRow(data))
		d.DiscardsAt = c.at
	case opVLWait:
		d.VLWait, d.VLWaitAt = narrow.Counter, c.at
	case opVLPackets:
		d.VLPackets, d.VLPacketsAt = narrow.Counter, c.at
	case opVLData:
		d.VLData, d.VLDataAt = wide.Counter, c.at
	}
}

// takeSpeeds takes over the errors of the line code.
func (c *Core) takeSpeeds(i int32, data []byte) {
	var s pm.ExtendedSpeeds
	if s.Decode(data) != nil {
		return
	}
	s.PortSelect, s.CounterSelect = 0, 0
	b, k := c.edit(i)
	if b.speeds[k] = &s; s == (pm.ExtendedSpeeds{}) {
		b.speeds[k] = nil
	}
}

// detailRow are the 16-bit fields from byte 4 on.
func detailRow(data []byte) []uint16 {
	var p pm.Counters16
	_ = p.Decode(data)
	return p.Counter[:]
}

// addUp adds what 16-bit counters have counted since raw to totals.
func addUp(total []uint64, raw, now []uint16) {
	for i := range total {
		if now[i] >= raw[i] {
			total[i] += uint64(now[i] - raw[i])
		} else {
			total[i] += uint64(now[i])
		}
		raw[i] = now[i]
	}
}
