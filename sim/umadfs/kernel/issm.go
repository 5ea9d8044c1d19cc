package kernel

import "syscall"

// issm is the semaphore of the issm device: the process that has it open is the
// port's SM.
type issm struct {
	holder  *Holder
	waiting []*Holder
}

// Holder is one open, or a blocked one, of the issm device.
type Holder struct {
	port  *Port
	ready func(syscall.Errno) // called once, when a blocked open ends
}

// OpenIsSM opens the issm device, which sets CapabilityMask.IsSM. While another
// process has it open, the call fails with EAGAIN; with wait given it returns
// EINPROGRESS and calls wait when the open succeeds or fails.
func (p *Port) OpenIsSM(wait func(syscall.Errno)) (*Holder, syscall.Errno) {
	if p.removed {
		return nil, syscall.ENXIO
	}
	h := &Holder{port: p, ready: wait}
	if p.issm.holder != nil {
		if wait == nil {
			return nil, syscall.EAGAIN
		}
		p.issm.waiting = append(p.issm.waiting, h)
		return h, syscall.EINPROGRESS
	}
	if e := p.take(h); e != 0 {
		return nil, e
	}
	return h, 0
}

func (p *Port) take(h *Holder) syscall.Errno {
	outer := p.enter()
	defer p.leave(outer)
	if err := p.wire.SetIsSM(true); err != nil {
		return syscall.EBUSY // an SM that attached through ibsim's protocol, not this device
	}
	p.issm.holder = h
	return 0
}

// Close clears IsSM, or ends a blocked open. The next that waits gets the
// device.
func (h *Holder) Close() {
	p := h.port
	for i, w := range p.issm.waiting {
		if w == h {
			p.issm.waiting = append(p.issm.waiting[:i:i], p.issm.waiting[i+1:]...)
			return
		}
	}
	if p.issm.holder != h {
		return
	}
	outer := p.enter()
	defer p.leave(outer)
	p.issm.holder = nil
	if !p.removed {
		_ = p.wire.SetIsSM(false) // the port itself may be going away
	}
	for p.issm.holder == nil && len(p.issm.waiting) > 0 {
		next := p.issm.waiting[0]
		p.issm.waiting = p.issm.waiting[1:]
		next.ready(p.take(next))
	}
}

// remove ends the blocked opens of a port whose device was removed, and clears
// IsSM.
func (i *issm) remove(p *Port) {
	if i.holder != nil {
		_ = p.wire.SetIsSM(false)
	}
	i.holder = nil
	waiting := i.waiting
	i.waiting = nil
	for _, h := range waiting {
		h.ready(syscall.EIO)
	}
}

func (i *issm) idle() bool { return i.holder == nil && len(i.waiting) == 0 }
