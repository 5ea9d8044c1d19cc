package process

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// lookedAt is a port that notes the questions to it, and what else is sent.
type lookedAt struct {
	mad.Transport
	closed  chan struct{}
	answers chan []byte
	answer  func(*ib.MAD) // makes the answer of a question; nil: none

	mu    sync.Mutex
	asked []ib.MAD
	sent  int
}

func (p *lookedAt) Recv(to *mad.Packet) error {
	select {
	case <-p.closed:
		return errors.New("closed")
	case b := <-p.answers:
		to.Data, to.Status = append(to.Data[:0], b...), mad.Received
		return nil
	}
}

func (p *lookedAt) Send(q *mad.Packet) error {
	m := *(*ib.MAD)(q.Data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Class() != ib.ClassSubnDR {
		p.sent++
		return nil
	}
	p.asked = append(p.asked, m)
	if p.answer != nil {
		p.answer(&m)
		p.answers <- m[:]
	}
	return nil
}

// reply answers a question that was asked before.
func (p *lookedAt) reply(i int, how func(*ib.MAD)) {
	p.mu.Lock()
	m := p.asked[i]
	p.mu.Unlock()
	how(&m)
	p.answers <- m[:]
	synctest.Wait()
}

func (p *lookedAt) counts() (asked, sent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked), p.sent
}

// names makes the answer of a port with LID 1 that names an SM.
func names(sm ib.LID) func(*ib.MAD) {
	return func(m *ib.MAD) {
		m.SetMethod(ib.MethodGetResp)
		pi := smp.PortInfo{LID: 1, MasterSMLID: sm}
		pi.Put(smp.Data(m))
	}
}

// refuses makes the answer of a port that has another M_Key.
func refuses(m *ib.MAD) {
	names(1)(m)
	m.SetStatus(ib.StatusInvalidField)
}

// watched is a master on a port.
type watched struct {
	t    *testing.T
	port *lookedAt
	kept *keptPort
	turn *turn
	lost atomic.Int32
}

// watch begins a mastership; what it is given answers questions, nil leaves them without an answer.
func watch(t *testing.T, answer func(*ib.MAD)) *watched {
	w := &watched{t: t, port: &lookedAt{closed: make(chan struct{}), answers: make(chan []byte, 64), answer: answer}}
	w.kept = keep(w.port)
	w.turn = w.kept.begin()
	w.kept.look.arm(func() ib.MKey { return 0 }, func() {
		w.lost.Add(1)
		w.turn.Close()
	})
	return w
}

func (w *watched) close() { close(w.port.closed) }

// answers changes what the port says.
func (w *watched) answers(answer func(*ib.MAD)) {
	w.port.mu.Lock()
	defer w.port.mu.Unlock()
	w.port.answer = answer
}

// stop stops the process: time goes on, and nobody has noted that it runs.
func (w *watched) stop(d time.Duration) {
	l := w.kept.look
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = l.epoch.Add(-d)
}

// send has n senders send one packet each, at once.
func (w *watched) send(n int) (errs chan error) {
	errs = make(chan error, n)
	for range n {
		go func() { errs <- w.turn.Send(&mad.Packet{Data: make([]byte, ib.MADLen)}) }()
	}
	return errs
}

// all waits for senders, and returns how long that took.
func (w *watched) all(errs chan error, want bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for range cap(errs) {
		if err := <-errs; (err == nil) != want {
			w.t.Errorf("sent: %v", err)
		}
	}
	return time.Since(began)
}

// TestSilentPort: a port that does not answer, refuses the M_Key, or takes no questions, does not slow its
// manager down. After a stop one look serves all who want to send.
func TestSilentPort(t *testing.T) {
	for name, c := range map[string]struct {
		named  bool
		answer func(*ib.MAD)
		look   time.Duration
	}{
		"silent":                 {answer: nil, look: lookTries * lookWait},
		"silent, named before":   {named: true, answer: nil, look: lookTries * lookWait},
		"refuses":                {answer: refuses, look: 0},
		"refuses, answered once": {named: true, answer: refuses, look: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := c.answer
				if c.named {
					first = names(1)
				}
				w := watch(t, first)
				defer w.close()
				<-time.After(time.Second)
				w.answers(c.answer)
				for range 20 {
					if took := w.all(w.send(1), true); took != 0 {
						t.Fatalf("a packet took %v without a stop", took)
					}
				}
				asked, _ := w.port.counts()
				w.stop(5 * time.Second)
				if took := w.all(w.send(20), true); took != c.look {
					t.Errorf("20 senders took %v after a stop, want %v", took, c.look)
				}
				if now, _ := w.port.counts(); now-asked != lookTries {
					t.Errorf("%d questions after a stop, want %d", now-asked, lookTries)
				}
				if took := w.all(w.send(20), true); took != 0 {
					t.Errorf("20 senders took %v after the look", took)
				}
				if n := w.lost.Load(); n != 0 {
					t.Errorf("the mastership was lost %d times", n)
				}
			})
		})
	}
}

// TestRefusedSeldom: a port that refuses the M_Key may send a trap each time, so it is not asked all the
// time in advance.
func TestRefusedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, refuses)
		defer w.close()
		<-time.After(10 * time.Second)
		if asked, _ := w.port.counts(); asked > 11*lookTries {
			t.Errorf("%d questions in 10 s", asked)
		}
	})
}

// TestLookNamesAnother: all who wait for the look hear that the mastership is lost, and nothing is sent.
func TestLookNamesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, names(1))
		defer w.close()
		<-time.After(time.Second)
		w.answers(names(2))
		w.stop(5 * time.Second)
		w.all(w.send(20), false)
		if _, sent := w.port.counts(); sent != 0 || w.lost.Load() != 1 {
			t.Errorf("%d packets were sent, and the mastership lost %d times", sent, w.lost.Load())
		}
	})
}

// TestLookStopped: a stop during a look that gets no answer, however short if it is longer than
// lookAfter, makes the look begin anew: who waits sends only after so long without a stop.
func TestLookStopped(t *testing.T) {
	for _, d := range []time.Duration{lookAfter + time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond, 5 * time.Second} {
		for at := time.Duration(0); at < lookTries*lookWait; at += 30 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				w := watch(t, names(1))
				defer w.close()
				<-time.After(time.Second)
				w.answers(nil)
				w.stop(time.Second)
				errs := w.send(3)
				<-time.After(at + time.Millisecond)
				synctest.Wait()
				w.stop(d)
				stopped := time.Now()
				w.all(errs, true)
				if since := time.Since(stopped); since < lookTries*lookWait {
					t.Errorf("a stop of %v, %v into a look: packets left %v after it", d, at, since)
				}
			})
		}
	}
}

// TestLateAnswers: an answer counts for the moment in which it was asked.
func TestLateAnswers(t *testing.T) {
	// stopped is a master that was named, stopped, and is looking without an answer so far.
	stopped := func(t *testing.T) (w *watched, errs chan error, first int) {
		w = watch(t, names(1))
		<-time.After(time.Second)
		w.answers(nil)
		first, _ = w.port.counts()
		w.stop(time.Second)
		errs = w.send(3)
		synctest.Wait()
		return w, errs, first
	}
	t.Run("to an earlier question of this look", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, errs, first := stopped(t)
			defer w.close()
			<-time.After(lookWait + lookWait/2)
			w.port.reply(first, names(1))
			if took := w.all(errs, true); took != 0 {
				t.Errorf("packets waited %v after an answer that was asked for after the stop", took)
			}
		})
	})
	t.Run("from before a stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, errs, first := stopped(t)
			defer w.close()
			w.stop(time.Second)
			w.port.reply(first, names(1)) // it came before the second stop, and is read after it
			if _, sent := w.port.counts(); sent != 0 {
				t.Error("a packet was sent because of an answer from before the stop")
			}
			w.answers(names(2))
			w.all(errs, false)
		})
	})
	t.Run("of an earlier look, from before a stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, errs, first := stopped(t)
			defer w.close()
			w.all(errs, true)
			w.stop(time.Second)
			errs = w.send(3)
			synctest.Wait()
			w.port.reply(first, names(1))
			if _, sent := w.port.counts(); sent != 3 {
				t.Error("a packet was sent because of an answer to an earlier look")
			}
			if took := w.all(errs, true); took != lookTries*lookWait {
				t.Errorf("the look took %v", took)
			}
		})
	})
	t.Run("of an earlier look, which names another SM", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, errs, first := stopped(t)
			defer w.close()
			w.all(errs, true)
			w.port.reply(first, names(2))
			w.all(w.send(3), false)
			if w.lost.Load() != 1 {
				t.Errorf("the mastership was lost %d times", w.lost.Load())
			}
		})
	})
	t.Run("from before the port named this SM", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := watch(t, nil)
			defer w.close()
			<-time.After(lookTick + time.Millisecond)
			asked, _ := w.port.counts()
			w.answers(names(1))
			<-time.After(lookWait)
			w.port.reply(asked-1, names(2)) // as it was then
			w.all(w.send(3), true)
			if w.lost.Load() != 0 {
				t.Error("an answer from before the mastership was known has ended it")
			}
		})
	})
	t.Run("of a mastership before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, errs, first := stopped(t)
			defer w.close()
			w.kept.look.disarm()
			w.all(errs, true) // on standby, it may send
			w.kept.look.arm(func() ib.MKey { return 0 }, func() { w.lost.Add(1) })
			w.answers(names(1))
			<-time.After(time.Second)
			w.port.reply(first, names(2))
			w.all(w.send(3), true)
			if w.lost.Load() != 0 {
				t.Error("an answer to a mastership before has ended this one")
			}
		})
	})
}

// TestPortGoneWhileLooking: who waits for a look hears that the port is gone.
func TestPortGoneWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, nil)
		<-time.After(time.Second)
		w.stop(time.Second)
		errs := w.send(3)
		synctest.Wait()
		w.close()
		w.all(errs, false)
	})
}
