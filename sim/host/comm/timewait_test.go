package comm

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/cm"
	"heddle/mad"
	"heddle/sim/host/rc"
)

// TestTimeWait: both queue pairs stay in ERR for a while after a connection has ended,
// whatever is lost, and then go. A request of the same queue pair is refused until then.
func TestTimeWait(t *testing.T) {
	cfg := quick()
	cfg.TimeWait = true
	for lost := range 4 { // 0: none
		p := newPair(t, cfg)
		c, s, err := p.connect(service, 4)
		p.run(100 * time.Microsecond)
		must(t, *err)
		s.Limit = 0
		s.Run(c.QP())
		p.run(50 * time.Microsecond)
		n, ended := 0, 0
		p.m[1].conns[0].Ended = func(mad.Time) { ended++ }
		p.lose = func(int, *ib.MAD) bool { n++; return n == lost }
		c.Disconnect(p.now())
		p.run(50 * time.Microsecond)
		if st, _ := s.Failed(); st != rc.Flushed {
			t.Errorf("message %d lost: sends end with %v", lost, st)
		}
		if lost == 0 {
			a, b := p.a[0].Connections(), p.a[1].Connections()
			if len(a) != 1 || len(b) != 1 || a[0].QP().State() != rc.Error || b[0].QP().State() != rc.Error || c.State() != TimeWait {
				t.Fatalf("%d and %d queue pairs, %v", len(a), len(b), c.State())
			}
			var out ib.MAD
			q := wire.REQ{LocalID: 99, ServiceID: service, QPN: c.QP().QPN(), MTU: 4}
			wire.New(&out, wire.AttrREQ, 1)
			q.Put(wire.Data(&out))
			p.m[0].transmit(mad.Addr{LID: p.a[1].LID()}, &out)
			p.run(20 * time.Microsecond)
			if p.sent[len(p.sent)-1] != wire.AttrREJ {
				t.Errorf("a stale queue pair: %v", p.sent)
			}
		}
		p.run(5 * time.Millisecond)
		if p.a[0].Live()+p.a[1].Live() != 0 || len(p.m[0].conns)+len(p.m[1].conns) != 0 || ended != 1 || c.State() != Closed {
			t.Errorf("message %d lost: %d and %d queue pairs, ended %d times, %v", lost, p.a[0].Live(), p.a[1].Live(), ended, c.State())
		}
	}
}

// TestSlowAccept: a passive end that takes longer than its peer gives says so, and connects
// once. Without the MRA the active end has given up.
func TestSlowAccept(t *testing.T) {
	for _, mute := range []bool{false, true} {
		cfg := quick()
		cfg.Accept = 7 * cfg.Timeout() // four retries
		p := newPair(t, cfg)
		mras := 0
		p.lose = func(_ int, d *ib.MAD) bool {
			if d.AttrID() == wire.AttrMRA {
				mras++
			}
			return mute && d.AttrID() == wire.AttrMRA
		}
		_, _, err := p.connect(service, 4)
		p.run(cfg.Accept - time.Microsecond)
		if p.a[1].Live() != 0 {
			t.Error("it is answered early")
		}
		p.run(30 * time.Millisecond)
		if mute != errors.Is(*err, ErrTimeout) || !mute && *err != nil || mras == 0 {
			t.Errorf("MRA lost %v: %v, %d of them", mute, *err, mras)
		}
		if want := map[bool]int{false: 1, true: 0}[mute]; p.a[1].Live() != want {
			t.Errorf("MRA lost %v: %d queue pairs", mute, p.a[1].Live())
		}
	}
}
