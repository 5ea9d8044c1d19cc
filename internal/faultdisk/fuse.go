package faultdisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The part of the FUSE protocol that a program with a few files needs (Linux
// include/uapi/linux/fuse.h, 7.31). All numbers are little-endian.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opSetattr     = 4
	opMkdir       = 9
	opUnlink      = 10
	opRmdir       = 11
	opRename      = 12
	opLink        = 13
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opFsync       = 20
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opFsyncdir    = 30
	opCreate      = 35
	opInterrupt   = 36
	opDestroy     = 38
	opBatchForget = 42
	opRename2     = 45

	initBigWrites = 1 << 5
	initMaxPages  = 1 << 22

	setMode = 1
	setSize = 8

	openKeepCache = 2

	notifyInvalInode = 2

	headerLen = 40
	maxWrite  = 1 << 20
	maxPages  = maxWrite / page
)

var le = binary.LittleEndian

// request is one message of the kernel. Its body is valid until the next one.
type request struct {
	op     uint32
	unique uint64
	node   uint64
	body   []byte
}

// conn serves one mount.
type conn struct {
	disk *Disk
	fd   int
	// stale are files whose pages the kernel is to read again after the reply.
	stale []uint64
	wg    sync.WaitGroup
}

// serve answers requests until the mount or the descriptor ends.
func (c *conn) serve() error {
	defer c.wg.Wait()
	buf := make([]byte, maxWrite+8<<10)
	for {
		n, err := unix.Read(c.fd, buf)
		switch {
		case err == unix.EINTR || err == unix.ENOENT || err == unix.EAGAIN:
			continue
		case err == unix.ENODEV || err == unix.EBADF || err == unix.ECONNABORTED:
			return nil
		case err != nil:
			return fmt.Errorf("faultdisk: read of the FUSE device: %w", err)
		case n < headerLen || int(le.Uint32(buf)) != n:
			return errors.New("faultdisk: the FUSE device gave a request of the wrong length")
		}
		r := request{le.Uint32(buf[4:]), le.Uint64(buf[8:]), le.Uint64(buf[16:]), buf[headerLen:n]}
		if r.op == opForget || r.op == opBatchForget || r.op == opInterrupt {
			continue // no reply
		}
		body, e := c.handle(&r)
		if e != 0 {
			body = nil
		}
		if err := c.reply(uint32(-int32(e)), r.unique, body); err != nil {
			return err
		}
		for _, id := range c.stale {
			b := append(le.AppendUint64(nil, id), make([]byte, 16)...) // all pages
			// It waits for requests that hold these pages.
			c.wg.Go(func() { _ = c.reply(notifyInvalInode, 0, b) })
		}
		c.stale = c.stale[:0]
	}
}

func (c *conn) reply(code uint32, unique uint64, body []byte) error {
	b := le.AppendUint32(make([]byte, 0, 16+len(body)), uint32(16+len(body)))
	b = le.AppendUint32(b, code)
	b = le.AppendUint64(b, unique)
	_, err := unix.Write(c.fd, append(b, body...))
	if err == unix.ENOENT || err == unix.EBADF || err == unix.ENODEV || err == unix.ECONNABORTED || err == unix.EPERM {
		return nil // the request, or the mount, has ended
	}
	return err
}

func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func (c *conn) handle(r *request) ([]byte, syscall.Errno) {
	d := c.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.op == opInit {
		return c.init(), 0
	}
	f := d.files[r.node]
	if f == nil {
		return nil, syscall.ESTALE
	}
	if f.dir {
		if body, e, ok := c.handleDir(r, f); ok {
			return body, e
		}
	}
	return c.handleFile(r, f)
}

// handleDir carries out what only directories have. ok is false for other requests.
func (c *conn) handleDir(r *request, f *file) (body []byte, e syscall.Errno, ok bool) {
	d, b := c.disk, r.body
	switch r.op {
	case opLookup:
		if k := f.names[text(b)]; k != nil {
			return entry(k), 0, true
		}
		return nil, syscall.ENOENT, true
	case opMkdir:
		body, e = c.make(f, text(b[8:]), true, le.Uint32(b))
	case opCreate:
		if body, e = c.make(f, text(b[16:]), false, le.Uint32(b[4:])); e == 0 {
			f.names[text(b[16:])].open++
			body = append(body, opened(0)...)
		}
	case opUnlink, opRmdir:
		switch k := f.names[text(b)]; {
		case k == nil:
			e = syscall.ENOENT
		case k.dir && len(k.names) > 0:
			e = syscall.ENOTEMPTY
		default:
			e = d.name(f, naming{name: text(b)})
		}
	case opRename:
		e = c.rename(f, le.Uint64(b), 0, b[8:])
	case opRename2:
		e = c.rename(f, le.Uint64(b), le.Uint32(b[8:]), b[16:])
	case opLink:
		body, e = c.link(f, le.Uint64(b), text(b[8:]))
	case opFsyncdir:
		e = d.syncDir(f)
	case opReaddir:
		body = readdir(f, int(le.Uint64(b[8:])), int(le.Uint32(b[16:])))
	default:
		return nil, 0, false
	}
	return body, e, true
}

func (c *conn) link(dir *file, to uint64, name string) ([]byte, syscall.Errno) {
	k := c.disk.files[to]
	switch {
	case k == nil:
		return nil, syscall.ESTALE
	case dir.names[name] != nil:
		return nil, syscall.EEXIST
	}
	if e := c.disk.name(dir, naming{name: name, to: k}); e != 0 {
		return nil, e
	}
	return entry(k), 0
}

func (c *conn) handleFile(r *request, f *file) ([]byte, syscall.Errno) {
	d, b := c.disk, r.body
	switch r.op {
	case opGetattr:
		return attrs(f), 0
	case opSetattr:
		valid := le.Uint32(b)
		if valid&setSize != 0 {
			if e := d.truncate(f, int(le.Uint64(b[16:]))); e != 0 {
				return nil, e
			}
		}
		if valid&setMode != 0 {
			f.mode = f.mode&syscall.S_IFMT | le.Uint32(b[68:])&0o7777
		}
		return attrs(f), 0
	case opOpen:
		f.open++
		return opened(openKeepCache), 0
	case opOpendir:
		return opened(0), 0
	case opRelease:
		f.open--
		d.unused(f)
		return nil, 0
	case opReleasedir, opDestroy:
		return nil, 0
	case opRead:
		off := min(int(le.Uint64(b[8:])), len(f.data))
		return f.data[off:min(off+int(le.Uint32(b[16:])), len(f.data))], 0
	case opWrite:
		n, e := d.write(f, int(le.Uint64(b[8:])), b[40:40+le.Uint32(b[16:])])
		if e != 0 {
			c.stale = append(c.stale, f.id) // the kernel has the bytes in its pages already
			return nil, e
		}
		return le.AppendUint64(nil, uint64(n)), 0
	case opFsync:
		return nil, d.sync(f)
	case opStatfs:
		return d.statfs(), 0
	}
	return nil, syscall.ENOSYS
}

func (c *conn) init() []byte {
	b := le.AppendUint32(nil, 7)
	b = le.AppendUint32(b, 31)
	b = le.AppendUint32(b, 0) // no read-ahead
	b = le.AppendUint32(b, initBigWrites|initMaxPages)
	b = le.AppendUint16(b, 16) // background requests
	b = le.AppendUint16(b, 12)
	b = le.AppendUint32(b, maxWrite)
	b = le.AppendUint32(b, 1) // time granularity
	b = le.AppendUint16(b, maxPages)
	return append(b, make([]byte, 64-30)...)
}

func (c *conn) make(dir *file, name string, isDir bool, mode uint32) ([]byte, syscall.Errno) {
	if dir.names[name] != nil {
		return nil, syscall.EEXIST
	}
	typ := uint32(syscall.S_IFREG)
	if isDir {
		typ = syscall.S_IFDIR
	}
	f := c.disk.add(isDir, typ|mode&0o7777)
	if e := c.disk.name(dir, naming{name: name, to: f}); e != 0 {
		delete(c.disk.files, f.id)
		return nil, e
	}
	return entry(f), 0
}

func (c *conn) rename(dir *file, to uint64, flags uint32, names []byte) syscall.Errno {
	from := text(names)
	name := text(names[len(from)+1:])
	k := dir.names[from]
	switch {
	case k == nil:
		return syscall.ENOENT
	case to != dir.id:
		return syscall.EXDEV
	case flags != 0:
		return syscall.EINVAL
	}
	return c.disk.name(dir, naming{name: name, to: k, from: from})
}

func opened(flags uint32) []byte {
	b := le.AppendUint64(nil, 0)
	return append(le.AppendUint32(b, flags), 0, 0, 0, 0)
}

// attrTime is how long the kernel may keep attributes: only it changes them.
const attrTime = 3600

func entry(f *file) []byte {
	b := le.AppendUint64(nil, f.id)
	b = le.AppendUint64(b, 0)         // generation
	b = append(b, make([]byte, 8)...) // names are asked for each time
	b = le.AppendUint64(b, attrTime)
	b = append(b, make([]byte, 8)...)
	return attr(b, f)
}

func attrs(f *file) []byte {
	b := le.AppendUint64(nil, attrTime)
	return attr(append(b, make([]byte, 8)...), f)
}

func attr(b []byte, f *file) []byte {
	b = le.AppendUint64(b, f.id)
	b = le.AppendUint64(b, uint64(len(f.data)))
	b = le.AppendUint64(b, uint64(len(f.pages)*page/512))
	b = append(b, make([]byte, 3*8+3*4)...) // times: the epoch
	b = le.AppendUint32(b, f.mode)
	b = le.AppendUint32(b, 1)
	b = append(b, make([]byte, 3*4)...) // uid, gid: root; rdev
	b = le.AppendUint32(b, page)
	return append(b, 0, 0, 0, 0)
}

func readdir(f *file, off, size int) []byte {
	var b []byte
	names := append([]string{".", ".."}, slices.Sorted(maps.Keys(f.names))...)
	for i := off; i < len(names); i++ {
		n := (24 + len(names[i]) + 7) &^ 7
		if len(b)+n > size {
			break
		}
		end := len(b) + n
		id, typ := f.id, uint32(syscall.DT_DIR)
		if k := f.names[names[i]]; k != nil {
			id = k.id
			if !k.dir {
				typ = syscall.DT_REG
			}
		}
		b = le.AppendUint64(b, id)
		b = le.AppendUint64(b, uint64(i+1))
		b = le.AppendUint32(b, uint32(len(names[i])))
		b = le.AppendUint32(b, typ)
		b = append(b, names[i]...)
		for len(b) < end {
			b = append(b, 0)
		}
	}
	return b
}
