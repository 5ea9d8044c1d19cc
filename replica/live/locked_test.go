package live

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/replica"
	"heddle/store"
)

// lock gives the port of a manager's host an M_Key that nobody knows.
func (x *site) lock(protect uint8) {
	x.b.Helper()
	p, err := x.b.d.Port(x.name())
	if err != nil {
		x.b.Fatal(err)
	}
	defer p.Close()
	var pi smp.PortInfo
	for i, method := range []ib.Method{ib.MethodGet, ib.MethodSet} {
		var m ib.MAD
		smp.NewDR(&m, method, smp.AttrPortInfo, 0, 0, nil)
		m.SetTID(uint64(i + 1))
		if method == ib.MethodSet {
			pi.ClearForSet()
			pi.MKey, pi.MKeyProtectBits, pi.MKeyLeasePeriod = 0x4D4B6579, protect, 0
			pi.Put(smp.Data(&m))
		}
		if err := p.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}); err != nil {
			x.b.Fatal(err)
		}
		var k mad.Packet
		if err := p.Recv(&k); err != nil {
			x.b.Fatal(err)
		}
		if k.Status != mad.Received || pi.Decode(smp.Data((*ib.MAD)(k.Data))) != nil {
			x.b.Fatalf("%v of PortInfo: status %v", method, k.Status)
		}
	}
}

// noted passes on the errors of NoticePort of a manager.
func (b *testbed) noted(i int) <-chan error {
	said := make(chan error, 100)
	b.notice[i] = func(n replica.Notice) {
		if n.Kind == replica.NoticePort {
			said <- n.Err
		}
	}
	return said
}

// hears waits for an error of NoticePort.
func (b *testbed) hears(said <-chan error, want error) {
	b.Helper()
	select {
	case err := <-said:
		if !errors.Is(err, want) {
			b.Fatalf("%v, not %v", err, want)
		}
	case <-time.After(need.Patience):
		b.Fatalf("nobody says %v", want)
	}
}

// setSM is a packet that writes the SM of a manager's own port.
func setSM() *mad.Packet {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodSet, smp.AttrPortInfo, 0, 0, nil)
	m.SetTID(7)
	return &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}
}

// TestLockedPort: the LID of the manager floats, and the port of the one that takes over has an M_Key
// that nobody stored. What the managers send to that port waits until that is clear, and no longer; people
// are told.
func TestLockedPort(t *testing.T) {
	b := newTestbed(t, 1)
	said := [2]<-chan error{b.noted(0), b.noted(1)}
	a := b.begin()
	o := a.other()
	if err := a.pair().Store().Apply([]store.Op{{Kind: store.PutLID, GUID: store.ManagerGUID, LID: lidHost + ib.LID(a.i)}}); err != nil {
		t.Fatal(err)
	}
	b.paired()
	o.lock(1)
	a.kill()
	b.eventually("the other one is active", func() bool { return o.active.Load() })
	sent := make(chan error, 1)
	go func() { sent <- (*o.manager.Load()).Send(setSM()) }()
	b.hears(said[o.i], errLocked)
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(need.Patience):
		t.Error("the managers wait")
	}
}

// TestBlindManager: the active manager's port does not answer it any more. It hands over, and what its
// managers send meanwhile fails.
func TestBlindManager(t *testing.T) {
	b := newTestbed(t, 1)
	said := [2]<-chan error{b.noted(0), b.noted(1)}
	a := b.begin()
	b.put("before")
	a.lock(2)
	b.hears(said[a.i], ErrBlind)
	b.eventually("the other one is active", func() bool { return a.other().active.Load() && !a.active.Load() })
	b.put("after")
	if why := a.pair().Status().Why; why != replica.WhyPort {
		t.Errorf("it gave up because %v", why)
	}
}

// TestBlindSend: a manager that cannot see its port does not wait for that.
func TestBlindSend(t *testing.T) {
	p := alonePair(&handed{one: func() { t.Error("a packet is sent") }})
	port := p.ManagerPort()
	p.gate.seen.Store(1) // the last look was long ago
	sent := make(chan error, 1)
	go func() { sent <- port.Send(setSM()) }()
	<-p.events // it asks for a look
	p.gate.unseen()
	select {
	case err := <-sent:
		if !errors.Is(err, ErrBlind) {
			t.Error(err)
		}
	case <-time.After(need.Patience):
		t.Fatal("it waits")
	}
}
