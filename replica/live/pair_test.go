package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/replica"
	"heddle/sim"
	"heddle/store"
)

// begin starts both managers, has them pair, and writes down their LIDs.
func begin(t *testing.T, scale int) (b *testbed, active *site) {
	b = newTestbed(t, scale)
	return b, b.begin()
}

// begin starts both managers.
func (b *testbed) begin() (active *site) {
	b.Helper()
	for _, x := range b.site {
		x.start()
	}
	b.put("first")
	b.putLIDs()
	return b.paired()
}

// smOf is the LID that a manager's port names as its SM.
func (x *site) smOf() (lid ib.LID) {
	x.b.d.Do(func(s *sim.Subnet) {
		n, err := s.Node(x.name())
		if err != nil {
			x.b.Fatal(err)
		}
		lid = s.PortInfo(n, 1).MasterSMLID
	})
	return lid
}

// TestKill: the active manager ends without a word under load; what it acknowledged is at the
// other one, which goes on.
func TestKill(t *testing.T) {
	b, _ := begin(t, 2)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex
	var acked []string
	for w := range 4 {
		wg.Go(func() {
			list := b.puts(fmt.Sprint("w", w), &stop)
			mu.Lock()
			defer mu.Unlock()
			acked = append(acked, list...)
		})
	}
	var after []string
	for round := range 3 {
		for i := range 50 {
			k := fmt.Sprintf("r%d-%d", round, i)
			b.put(k)
			after = append(after, k)
		}
		a := b.paired()
		a.kill()
		o := a.other()
		b.eventually("the other one is active", func() bool { return o.active.Load() })
		// It writes when it is alone, or the other one is back.
		k := fmt.Sprint("after-", round)
		if by := b.put(k); by != o {
			t.Fatalf("a manager that ended took %s", k)
		}
		after = append(after, k)
		if got, want := o.smOf(), lidHost+ib.LID(o.i); got != want {
			t.Errorf("round %d: the port of the active manager names LID %d, not %d", round, got, want)
		}
		b.eventually("the dead manager's port names the other one", func() bool { return a.smOf() == lidHost+ib.LID(o.i) })
		a.start()
	}
	b.paired()
	stop.Store(true)
	wg.Wait()
	if len(acked) == 0 {
		t.Fatal("no load")
	}
	b.put("last")
	b.paired()
	for _, x := range b.site {
		if missing := x.lacks(append(acked, after...)); len(missing) > 0 {
			t.Errorf("%s lacks %d of %d acknowledged records: %.10v", x.name(), len(missing), len(acked)+len(after), missing)
		}
	}
	t.Logf("%d records", len(acked)+len(after))
}

func TestHandover(t *testing.T) {
	b, a := begin(t, 2)
	o := a.other()
	n := a.pair().Status().Takeovers + o.pair().Status().Takeovers
	if term := a.pair().Status().Term.Number; n >= term { // the first one began without a master before
		t.Errorf("%d takeovers up to term %d", n, term)
	}
	if err := o.pair().Handover(context.Background()); !errors.Is(err, ErrNotActive) {
		t.Errorf("handover of a standby: %v", err)
	}
	if err := a.pair().Takeover(context.Background(), true); !errors.Is(err, ErrActive) {
		t.Errorf("takeover of the active one: %v", err)
	}
	if err := o.pair().Takeover(context.Background(), false); !errors.Is(err, ErrPeerActive) && !errors.Is(err, ErrSpare) && !errors.Is(err, ErrMayLack) {
		t.Errorf("takeover of a standby whose peer lives: %v", err)
	}
	b.put("before")
	port, old, tookOver := *a.manager.Load(), a.pair().Store(), o.pair().Status().Takeovers
	b.eventually("a handover succeeds", func() bool { return a.pair().Handover(context.Background()) == nil })
	if a.active.Load() {
		t.Error("the old manager was not halted")
	}
	if err := port.SetIsSM(true); !errors.Is(err, ErrCut) {
		t.Errorf("the old manager's port: %v", err)
	}
	b.eventually("the other one is active", func() bool { return o.active.Load() })
	if n := o.pair().Status().Takeovers; n <= tookOver {
		t.Errorf("%d takeovers after a handover, %d before", n, tookOver)
	}
	b.put("after")
	b.paired()
	for _, x := range b.site {
		if missing := x.lacks([]string{"before", "after"}); len(missing) > 0 {
			t.Errorf("%s lacks %v", x.name(), missing)
		}
	}
	b.eventually("it is active again", func() bool {
		if a.active.Load() {
			return true
		}
		_ = o.pair().Handover(context.Background()) // fails while they are not paired
		return false
	})
	if err := old.Apply([]store.Op{{Kind: store.PutLID, GUID: 1, LID: 9}}); !errors.Is(err, replica.ErrStandby) {
		t.Errorf("a manager of an earlier mastership wrote: %v", err)
	}
}

// TestStreamCut: the stream ends while signs in band go on. The standby leaves, the active one goes
// alone, and both pair again.
func TestStreamCut(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(p *proxy, on bool)
	}{
		{"reset", (*proxy).setCut},
		{"dropped", func(p *proxy, on bool) { p.hold.Store(on) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := begin(t, 2)
			b.eventually("signs in band", func() bool {
				return b.site[0].pair().Status().Signs[replica.Fabric] >= 0 && b.site[1].pair().Status().Signs[replica.Fabric] >= 0
			})
			a := b.paired()
			for _, x := range b.site {
				c.cut(x.proxy, true)
			}
			b.eventually("alone and stale", func() bool {
				for _, x := range b.site {
					if x.active.Load() && x.pair().Status().State == Alone && x.other().pair().Status().State == Stale {
						a = x
						return true
					}
				}
				return false
			})
			if err := a.put("alone"); err != nil {
				t.Fatal(err)
			}
			if st := a.other().pair().Status(); st.PeerRole != replica.Active || st.Connected {
				t.Errorf("the standby shows %+v", st)
			}
			for _, x := range b.site {
				c.cut(x.proxy, false)
			}
			o := b.paired().other()
			if missing := o.lacks([]string{"first", "alone"}); len(missing) > 0 {
				t.Errorf("the standby lacks %v", missing)
			}
		})
	}
}

// TestRestartBoth: both end, and have everything when they come back, also if one comes alone.
func TestRestartBoth(t *testing.T) {
	b, a := begin(t, 2)
	keys := []string{"first"}
	write := func(n int, name string) {
		for i := range n {
			k := fmt.Sprint(name, i)
			b.put(k)
			keys = append(keys, k)
		}
	}
	write(20, "both")
	a.kill()
	a.other().kill()
	for _, x := range b.site {
		x.start()
	}
	write(20, "again")
	a = b.paired()
	a.other().kill()
	write(20, "alone")
	b.eventually("alone", func() bool { return a.pair().Status().State == Alone })
	a.kill()
	a.start() // without the other one
	write(20, "single")
	a.other().start()
	b.paired()
	for _, x := range b.site {
		if missing := x.lacks(keys); len(missing) > 0 {
			t.Errorf("%s lacks %v", x.name(), missing)
		}
	}
}

// TestSMInfo: a standby answers SMInfo as one, and counts as a manager on its port.
func TestSMInfo(t *testing.T) {
	b, a := begin(t, 2)
	o := a.other()
	var pi smp.PortInfo
	b.d.Do(func(s *sim.Subnet) {
		n, _ := s.Node(o.name())
		pi = s.PortInfo(n, 1)
	})
	if !pi.CapabilityMask.Has(ib.CapIsSM) {
		t.Error("the standby's port is not that of a manager")
	}
	m := *a.manager.Load()
	for _, method := range []ib.Method{ib.MethodGet, ib.MethodSet} {
		r := b.ask(m, o, method)
		var si smp.SMInfo
		if err := si.Decode(smp.Data(r)); err != nil {
			t.Fatal(err)
		}
		if si.SMState != smp.SMStandby || si.Priority != 7 || si.GUID != o.guid || si.SMKey != 1 {
			t.Errorf("%v: %+v", method, si)
		}
		if refused := r.Status() != 0; refused != (method == ib.MethodSet) {
			t.Errorf("%v: status %v", method, r.Status())
		}
	}
}

// TestPriority: another priority shows in the SMInfo of a standby and in the signs of both, and who is
// active of the two stays.
func TestPriority(t *testing.T) {
	b, a := begin(t, 2)
	o := a.other()
	m := *a.manager.Load()
	for _, prio := range []uint8{15, 0} {
		o.pair().SetPriority(prio)
		var si smp.SMInfo
		if err := si.Decode(smp.Data(b.ask(m, o, ib.MethodGet))); err != nil || si.Priority != prio || si.SMState != smp.SMStandby {
			t.Errorf("SMInfo with priority %d: %+v, %v", prio, si, err)
		}
		b.eventually("the other one hears of it", func() bool { return a.pair().Status().PeerPriority == int(prio) })
		if st := o.pair().Status(); st.Priority != prio || st.PeerPriority != 7 {
			t.Errorf("it shows priority %d, and %d for the other one", st.Priority, st.PeerPriority)
		}
		if !a.active.Load() || o.active.Load() || len(a.granted) != 1 || len(o.granted) != 0 {
			t.Error("another one is active")
		}
	}
}
