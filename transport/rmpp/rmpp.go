// Package rmpp puts segmentation over a port that carries single MADs: table
// answers longer than a MAD go out, and come in, as the segments that the
// Linux kernel would make of them. It is what stands between a manager and a
// simulated port, where there is no kernel.
package rmpp

import (
	"sync"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// Port is a transport that segments. It implements mad.Transport; Send may be
// called from several goroutines, Recv from one at a time.
type Port struct {
	mad.Transport
	epoch time.Time

	mu     sync.Mutex // also serialises Transport.Send
	rmpp   *mad.RMPP  // guarded by mu
	timer  *time.Timer
	due    mad.Time // of timer; guarded by mu
	closed bool     // guarded by mu
	err    error    // of the last raw send; guarded by mu
}

// Over puts segmentation over t.
func Over(t mad.Transport) *Port {
	p := &Port{Transport: t, epoch: time.Now(), rmpp: mad.NewRMPP(mad.RMPPConfig{}), due: mad.Never}
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	return p
}

func (p *Port) now() mad.Time { return mad.Time(time.Since(p.epoch)) }

// SegmentsRMPP is true: that is what the port is for.
func (p *Port) SegmentsRMPP() bool { return true }

// Send sends one MAD, or starts the transfer of an SA message whose RMPP
// Active flag is set; its data is copied. A transfer that fails later is
// known to nobody but the requester, who asks again.
func (p *Port) Send(q *mad.Packet) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !segmented(q.Data) {
		return p.Transport.Send(q)
	}
	own := *q
	own.Data = append([]byte(nil), q.Data...)
	p.err = nil
	if err := p.rmpp.Send(p.now(), &own, false, 0, p.raw); err != nil {
		return err
	}
	p.arm()
	return p.err
}

// segmented reports whether an SA message is to be sent by RMPP.
func segmented(b []byte) bool {
	return len(b) >= sa.HeaderLen && ib.Class(b[1]) == ib.ClassSA && ib.Method(b[3]).IsResponse() && b[26]&sa.RMPPActive != 0
}

// raw sends a segment or an acknowledgement; mu is held.
func (p *Port) raw(q *mad.Packet) {
	if err := p.Transport.Send(q); err != nil {
		p.err = err
	}
}

// Recv returns the next packet; a message of several segments comes whole.
func (p *Port) Recv(q *mad.Packet) error {
	for {
		if err := p.Transport.Recv(q); err != nil {
			return err
		}
		if q.Status != mad.Received || len(q.Data) < ib.MADLen || ib.Class(q.Data[1]) != ib.ClassSA {
			return nil
		}
		p.mu.Lock()
		whole, kind := p.rmpp.Receive(p.now(), q, p.raw, func(uint64, error) {})
		if kind == mad.RMPPMessage {
			data := append(q.Data[:0], whole.Data...)
			*q = *whole
			q.Data = data
		}
		p.arm()
		p.mu.Unlock()
		if kind != mad.RMPPUsed {
			return nil
		}
	}
}

// Transfers is how many messages are being sent and received.
func (p *Port) Transfers() (sending, receiving int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rmpp.Transfers()
}

func (p *Port) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.due = mad.Never
	p.rmpp.Expire(p.now(), p.raw, func(uint64, error) {})
	p.arm()
}

// arm sets the timer for what is due next; mu is held.
func (p *Port) arm() {
	due := p.rmpp.NextTimer()
	if due == p.due || p.closed {
		return
	}
	p.due = due
	if due == mad.Never {
		p.timer.Stop()
		return
	}
	p.timer.Reset(max(0, due.Sub(p.now())))
}

// Close ends the transfers and closes the port below.
func (p *Port) Close() error {
	p.mu.Lock()
	p.closed = true
	p.timer.Stop()
	p.mu.Unlock()
	return p.Transport.Close()
}
