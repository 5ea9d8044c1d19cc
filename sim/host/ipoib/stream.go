package ipoib

import (
	"time"

	"heddle/mad"
)

// TCP configures streams: what of TCP decides how long they stand still. Start from TCPDefaults.
type TCP struct {
	Segment int   // bytes: with segmentation offload up to 64 KiB, else those of an MTU
	Window  int   // bytes that are not acknowledged
	Rate    int64 // bits/s that one connection reaches, 0: no limit
	// RTOMin and RTOMax bound the retransmission timer, RTOInitial is the first (RFC 6298).
	RTOMin, RTOMax, RTOInitial time.Duration
}

// TCPDefaults are the values of Linux with segmentation offload.
func TCPDefaults() TCP {
	return TCP{
		Segment: 64000, Window: 4 << 20, RTOMin: 200 * time.Millisecond, RTOMax: 120 * time.Second, RTOInitial: time.Second,
	}
}

// Sender is the sending end of a stream. It goes back to the first byte that is not acknowledged
// when its timer ends, which then waits twice as long, or at three duplicate acknowledgments.
type Sender struct {
	stack *Stack
	cfg   TCP
	id    uint16
	to    IP
	limit uint64 // bytes in all, 0: no end

	una, nxt, high uint64 // not acknowledged, next, never sent
	window         int    // for congestion
	dups           int
	recover        uint64 // no second fast retransmission before this is acknowledged
	srtt, rttvar   time.Duration
	rto            time.Duration
	backoff        uint
	timer          mad.Time
	held           bool // the interface refused a segment: nothing is sent before the timer ends
	pace           mad.Time
	timed          bool // timedSeq was sent at timedAt, once
	timedSeq       uint64
	timedAt        mad.Time
	stopped        bool

	// Count counts what the sender did.
	Count SenderCounters
}

// SenderCounters count what a Sender did.
type SenderCounters struct {
	Segments, Repeated uint64
	Timeouts, Fast     uint64 // retransmissions
	Refused            uint64 // by the own interface
}

// Acked and Sent are how many bytes are acknowledged, and sent once at least.
func (s *Sender) Acked() uint64 { return s.una }
func (s *Sender) Sent() uint64  { return s.high }

// Stop sends nothing new.
func (s *Sender) Stop() { s.stopped = true }

// RTO is the retransmission timer that holds now.
func (s *Sender) RTO() time.Duration { return min(s.rto<<min(s.backoff, 20), s.cfg.RTOMax) }

// left is how many bytes the next segment has.
func (s *Sender) left() int {
	n := uint64(s.cfg.Segment)
	if s.nxt < s.high {
		n = min(n, s.high-s.nxt)
	} else if s.stopped {
		return 0
	}
	if s.limit > 0 {
		n = min(n, s.limit-s.nxt)
	}
	if room := uint64(max(min(s.window, s.cfg.Window), s.cfg.Segment)); s.nxt-s.una+n > room {
		return 0
	}
	return int(n)
}

// ready is when the sender has a segment for its server, Never: it waits.
func (s *Sender) ready() mad.Time {
	if s.held || s.left() == 0 {
		return mad.Never
	}
	return s.pace
}

// transmit sends a segment and returns its length, 0: the interface refused it. That counts as a
// loss: Linux has no route while an interface is away, and its timer doubles then as well.
func (s *Sender) transmit(now mad.Time) int {
	n := s.left()
	s.Count.Segments++
	at, high := s.nxt, s.high
	if at >= high && !s.timed {
		s.timed, s.timedSeq, s.timedAt = true, at, now
	}
	s.nxt += uint64(n)
	s.high = max(s.high, s.nxt)
	if s.timer == mad.Never {
		s.timer = now.Add(s.RTO())
	}
	if s.cfg.Rate > 0 {
		s.pace = max(s.pace, now).Add(transferTime(n, s.cfg.Rate))
	}
	// The acknowledgment may come during the call, if the receiver is in the same adapter.
	if !s.stack.dev.Output(now, s.to, &Frame{Kind: Data, Stream: s.id, Seq: at, Len: n}) {
		s.Count.Refused++
		s.high = high
		s.back()
		s.held = true
		return 0
	}
	if at < high {
		s.Count.Repeated++
	}
	return n
}

// transferTime is the time of n bytes at a rate in bits/s.
func transferTime(n int, rate int64) time.Duration {
	return time.Duration(float64(n) * 8e9 / float64(rate))
}

// back has the sender begin again at what is not acknowledged, with one segment.
func (s *Sender) back() {
	s.nxt, s.window, s.timed, s.dups = s.una, s.cfg.Segment, false, 0
}

// expire is the end of the timer.
func (s *Sender) expire(now mad.Time) {
	s.timer, s.held = mad.Never, false
	s.Count.Timeouts++
	s.back()
	s.recover = s.high
	if s.RTO() < s.cfg.RTOMax {
		s.backoff++
	}
}

// acknowledged takes an Ack.
func (s *Sender) acknowledged(now mad.Time, upTo uint64) {
	switch {
	case upTo > s.high || upTo < s.una: // of nothing that was sent, or old
		return
	case upTo == s.una:
		if s.nxt > s.una {
			if s.dups++; s.dups == 3 && s.una >= s.recover {
				s.Count.Fast++
				half := max(s.window/2, s.cfg.Segment)
				s.back()
				s.recover, s.window = s.high, half
			}
		}
		return
	}
	if s.timed && upTo > s.timedSeq {
		s.timed = false
		s.sample(now.Sub(s.timedAt))
	}
	s.window = min(s.window+int(upTo-s.una), s.cfg.Window)
	s.una, s.nxt = upTo, max(s.nxt, upTo)
	s.backoff, s.dups, s.held, s.timer = 0, 0, false, mad.Never
	if s.nxt > s.una {
		s.timer = now.Add(s.RTO())
	}
}

// sample takes a round trip (RFC 6298, §2).
func (s *Sender) sample(rtt time.Duration) {
	if s.srtt == 0 {
		s.srtt, s.rttvar = max(rtt, 1), rtt/2
	} else {
		s.rttvar = (3*s.rttvar + (s.srtt - rtt).Abs()) / 4
		s.srtt = (7*s.srtt + rtt) / 8
	}
	s.rto = min(max(s.srtt+4*s.rttvar, s.cfg.RTOMin), s.cfg.RTOMax)
}

// Receiver is the receiving end of a stream. It takes bytes in order, and acknowledges every
// segment.
type Receiver struct {
	stack *Stack
	id    uint16
	total uint64
	last  mad.Time
	gap   time.Duration

	// OnBytes, if set, sees what is taken.
	OnBytes func(now mad.Time, from uint64, n int)
	// Count counts segments.
	Count ReceiverCounters
}

// ReceiverCounters count the segments that came to a Receiver.
type ReceiverCounters struct{ Taken, Old, Early uint64 }

// Got is how many bytes were taken.
func (r *Receiver) Got() uint64 { return r.total }

// Gap is the longest time between two segments since the last call, or until now if none has come
// since.
func (r *Receiver) Gap(now mad.Time) time.Duration {
	g := r.gap
	if r.total > 0 {
		g = max(g, now.Sub(r.last))
	}
	r.gap, r.last = 0, now
	return g
}

// take takes a segment.
func (r *Receiver) take(now mad.Time, f *Frame) {
	end := f.Seq + uint64(f.Len)
	switch {
	case f.Seq > r.total:
		r.Count.Early++
	case end <= r.total:
		r.Count.Old++
	default:
		r.Count.Taken++
		if r.OnBytes != nil {
			skip := int(r.total - f.Seq)
			r.OnBytes(now, f.Seq+uint64(skip), f.Len-skip)
		}
		if r.total > 0 {
			r.gap = max(r.gap, now.Sub(r.last))
		}
		r.total, r.last = end, now
	}
	r.stack.dev.Output(now, f.From, &Frame{Kind: Ack, Stream: r.id, Seq: r.total})
}
