package live_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heddle/flood"
	"heddle/flood/live"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// The tests run in bubbles of virtual time. What is measured depends on what
// the SA takes for an answer, never on who gets the processor.

// serviceTime is what the SA takes for one answer.
const serviceTime = 10 * time.Microsecond

// A fakeSA answers on a transport in this process, one request after the other.
type fakeSA struct {
	mu     sync.Mutex
	ch     chan mad.Packet
	closed bool
	rmpp   bool
	asked  int
	answer func(n int, m *ib.MAD) []byte // nil: no answer
}

func newSA(answer func(n int, m *ib.MAD) []byte) *fakeSA {
	return &fakeSA{ch: make(chan mad.Packet, 1<<14), answer: answer}
}

func (s *fakeSA) Send(p *mad.Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return io.ErrClosedPipe
	}
	s.asked++
	m := *(*ib.MAD)(p.Data)
	m.SetMethod(m.Method() | ib.MethodResponseBit)
	if b := s.answer(s.asked, &m); b != nil {
		s.ch <- mad.Packet{Addr: p.Addr, LocalQP: 1, Data: b}
	}
	return nil
}

func (s *fakeSA) Recv(p *mad.Packet) error {
	q, ok := <-s.ch
	if !ok {
		return io.EOF
	}
	<-time.After(serviceTime) // of the bubble
	*p = q
	return nil
}

func (s *fakeSA) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.ch)
	}
	return nil
}

func (s *fakeSA) SetIsSM(bool) error { return nil }
func (s *fakeSA) PortGUID() ib.GUID  { return 0x11 }
func (s *fakeSA) SegmentsRMPP() bool { return s.rmpp }
func (s *fakeSA) MaxInFlight() int   { return 0 }
func echo(_ int, m *ib.MAD) []byte   { return m[:] }
func silent(_ int, _ *ib.MAD) []byte { return nil }
func at(lid ib.LID) mad.Addr         { return mad.Addr{LID: lid, QP: 1} }
func config(seed uint64) flood.Config {
	return flood.Config{Target: flood.Target{SA: at(1)}, Seed: seed}
}

func open(t *testing.T, s *fakeSA, epoch time.Time) *live.Port {
	p := live.Open("test", s, epoch)
	t.Cleanup(func() { p.Close() })
	return p
}

func TestRunLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, newSA(echo), time.Now())
		f := flood.New(config(1))
		l := flood.NewLoad(f, 961, 20000, time.Minute)
		if err := live.Run(t.Context(), []live.Flooder{{Flooder: f, Port: p}}, l, nil); err != nil {
			t.Fatal(err)
		}
		tally := l.Tally()
		if tally.Answered() != 20000 || tally.Errors() != 0 {
			t.Errorf("%d answered, %d errors", tally.Answered(), tally.Errors())
		}
	})
}

func TestRunExperiment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTime = 20 * time.Millisecond
		epoch := time.Now()
		var fs []live.Flooder
		for i := range 3 {
			fs = append(fs, live.Flooder{Flooder: flood.New(config(uint64(i))), Port: open(t, newSA(echo), epoch)})
		}
		x := flood.NewExperiment(flood.Plan{Instances: 4, Rounds: 3, RoundTime: roundTime}, fs[0].Flooder, []*flood.Flooder{fs[1].Flooder, fs[2].Flooder})
		if err := live.Run(t.Context(), fs, x, nil); err != nil {
			t.Fatal(err)
		}
		rounds := x.Rounds()
		if len(rounds) != 3 || rounds[2].Instances != 17 {
			t.Fatalf("%d rounds", len(rounds))
		}
		// Each flooder has an SA of its own, which is never idle: it answers as
		// many requests as there is time for, give or take one at either end.
		const most = uint64(roundTime / serviceTime)
		each := func(round int, who string, n uint64) {
			if n < most-1 || n > most+1 {
				t.Errorf("round %d: %s got %d answers, want %d", round, who, n, most)
			}
		}
		for i := range rounds {
			each(i+1, "the SIF", rounds[i].SIF.Answered())
			for k := range rounds[i].MIFs {
				if i == 0 {
					if n := rounds[i].MIFs[k].Answered(); n != 0 {
						t.Errorf("round 1: MIF %d got %d answers", k, n)
					}
					continue
				}
				each(i+1, "a MIF", rounds[i].MIFs[k].Answered())
			}
		}
	})
}

// TestInterrupt: an interrupt ends a run with a silent SA, and keeps the measurements.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 1)
		s := newSA(func(int, *ib.MAD) []byte {
			select {
			case asked <- struct{}{}:
			default:
			}
			return nil
		})
		p := open(t, s, time.Now())
		f := flood.New(config(1))
		l := flood.NewLoad(f, 4, 0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			<-time.After(time.Second)
			cancel()
		}()
		if err := live.Run(ctx, []live.Flooder{{Flooder: f, Port: p}}, l, nil); err != nil {
			t.Fatal(err)
		}
		if tally := l.Tally(); tally.To.Sub(tally.From) != time.Second {
			t.Errorf("measured from %v to %v", tally.From, tally.To)
		}
	})
}

// TestTimers: unanswered queries time out in real time.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, newSA(silent), time.Now())
		c := config(1)
		c.Timeout = time.Millisecond
		f := flood.New(c)
		l := flood.NewLoad(f, 2, 10, time.Minute)
		if err := live.Run(t.Context(), []live.Flooder{{Flooder: f, Port: p}}, l, nil); err != nil {
			t.Fatal(err)
		}
		if tally := l.Tally(); tally.Timeouts != 10 {
			t.Errorf("%d timeouts, want 10", tally.Timeouts)
		}
	})
}

func TestPortLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSA(nil)
		s.answer = func(n int, m *ib.MAD) []byte {
			if n == 100 {
				go s.Close()
			}
			return m[:]
		}
		p := open(t, s, time.Now())
		f := flood.New(config(1))
		l := flood.NewLoad(f, 1, 0, time.Minute)
		err := live.Run(t.Context(), []live.Flooder{{Flooder: f, Port: p}}, l, nil)
		if !errors.Is(err, live.ErrPortLost) || !errors.Is(err, io.EOF) {
			t.Fatalf("error %v", err)
		}
		if tally := l.Tally(); tally.Answered() < 99 {
			t.Errorf("%d answered before the port was lost", tally.Answered())
		}
	})
}

// nodeAt is the record of a host at an odd LID, of a switch at an even one.
func nodeAt(lid ib.LID) sa.NodeRecord {
	n := sa.NodeRecord{LID: lid}
	n.NodeInfo.NodeType = ib.NodeCA
	if lid%2 == 0 {
		n.NodeInfo.NodeType = ib.NodeSwitch
	}
	n.NodeInfo.PortGUID = ib.GUID(lid) << 8
	return n
}

// TestDestinations: the destinations are the hosts, from a whole table or LID by LID.
func TestDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byLID := func(_ int, m *ib.MAD) []byte {
			if m.Method() != ib.MethodGetResp {
				m[45] = 14 // a table that is one record long
				n := nodeAt(1)
				n.Put(sa.Data(m))
				return m[:sa.HeaderLen+sa.NodeRecordLen]
			}
			lid := ib.LID(m[sa.DataOffset])<<8 | ib.LID(m[sa.DataOffset+1])
			if lid > 601 {
				m.SetStatus(ib.StatusSANoRecords)
				return m[:]
			}
			n := nodeAt(lid)
			n.Put(sa.Data(m))
			return m[:]
		}
		whole := func(_ int, m *ib.MAD) []byte {
			m[45] = 14
			b := append([]byte(nil), m[:sa.HeaderLen]...)
			for lid := ib.LID(601); lid > 0; lid-- {
				n := nodeAt(lid)
				var rec [sa.NodeRecordLen]byte
				n.Put(rec[:])
				b = append(b, rec[:]...)
			}
			return b
		}
		for name, c := range map[string]struct {
			answer func(int, *ib.MAD) []byte
			rmpp   bool
		}{"single MADs": {byLID, false}, "single MADs from the SA": {byLID, true}, "whole": {whole, true}} {
			s := newSA(c.answer)
			s.rmpp = c.rmpp
			p := open(t, s, time.Now())
			got, err := p.Ends(t.Context(), at(1), ib.DefaultSubnetPrefix, false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(got) != 301 {
				t.Fatalf("%s: %d destinations, want 301", name, len(got))
			}
			for i, e := range got {
				if want := ib.LID(2*i + 1); e.LID != want || e.GID != ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(want)<<8) {
					t.Fatalf("%s: destination %d is %+v", name, i, e)
				}
			}
		}
	})
}

// TestDestinationsRefused: the error quotes the SA's status.
func TestDestinationsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, newSA(func(_ int, m *ib.MAD) []byte {
			m.SetStatus(ib.StatusSAReqInvalid)
			return m[:]
		}), time.Now())
		if _, err := p.Ends(t.Context(), at(1), ib.DefaultSubnetPrefix, false); err == nil {
			t.Error("no error")
		}
	})
}
