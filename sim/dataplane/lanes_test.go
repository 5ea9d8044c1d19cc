package dataplane

import "testing"

// TestDeadlockBesideTraffic: a circle on one lane is found while the same outputs
// carry another lane at full rate.
func TestDeadlockBesideTraffic(t *testing.T) {
	x, p := ringNet(6, 2)
	c := testConfig()
	c.Lanes, c.LaneBuffer, c.Reads = 2, 40, 0
	e := mustNew(t, &x.Topology, p, c)
	for h := range 6 {
		mustAdd(t, e, Stream{Src: h, To: To((h + 2) % 6), Bytes: rc2k})
	}
	mustAdd(t, e, Stream{Src: 5, To: To(0), Bytes: rc2k, SL: 1})
	mustAdd(t, e, Stream{Src: 0, To: To(4), Bytes: rc2k, SL: 1})
	e.Run(Millisecond)
	mustCheck(t, e)
	if d := e.Deadlock(); d == nil || len(d.Cycle) != 6 {
		t.Errorf("found %v", d)
	} else {
		t.Log(d)
	}
	if n := e.Flow(7).Delivered; n < 900 {
		t.Errorf("%d packets on the other lane", n)
	}
}
