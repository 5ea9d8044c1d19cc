package abitest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/umadabi"
)

func tid(m []byte) uint64 { return binary.BigEndian.Uint64(m[8:16]) }

// ask sends a request from a to b and returns what b read.
func (p *pair) ask(e *Env, h umadabi.Header, m []byte) (umadabi.Header, []byte, error) {
	if err := p.a.write(h, m); err != nil {
		return h, nil, fmt.Errorf("write request: %w", err)
	}
	rh, rm, err := p.b.read(4096, patience)
	if err != nil {
		return rh, nil, fmt.Errorf("responder: %w", err)
	}
	return rh, rm, nil
}

func requestResponse(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodGet)
	if err != nil {
		return err
	}
	defer p.close()
	req := request(plainClass, plainVersion, ib.MethodGet, 0xCAFE0001)
	binary.BigEndian.PutUint32(req[8:], 0x12345678) // to be replaced
	rh, rm, err := p.ask(e, e.to(p.aid, answered, 0), req)
	if err != nil {
		return err
	}
	if err := p.checkRequest(e, req, rh, rm); err != nil {
		return err
	}
	rm[3] |= 0x80
	if err := p.b.write(answerTo(rh, p.bid), rm); err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	h, m, err := p.a.read(4096, patience)
	if err != nil {
		return fmt.Errorf("requester: %w", err)
	}
	if err := p.checkResponse(e, rm, h, m); err != nil {
		return err
	}
	return p.secondResponse(rh, rm)
}

// checkRequest compares a request with 0xCAFE0001 in its transaction ID with what the
// responder read.
func (p *pair) checkRequest(e *Env, sent []byte, h umadabi.Header, m []byte) error {
	switch {
	case len(m) != ib.MADLen:
		return fmt.Errorf("request of %d bytes", len(m))
	case h.ID != p.bid || h.Status != 0 || h.TimeoutMS != 0 || h.Length != umadabi.HeaderLen+ib.MADLen:
		return fmt.Errorf("header %+v", h)
	case h.QPN != 1 || h.GRHPresent != e.To.GRHPresent:
		return fmt.Errorf("address %+v", h)
	case uint32(tid(m)) != 0xCAFE0001:
		return fmt.Errorf("transaction %#x: the low half changed", tid(m))
	case tid(m)>>32 == 0x12345678 || uint32(tid(m)>>32)&0xFFFF == 0:
		return fmt.Errorf("transaction %#x: the upper half is not the kernel's", tid(m))
	case !bytes.Equal(m[:8], sent[:8]) || !bytes.Equal(m[16:], sent[16:]):
		return errors.New("the request's bytes changed")
	}
	return nil
}

// checkResponse compares a response with what the requester read.
func (p *pair) checkResponse(e *Env, sent []byte, h umadabi.Header, m []byte) error {
	mask := ^uint64(0)
	if e.ShortTID {
		mask >>= 16
	}
	switch {
	case h.ID != p.aid || h.Status != 0 || h.Length != umadabi.HeaderLen+ib.MADLen:
		return fmt.Errorf("header of the response %+v", h)
	case tid(m)&mask != tid(sent)&mask:
		return fmt.Errorf("transaction %#x of the response, %#x was sent", tid(m), tid(sent))
	case !bytes.Equal(m[16:], sent[16:]) || m[3] != 0x81:
		return errors.New("the response's bytes changed")
	}
	return nil
}

// secondResponse writes the response rm again. It answers no request any more, so nobody
// reads it. While the hardware still sends the first copy, it is refused as a duplicate.
func (p *pair) secondResponse(rh umadabi.Header, rm []byte) error {
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		err := p.b.write(answerTo(rh, p.bid), rm)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINVAL) || time.Now().After(end) {
			return fmt.Errorf("write response again: %w", err)
		}
	}
	if _, _, err := p.a.read(4096, quiet); !errors.Is(err, errNothing) {
		return fmt.Errorf("a second response was delivered: %v", err)
	}
	return nil
}

// sendOnly: an agent of class 0 gets the responses to its requests, whatever
// their class.
func sendOnly(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodGet)
	if err != nil {
		return err
	}
	defer p.close()
	id, err := p.a.register(umadabi.Agent{QPN: 1})
	if err != nil {
		return err
	}
	rh, rm, err := p.ask(e, e.to(id, answered, 0), request(plainClass, plainVersion, ib.MethodGet, 5))
	if err != nil {
		return err
	}
	rm[3] |= 0x80
	if err := p.b.write(answerTo(rh, p.bid), rm); err != nil {
		return err
	}
	h, _, err := p.a.read(4096, patience)
	if err != nil || h.ID != id {
		return fmt.Errorf("agent %d, %v", h.ID, err)
	}
	return nil
}

// oldHeader: without ENABLE_PKEY the header has 56 bytes.
func oldHeader(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodGet)
	if err != nil {
		return err
	}
	defer p.close()
	old, err := e.open(e.A, false)
	if err != nil {
		return err
	}
	defer old.close()
	id, err := old.register(umadabi.Agent{QPN: 1, Class: plainClass, Version: plainVersion})
	if err != nil {
		return err
	}
	if err := old.write(e.to(id, answered, 0), request(plainClass, plainVersion, ib.MethodGet, 6)); err != nil {
		return err
	}
	rh, rm, err := p.b.read(4096, patience)
	if err != nil {
		return err
	}
	if uint32(tid(rm)) != 6 || len(rm) != ib.MADLen {
		return fmt.Errorf("request arrived with transaction %#x, %d bytes", tid(rm), len(rm))
	}
	rm[3] |= 0x80
	if err := p.b.write(answerTo(rh, p.bid), rm); err != nil {
		return err
	}
	if _, _, err := old.read(55, patience); !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("55 bytes: %v, want EINVAL", err)
	}
	h, m, err := old.read(56+256, patience)
	if err != nil {
		return err
	}
	if h.Length != 56+256 || uint32(tid(m)) != 6 || len(m) != 256 {
		return fmt.Errorf("length %d, transaction %#x", h.Length, tid(m))
	}
	return nil
}

func wrongMethod(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodTrap)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.a.write(e.to(p.aid, 0, 0), request(plainClass, plainVersion, ib.MethodReport, 1)); err != nil {
		return err
	}
	if err := p.a.write(e.to(p.aid, 0, 0), request(plainClass, plainVersion+1, ib.MethodTrap, 2)); err != nil {
		return err
	}
	if _, m, err := p.b.read(4096, quiet); !errors.Is(err, errNothing) {
		return fmt.Errorf("delivered although nobody registered it: % x, %v", m[:min(24, len(m))], err)
	}
	return nil
}

func duplicate(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodGet)
	if err != nil {
		return err
	}
	defer p.close()
	m := request(plainClass, plainVersion, ib.MethodGet, 77)
	for timeout := uint32(300); ; timeout *= 10 {
		begin := time.Now()
		if err := p.a.write(e.to(p.aid, timeout, 0), m); err != nil {
			return err
		}
		err := p.a.write(e.to(p.aid, timeout, 0), m)
		if err == nil && time.Since(begin) >= time.Duration(timeout)*time.Millisecond && timeout < answered {
			// The first one had timed out: this process was not given the processor.
			for range 2 {
				if _, _, err := p.a.read(4096, patience); err != nil {
					return err
				}
			}
			continue
		}
		if err := want("same transaction", err, syscall.EINVAL); err != nil {
			return err
		}
		break
	}
	if err := want("another transaction", p.a.write(e.to(p.aid, 300, 0), request(plainClass, plainVersion, ib.MethodGet, 78)), 0); err != nil {
		return err
	}
	for range 2 {
		h, _, err := p.a.read(4096, patience)
		if err != nil || h.Status != umadabi.StatusTimedOut {
			return fmt.Errorf("completion: status %d, %v", h.Status, err)
		}
	}
	return want("after its time-out", p.a.write(e.to(p.aid, 0, 0), m), 0)
}

func fireAndForget(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodGet)
	if err != nil {
		return err
	}
	defer p.close()
	rh, rm, err := p.ask(e, e.to(p.aid, 0, 0), request(plainClass, plainVersion, ib.MethodGet, 9))
	if err != nil {
		return err
	}
	rm[3] |= 0x80
	if err := p.b.write(answerTo(rh, p.bid), rm); err != nil {
		return err
	}
	if _, _, err := p.a.read(4096, quiet); !errors.Is(err, errNothing) {
		return fmt.Errorf("the response was delivered: %v", err)
	}
	return nil
}

func timeout(e *Env) error {
	p, err := e.pairOf(plainClass, plainVersion, 0, ib.MethodGet)
	if err != nil {
		return err
	}
	defer p.close()
	start := time.Now()
	if err := p.a.write(e.to(p.aid, 300, 2), request(plainClass, plainVersion, ib.MethodGet, 0xBEEF)); err != nil {
		return err
	}
	if _, err := p.a.events(patience); err != nil {
		return err
	}
	// How much later is up to who gets the processor; that there were no more tries shows below.
	if took := time.Since(start); took < 850*time.Millisecond {
		return fmt.Errorf("completion after %v, want 0.9 s", took)
	}
	copies := 0
	for ; ; copies++ {
		_, m, err := p.b.read(4096, 0)
		if errors.Is(err, errNothing) {
			break
		}
		if err != nil || uint32(tid(m)) != 0xBEEF {
			return fmt.Errorf("copy %d: %v", copies, err)
		}
	}
	if copies != 3 {
		return fmt.Errorf("%d copies on the wire, want 3", copies)
	}
	if _, _, err := p.a.read(70, 0); !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("70 bytes for the completion: %v, want EINVAL", err)
	}
	h, m, err := p.a.read(umadabi.HeaderLen+umadabi.MADHeaderLen, 0)
	if err != nil {
		return fmt.Errorf("completion is lost: %w", err)
	}
	if h.Status != umadabi.StatusTimedOut || h.ID != p.aid || h.TimeoutMS != 300 || h.LID != e.To.LID || h.Length != 0 {
		return fmt.Errorf("completion %+v", h)
	}
	if len(m) != umadabi.MADHeaderLen || uint32(tid(m)) != 0xBEEF || m[1] != plainClass {
		return fmt.Errorf("completion carries %d bytes: % x", len(m), m)
	}
	return nil
}

// message makes an SA message of n data bytes after the SA header.
func message(method ib.Method, tid uint32, n int, active bool) []byte {
	m := make([]byte, 56+n)
	copy(m, request(3, 2, method, tid)[:24])
	if active {
		m[26] = 1
	}
	m[45] = 8 // AttributeOffset: 64 bytes
	for i := range n {
		m[56+i] = byte(i * 7)
	}
	return m
}

// answerTable lets the responder answer the table request in rm with a
// message of n data bytes.
func (p *pair) answerTable(rh umadabi.Header, rm []byte, n int) ([]byte, error) {
	m := message(ib.MethodGetTableResp, 0, n, true)
	copy(m[8:16], rm[8:16])
	return m, p.b.write(answerTo(rh, p.bid), m)
}

func rmppAnswer(e *Env) error {
	p, err := e.pairOf(3, 2, 1, ib.MethodGetTable)
	if err != nil {
		return err
	}
	defer p.close()
	rh, rm, err := p.ask(e, e.to(p.aid, answered, 0), message(ib.MethodGetTable, 0x51, 200, false))
	if err != nil {
		return err
	}
	sent, err := p.answerTable(rh, rm, 30*64)
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	if _, _, err := p.a.read(100, patience); !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("100 bytes: %v, want EINVAL", err)
	}
	h, m, err := p.a.read(64+256, patience)
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("320 bytes: %v, want ENOSPC", err)
	}
	total := uint32(umadabi.HeaderLen + len(sent))
	if h.Length != total {
		return fmt.Errorf("length %d in the buffer after ENOSPC, want %d", h.Length, total)
	}
	if len(m) != 256 || !bytes.Equal(m[56:256], sent[56:256]) {
		return errors.New("the first segment is not in the buffer after ENOSPC")
	}
	h, m, err = p.a.read(5000, patience)
	if err != nil {
		return err
	}
	if h.Length != total || len(m) != len(sent) || h.ID != p.aid {
		return fmt.Errorf("message of %d bytes, length %d; %d were sent", len(m), h.Length, len(sent))
	}
	// Version 1, type DATA, Active|First, segment 1, payload length of the
	// whole transfer: 10 segments of 20 + 1920.
	if m[24] != 1 || m[25] != 1 || m[26]&7 != 3 || binary.BigEndian.Uint32(m[28:]) != 1 || binary.BigEndian.Uint32(m[32:]) != 2120 {
		return fmt.Errorf("RMPP header % x", m[24:36])
	}
	if !bytes.Equal(m[36:], sent[36:]) {
		return errors.New("the message's bytes changed")
	}
	return nil
}

// rmppSmall: a message below one MAD keeps its exact length.
func rmppSmall(e *Env) error {
	p, err := e.pairOf(3, 2, 1, ib.MethodGetTable)
	if err != nil {
		return err
	}
	defer p.close()
	for _, n := range []int{0, 64, 200} {
		rh, rm, err := p.ask(e, e.to(p.aid, answered, 0), message(ib.MethodGetTable, uint32(0x60+n), 200, false))
		if err != nil {
			return err
		}
		sent, err := p.answerTable(rh, rm, n)
		if err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
		h, m, err := p.a.read(umadabi.HeaderLen+256, patience)
		if err != nil {
			return fmt.Errorf("%d data bytes: %w", n, err)
		}
		if len(m) != len(sent) || h.Length != uint32(umadabi.HeaderLen+len(sent)) {
			return fmt.Errorf("%d data bytes: message of %d, length %d", n, len(m), h.Length)
		}
		if m[26]&7 != 7 || binary.BigEndian.Uint32(m[32:]) != uint32(20+n) {
			return fmt.Errorf("%d data bytes: RMPP header % x", n, m[24:36])
		}
	}
	return nil
}

func rmppLarge(e *Env) error {
	p, err := e.pairOf(3, 2, 1, ib.MethodGetTable)
	if err != nil {
		return err
	}
	defer p.close()
	for i, n := range []int{200 * 64, 200*64 + 1, 300_000, 1_300_000} {
		rh, rm, err := p.ask(e, e.to(p.aid, answered, 0), message(ib.MethodGetTable, uint32(0x70+i), 200, false))
		if err != nil {
			return err
		}
		sent, err := p.answerTable(rh, rm, n)
		if err != nil {
			return fmt.Errorf("%d bytes: write answer: %w", n, err)
		}
		_, m, err := p.a.read(3<<19, patience)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		if len(m) != len(sent) || !bytes.Equal(m[36:], sent[36:]) {
			return fmt.Errorf("%d bytes: message of %d bytes arrived, or it changed", n, len(m))
		}
	}
	return nil
}

// rmppBothWays: a segmented request, as GetMulti sends, and its answer.
func rmppBothWays(e *Env) error {
	p, err := e.pairOf(3, 2, 1, ib.MethodGetMulti)
	if err != nil {
		return err
	}
	defer p.close()
	req := message(ib.MethodGetMulti, 0x81, 500, true)
	rh, rm, err := p.ask(e, e.to(p.aid, answered, 0), req)
	if err != nil {
		return err
	}
	if len(rm) != len(req) || !bytes.Equal(rm[36:], req[36:]) || uint32(tid(rm)) != 0x81 {
		return fmt.Errorf("request of %d bytes arrived, %d were sent", len(rm), len(req))
	}
	ans := message(ib.MethodGetMultiResp, 0, 900, true)
	copy(ans[8:16], rm[8:16])
	if err := p.b.write(answerTo(rh, p.bid), ans); err != nil {
		return err
	}
	_, m, err := p.a.read(4096, patience)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if len(m) != len(ans) || !bytes.Equal(m[36:], ans[36:]) {
		return fmt.Errorf("answer of %d bytes arrived, %d were sent", len(m), len(ans))
	}
	return nil
}

// rmppTimeout: the request's time-out covers the whole response; a late
// response is not delivered.
func rmppTimeout(e *Env) error {
	p, err := e.pairOf(3, 2, 1, ib.MethodGetTable)
	if err != nil {
		return err
	}
	defer p.close()
	rh, rm, err := p.ask(e, e.to(p.aid, 200, 0), message(ib.MethodGetTable, 0x91, 200, false))
	if err != nil {
		return err
	}
	h, _, err := p.a.read(4096, patience)
	if err != nil || h.Status != umadabi.StatusTimedOut {
		return fmt.Errorf("completion: status %d, %v", h.Status, err)
	}
	if _, err := p.answerTable(rh, rm, 30*64); err != nil {
		return err
	}
	if _, _, err := p.a.read(4096, quiet); !errors.Is(err, errNothing) {
		return fmt.Errorf("the late answer was delivered: %v", err)
	}
	return nil
}

// userRMPP: with USER_RMPP, and without any RMPP version, the process sees each
// segment, and answers it.
func userRMPP(e *Env) error {
	for _, reg := range []umadabi.Agent{{Flags: umadabi.FlagUserRMPP, RMPP: 1}, {}} {
		if err := rawSegments(e, reg); err != nil {
			return fmt.Errorf("flags %d, version %d: %w", reg.Flags, reg.RMPP, err)
		}
	}
	return nil
}

func rawSegments(e *Env, reg umadabi.Agent) error {
	p, err := e.pairOf(3, 2, 1, ib.MethodGetTable)
	if err != nil {
		return err
	}
	defer p.close()
	u, err := e.open(e.A, false)
	if err != nil {
		return err
	}
	defer u.close()
	reg.QPN, reg.Class, reg.Version = 1, 3, 2
	id, _, err := u.register2(reg)
	if err != nil {
		return err
	}
	u.hdr = umadabi.HeaderLen
	if err := u.write(e.to(id, answered, 0), message(ib.MethodGetTable, 0xA1, 200, false)); err != nil {
		return err
	}
	rh, rm, err := p.b.read(4096, patience)
	if err != nil {
		return err
	}
	if _, err := p.answerTable(rh, rm, 300); err != nil {
		return err
	}
	for seg := uint32(1); seg <= 2; seg++ {
		h, m, err := u.read(umadabi.HeaderLen+256, patience)
		if err != nil {
			return fmt.Errorf("segment %d: %w", seg, err)
		}
		if len(m) != 256 || m[25] != 1 || binary.BigEndian.Uint32(m[28:]) != seg {
			return fmt.Errorf("segment %d: %d bytes, RMPP header % x", seg, len(m), m[24:36])
		}
		// Acknowledge it: the header with the R bit toggled.
		ack := make([]byte, 256)
		copy(ack, m[:56])
		ack[3] ^= 0x80
		ack[25], ack[26], ack[27] = 2, 1, 0
		binary.BigEndian.PutUint32(ack[28:], seg)
		binary.BigEndian.PutUint32(ack[32:], 64)
		h = answerTo(h, id)
		h.QPN = 1
		if err := u.write(h, ack); err != nil {
			return fmt.Errorf("acknowledge segment %d: %w", seg, err)
		}
	}
	if ev, err := p.b.events(quiet); err != nil || ev&unix.POLLIN != 0 {
		return fmt.Errorf("the responder got something: %#x, %v", ev, err)
	}
	return nil
}
