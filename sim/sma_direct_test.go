package sim

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
)

// TestDirectStates: with Config.DirectStates a port goes from Active to Initialize and straight
// back, without its link falling; otherwise both are refused.
func TestDirectStates(t *testing.T) {
	for _, direct := range []bool{true, false} {
		b := newTestbed(t, chain(), Config{DirectStates: direct}, "H1")
		at, err := b.s.Node("H1")
		if err != nil {
			t.Fatal(err)
		}
		port := b.s.devs[at].first + 1
		b.s.setState(port, ib.StateActive)
		set := func(st ib.PortState) bool {
			bad, act := b.s.setPortState(port, &smp.PortInfo{PortState: st}, false)
			if act != actNone {
				t.Errorf("the link is touched: %v", act)
			}
			return !bad
		}
		if set(ib.StateInit) != direct || b.s.ports[port].state == ib.StateInit != direct {
			t.Errorf("direct %v: to Initialize: now %v", direct, b.s.ports[port].state)
		}
		b.s.setState(port, ib.StateInit)
		if set(ib.StateActive) != direct || b.s.ports[port].state == ib.StateActive != direct {
			t.Errorf("direct %v: to Active: now %v", direct, b.s.ports[port].state)
		}
		b.s.setState(port, ib.StateDown)
		if direct && (set(ib.StateInit) || b.s.ports[port].state != ib.StateDown) {
			t.Error("a port whose link is down goes to Initialize")
		}
	}
}
