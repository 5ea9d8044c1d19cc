// Package live drives package flood in real time, on ports of a real or
// simulated fabric. Each port has one goroutine that receives responses,
// records them and sends the next queries, so an instance costs no more than
// its query.
package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// ErrPortLost: a port was lost (device removed, simulator ended).
var ErrPortLost = errors.New("the port is lost")

// handler is a pure state machine that a port drives: a flood.Flooder, or the
// asker that prepares one.
type handler interface {
	Receive(now mad.Time, p *mad.Packet)
	Expire(now mad.Time)
	Poll(now mad.Time, send func(*mad.Packet))
	NextTimer() mad.Time
}

// Port is a port that queries go out of. Its methods may be called from any
// goroutine.
type Port struct {
	name  string
	t     mad.Transport
	burst mad.Burster // t, if it is a Burster
	epoch time.Time

	mu     sync.Mutex
	h      handler // guarded by mu; nil: received packets are dropped
	then   func()  // called with mu held after h has moved; guarded by mu
	timer  *time.Timer
	due    mad.Time     // of timer; guarded by mu
	unsent uint64       // sends that failed; guarded by mu
	out    []mad.Packet // packets of one poll, reused; guarded by mu
	err    error        // why the port is lost; guarded by mu
	lost   chan struct{}
	ended  chan struct{} // receive has returned
}

// Open starts to receive from t, which the port owns from now on. All ports of
// a run have the same epoch. The name is for messages.
func Open(name string, t mad.Transport, epoch time.Time) *Port {
	p := &Port{
		name: name, t: t, epoch: epoch, due: mad.Never,
		lost: make(chan struct{}), ended: make(chan struct{}),
	}
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	if b, ok := t.(mad.Burster); ok && b.Bursts() {
		p.burst = b
	}
	go p.receive()
	return p
}

// Close closes the transport and waits for the receiver.
func (p *Port) Close() error {
	err := p.t.Close()
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h = nil
	p.timer.Stop()
	return err
}

func (p *Port) now() mad.Time { return mad.Time(time.Since(p.epoch)) }

// maxAnswers is how many responses are recorded before the next queries are
// sent.
const maxAnswers = 64

func (p *Port) receive() {
	defer close(p.ended)
	var k mad.Packet
	for {
		if err := p.t.Recv(&k); err != nil {
			p.end(err)
			return
		}
		p.mu.Lock()
		now := p.now()
		p.handle(now, &k)
		if p.burst != nil {
			for range maxAnswers - 1 {
				ok, err := p.burst.TryRecv(&k)
				if !ok || err != nil {
					break // Recv will return the error
				}
				now = p.now()
				p.handle(now, &k)
			}
		}
		if p.h != nil {
			p.poll(now)
		}
		p.mu.Unlock()
	}
}

// end records that the port is lost.
func (p *Port) end(err error) {
	p.mu.Lock()
	p.err = fmt.Errorf("%w: %s: %w", ErrPortLost, p.name, err)
	p.mu.Unlock()
	close(p.lost)
}

// handle passes a received packet to the handler; mu is held.
func (p *Port) handle(now mad.Time, k *mad.Packet) {
	if p.h != nil {
		p.h.Receive(now, k)
	}
}

func (p *Port) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = mad.Never
	if p.h == nil {
		return
	}
	now := p.now()
	p.h.Expire(now)
	p.poll(now)
}

// poll sends due packets and sets the timer; mu is held. An early timer is
// harmless, so it is only moved to earlier times.
func (p *Port) poll(now mad.Time) {
	p.h.Poll(now, p.send)
	p.flush()
	if due := p.h.NextTimer(); due < p.due {
		p.due = due
		p.timer.Reset(max(0, due.Sub(now)))
	}
	if p.then != nil {
		p.then()
	}
}

// send is best effort: a packet that is not sent times out. If the port is a
// Burster, k waits for flush.
func (p *Port) send(k *mad.Packet) {
	if p.burst == nil || len(k.Data) > ib.MADLen {
		if p.t.Send(k) != nil {
			p.unsent++
		}
		return
	}
	n := len(p.out)
	if n == cap(p.out) {
		p.out = append(p.out, mad.Packet{})
	}
	p.out = p.out[:n+1]
	q := &p.out[n]
	data := append(q.Data[:0], k.Data...)
	*q = *k
	q.Data = data
}

// flush sends the waiting packets.
func (p *Port) flush() {
	if len(p.out) == 0 {
		return
	}
	n, _ := p.burst.TrySend(p.out)
	for i := n; i < len(p.out); i++ {
		if p.t.Send(&p.out[i]) != nil {
			p.unsent++
		}
	}
	p.out = p.out[:0]
}

// use makes h the handler that the port drives.
func (p *Port) use(h handler, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h, p.then = h, then
}

// failure is why the port was lost, nil while it is not.
func (p *Port) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// asker sends single queries through a port before the flood.
type asker struct {
	engine  *mad.Engine
	waiting map[uint64]chan<- reply
	next    uint64
}

type reply struct {
	data []byte
	err  error
}

func newAsker(t mad.Transport, timed bool) *asker {
	c := mad.Config{TransportTimed: timed, Timeout: time.Second, Retries: 2}
	return &asker{engine: mad.NewEngine(c.Tuned(t.MaxInFlight())), waiting: map[uint64]chan<- reply{}}
}

func (a *asker) Receive(now mad.Time, p *mad.Packet) {
	if c, kind := a.engine.Receive(now, p); kind == mad.KindCompletion {
		a.done(c)
	}
}

func (a *asker) Expire(now mad.Time)                       { a.engine.Expire(now, a.done) }
func (a *asker) Poll(now mad.Time, send func(*mad.Packet)) { a.engine.Poll(now, send) }
func (a *asker) NextTimer() mad.Time                       { return a.engine.NextTimer() }

func (a *asker) done(c mad.Completion) {
	ch := a.waiting[c.Token]
	delete(a.waiting, c.Token)
	ch <- reply{append([]byte(nil), c.Data...), c.Err} // never blocks: the channel is buffered
}

// ask sends one request and returns the whole response.
func (p *Port) ask(ctx context.Context, a *asker, r *mad.Request) ([]byte, error) {
	ch := make(chan reply, 1)
	p.mu.Lock()
	a.next++
	r.Token = a.next
	a.waiting[r.Token] = ch
	err := a.engine.Submit(r)
	now := p.now()
	p.poll(now)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case got := <-ch:
		return got.data, got.err
	case <-p.lost:
		return nil, p.failure()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
