package ibsim

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchLen is how many datagrams one system call may fetch: a unix datagram
// queue holds no more than ten by default.
const batchLen = 16

// batch fetches datagrams with recvmmsg: under load several are waiting, and
// one call takes them all.
type batch struct {
	hdr  [batchLen]mmsghdr
	iov  [batchLen]unix.Iovec
	buf  [batchLen][dataLen + addrLen + 1]byte // one more, to recognise longer ones
	n    int
	next int
}

type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

func (b *batch) init() {
	for i := range b.hdr {
		b.iov[i].Base = &b.buf[i][0]
		b.iov[i].SetLen(len(b.buf[i]))
		b.hdr[i].hdr.Iov = &b.iov[i]
		b.hdr[i].hdr.SetIovlen(1)
	}
}

// fill fetches the datagrams that are there.
func (b *batch) fill(fd int) error {
	b.n, b.next = 0, 0
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.hdr[0])),
		batchLen, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	}
	b.n = int(n)
	return nil
}

// take returns the next datagram; next < n.
func (b *batch) take() []byte {
	i := b.next
	b.next++
	return b.buf[i][:min(int(b.hdr[i].len), len(b.buf[i]))]
}
