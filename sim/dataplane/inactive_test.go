package dataplane

import (
	"testing"

	"heddle/ib"
)

// TestDiscardInactive: what a host makes while its port is not Active is discarded if that is
// asked for, and kept otherwise. A stream that is ended makes nothing more.
func TestDiscardInactive(t *testing.T) {
	for _, discard := range []bool{true, false} {
		n := newNet(2, 1, 2)
		a := n.link(0, 2, sdr1)
		n.link(1, 2, sdr1)
		p := n.tables(1)
		c := testConfig()
		c.DiscardInactive = discard
		e := mustNew(t, &n.Topology, p, c)
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc256, Arrival: Constant, Gap: 10 * Microsecond})
		set := func(at Time, state ib.PortState) {
			e.Run(at)
			p.Attr[a.Node][a.Port].State = state
			e.Refresh(a.Node)
		}
		set(10*Millisecond, ib.StateInit)
		set(15*Millisecond, ib.StateActive)
		e.Run(20 * Millisecond)
		e.EndStream(0)
		e.Run(40 * Millisecond)
		mustCheck(t, e)
		s := e.Stats()
		lost, want := s.Dropped[Inactive], uint64(0)
		if discard {
			want = 500
		}
		if s.Created != 2000 || lost+1 < want || lost > want+1 || s.Delivered+lost != s.Created ||
			e.Port(a).Dropped[Inactive] != lost {
			t.Errorf("discard %v: %d made, %d delivered, %d lost, want %d; live "+
				"%d", discard, s.Created, s.Delivered, lost, want, e.Live())
		}
	}
}
