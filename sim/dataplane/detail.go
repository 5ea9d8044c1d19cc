package dataplane

import "heddle/fabric"

// Detail counts the packets of a port by service level and lane since New: never
// cleared, so readers subtract (IBA §16.1.4).
type Detail struct {
	XmitWords, RcvWords    [16]uint64 // by SL: PortXmitDataSL, PortRcvDataSL
	LanePackets, LaneWords [16]uint64 // received, by lane: PortVLOpPackets, PortVLOpData
	Congested              [16]uint64 // discarded for the head of queue life or lifetime, by lane of the output: SwPortVLCongestion
}

// Detail returns the counters of a port; all 0 without Config.Details.
func (e *Engine) Detail(r fabric.Ref) (d Detail) {
	if e.details != nil {
		d = e.details[e.port(r)]
	}
	return d
}

func (d *Detail) received(p *packet) {
	n := words(p.bytes)
	d.RcvWords[p.sl&15] += n
	d.LaneWords[p.lane&15] += n
	d.LanePackets[p.lane&15]++
}
