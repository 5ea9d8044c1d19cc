package mad

import (
	"bytes"
	"time"

	"heddle/ib"
)

// Client asks questions over a transport that carries single MADs, and gets
// answers of any length: an Engine behind an RMPP port. A request whose RMPP
// Active flag is set and whose RMPP type is 0 (GetMulti) goes out as a segment
// that is acknowledged, as IBA §15.2.4 wants it. Where the transport segments
// (Transport.SegmentsRMPP) an Engine alone does. Pure, not safe for concurrent
// use; the loop around it is that of an Engine.
type Client struct {
	engine *Engine
	rmpp   *RMPP
	send   func(*Packet) // of the call of Poll that is going on
	submit func(*Packet) // to send, or to rmpp
	now    Time
}

// NewClient returns an idle client.
func NewClient(c Config, r RMPPConfig) *Client {
	k := &Client{engine: NewEngine(c), rmpp: NewRMPP(r)}
	k.submit = func(p *Packet) {
		m := (*ib.MAD)(p.Data)
		if m[offRMPPFlags]&RMPPActive == 0 || m[offRMPPType] != byte(RMPPNone) || RMPPHeaderLen(m.Class()) == 0 {
			k.send(p)
			return
		}
		q := *p
		q.Data = bytes.Clone(p.Data)
		q.Timeout = 0
		// If there is no room for it, or the last try is still going on, the
		// engine's time-out tries again.
		_ = k.rmpp.Send(k.now, &q, true, 0, k.send)
	}
	return k
}

// Submit queues a request; Poll sends it. The only error is ErrQueueFull.
func (k *Client) Submit(r *Request) error { return k.engine.Submit(r) }

// Poll sends what the window allows. The packet given to send is valid during
// the call only.
func (k *Client) Poll(now Time, send func(*Packet)) {
	k.now, k.send = now, send
	k.engine.Poll(now, k.submit)
}

// Receive takes one packet from the transport. Completion.Data is the whole
// answer, header and records; it is the caller's if it is longer than a MAD. A
// segment of an answer gives the request as long again as its try had, so that a
// long answer is not asked for twice.
func (k *Client) Receive(now Time, p *Packet, send func(*Packet)) (Completion, Kind) {
	whole, kind := k.rmpp.Receive(now, p, send, ignore)
	switch kind {
	case RMPPMessage:
		p = whole
	case RMPPUsed:
		if m := (*ib.MAD)(p.Data[:ib.MADLen]); m.Method().IsResponse() {
			k.engine.heard(now, m, &p.Addr)
		}
		return Completion{}, KindStale
	}
	return k.engine.Receive(now, p)
}

func ignore(uint64, error) {}

// NextTimer is when Expire must be called next; Never if nothing waits.
func (k *Client) NextTimer() Time { return min(k.engine.NextTimer(), k.rmpp.NextTimer()) }

// Expire does what is due at now; done is called for each request that has no
// tries left.
func (k *Client) Expire(now Time, send func(*Packet), done func(Completion)) {
	k.rmpp.Expire(now, send, ignore)
	k.engine.Expire(now, done)
}

// Idle reports whether no request is queued or in flight. Acknowledgements of
// repeated segments may still be wanted: NextTimer knows.
func (k *Client) Idle() bool { return k.engine.Idle() }

// CancelAll forgets every request, and returns how many there were.
func (k *Client) CancelAll() int { return k.engine.CancelAll() }

// Stats copies the engine's counters to dst.
func (k *Client) Stats(dst *Stats) { k.engine.Stats(dst) }

// maxHeard is how long after the last send the segments of an answer can hold
// up the next try: as long as a reception may take.
const maxHeard = 40 * time.Second

// heard notes that a part of an answer has come: its try waits once more.
func (e *Engine) heard(now Time, m *ib.MAD, from *Addr) {
	i, _ := e.lookup(m.TID())
	if i < 0 {
		return
	}
	s := &e.slots[i]
	if s.state != slotInFlight || !s.sameWay(m, from) || header(&s.mad, m) != 0 {
		return
	}
	s.due = max(s.due, min(now.Add(s.wait), s.sent.Add(maxHeard)))
	if s.released {
		e.timers.remove(e.slots, int(s.heapPos))
		e.timers.push(e.slots, i, s.due)
	}
}
