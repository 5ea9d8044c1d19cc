package umadfs

import (
	"syscall"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/sim/umadfs/kernel"
)

// wake is called when a packet was queued for the file of h: it serves the
// waiting reads, or notifies poll.
func (c *conn) wake(h *handle) {
	for len(h.reads) > 0 && h.file.Readable() {
		rd := h.reads[0]
		h.reads = append(h.reads[:0], h.reads[1:]...)
		delete(c.pending, rd.unique)
		c.take(h, rd)
	}
	if h.notify && h.file.Readable() {
		h.notify = false
		b := appendReply(c.out[:0], 0, 0)
		le.PutUint32(b[4:], notifyPoll)
		c.reply(le.AppendUint64(b, h.kh))
	}
}

// readUmad serves a read of a umad device immediately, or, unless it is
// non-blocking, holds it until a packet arrives.
func (c *conn) readUmad(r *request, h *handle) {
	off, size, flags := le.Uint64(r.body[8:]), le.Uint32(r.body[16:]), le.Uint32(r.body[32:])
	rest := h.rest[r.tid]
	delete(h.rest, r.tid)
	if off > 0 {
		// A later part of one large read(2).
		n := min(len(rest), int(size))
		if n < len(rest) {
			h.rest[r.tid] = rest[n:]
		}
		c.reply(append(c.ok(r.unique), rest[:n]...))
		return
	}
	rd := heldRead{unique: r.unique, size: size, tid: r.tid}
	if h.file.Readable() && len(h.reads) == 0 || int(size) < h.file.HeaderLen() {
		c.take(h, rd)
		return
	}
	if flags&syscall.O_NONBLOCK != 0 {
		c.fail(r.unique, syscall.EAGAIN)
		return
	}
	h.reads = append(h.reads, rd)
	c.pending[rd.unique] = func() {
		for i, x := range h.reads {
			if x.unique == rd.unique {
				h.reads = append(h.reads[:i], h.reads[i+1:]...)
				return
			}
		}
	}
}

// take answers a read with the next packet. A message that does not fit needs
// the ENOSPC protocol, an error and a filled buffer, but a FUSE reply can be
// only one of them; see memory.go.
func (c *conn) take(h *handle, rd heldRead) {
	size := int(rd.size)
	if next := h.file.NextLen(); next > size && size >= splitFrom && c.direct {
		// The kernel splits large reads: find the size of the caller's read.
		if call, ok := callerOf(rd.tid); ok && call.nr == syscall.SYS_READ && call.count >= uint64(next) && len(h.rest) < maxParts {
			msg, e := h.file.Read(next)
			if e == 0 {
				if h.rest == nil {
					h.rest = map[uint32][]byte{}
				}
				h.rest[rd.tid] = msg[size:]
				c.reply(append(c.ok(rd.unique), msg[:size]...))
				return
			}
		}
	}
	msg, e := h.file.Read(size)
	switch e {
	case 0:
		c.reply(append(c.ok(rd.unique), msg...))
	case syscall.ENOSPC:
		if c.direct && fillCaller(rd.tid, msg) {
			c.fail(rd.unique, e)
			return
		}
		c.replyBroken(rd.unique, msg, size)
	default:
		c.fail(rd.unique, e)
	}
}

// writeUmad processes a write, and reassembles one that the kernel split.
func (c *conn) writeUmad(r *request, h *handle) {
	off, size := le.Uint64(r.body[8:]), le.Uint32(r.body[16:])
	data := r.body[40:]
	if int(size) != len(data) {
		c.fail(r.unique, syscall.EINVAL)
		return
	}
	written := func(e syscall.Errno) {
		if e != 0 {
			c.fail(r.unique, e)
			return
		}
		b := le.AppendUint32(c.ok(r.unique), size)
		c.reply(append(b, 0, 0, 0, 0))
	}
	if off == 0 && len(data) >= splitFrom {
		switch total, e := c.writeLen(r.tid, len(data)); {
		case e != 0:
			written(e)
			return
		case total > len(data):
			// Drop what an earlier, incomplete call of this thread wrote.
			h.drop(c, r.tid)
			if len(h.parts) >= maxParts || c.parted+total > maxParted {
				written(syscall.ENOMEM)
				return
			}
			if h.parts == nil {
				h.parts = map[uint32]*part{}
			}
			h.parts[r.tid] = &part{data: append(make([]byte, 0, total), data...), total: total}
			c.parted += total
			written(0)
			return
		}
	}
	if p := h.parts[r.tid]; p != nil {
		if off == uint64(len(p.data)) && off > 0 && len(p.data)+len(data) <= p.total {
			p.data = append(p.data, data...)
			if len(p.data) < p.total {
				written(0)
				return
			}
			data, off = p.data, 0
		}
		h.drop(c, r.tid)
	}
	if off > 0 {
		written(syscall.EINVAL) // the rest of a write that was refused or dropped
		return
	}
	written(h.file.Write(data))
}

// drop forgets what a thread has written of a large message.
func (h *handle) drop(c *conn, tid uint32) {
	if p := h.parts[tid]; p != nil {
		c.parted -= p.total
		delete(h.parts, tid)
	}
}

// writeLen is the length of the write(2) of a thread whose first n bytes have
// arrived. It refuses a message that would be too long, like a kernel without
// the memory for it, and one whose end cannot be determined, because a message
// must not be cut.
func (c *conn) writeLen(tid uint32, n int) (int, syscall.Errno) {
	if c.direct {
		if call, ok := callerOf(tid); ok && call.nr == syscall.SYS_WRITE && call.count >= uint64(n) {
			if call.count > kernel.MaxMessage+umadabi.HeaderLen+ib.MADLen {
				return 0, syscall.ENOMEM
			}
			return int(call.count), 0
		}
	}
	if n == maxWrite || n == 128<<10 { // where kernels split
		return 0, syscall.ENOMEM
	}
	return n, 0
}

// maxParts is how many threads may be in the middle of a large read or write of
// one file, maxParted how many bytes a mount holds of large writes that are not
// complete.
const (
	maxParts  = 16
	maxParted = 2 * kernel.MaxMessage
)

func (c *conn) ioctl(r *request, h *handle) {
	code, inSize, outSize := le.Uint32(r.body[12:]), le.Uint32(r.body[24:]), le.Uint32(r.body[28:])
	arg := r.body[32:]
	if uint64(inSize) > uint64(len(arg)) || inSize > 256 || outSize > 256 {
		c.fail(r.unique, syscall.EINVAL)
		return
	}
	e := syscall.ENOTTY
	buf := make([]byte, max(inSize, outSize))
	copy(buf, arg[:inSize])
	if h.file != nil {
		e = h.file.Ioctl(code, buf)
	}
	b := le.AppendUint32(c.ok(r.unique), uint32(-int32(e)))
	b = append(b, make([]byte, 12)...)
	if e == 0 || code == umadabi.RegisterAgent2 {
		b = append(b, buf[:outSize]...) // an error too may change the structure
	}
	c.reply(b)
}

func (c *conn) poll(r *request, h *handle) {
	kh, flags := le.Uint64(r.body[8:]), le.Uint32(r.body[16:])
	events := uint32(pollIn | pollOut)
	if h.file != nil {
		events = pollOut
		switch {
		case h.file.Dead():
			events |= pollErr
		case h.file.Readable():
			events |= pollIn
		}
		if flags&pollScheduleNotify != 0 {
			h.kh, h.notify = kh, true
		}
	}
	b := le.AppendUint32(c.ok(r.unique), events)
	c.reply(append(b, 0, 0, 0, 0))
}
