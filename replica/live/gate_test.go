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
	"heddle/subnet"
)

// handed is a port that calls its functions with what it is handed.
type handed struct {
	mad.Transport
	one  func()
	many func(n int)
}

func (h *handed) Send(*mad.Packet) error { h.one(); return nil }

func (h *handed) SendAll(ps []mad.Packet) (int, error) { h.many(len(ps)); return len(ps), nil }

// burstPort takes bursts too.
type burstPort struct{ handed }

func (h *burstPort) Bursts() bool                         { return true }
func (h *burstPort) BurstsRMPP() bool                     { return false }
func (h *burstPort) TryRecv(*mad.Packet) (bool, error)    { return false, nil }
func (h *burstPort) TrySend(ps []mad.Packet) (int, error) { return h.SendAll(ps) }

// alonePair is a Pair that does not run, with the gate open.
func alonePair(port mad.Transport) *Pair {
	p := &Pair{
		cfg: Config{Port: port, Rules: replica.Defaults(1, 2)}, epoch: time.Now().Add(-time.Hour),
		events: make(chan func(), 256), done: make(chan struct{}),
	}
	p.gate.init(p)
	p.gate.open()
	return p
}

func packets(n int) []mad.Packet {
	list := make([]mad.Packet, n)
	for i := range list {
		var m ib.MAD
		smp.NewDR(&m, ib.MethodSet, smp.AttrLFT, uint32(i), 0, []byte{1})
		list[i] = mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}
	}
	return list
}

// TestShutWaits: a mastership is not over while a packet of its manager is on the way to the port.
func TestShutWaits(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	p := alonePair(&handed{one: func() { close(entered); <-leave }})
	port := p.ManagerPort()
	sent := make(chan error, 1)
	go func() { sent <- port.Send(&packets(1)[0]) }()
	<-entered
	none := p.gate.shut()
	for end := time.Now().Add(need.Patience); p.gate.sending.TryRLock(); pause() {
		p.gate.sending.RUnlock()
		if time.Now().After(end) {
			t.Fatal("shut does not look for packets")
		}
	}
	select {
	case <-none:
		t.Fatal("a packet is on the way")
	default:
	}
	close(leave)
	<-none
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := port.Send(&packets(1)[0]); !errors.Is(err, ErrCut) {
		t.Errorf("after the mastership: %v", err)
	}
	select {
	case <-p.gate.shut():
	default:
		t.Error("no packet is on the way, and shut waits for some")
	}
}

// TestSlowPort: a manager gives up although the port does not take a packet of its managers.
func TestSlowPort(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	p := alonePair(&handed{one: func() { close(entered); <-leave }})
	p.granted, p.log = true, quiet
	given := make(chan replica.Why, 1)
	p.cfg.OnStandby = func(why replica.Why) { given <- why }
	port := p.ManagerPort()
	sent := make(chan error, 1)
	go func() { sent <- port.Send(&packets(1)[0]) }()
	<-entered
	yielded := make(chan struct{})
	go func() {
		defer close(yielded)
		p.yield(&replica.Output{Notices: []replica.Notice{{Kind: replica.NoticeStandby, Why: replica.WhyHandover}}})
	}()
	select {
	case <-yielded:
	case <-time.After(need.Patience):
		t.Error("it waits for the port")
	}
	close(leave)
	<-yielded
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if why := <-given; why != replica.WhyHandover {
		t.Errorf("it gave up because %v", why)
	}
}

// TestStoppedAmongPackets: the process is stopped after some of many packets. When it goes on, the
// others wait for a look at the port, which shows that the peer has taken over.
func TestStoppedAmongPackets(t *testing.T) {
	for _, way := range []string{"one by one", "batches", "bursts"} {
		total := 0
		var p *Pair
		stop := func(n int) {
			if total += n; total >= 20 {
				p.gate.seen.Store(1) // the last look was long ago
			}
		}
		h := handed{one: func() { stop(1) }, many: stop}
		var port mad.Transport = &h
		switch way {
		case "one by one":
			port = struct{ mad.Transport }{&h}
		case "bursts":
			port = &burstPort{h}
		}
		p = alonePair(port)
		m := p.ManagerPort()
		send := m.(mad.Batcher).SendAll
		if way == "bursts" {
			send = m.(mad.Burster).TrySend
		}
		var n int
		done := make(chan error, 1)
		go func() {
			var err error
			n, err = send(packets(100))
			done <- err
		}()
		select {
		case <-p.events: // it asks for a look
		case err := <-done:
			t.Fatalf("%s: %d of 100 packets were sent, %v", way, n, err)
		}
		p.gate.shut()
		if err := <-done; !errors.Is(err, ErrCut) || n != total || n > 20+sendSlice {
			t.Errorf("%s: %d packets, the port has %d, %v", way, n, total, err)
		}
	}
}

// TestShowAfterMastership: what the managers of a mastership publish when it has ended is not shown.
func TestShowAfterMastership(t *testing.T) {
	p := alonePair(&handed{})
	first, second := &subnet.Snapshot{Gen: 1}, &subnet.Snapshot{Gen: 2}
	p.reign.Add(1)
	old := p.Show()
	old(first)
	if p.warm.shown != first {
		t.Error("a snapshot is not shown")
	}
	p.showNothing()
	old(first)
	if p.warm.shown != nil {
		t.Error("a manager that has ended shows what it published")
	}
	p.reign.Add(1)
	show := p.Show()
	show(second)
	old(first)
	if p.warm.shown != second {
		t.Errorf("generation %d is shown", p.warm.shown.Gen)
	}
}
