package kernel

import (
	"syscall"
	"time"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/mad"
)

// sendKey names a pending send of a file. Requests and responses with the
// same transaction do not hinder each other, nor do responses to different
// destinations.
type sendKey struct {
	tid      uint64
	class    uint8
	response bool
	lid      ib.LID // of a response
}

// send is a MAD that waits for its response, to be sent again until its tries
// are used up.
type send struct {
	timer
	agent    *agent
	key      sendKey
	response bool
	hdr      umadabi.Header // as written, for the completion
	packet   mad.Packet     // Data points into buf, or at an RMPP message
	buf      [ib.MADLen]byte
	timeout  time.Duration
	retries  uint32
	engine   *mad.RMPPSender // of a message in transfer
	next     *send           // a later send with the same key, by a process that does RMPP itself
}

// await adds s to the sends of the file that are pending.
func (f *File) await(s *send) {
	first := f.sends[s.key]
	if first == nil {
		f.sends[s.key] = s
		return
	}
	for first.next != nil {
		first = first.next
	}
	first.next = s
}

// settled removes s from the pending sends, if it is among them.
func (f *File) settled(s *send) {
	first := f.sends[s.key]
	switch {
	case first == nil:
	case first != s:
		for first.next != nil && first.next != s {
			first = first.next
		}
		if first.next == s {
			first.next = s.next
		}
	case s.next != nil:
		f.sends[s.key] = s.next
	default:
		delete(f.sends, s.key)
	}
	s.next = nil
}

// dropSends releases the pending sends of an agent, nil for all.
func (f *File) dropSends(a *agent) {
	for _, s := range f.sends {
		for s != nil {
			next := s.next
			if a == nil || s.agent == a {
				f.port.release(s)
			}
			s = next
		}
	}
}

// Write is one write to the device: header and MAD or RMPP message. A request
// gets its agent's number in the upper half of the transaction ID.
func (f *File) Write(b []byte) syscall.Errno {
	h := f.HeaderLen()
	if len(b) < h+umadabi.RMPPHeaderLen {
		return syscall.EINVAL
	}
	var hdr umadabi.Header
	hdr.Decode(b, h)
	m := b[h:]
	if hdr.ID >= umadabi.MaxAgents {
		return syscall.EINVAL
	}
	a := f.agents[hdr.ID]
	if a == nil {
		return syscall.EIO // the device was removed, or the agent never registered
	}
	if hdr.GRHPresent && int(hdr.GIDIndex) >= f.port.wire.NumGIDs() {
		return syscall.EINVAL
	}
	message := isRMPPClass(m[1]) && rmppActive(m) && a.kernelRMPP()
	switch {
	case message && len(m) < dataOffset(m[1]):
		return syscall.EINVAL
	case !message && len(m) > ib.MADLen:
		return syscall.EINVAL
	}
	key := sendKey{class: m[1], response: isResponse(m)}
	key.tid = tid(m)
	if key.response {
		key.lid = ib.LID(hdr.LID)
	} else {
		key.tid = uint64(a.num)<<32 | key.tid&0xFFFFFFFF
	}
	// The kernel's is_duplicate: a second request of a transaction while the
	// first waits, or a second such response to the same destination. The
	// segments of a process that does RMPP itself are not compared.
	raw := !a.kernelRMPP() && isRMPPClass(m[1]) && rmppActive(m)
	if !raw && f.sends[key] != nil {
		return syscall.EINVAL
	}
	if f.port.pending >= maxPending || message && f.port.sending+len(m) > maxSending {
		return syscall.ENOMEM
	}

	outer := f.port.enter()
	defer f.port.leave(outer)
	s := f.port.newSend()
	s.agent, s.key, s.response, s.hdr = a, key, key.response, hdr
	s.packet = mad.Packet{
		Addr: mad.Addr{
			LID: ib.LID(hdr.LID), QP: hdr.QPN, SL: ib.SL(hdr.SL), PathBits: hdr.PathBits,
			PKeyIndex: hdr.PKeyIndex, HasGRH: hdr.GRHPresent,
		},
		LocalQP: a.reg.QPN,
	}
	if hdr.GRHPresent {
		s.packet.Addr.GRH = mad.GRH{
			GID: hdr.GID, GIDIndex: hdr.GIDIndex, HopLimit: hdr.HopLimit,
			TrafficClass: hdr.TrafficClass, FlowLabel: hdr.FlowLabel,
		}
	}
	s.timeout, s.retries = ms(hdr.TimeoutMS), hdr.Retries
	if message {
		f.port.sending += len(m)
		s.packet.Data = append([]byte(nil), m...)
		setTID(s.packet.Data, key.tid)
		a.rmpp.send(s)
		return 0
	}
	clear(s.buf[copy(s.buf[:], m):])
	s.packet.Data = s.buf[:]
	setTID(s.packet.Data, key.tid)
	f.transmit(s)
	return 0
}

// transmit sends a single MAD for the first time and, if an answer is
// expected, starts to wait for it. The wait starts before the send because the
// answer may come during it.
func (f *File) transmit(s *send) {
	p := f.port
	if s.timeout > 0 {
		f.await(s)
		s.fire = func() { f.expired(s) }
		p.timers.set(&s.timer, p.wire.Now().Add(s.timeout))
		// An immediate response waits in the inbox: s stays valid.
		p.wire.Send(&s.packet)
		return
	}
	p.wire.Send(&s.packet)
	p.release(s)
}

// expired sends a request again or gives it up.
func (f *File) expired(s *send) {
	p := f.port
	if s.retries > 0 {
		s.retries--
		p.timers.set(&s.timer, p.wire.Now().Add(s.timeout))
		p.wire.Send(&s.packet)
		return
	}
	f.complete(s)
	p.release(s)
}

func (p *Port) newSend() *send {
	p.pending++
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	s := new(send)
	s.pos = -1
	return s
}

// release ends the waiting of s and takes it back.
func (p *Port) release(s *send) {
	p.pending--
	if n := len(s.packet.Data); n > 0 && &s.packet.Data[0] != &s.buf[0] {
		p.sending -= n
	}
	p.timers.stop(&s.timer)
	s.agent.file.settled(s)
	s.packet.Data, s.fire, s.agent, s.engine = nil, nil, nil, nil
	if len(p.free) < 1024 {
		p.free = append(p.free, s)
	}
}
