package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
)

// TestWrongPeerGUID: one of the managers has a wrong GUID of the other one. Neither hears the other
// one, and the one that starts later leaves the subnet to the first, and says whom it sees.
func TestWrongPeerGUID(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first is mistaken %v", first), func(t *testing.T) {
			b := newTestbed(t, 3)
			b.masters = true
			b.rules.Stale = 2 * time.Second
			a, o := b.site[0], b.site[1]
			wrong := a
			if !first {
				wrong = o
			}
			wrong.mistaken = 0xBAD
			a.start()
			b.eventually("the first one is active alone", func() bool { return a.active.Load() && a.pair().Status().State == Alone })
			b.d.Do(func(s *sim.Subnet) { o.setSM(s, lidHost+ib.LID(a.i)) }) // as its manager does
			o.start()
			b.eventually("the second one holds", func() bool { return o.pair().Status().Held })
			st := o.pair().Status()
			if st.Master != a.guid {
				t.Errorf("it sees the master %v, not %v", st.Master, a.guid)
			}
			text := OtherMaster(st.Me, st.Peer, st.Master)
			want := fmt.Sprintf("restart this one with --peer-guid %v", a.guid)
			if first {
				want = fmt.Sprintf("compare --peer-guid there, which should be %v", o.guid)
			}
			if !strings.Contains(text, want) || !strings.Contains(b.log.String(), want) {
				t.Errorf("it says %q, without %q, or does not log it", text, want)
			}
			if len(o.granted) > 0 || !a.active.Load() {
				t.Error("it took over")
			}
			// A master that dies is no reason to hold.
			a.kill()
			b.eventually("the second one is active", func() bool { return o.active.Load() })
		})
	}
}

// TestPriorityOverThird: a manager without its partner leaves the subnet to a third manager of the same
// priority, and takes it when its own is raised.
func TestPriorityOverThird(t *testing.T) {
	b := newTestbed(t, 3)
	b.masters = true
	b.rules.Stale = 2 * time.Second
	a, o := b.site[0], b.site[1]
	o.mistaken = 0xBAD // so that a is a third manager to it
	a.start()
	b.eventually("the first one is active alone", func() bool { return a.active.Load() && a.pair().Status().State == Alone })
	b.d.Do(func(s *sim.Subnet) { o.setSM(s, lidHost+ib.LID(a.i)) }) // as its manager does
	o.start()
	b.eventually("the second one holds", func() bool { return o.pair().Status().Held })
	if o.active.Load() {
		t.Error("it took over from one of its priority")
	}
	o.pair().SetPriority(8)
	b.eventually("the second one is active", func() bool { return o.active.Load() })
}

// TestHandoverAlone: a manager without a standby refuses to hand over at once.
func TestHandoverAlone(t *testing.T) {
	b, a := begin(t, 1)
	a.other().kill()
	b.eventually("alone", func() bool { return a.pair().Status().State == Alone })
	if err := a.pair().Handover(context.Background()); !errors.Is(err, ErrAlone) {
		t.Errorf("handover: %v", err)
	}
	if err := a.put("after"); err != nil {
		t.Errorf("a change after it: %v", err)
	}
}
