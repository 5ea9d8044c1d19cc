package shell

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm"
)

// ask is a Get(SMInfo) from a LID, or by the directed route that came back over a port.
func ask(lid ib.LID, back byte) *mad.Packet {
	var m ib.MAD
	if lid != 0 {
		smp.NewLID(&m, ib.MethodGet, smp.AttrSMInfo, 0, 0)
	} else {
		lid = ib.LIDPermissive
		smp.NewDR(&m, ib.MethodGet, smp.AttrSMInfo, 0, 0, []byte{1})
		smp.ReturnPath(&m)[1] = back
	}
	return &mad.Packet{Addr: mad.Addr{LID: lid}, Data: m[:], Status: mad.Received}
}

func TestStandInRule(t *testing.T) {
	var s StandIn
	came, done := uint64(0), uint64(0)
	at := func(now time.Duration, p *mad.Packet, want bool) {
		t.Helper()
		if got := s.takes(mad.Time(now), p, came+1, done); got != want {
			t.Fatalf("at %v it is answered: %v", now, got)
		} else if !got {
			came++
		}
	}
	ms := time.Millisecond
	a, b, c := ask(7, 0), ask(0, 2), ask(0, 3)
	at(0, a, false) // the first one of each asker goes to the loop
	at(80*ms, a, true)
	at(90*ms, b, false)
	at(100*ms, c, false) // from another port
	at(170*ms, b, true)
	done = 1 // the loop turns: it has come to the request of a
	at(180*ms, a, false)
	at(3090*ms, b, true) // that of b is the oldest one now
	at(3091*ms, b, false)
	at(3091*ms, a, false)
	at(3091*ms, c, false)
	at(time.Minute, ask(8, 0), false) // and it stays like that for those who come new
	at(time.Minute+ms, ask(8, 0), false)
	done = came // the loop lives after all
	at(time.Minute+2*ms, a, false)
	at(time.Minute+3*ms, a, true)
	done = came
	for i := range 3 * maxAskers { // hosts that make up routes
		at(2*time.Minute, ask(0, byte(10+i)), false)
	}
	if at(2*time.Minute+ms, ask(0, 10), true); len(s.waiting) != maxAskers {
		t.Errorf("%d askers are remembered", len(s.waiting))
	}
	at(2*time.Minute+ms, a, false)
	at(2*time.Minute+2*ms, a, false)
}

func TestSMInfoAsked(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(p *mad.Packet, m *ib.MAD)
		want bool
	}{
		{"Get(SMInfo)", func(*mad.Packet, *ib.MAD) {}, true},
		{"a Set", func(_ *mad.Packet, m *ib.MAD) { m.SetMethod(ib.MethodSet) }, false},
		{"another attribute", func(_ *mad.Packet, m *ib.MAD) { smp.NewLID(m, ib.MethodGet, smp.AttrPortInfo, 0, 0) }, false},
		{"another version", func(_ *mad.Packet, m *ib.MAD) { m[2] = 9 }, false},
		{"no SMP", func(_ *mad.Packet, m *ib.MAD) { m[1] = byte(ib.ClassSA) }, false},
		{"an own request that failed", func(p *mad.Packet, _ *ib.MAD) { p.Status = mad.Failed }, false},
		{"cut short", func(p *mad.Packet, _ *ib.MAD) { p.Data = p.Data[:ib.MADLen-1] }, false},
	} {
		p := ask(7, 0)
		if c.make(p, (*ib.MAD)(p.Data)); AsksSMInfo(p) != c.want {
			t.Errorf("%s: %v", c.name, !c.want)
		}
	}
}

// TestStandIn: SMInfo is answered for a loop that has not come to a request of the same asker for three
// seconds at most, with what it published last, and with the M_Key's protection.
func TestStandIn(t *testing.T) {
	var s StandIn
	came, done := uint64(0), uint64(0)
	const key = 0x77
	ask := func(mkey ib.MKey) *mad.Packet {
		var m ib.MAD
		smp.NewLID(&m, ib.MethodGet, smp.AttrSMInfo, 0, mkey)
		return &mad.Packet{Addr: mad.Addr{LID: 7}, Data: m[:], Status: mad.Received}
	}
	poll := func(now time.Duration, mkey ib.MKey) (si smp.SMInfo, ok bool) {
		t.Helper()
		p := ask(mkey)
		r, ok := s.Answer(mad.Time(now), p, came+1, done)
		if !ok {
			came++
			return si, false
		}
		if err := si.Decode(smp.Data(&r)); err != nil || r.Method() != ib.MethodGetResp {
			t.Fatalf("%v %v", r.Method(), err)
		}
		return si, true
	}
	if _, ok := poll(0, 0); ok {
		t.Fatal("the loop has published nothing")
	}
	if _, ok := poll(time.Millisecond, 0); ok {
		t.Fatal("the loop still has published nothing")
	}
	self := sm.Self{Info: smp.SMInfo{GUID: 5, SMKey: 9, Priority: 3, SMState: smp.SMMaster}, Key: key, Protect: 1}
	s.self.Store(&self)
	s.acts.Store(42)
	if si, ok := poll(2*time.Second, key); !ok || si.GUID != 5 || si.SMKey != 9 || si.ActCount != 42 || si.SMState != smp.SMMaster {
		t.Errorf("answered %v: %+v", ok, si)
	}
	if si, ok := poll(2*time.Second, 0); !ok || si.SMKey != 0 {
		t.Errorf("without the M_Key: answered %v, %+v", ok, si)
	}
	if _, ok := poll(3*time.Second+1, key); ok {
		t.Error("a loop that hangs is answered for")
	}
	done = came // the loop goes on
	if _, ok := poll(4*time.Second, key); ok {
		t.Error("the first request after that is the loop's")
	}
	if _, ok := poll(4*time.Second+1, key); !ok {
		t.Error("the next one is not answered")
	}
	if n := s.Answered(); n != 3 {
		t.Errorf("%d answers are counted", n)
	}
	s.Publish(sm.New(sm.Defaults()))
	if _, ok := poll(4*time.Second+2, key); ok {
		t.Error("a manager that does not run is answered for")
	}
}
