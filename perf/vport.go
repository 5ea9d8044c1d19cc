package perf

import (
	"cmp"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
)

// vkey is a virtual port: GUID of the physical port, and index.
type vkey struct {
	port  ib.GUID
	index uint16
}

// NumVPortCounters is how many counters a virtual port has: the traffic counters, and relay errors.
const NumVPortCounters = 9

// vstate is what is known of a virtual port.
type vstate struct {
	at, before  mad.Time
	raw, offset [NumVPortCounters]uint64
	was         [NumVPortCounters]uint64 // totals at before
	seen        uint64                   // the round of the last sample
}

// VPortSample are the counters of a virtual port.
type VPortSample struct {
	Port  ib.GUID // of the physical port
	Index uint16
	At    mad.Time
	// Elapsed is the time between the last two samples; 0: there is one only.
	Elapsed time.Duration
	// Total counts as Round.Total does: the traffic counters in the order of Counter, and
	// PortRelayErrors. Delta is what was added in Elapsed.
	Total, Delta [NumVPortCounters]uint64
	Value        [NumVPortCounters]uint64 // what the agent said
}

// nextVPort goes on with the next virtual port of the port that is being read.
func (c *Core) nextVPort(a *agent) {
	if !a.virt || a.refused.has(opVPort) {
		return
	}
	// The list may be out of order, and another snapshot may have come.
	next := int32(-1)
	for v := range c.snap.VPortsOf(a.port) {
		if x := c.snap.Ports[v].Virtual; x != nil && int32(x.Index) > a.vport && (next < 0 || int32(x.Index) < next) {
			next = int32(x.Index)
		}
	}
	if next < 0 {
		a.todo &^= 1 << opVPort
		return
	}
	a.vport = next
	a.todo |= 1 << opVPort
}

// takeVPort takes over the counters of a virtual port.
func (c *Core) takeVPort(a *agent, data []byte) {
	var p pm.VPortCountersExtended
	if p.Decode(data[:pm.VPortCountersExtendedLen]) != nil {
		return
	}
	if int32(p.VPortIndex) != a.vport {
		c.st.Strange++
		return
	}
	k := vkey{c.snap.Ports[a.port].GUID, p.VPortIndex}
	now := [NumVPortCounters]uint64{
		p.PortXmitData, p.PortRcvData, p.PortXmitPkts, p.PortRcvPkts, p.PortUnicastXmitPkts, p.PortUnicastRcvPkts,
		p.PortMulticastXmitPkts, p.PortMulticastRcvPkts, p.PortRelayErrors,
	}
	s := c.vports[k]
	if s == nil {
		s = &vstate{}
		c.vports[k] = s
	} else {
		s.before = s.at
		back := false
		for i := range now {
			s.was[i] = s.raw[i] + s.offset[i]
			back = back || now[i] < s.raw[i]
		}
		if back { // all were cleared: 64 bits do not overflow
			for i := range now {
				s.offset[i] += s.raw[i]
			}
		}
	}
	s.raw, s.at, s.seen = now, c.at, c.number
}

// virtuals are the samples of virtual ports. Those that were not read for a while are forgotten.
func (c *Core) virtuals() []VPortSample {
	if len(c.vports) == 0 {
		return nil
	}
	list := make([]VPortSample, 0, len(c.vports))
	for k, s := range c.vports {
		if s.seen+2*maxPause < c.number {
			delete(c.vports, k)
			continue
		}
		x := VPortSample{Port: k.port, Index: k.index, At: s.at, Value: s.raw}
		for i := range x.Total {
			x.Total[i] = s.raw[i] + s.offset[i]
		}
		if s.before != noSample && s.seen == c.number {
			x.Elapsed = s.at.Sub(s.before)
			for i := range x.Delta {
				x.Delta[i] = x.Total[i] - s.was[i]
			}
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y VPortSample) int {
		return cmp.Or(cmp.Compare(x.Port, y.Port), cmp.Compare(x.Index, y.Index))
	})
	return list
}
