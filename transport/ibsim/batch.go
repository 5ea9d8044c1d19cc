package ibsim

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchLen is how many datagrams one system call moves; a unix datagram queue
// holds at most eleven by default.
const batchLen = 16

// burst is the argument of recvmmsg or sendmmsg, which move several datagrams
// in one call.
type burst struct {
	hdr [batchLen]mmsghdr
	iov [batchLen]unix.Iovec
}

type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// set points datagram i at n bytes from b on. The burst must stay where it is.
func (v *burst) set(i int, b *byte, n int) {
	v.iov[i].Base = b
	v.iov[i].SetLen(n)
	v.hdr[i].hdr.Iov = &v.iov[i]
	v.hdr[i].hdr.SetIovlen(1)
}

// batch holds the datagrams of one call.
type batch struct {
	burst
	buf  [batchLen][dataLen + addrLen + 1]byte // one more, to recognize longer ones
	n    int
	next int
	// dry says that the last call emptied the queue, so an immediate retry is
	// useless.
	dry bool
}

func (b *batch) init() {
	for i := range b.buf {
		b.set(i, &b.buf[i][0], len(b.buf[i]))
	}
}

// fill reads the queued datagrams, and waits for one if there is none and wait
// is set. A call that cannot block skips the runtime's bookkeeping for blocking
// calls.
func (b *batch) fill(fd int, wait bool) error {
	b.n, b.next = 0, 0
	var n uintptr
	var e unix.Errno
	if wait {
		n, _, e = unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.hdr[0])), batchLen, unix.MSG_WAITFORONE, 0, 0)
	} else {
		n, _, e = unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.hdr[0])), batchLen, unix.MSG_DONTWAIT, 0, 0)
	}
	if e != 0 {
		return e
	}
	b.n = int(n)
	b.dry = b.n < batchLen/2
	return nil
}

// take returns the next datagram; next < n.
func (b *batch) take() []byte {
	i := b.next
	b.next++
	return b.buf[i][:min(int(b.hdr[i].len), len(b.buf[i]))]
}

// outgoing is a batch to send.
type outgoing struct {
	burst
	msg [batchLen]message
}

// send sends the first n datagrams as far as the socket has space, and returns
// how many it sent. It does not wait.
func (o *outgoing) send(fd, n int) (int, error) {
	for {
		k, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&o.hdr[0])), uintptr(n), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return int(k), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}
