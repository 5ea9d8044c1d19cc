// Package inject makes streams of packets of what hosts send: it connects package
// traffic, which knows patterns, with package sim/dataplane, which moves packets.
// Pure.
package inject

import (
	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/traffic"
)

// Overhead is what a packet has besides its payload: that of a middle packet of a
// reliable connection.
const Overhead = dataplane.OverheadRC

// Bytes is the length of the packets of a pattern on the wire.
func Bytes(s *traffic.Spec) int { return s.Payload + Overhead }

// Ends says which end port of the engine each host is.
type Ends []int

// Stream is the stream of packets of s at a host. The pattern is spec, gbps what
// the host offers at the full rate of its source; it does not matter to
// saturated and closed sources.
func (e Ends) Stream(spec *traffic.Spec, s *traffic.Stream, gbps float64) dataplane.Stream {
	x := dataplane.Stream{
		Src: e[s.Src], To: e.Destination(s), Bytes: Bytes(spec), SL: ib.SL(max(spec.SL, 0)),
		Start: dataplane.FromDuration(spec.Start), End: dataplane.FromDuration(spec.End), Window: spec.Window,
		On: dataplane.FromDuration(spec.On), Off: dataplane.FromDuration(spec.Off),
		Queue: queues[spec.Queue], Arrival: arrivals[spec.Arrival],
	}
	if x.Arrival != dataplane.Saturated && x.Arrival != dataplane.Closed {
		x.Gap = dataplane.Time(float64(x.Bytes) * 8000 / gbps)
	}
	return x
}

// Destination says where a stream sends: nowhere for one to a multicast group,
// whose LID a Demand does not have.
func (e Ends) Destination(s *traffic.Stream) dataplane.Destination {
	if len(s.Among) == 0 && s.To < 0 {
		return dataplane.Destination{}
	}
	if len(s.Among) == 0 {
		return dataplane.To(e[s.To])
	}
	list := make([]int, len(s.Among))
	for k, h := range s.Among {
		list[k] = e[h]
	}
	to := dataplane.ToAmong(list)
	if s.To >= 0 {
		to = to.Mixed(s.Share, e[s.To])
	}
	return to
}

var queues = [...]dataplane.Sharing{
	traffic.QueueLane: dataplane.LaneQueue, traffic.QueueDestination: dataplane.DestQueue,
	traffic.QueueHost: dataplane.HostQueue, traffic.QueueStream: dataplane.OwnQueue,
}

var arrivals = [...]dataplane.Arrival{
	traffic.Poisson: dataplane.Poisson, traffic.Constant: dataplane.Constant, traffic.OnOff: dataplane.OnOff,
	traffic.Closed: dataplane.Closed, traffic.Saturated: dataplane.Saturated,
}
