package umadfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A read into a buffer that is too small for an RMPP message must fail with
// ENOSPC *and* leave the header and the first segment in the buffer, where the
// caller finds the size it needs. A FUSE reply is data or an error, never both.
// So the data is written directly into the caller's memory. The caller sleeps
// in the read until the reply comes, so its buffer is stable; /proc/TID/syscall
// has its address. That needs the right to trace the caller (root, or the same
// user). Without it the reply is broken on purpose: the kernel copies a part of
// it, which fills the buffer too, and then fails with EIO.

// call is the system call that a thread sleeps in.
type call struct {
	nr          uint64
	addr, count uint64
}

// callerOf reads the system call of a thread. A thread that has just handed us
// its request may not sleep yet; that takes microseconds.
func callerOf(tid uint32) (call, bool) {
	if tid == 0 {
		return call{}, false
	}
	name := "/proc/" + strconv.Itoa(int(tid)) + "/syscall"
	for range 40 {
		b, err := os.ReadFile(name)
		if err != nil {
			return call{}, false
		}
		if bytes.HasPrefix(b, []byte("running")) {
			time.Sleep(50 * time.Microsecond)
			continue
		}
		var c call
		var fd uint64
		if n, _ := fmt.Sscanf(string(b), "%d 0x%x 0x%x 0x%x", &c.nr, &fd, &c.addr, &c.count); n != 4 {
			return call{}, false
		}
		return c, true
	}
	return call{}, false
}

// fillCaller writes msg to the front of the buffer of a thread in read(2).
func fillCaller(tid uint32, msg []byte) bool {
	c, ok := callerOf(tid)
	if !ok || c.nr != syscall.SYS_READ || c.count < uint64(len(msg)) {
		return false
	}
	local := []unix.Iovec{{Base: &msg[0]}}
	local[0].SetLen(len(msg))
	remote := []unix.RemoteIovec{{Base: uintptr(c.addr), Len: len(msg)}}
	n, err := unix.ProcessVMWritev(int(tid), local, remote, 0)
	return err == nil && n == len(msg)
}

// unreadable is a page without read permission.
var unreadable = sync.OnceValue(func() []byte {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	return b
})

// replyBroken answers a read of size bytes with a reply whose last byte cannot
// be read: the kernel copies the rest of msg to the caller and then fails with
// EIO. A reply above size would be refused before anything is copied, so a msg
// that fills the buffer loses its last byte.
func (c *conn) replyBroken(unique uint64, msg []byte, size int) {
	msg = msg[:min(len(msg), size-1)]
	page := unreadable()
	if page == nil || c.closed {
		c.fail(unique, syscall.ENOSPC)
		return
	}
	c.out = append(appendReply(c.out[:0], unique, 0), msg...)
	le.PutUint32(c.out, uint32(len(c.out)+1))
	iov := []unix.Iovec{{Base: &c.out[0]}, {Base: &page[0]}}
	iov[0].SetLen(len(c.out))
	iov[1].SetLen(1)
	_, _, _ = unix.Syscall(unix.SYS_WRITEV, uintptr(c.fd), uintptr(unsafe.Pointer(&iov[0])), 2)
}
