package mad

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"heddle/ib"
)

// AnswerKind says how a response differs from its request.
type AnswerKind uint8

const (
	_ AnswerKind = iota
	// WrongTID: a response to this attribute came from the right node with a
	// transaction ID that was never issued.
	WrongTID
	// WrongVersion: not base version 1.
	WrongVersion
	// WrongClass, WrongMethod, WrongAttr, WrongModifier: our transaction ID,
	// but another class, method, attribute or modifier.
	WrongClass
	WrongMethod
	WrongAttr
	WrongModifier
)

// AnswerError ends a request whose node keeps responding with a header that
// does not match the request: a broken agent.
type AnswerError struct {
	Kind AnswerKind
	// Want and Got are the header field in question.
	Want, Got uint64
}

func (e *AnswerError) Error() string {
	f := "mad: answer with %s 0x%x instead of 0x%x"
	switch e.Kind {
	case WrongTID:
		return fmt.Sprintf(f, "transaction ID", e.Got, e.Want)
	case WrongVersion:
		return fmt.Sprintf(f, "base version", e.Got, e.Want)
	case WrongClass:
		return fmt.Sprintf(f, "class", e.Got, e.Want)
	case WrongMethod:
		return fmt.Sprintf(f, "method", e.Got, e.Want)
	case WrongAttr:
		return fmt.Sprintf(f, "attribute", e.Got, e.Want)
	default:
		return fmt.Sprintf(f, "attribute modifier", e.Got, e.Want)
	}
}

// Unanswered reports whether err means that no response came (ErrTimeout,
// ErrFailed), as opposed to a wrong one.
func Unanswered(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, ErrFailed)
}

func newAnswerError(k AnswerKind, req *ib.MAD, got *[24]byte) *AnswerError {
	e := &AnswerError{Kind: k}
	switch k {
	case WrongTID:
		e.Want, e.Got = req.TID(), binary.BigEndian.Uint64(got[8:])
	case WrongVersion:
		e.Want, e.Got = 1, uint64(got[0])
	case WrongClass:
		e.Want, e.Got = uint64(req.Class()), uint64(got[1])
	case WrongMethod:
		e.Want, e.Got = uint64(answerMethod(req.Method())), uint64(got[3])
	case WrongAttr:
		e.Want, e.Got = uint64(req.AttrID()), uint64(binary.BigEndian.Uint16(got[16:]))
	case WrongModifier:
		e.Want, e.Got = uint64(req.AttrMod()), uint64(binary.BigEndian.Uint32(got[20:]))
	}
	return e
}

// answerMethod is the method that answers m (IBA §13.4.5): Set and Get are
// both answered by GetResp, GetTraceTable by GetTableResp too in some agents.
func answerMethod(m ib.Method) ib.Method {
	if m == ib.MethodSet {
		return ib.MethodGetResp
	}
	return m | ib.MethodResponseBit
}

// attrPortInfo needs two exceptions below. Its modifier holds the port number
// in bits 7:0 and, above, what the requester supports, which older agents do
// not echo (IBA §14.2.5.6).
const attrPortInfo ib.AttrID = 0x0015

// header compares an answer with the request it claims to answer.
func header(req, m *ib.MAD) AnswerKind {
	switch {
	case m.BaseVersion() != 1:
		return WrongVersion
	case m.Class() != req.Class():
		return WrongClass
	case m.Method() != answerMethod(req.Method()) &&
		!(req.Method() == ib.MethodGetTraceTable && m.Method() == ib.MethodGetTableResp):
		return WrongMethod
	case m.AttrID() != req.AttrID() && !recordsOf(req.Class(), req.Method()):
		return WrongAttr
	case m.AttrMod() != req.AttrMod():
		if localQP(req.Class()) == 0 && req.AttrID() == attrPortInfo && byte(m.AttrMod()) == byte(req.AttrMod()) {
			return 0
		}
		return WrongModifier
	}
	return 0
}

// recordsOf reports whether a method queries records of another attribute: paths by a
// MultiPathRecord, a trace by a PathRecord (IBA §15.2.5.17, 20).
func recordsOf(c ib.Class, m ib.Method) bool {
	return c == ib.ClassSA && (m == ib.MethodGetMulti || m == ib.MethodGetTraceTable)
}

// Fields of a directed-route SMP (IBA §14.2.1.2): the hop count, and the
// initial path, whose entry 0 is unused.
const (
	offHopCount    = 7
	offInitialPath = 128
	maxHops        = 63
)

// sameWay reports whether the answer m from addr comes from where s was sent.
func (s *slot) sameWay(m *ib.MAD, from *Addr) bool {
	if s.mad.Class() == ib.ClassSubnDR {
		n := int(s.mad[offHopCount])
		if n > maxHops || int(m[offHopCount]) != n {
			return false
		}
		// The hops matter only in a directed-route response.
		return m.Class() != ib.ClassSubnDR ||
			bytes.Equal(m[offInitialPath+1:offInitialPath+1+n], s.mad[offInitialPath+1:offInitialPath+1+n])
	}
	if s.addr.LID == ib.LIDPermissive || from.LID == s.addr.LID {
		return true
	}
	// A port that just got another LID responds from the new one.
	return localQP(s.mad.Class()) == 0 && s.mad.Method() == ib.MethodSet && s.mad.AttrID() == attrPortInfo
}

// lookup returns the slot that tid names, or -1. issued reports whether the
// engine issued this ID earlier.
func (e *Engine) lookup(tid uint64) (i int32, issued bool) {
	k := uint32(tid) & (1<<e.slotBits - 1)
	if int(k) >= len(e.slots) {
		return -1, false
	}
	s := &e.slots[k]
	gen := uint32(tid) >> e.slotBits
	if gen == s.gen && s.state != slotFree {
		return int32(k), true
	}
	age := (s.gen - gen) & e.genMask
	since := (s.gen - e.cfg.FirstTID) & e.genMask
	return -1, gen != 0 && age < min(since, e.genMask/2)
}

// Receive takes one packet from the transport. It keeps neither p nor its
// data.
func (e *Engine) Receive(now Time, p *Packet) (Completion, Kind) {
	if len(p.Data) < 24 {
		return e.stale()
	}
	var m *ib.MAD
	if len(p.Data) >= ib.MADLen {
		m = (*ib.MAD)(p.Data[:ib.MADLen])
	} else {
		n := copy(e.short[:], p.Data)
		clear(e.short[n:])
		m = &e.short
	}
	if p.Status == Failed {
		return e.failed(now, m)
	}
	if !m.Method().IsResponse() {
		e.stats.unsolicited++
		return Completion{}, KindUnsolicited
	}
	i, issued := e.lookup(m.TID())
	if i >= 0 {
		s := &e.slots[i]
		if s.sameWay(m, &p.Addr) {
			bad := header(&s.mad, m)
			if bad == 0 && m.Status()&ib.StatusBusy != 0 {
				// The agent dropped the request and wants it again later.
				if s.state != slotInFlight {
					return e.stale()
				}
				if s.retries > 0 {
					e.endTry(now, i, true)
					return Completion{}, KindRetry
				}
			}
			if bad == 0 {
				return e.answered(now, i, m, p), KindCompletion
			}
			return e.wrong(now, i, bad, m)
		}
		issued = false // it comes from another node than the request went to
	}
	if !issued {
		e.blame(m, &p.Addr)
	}
	return e.stale()
}

func (e *Engine) stale() (Completion, Kind) {
	e.stats.stale++
	return Completion{}, KindStale
}

func (e *Engine) answered(now Time, i int32, m *ib.MAD, p *Packet) Completion {
	s := &e.slots[i]
	e.win.onAnswer(now, s.firstSent, s.timedOut)
	rtt := now.Sub(s.sent)
	st := &e.stats.rows[s.stat]
	st.Answered++
	if s.tries == 1 {
		st.RTTCount++
		st.RTTSum += rtt
		st.RTTMax = max(st.RTTMax, rtt)
		if e.srtt == unknownRTT {
			e.srtt = rtt
		} else {
			e.srtt += (rtt - e.srtt) / 8
		}
	}
	c := e.finish(now, i, nil)
	c.MAD, c.Data, c.RTT = m, p.Data, rtt
	return c
}

// wrong ends a try whose response has the right transaction ID but a header
// that does not match.
func (e *Engine) wrong(now Time, i int32, bad AnswerKind, m *ib.MAD) (Completion, Kind) {
	s := &e.slots[i]
	e.stats.rows[s.stat].Bad++
	s.bad = bad
	copy(s.badHdr[:], m[:])
	if s.state != slotInFlight {
		return e.stale()
	}
	if e.endTry(now, i, true) {
		return e.finish(now, i, e.failure(s, ErrTimeout)), KindCompletion
	}
	return Completion{}, KindRetry
}

// failed ends a try that the transport reports as not answered.
func (e *Engine) failed(now Time, m *ib.MAD) (Completion, Kind) {
	i, _ := e.lookup(m.TID())
	if i < 0 {
		return e.stale()
	}
	s := &e.slots[i]
	if s.state != slotInFlight || m.Class() != s.mad.Class() || m.AttrID() != s.mad.AttrID() {
		return e.stale()
	}
	st := &e.stats.rows[s.stat]
	err := ErrFailed
	if e.cfg.TransportTimed {
		st.TimedOut++
		s.timedOut = true
		err = ErrTimeout
	} else {
		st.Failed++
	}
	if e.endTry(now, i, true) {
		return e.finish(now, i, e.failure(s, err)), KindCompletion
	}
	return Completion{}, KindRetry
}

// blame records a wrong transaction ID with the request to which the response
// seems to belong: same path, class and attribute. It does not end the try,
// because the response may be a stray one.
func (e *Engine) blame(m *ib.MAD, from *Addr) {
	for i := range e.slots {
		s := &e.slots[i]
		if s.state != slotFree && m.Class() == s.mad.Class() && m.AttrID() == s.mad.AttrID() &&
			m.AttrMod() == s.mad.AttrMod() && s.sameWay(m, from) {
			e.stats.rows[s.stat].Bad++
			s.bad = WrongTID
			copy(s.badHdr[:], m[:])
			return
		}
	}
}
