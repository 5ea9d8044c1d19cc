package mad

import (
	"slices"

	"heddle/ib"
)

// RMPPReceiver reassembles one segmented message (IBA §13.6.6, as the Linux
// kernel does it). It is pure, like Engine.
//
// It trusts no length that the peer announces: memory grows with the segments
// that arrived, at most one window ahead.
type RMPPReceiver struct {
	cfg     *RMPPConfig
	msg     []byte // header of the first segment, then data
	hdr     int
	per     int    // data bytes of a full segment
	inOrder uint32 // all segments up to this one have arrived
	win     uint32 // last one the sender may send
	last    uint32 // number of the last segment; 0 = not known yet
	lastLen int    // its data bytes
	highest uint32
	seen    []bool // segments after inOrder, by number modulo its length
	replyTo ib.MAD // header from which an ABORT is built
	repWin  uint32

	began    Time // arrival of the first segment
	due      Time
	complete bool
	ended    bool
	err      error
	out      ib.MAD
}

// NewRMPPReceiver waits for a first segment. cfg may be nil.
func NewRMPPReceiver(cfg *RMPPConfig) *RMPPReceiver {
	r := new(RMPPReceiver)
	r.init(cfg.withDefaults())
	return r
}

// init waits for a first segment; cfg has its defaults filled in, and is kept.
func (r *RMPPReceiver) init(cfg *RMPPConfig) {
	*r = RMPPReceiver{cfg: cfg, due: Never, repWin: 1}
}

// Complete reports whether the whole message has arrived.
func (r *RMPPReceiver) Complete() bool { return r.complete }

// Message is the complete message: the class header of the first segment and
// then exactly the data bytes that were sent. nil before it is complete.
func (r *RMPPReceiver) Message() []byte {
	if !r.complete {
		return nil
	}
	return r.msg
}

// Ended reports that the transfer is over: it failed, or the time for repeated
// segments after its completion has passed.
func (r *RMPPReceiver) Ended() bool { return r.ended }

// Err is why the transfer failed, an *RMPPError.
func (r *RMPPReceiver) Err() error { return r.err }

// ReplyWindow is the window that the sender of a double-sided transfer granted
// for the response; 1 until then.
func (r *RMPPReceiver) ReplyWindow() uint32 { return r.repWin }

// NextTimer is when Expire must be called; Never when there is no need.
func (r *RMPPReceiver) NextTimer() Time { return r.due }

func (r *RMPPReceiver) fail(err error) {
	r.ended, r.err, r.due = true, err, Never
	r.msg, r.seen = nil, nil
}

// Receive processes a packet of this transfer. It returns true once, when the
// message is complete.
func (r *RMPPReceiver) Receive(now Time, m *ib.MAD, send func(*ib.MAD)) bool {
	if r.ended {
		return false
	}
	switch t := RMPPTypeOf(m); {
	case t == RMPPNone:
		return false
	case m[offRMPPVersion] != 1:
		r.abort(m, RMPPBadVersion, send)
		return false
	case t == RMPPStop, t == RMPPAbort:
		if !r.complete {
			r.fail(&RMPPError{Type: t, Status: RMPPStatus(m[offRMPPStatus]), ByPeer: true})
		}
		return false
	case t == RMPPAck:
		if seg, win := rmppData(m); r.complete && seg == 0 {
			r.repWin = max(win, 1)
		}
		return false
	case t != RMPPData:
		r.abort(m, RMPPBadType, send)
		return false
	case m[offRMPPStatus] != 0:
		r.abort(m, RMPPBadStatus, send)
		return false
	}
	return r.data(now, m, send)
}

func (r *RMPPReceiver) data(now Time, m *ib.MAD, send func(*ib.MAD)) bool {
	seg, length := rmppData(m)
	flags := m[offRMPPFlags]
	if seg == 0 || (seg == 1) != (flags&RMPPFirst != 0) {
		r.abort(m, RMPPBadSegment, send)
		return false
	}
	if r.inOrder == 0 {
		if seg != 1 {
			return false // the first segment was lost; its sender will repeat only that one
		}
		r.start(now, m)
	}
	if r.complete || seg <= r.inOrder || seg > r.win {
		r.ack(m, send)
		return false
	}
	k := int(seg) % len(r.seen)
	if r.seen[k] {
		return false
	}
	if flags&RMPPLast != 0 {
		n := r.lastData(length)
		if n < 0 || seg < r.highest {
			r.abort(m, RMPPBadLength, send)
			return false
		}
		r.last, r.lastLen = seg, n
	} else if r.last != 0 && seg > r.last {
		r.abort(m, RMPPBadLength, send)
		return false
	}
	end := r.hdr + int(seg)*r.per
	if end-r.hdr > r.cfg.MaxBytes+r.per {
		r.stop(m, send)
		return false
	}
	if end > len(r.msg) {
		r.msg = slices.Grow(r.msg, end-len(r.msg))[:end]
	}
	copy(r.msg[end-r.per:end], m[r.hdr:])
	r.highest = max(r.highest, seg)
	r.seen[k] = true
	for n := int(r.inOrder+1) % len(r.seen); r.seen[n]; n = int(r.inOrder+1) % len(r.seen) {
		r.seen[n] = false
		r.inOrder++
	}
	switch {
	case r.inOrder == r.last:
		r.complete = true
		r.msg = r.msg[:r.hdr+int(r.last-1)*r.per+r.lastLen]
		r.due = now.Add(r.cfg.Linger)
		r.seen = nil
		r.ack(m, send)
		return true
	case r.inOrder == r.win:
		r.win += uint32(r.cfg.Window)
		r.due = r.began.Add(r.cfg.recvTime(int(r.inOrder) * r.per))
		r.ack(m, send)
	}
	return false
}

func (r *RMPPReceiver) start(now Time, m *ib.MAD) {
	r.hdr = RMPPHeaderLen(m.Class())
	r.per = ib.MADLen - r.hdr
	r.msg = append(make([]byte, 0, ib.MADLen), m[:r.hdr]...)
	r.replyTo = *m
	r.win = 1
	r.seen = make([]bool, r.cfg.Window+1)
	r.began, r.due = now, now.Add(r.cfg.RecvTimeout)
}

// lastData is the number of data bytes in the last segment according to its
// payload length; -1: invalid. A length beyond the segment counts as full, as
// in the kernel.
func (r *RMPPReceiver) lastData(length uint32) int {
	extra := uint32(r.hdr - rmppHeaderEnd)
	if length < extra {
		return -1
	}
	return int(min(length-extra, uint32(r.per)))
}

// ack acknowledges the segments that arrived in order, in response to m.
func (r *RMPPReceiver) ack(m *ib.MAD, send func(*ib.MAD)) {
	rmppReply(&r.out, m)
	putRMPP(&r.out, RMPPAck, 0, 0, r.inOrder, r.win)
	send(&r.out)
}

// abort ends the transfer because of m. A complete message stays.
func (r *RMPPReceiver) abort(m *ib.MAD, st RMPPStatus, send func(*ib.MAD)) {
	if !r.complete {
		r.fail(&RMPPError{Type: RMPPAbort, Status: st})
	}
	rmppReply(&r.out, m)
	putRMPP(&r.out, RMPPAbort, 0, st, 0, 0)
	send(&r.out)
}

// stop ends the transfer because there is no room for it.
func (r *RMPPReceiver) stop(m *ib.MAD, send func(*ib.MAD)) {
	r.fail(&RMPPError{Type: RMPPStop, Status: RMPPResources})
	rmppReply(&r.out, m)
	putRMPP(&r.out, RMPPStop, 0, RMPPResources, 0, 0)
	send(&r.out)
}

// Expire aborts a transfer that took too long, or ends a complete one.
func (r *RMPPReceiver) Expire(now Time, send func(*ib.MAD)) {
	if r.ended || now < r.due {
		return
	}
	if r.complete {
		r.ended, r.due = true, Never
		return
	}
	r.abort(&r.replyTo, RMPPTooLong, send)
}
