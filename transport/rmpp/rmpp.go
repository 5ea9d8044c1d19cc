// Package rmpp adds RMPP to a port that carries single MADs: it sends and
// receives messages longer than a MAD as the segments that the Linux kernel
// would make. A manager uses it on a simulated port, where there is no kernel,
// and on a port whose kernel leaves RMPP to it (umad.Options.OwnRMPP).
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
	burst mad.Burster // the transport, if it is a Burster; otherwise nil
	batch mad.Batcher // the transport, if it is a Batcher; otherwise nil
	epoch time.Time

	mu       sync.Mutex // held while segments are sent; not for single MADs
	rmpp     *mad.RMPP  // guarded by mu
	messages [][]byte   // in transfer, by token; guarded by mu
	free     []uint64   // tokens of messages that are not; guarded by mu
	timer    *time.Timer
	due      mad.Time // of timer; guarded by mu
	closed   bool     // guarded by mu
	err      error    // of the last raw send; guarded by mu
}

// keepBuffer is the largest buffer kept for reuse.
const keepBuffer = 1 << 20

// Over puts segmentation over t, with the times and bounds of mad.RMPPConfig.
func Over(t mad.Transport) *Port { return OverWith(t, mad.RMPPConfig{}) }

// OverWith is Over with other times and bounds.
func OverWith(t mad.Transport, c mad.RMPPConfig) *Port {
	p := &Port{Transport: t, epoch: time.Now(), rmpp: mad.NewRMPP(c), due: mad.Never}
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	if b, ok := t.(mad.Burster); ok && b.Bursts() {
		p.burst = b
	}
	p.batch, _ = t.(mad.Batcher)
	return p
}

func (p *Port) now() mad.Time { return mad.Time(time.Since(p.epoch)) }

// SegmentsRMPP is always true.
func (p *Port) SegmentsRMPP() bool { return true }

// Send sends one MAD, or starts the transfer of an SA message whose RMPP Active
// flag is set and whose RMPP type is 0; its data is copied. (A MAD with a type
// is already a segment and is sent unchanged.) A request sent that way grants
// the peer a window for its response. The error is mad.ErrRMPPFull if the peer,
// or all peers, have too many transfers; the caller can report that in a single
// MAD. A later failure of a transfer is visible only to the requester, which
// retries.
func (p *Port) Send(q *mad.Packet) error {
	if !segmented(q.Data) {
		return p.Transport.Send(q)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.rmpp.Room(q); err != nil {
		return err // before a long table is copied
	}
	p.err = nil
	token := p.take(q.Data)
	own := *q
	own.Data = p.messages[token]
	own.Timeout = 0 // of no single segment
	if err := p.rmpp.Send(p.now(), &own, !ib.Method(q.Data[3]).IsResponse(), token, p.raw); err != nil {
		p.give(token, nil)
		return err
	}
	p.arm()
	return p.err
}

// SendAll implements mad.Batcher.
func (p *Port) SendAll(qs []mad.Packet) (n int, err error) {
	for n < len(qs) && err == nil {
		k := n
		for p.batch != nil && k < len(qs) && !segmented(qs[k].Data) {
			k++
		}
		sent := 0
		if k > n {
			sent, err = p.batch.SendAll(qs[n:k])
		} else if err = p.Send(&qs[n]); err == nil {
			sent = 1
		}
		n += sent
	}
	return n, err
}

// segmented reports whether an SA message is to be sent by RMPP.
func segmented(b []byte) bool {
	return len(b) >= sa.HeaderLen && ib.Class(b[1]) == ib.ClassSA && b[26]&sa.RMPPActive != 0 && b[25] == byte(mad.RMPPNone)
}

// take copies a message to where its transfer finds it; mu is held.
func (p *Port) take(b []byte) (token uint64) {
	if n := len(p.free); n > 0 {
		token = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		token = uint64(len(p.messages))
		p.messages = append(p.messages, nil)
	}
	p.messages[token] = append(p.messages[token][:0], b...)
	return token
}

// give takes the buffer of a transfer that has ended back; mu is held.
func (p *Port) give(token uint64, _ error) {
	if cap(p.messages[token]) > keepBuffer || len(p.free) >= 64 {
		p.messages[token] = nil
	}
	p.free = append(p.free, token)
}

// raw sends a segment or an acknowledgment; mu is held.
func (p *Port) raw(q *mad.Packet) {
	if err := p.Transport.Send(q); err != nil {
		p.err = err
	}
}

// Recv returns the next packet; a segmented message is returned whole. It may
// be shorter than a MAD: its length is that of header and data.
func (p *Port) Recv(q *mad.Packet) error {
	for {
		if err := p.Transport.Recv(q); err != nil {
			return err
		}
		if p.received(q) {
			return nil
		}
	}
}

// Bursts implements mad.Burster.
func (p *Port) Bursts() bool { return p.burst != nil }

// BurstsRMPP implements mad.Burster: a transfer may have to wait.
func (p *Port) BurstsRMPP() bool { return false }

// TryRecv implements mad.Burster.
func (p *Port) TryRecv(q *mad.Packet) (bool, error) {
	for {
		if ok, err := p.burst.TryRecv(q); !ok {
			return false, err
		}
		if p.received(q) {
			return true, nil
		}
	}
}

// TrySend implements mad.Burster. It segments nothing.
func (p *Port) TrySend(ps []mad.Packet) (int, error) { return p.burst.TrySend(ps) }

// received passes q to its transfer, if it belongs to one, and reports whether
// q then holds a packet for the caller.
func (p *Port) received(q *mad.Packet) bool {
	if q.Status != mad.Received || len(q.Data) < ib.MADLen || ib.Class(q.Data[1]) != ib.ClassSA || q.Data[25] == byte(mad.RMPPNone) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	whole, kind := p.rmpp.Receive(p.now(), q, p.raw, p.give)
	if kind == mad.RMPPMessage {
		*q = *whole // the message is ours
	}
	p.arm()
	return kind != mad.RMPPUsed
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
	p.rmpp.Expire(p.now(), p.raw, p.give)
	p.arm()
}

// arm sets the timer for the next deadline; mu is held.
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
