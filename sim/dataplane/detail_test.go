package dataplane

import (
	"testing"

	"heddle/ib"
)

// TestDetail: the counters by service level and lane add up to those of the port, and discards for
// age are counted at the lane of the output.
func TestDetail(t *testing.T) {
	n := chain(qdr, qdr)
	p := n.tables(2)
	p.SLtoVL = func(node int32, _, _ uint8, sl ib.SL) ib.VL {
		if n.Nodes[node].Switch {
			return ib.VL(1 - sl/4) // the switch swaps the lanes
		}
		return ib.VL(sl / 4)
	}
	c := testConfig()
	c.Lanes, c.Details = 2, true
	e := mustNew(t, &n.Topology, p, c)
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, SL: 2, Packets: 300, Arrival: Constant, Gap: Microsecond})
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc256, SL: 5, Packets: 200, Arrival: Constant, Gap: Microsecond})
	e.Run(Millisecond)
	in, out := n.Links[0], n.Links[1]
	const big, small = 300 * 518, 200 * 70
	for _, x := range []struct {
		name                     string
		d                        Detail
		xmit2, xmit5, rcv2, rcv5 uint64
		lane0, lane1             uint64
	}{
		{"source", e.Detail(in.A), big, small, 0, 0, 0, 0},
		{"input", e.Detail(in.B), 0, 0, big, small, 300, 200},
		{"output", e.Detail(out.A), big, small, 0, 0, 0, 0},
		{"sink", e.Detail(out.B), 0, 0, big, small, 200, 300},
	} {
		if x.d.XmitWords[2] != x.xmit2 || x.d.XmitWords[5] != x.xmit5 || x.d.RcvWords[2] != x.rcv2 || x.d.RcvWords[5] != x.rcv5 ||
			x.d.LanePackets[0] != x.lane0 || x.d.LanePackets[1] != x.lane1 || x.d.LaneWords[0]+x.d.LaneWords[1] != x.rcv2+x.rcv5 {
			t.Errorf("%s: %+v", x.name, x.d)
		}
	}
	// The host stops, and packets that wait at the output for it get too old.
	p.Attr[out.A.Node][out.A.Port].HOQLife = 100 * Microsecond
	e.Refresh(out.A.Node)
	e.Stop(1)
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, SL: 2, Start: Millisecond})
	e.Run(10 * Millisecond)
	lost := e.Port(out.A).Dropped[HeadOfQueue]
	if d := e.Detail(out.A); lost == 0 || d.Congested[1] != lost || d.Congested[0] != 0 {
		t.Errorf("%d packets too old, counted by lane %v", lost, d.Congested)
	}
	mustCheck(t, e)
	if d := e.Clone(nil).Detail(in.A); d != e.Detail(in.A) {
		t.Error("a copy has other counters")
	}
}
