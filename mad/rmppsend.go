package mad

import (
	"time"

	"heddle/ib"
)

// RMPPSender sends one message in segments (IBA §13.6.6, as the Linux kernel
// does it): one segment, then as many as the ACKs permit. Without an ACK it
// repeats from the last acknowledged segment. It is pure, like Engine.
type RMPPSender struct {
	cfg      *RMPPConfig
	msg      []byte // header, then data
	hdr      int
	segs     uint32
	last     uint32 // last acknowledged segment
	next     uint32 // next segment to send
	highest  uint32 // highest segment sent
	win      uint32 // NewWindowLast
	reply    bool   // double-sided: reverse the direction at the end
	repeated bool   // a segment was repeated since the last progress
	paused   bool   // the window permits more; sending continues at the next Expire

	rto      time.Duration
	srtt     time.Duration
	sent     Time // last send
	progress Time
	began    Time // when the first ACK came
	due      Time
	done     bool
	err      error
	out      ib.MAD
}

// NewRMPPSender prepares the message, which it keeps until it is done: the
// header of the class (RMPPHeaderLen bytes, in which only RRespTime of the RMPP
// fields matters) and after it any number of data bytes. With reply, the
// message is the first half of a double-sided transfer (a GetMulti request):
// its end gives the peer the window for the answer. cfg may be nil.
func NewRMPPSender(cfg *RMPPConfig, msg []byte, reply bool) (*RMPPSender, error) {
	s := new(RMPPSender)
	if err := s.init(cfg.withDefaults(), msg, reply); err != nil {
		return nil, err
	}
	return s, nil
}

// init prepares a transfer; cfg has its defaults filled in, and is kept.
func (s *RMPPSender) init(cfg *RMPPConfig, msg []byte, reply bool) error {
	if len(msg) < rmppHeaderEnd {
		return ErrNoRMPP
	}
	class := ib.Class(msg[1])
	hdr := RMPPHeaderLen(class)
	if hdr == 0 || len(msg) < hdr {
		return ErrNoRMPP
	}
	*s = RMPPSender{
		cfg: cfg, msg: msg, hdr: hdr, segs: uint32(RMPPSegments(class, len(msg)-hdr)),
		next: 1, win: 1, reply: reply, rto: max(cfg.AckTimeout/4, cfg.MinAckTimeout), due: Never,
	}
	return nil
}

// Start sends the first segment.
func (s *RMPPSender) Start(now Time, send func(*ib.MAD)) {
	s.progress = now
	s.push(now, send)
}

// Done reports whether the transfer has ended; Err then gives the result.
func (s *RMPPSender) Done() bool { return s.done }

// Err is nil if everything was acknowledged, else an *RMPPError.
func (s *RMPPSender) Err() error { return s.err }

// NextTimer is when Expire must be called; Never when done.
func (s *RMPPSender) NextTimer() Time { return s.due }

func (s *RMPPSender) end(err error) {
	s.done, s.err, s.due = true, err, Never
}

// push sends what the window permits, a burst at a time. A response may arrive
// during send, so the state is consistent before each call.
func (s *RMPPSender) push(now Time, send func(*ib.MAD)) {
	s.paused = false
	s.sent = now
	for n := 0; !s.done && s.next <= min(s.win, s.segs); n++ {
		if n == s.cfg.Burst {
			s.paused, s.due = true, now
			return
		}
		s.segment(s.next)
		s.highest = max(s.highest, s.next)
		s.next++
		send(&s.out)
	}
	if !s.done && !s.paused {
		s.due = min(now.Add(s.rto), s.giveUp())
	}
}

func (s *RMPPSender) giveUp() Time {
	return min(s.progress.Add(s.cfg.AckTimeout*time.Duration(max(s.cfg.Retries, 0)+1)), s.tooLong())
}

// tooLong is when the peer gives up, even if it still sends an ACK
// occasionally.
func (s *RMPPSender) tooLong() Time {
	if s.last == 0 {
		return Never
	}
	arrived := int(s.last) * (ib.MADLen - s.hdr)
	return s.began.Add(s.cfg.recvTime(arrived) + s.cfg.AckTimeout)
}

// segment builds segment k. PayloadLength includes the class header of every
// segment: the first segment gives the length of the whole transfer, the last
// its own.
func (s *RMPPSender) segment(k uint32) {
	m := &s.out
	per := ib.MADLen - s.hdr
	data := s.msg[s.hdr:]
	part := data[min(int(k-1)*per, len(data)):min(int(k)*per, len(data))]
	copy(m[:], s.msg[:s.hdr])
	n := copy(m[s.hdr:], part)
	clear(m[s.hdr+n:])
	extra := s.hdr - rmppHeaderEnd
	var flags uint8
	length := 0
	if k == s.segs {
		flags |= RMPPLast
		length = extra + len(part)
	}
	if k == 1 {
		flags |= RMPPFirst
		length = extra*int(s.segs) + len(data)
	}
	putRMPP(m, RMPPData, flags, 0, k, uint32(length))
}

// Receive takes an ACK, STOP or ABORT of this transfer.
func (s *RMPPSender) Receive(now Time, m *ib.MAD, send func(*ib.MAD)) {
	if s.done {
		return
	}
	switch t := RMPPTypeOf(m); {
	case t == RMPPNone:
	case m[offRMPPVersion] != 1:
		s.abort(m, RMPPBadVersion, send)
	case t == RMPPAck && m[offRMPPStatus] != 0:
		s.abort(m, RMPPBadStatus, send)
	case t == RMPPAck:
		s.ack(now, m, send)
	case t == RMPPStop, t == RMPPAbort:
		s.end(&RMPPError{Type: t, Status: RMPPStatus(m[offRMPPStatus]), ByPeer: true})
	case t != RMPPData:
		s.abort(m, RMPPBadType, send)
	}
}

func (s *RMPPSender) ack(now Time, m *ib.MAD, send func(*ib.MAD)) {
	seg, win := rmppData(m)
	switch {
	case win < seg:
		s.abort(m, RMPPWindowSmall, send)
		return
	case seg > s.highest:
		s.abort(m, RMPPSegmentBig, send)
		return
	case seg < s.last, seg == s.last && win <= s.win:
		return // an old ACK
	case win < s.win && seg < s.segs:
		s.abort(m, RMPPWindowSmall, send)
		return
	}
	if seg > s.last {
		if !s.repeated {
			s.measure(now.Sub(s.sent))
		}
		if s.last == 0 {
			s.began = now
		}
		s.last = seg
		s.progress = now
		s.repeated = false
	}
	if s.last == s.segs {
		s.end(nil)
		if s.reply {
			rmppReply(&s.out, m)
			putRMPP(&s.out, RMPPAck, 0, 0, 0, 1)
			send(&s.out)
		}
		return
	}
	s.win = max(s.win, win)
	s.next = max(s.next, s.last+1)
	s.push(now, send)
}

// measure adapts the time-out to the delay of ACKs.
func (s *RMPPSender) measure(rtt time.Duration) {
	if s.srtt == 0 {
		s.srtt = rtt
	} else {
		s.srtt += (rtt - s.srtt) / 8
	}
	s.rto = max(s.cfg.MinAckTimeout, min(4*s.srtt, s.cfg.AckTimeout))
}

// abort ends the transfer because of m and notifies the peer.
func (s *RMPPSender) abort(m *ib.MAD, st RMPPStatus, send func(*ib.MAD)) {
	s.end(&RMPPError{Type: RMPPAbort, Status: st})
	rmppReply(&s.out, m)
	putRMPP(&s.out, RMPPAbort, 0, st, 0, 0)
	send(&s.out)
}

// Expire continues after a burst, repeats unacknowledged segments, or gives up.
func (s *RMPPSender) Expire(now Time, send func(*ib.MAD)) {
	if s.done || now < s.due {
		return
	}
	if now >= s.giveUp() {
		why := RMPPTooManyTries
		if now >= s.tooLong() {
			why = RMPPTooLong
		}
		s.end(&RMPPError{Type: RMPPAbort, Status: why})
		n := copy(s.out[:], s.msg[:s.hdr])
		clear(s.out[n:])
		putRMPP(&s.out, RMPPAbort, 0, why, 0, 0)
		send(&s.out)
		return
	}
	if s.paused {
		s.push(now, send)
		return
	}
	s.rto = min(2*s.rto, s.cfg.AckTimeout)
	s.repeated = true
	s.next = s.last + 1
	s.push(now, send)
}
