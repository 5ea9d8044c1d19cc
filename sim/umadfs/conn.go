package umadfs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"heddle/sim"
	"heddle/sim/umadfs/kernel"
)

// maxHandles bounds what one mount may have open.
const maxHandles = 8192

// conn serves one mounted file system: one loop reads requests from its
// /dev/fuse descriptor and handles them under the driver's lock. Replies are
// written after that is released, by the goroutine that held it: a write wakes a
// program, which takes longer than everything else, and other mounts would wait
// for it. No handler blocks.
type conn struct {
	srv  *Server
	fd   int
	stop int // eventfd: ends the loop
	hcas []*hca
	tree *tree
	// direct says that the mounter and this process see the same thread IDs, so
	// that a caller's buffer can be written (memory.go).
	direct bool

	// Under the driver's lock.
	handles map[uint64]*handle
	nextFH  uint64
	pending map[uint64]func() // held requests by unique: how to interrupt each
	out     []byte            // to make the next reply in
	parted  int               // bytes that large writes of all handles will have
	closed  bool

	flagged atomic.Bool // Flush was requested
	replies replies
}

// handle is one open file or directory.
type handle struct {
	node   *node
	text   []byte
	file   *kernel.File   // kindUmad
	holder *kernel.Holder // kindIssm
	reads  []heldRead     // waiting for a packet, oldest first
	kh     uint64         // poll handle to notify, if notify
	notify bool
	rest   map[uint32][]byte // of a read above maxWrite, by thread
	parts  map[uint32]*part  // of a write above maxWrite, by thread
}

type heldRead struct {
	unique uint64
	size   uint32
	tid    uint32
}

// part is the beginning of a system call's data that arrives in several writes.
type part struct {
	data  []byte
	total int
}

// run serves until the file system is unmounted or the loop is stopped.
func (c *conn) run() error {
	defer c.finish()
	buf := make([]byte, bufferLen)
	var r request
	handle := func(*sim.Subnet) { c.handle(&r) }
	for {
		n, err := unix.Read(c.fd, buf)
		switch {
		case err == unix.EAGAIN:
			fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}, {Fd: int32(c.stop), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
				return fmt.Errorf("umadfs: poll of the FUSE device: %w", err)
			}
			if fds[1].Revents != 0 {
				return nil
			}
			continue
		case err == unix.EINTR || err == unix.ENOENT: // ENOENT: interrupted before we read it
			continue
		case err == unix.ENODEV:
			return nil // unmounted
		case err != nil:
			return fmt.Errorf("umadfs: read of the FUSE device: %w", err)
		}
		var ok bool
		if r, ok = parseRequest(buf[:n]); !ok {
			return errors.New("umadfs: the FUSE device gave a request of the wrong length")
		}
		c.srv.driver.Do(handle)
	}
}

// finish releases everything the mount had open.
func (c *conn) finish() {
	c.srv.driver.Do(func(*sim.Subnet) {
		c.closed = true
		for _, fh := range slices.Sorted(maps.Keys(c.handles)) {
			c.release(fh)
		}
		c.srv.detach(c.hcas)
	})
	c.replies.end()
	unix.Close(c.fd)
	unix.Close(c.stop)
}

// reply has b, which is c.out, written as an answer.
func (c *conn) reply(b []byte) {
	c.out = b
	if c.closed {
		return
	}
	c.out = c.replies.add(finish(b))
	if !c.flagged.Swap(true) {
		c.srv.driver.AfterUnlock(c)
	}
}

func (c *conn) fail(unique uint64, e syscall.Errno) {
	c.reply(appendReply(c.out[:0], unique, e))
}

func (c *conn) ok(unique uint64) []byte { return appendReply(c.out[:0], unique, 0) }

func (c *conn) handle(r *request) {
	if len(r.body) < bodyLens[r.opcode] {
		c.fail(r.unique, syscall.EINVAL)
		return
	}
	switch r.opcode {
	case opForget, opBatchForget:
		return // no reply
	case opInterrupt:
		unique := le.Uint64(r.body)
		if stop := c.pending[unique]; stop != nil {
			delete(c.pending, unique)
			stop()
			c.fail(unique, syscall.EINTR)
		}
		return
	case opInit:
		c.init(r)
		return
	case opStatfs:
		c.reply(append(c.ok(r.unique), make([]byte, 80)...))
		return
	case opDestroy:
		c.reply(c.ok(r.unique))
		return
	case opRead, opWrite, opIoctl, opPoll, opRelease, opReleasedir, opReaddir:
		h := c.handles[le.Uint64(r.body)]
		if h == nil {
			c.fail(r.unique, syscall.EBADF)
			return
		}
		c.handleOpen(r, h)
		return
	}
	n := c.tree.get(r.nodeid)
	if n == nil {
		c.fail(r.unique, syscall.ESTALE)
		return
	}
	switch r.opcode {
	case opLookup:
		name := r.body[:len(r.body)-1] // NUL
		k := n.child(string(name))
		if k == nil {
			c.fail(r.unique, syscall.ENOENT)
			return
		}
		b := le.AppendUint64(c.ok(r.unique), k.id)
		b = append(b, make([]byte, 32)...) // generation, no caching
		a := k.attr()
		c.reply(a.append(b))
	case opGetattr, opSetattr:
		if r.opcode == opSetattr && (n.kind == kindUmad || n.kind == kindIssm) {
			if r.uid != 0 {
				c.fail(r.unique, syscall.EPERM)
				return
			}
			n.setPermissions(r.body)
		}
		b := append(c.ok(r.unique), make([]byte, 16)...)
		a := n.attr()
		c.reply(a.append(b))
	case opOpen, opOpendir:
		c.open(r, n)
	default:
		c.fail(r.unique, syscall.ENOSYS)
	}
}

func (c *conn) init(r *request) {
	if le.Uint32(r.body) < protoMajor {
		c.fail(r.unique, syscall.EPROTO)
		return
	}
	b := c.ok(r.unique)
	b = le.AppendUint32(b, protoMajor)
	b = le.AppendUint32(b, protoMinor)
	b = le.AppendUint32(b, 0) // no read-ahead
	b = le.AppendUint32(b, initAsyncRead|initBigWrites|initMaxPages)
	b = le.AppendUint16(b, 64) // background requests
	b = le.AppendUint16(b, 48)
	b = le.AppendUint32(b, maxWrite)
	b = le.AppendUint32(b, 1) // time granularity
	b = le.AppendUint16(b, maxPages)
	c.reply(append(b, make([]byte, 64-30)...))
}

func (c *conn) handleOpen(r *request, h *handle) {
	switch r.opcode {
	case opRelease, opReleasedir:
		c.release(le.Uint64(r.body))
		c.reply(c.ok(r.unique))
	case opReaddir:
		c.readdir(r, h)
	case opRead:
		switch h.node.kind {
		case kindUmad:
			c.readUmad(r, h)
		case kindText:
			off, size := le.Uint64(r.body[8:]), uint64(le.Uint32(r.body[16:]))
			off = min(off, uint64(len(h.text)))
			c.reply(append(c.ok(r.unique), h.text[off:min(off+size, uint64(len(h.text)))]...))
		default:
			c.fail(r.unique, syscall.EINVAL)
		}
	case opWrite:
		if h.file == nil {
			c.fail(r.unique, syscall.EINVAL)
			return
		}
		c.writeUmad(r, h)
	case opIoctl:
		c.ioctl(r, h)
	case opPoll:
		c.poll(r, h)
	}
}

func (c *conn) open(r *request, n *node) {
	if len(c.handles) >= maxHandles {
		c.fail(r.unique, syscall.EMFILE)
		return
	}
	h := &handle{node: n}
	flags := uint32(openDirectIO)
	switch n.kind {
	case kindDir:
		flags = 0
	case kindText:
		h.text = []byte(n.text())
	case kindUmad, kindIssm:
		flags = openDevice
		if !n.permits(r) {
			c.fail(r.unique, syscall.EACCES)
			return
		}
	}
	switch n.kind {
	case kindUmad:
		f, e := n.port.kernel.Open()
		if e != 0 {
			c.fail(r.unique, e)
			return
		}
		h.file = f
		f.OnReady = func() { c.wake(h) }
	case kindIssm:
		c.openIssm(r.unique, h, le.Uint32(r.body)&syscall.O_NONBLOCK != 0)
		return
	}
	c.opened(r.unique, h, flags)
}

func (c *conn) opened(unique uint64, h *handle, flags uint32) {
	c.nextFH++
	c.handles[c.nextFH] = h
	b := le.AppendUint64(c.ok(unique), c.nextFH)
	b = le.AppendUint32(b, flags)
	c.reply(append(b, 0, 0, 0, 0))
}

// openIssm opens the issm device, or holds the open until the current holder
// closes it.
func (c *conn) openIssm(unique uint64, h *handle, nonblock bool) {
	var wait func(syscall.Errno)
	if !nonblock {
		wait = func(e syscall.Errno) {
			delete(c.pending, unique)
			if e != 0 {
				c.fail(unique, e)
				return
			}
			c.opened(unique, h, openDevice)
		}
	}
	holder, e := h.node.port.kernel.OpenIsSM(wait)
	h.holder = holder
	switch e {
	case 0:
		c.opened(unique, h, openDevice)
	case syscall.EINPROGRESS:
		c.pending[unique] = holder.Close
	default:
		c.fail(unique, e)
	}
}

func (c *conn) release(fh uint64) {
	h := c.handles[fh]
	delete(c.handles, fh)
	for _, rd := range h.reads {
		delete(c.pending, rd.unique)
		c.fail(rd.unique, syscall.EBADF)
	}
	for tid := range h.parts {
		h.drop(c, tid)
	}
	switch {
	case h.file != nil:
		h.file.Close()
	case h.holder != nil:
		h.holder.Close()
	}
}

func (c *conn) readdir(r *request, h *handle) {
	if h.node.kind != kindDir {
		c.fail(r.unique, syscall.ENOTDIR)
		return
	}
	off, size := le.Uint64(r.body[8:]), int(le.Uint32(r.body[16:]))
	b := c.ok(r.unique)
	limit := min(len(b)+size, maxWrite)
	ok := true
	for i := off; ok && i < uint64(len(h.node.kids))+2; i++ {
		name, id, typ := ".", h.node.id, uint32(4)
		switch {
		case i == 1:
			name = ".."
		case i > 1:
			k := h.node.kids[i-2]
			if k.hidden() {
				continue
			}
			name, id = k.name, k.id
			if k.kind != kindDir {
				typ = 8
			}
		}
		b, ok = appendDirent(b, limit, id, i+1, typ, name)
	}
	c.reply(b)
}
