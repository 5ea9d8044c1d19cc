package rawibsim

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxBurst is how many datagrams one call moves.
const MaxBurst = 64

// A Burst is datagrams that one call sends or receives. It must not be copied after Init.
type Burst struct {
	Buf [MaxBurst][DataLen]byte

	hdr [MaxBurst]struct {
		hdr unix.Msghdr
		len uint32
		_   [4]byte
	}
	iov [MaxBurst]unix.Iovec
}

// Init prepares a Burst.
func (b *Burst) Init() {
	for i := range b.hdr {
		b.iov[i].Base = &b.Buf[i][0]
		b.iov[i].SetLen(DataLen)
		b.hdr[i].hdr.Iov = &b.iov[i]
		b.hdr[i].hdr.SetIovlen(1)
	}
}

// Receive waits for a datagram and takes those that are there, n at most.
func (b *Burst) Receive(fd, n int) (int, error) {
	return b.move(unix.SYS_RECVMMSG, fd, n, unix.MSG_WAITFORONE, unix.Syscall6)
}

// Send sends the first n datagrams and waits for space. It may send fewer.
func (b *Burst) Send(fd, n int) (int, error) {
	return b.move(unix.SYS_SENDMMSG, fd, n, 0, unix.Syscall6)
}

// TryReceive takes the datagrams that are there. There may be none.
func (b *Burst) TryReceive(fd int) (int, error) {
	return b.try(unix.SYS_RECVMMSG, fd, MaxBurst)
}

// TrySend sends the first n datagrams as far as there is space.
func (b *Burst) TrySend(fd, n int) (int, error) {
	if n == 0 {
		return 0, nil
	}
	return b.try(unix.SYS_SENDMMSG, fd, n)
}

// try does not block, so the scheduler need not be told.
func (b *Burst) try(nr uintptr, fd, n int) (int, error) {
	k, err := b.move(nr, fd, n, unix.MSG_DONTWAIT, unix.RawSyscall6)
	if errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return k, err
}

type syscall6 func(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno)

func (b *Burst) move(nr uintptr, fd, n int, flags uintptr, call syscall6) (int, error) {
	for {
		k, _, e := call(nr, uintptr(fd), uintptr(unsafe.Pointer(&b.hdr[0])), uintptr(n), flags, 0, 0)
		switch e {
		case 0:
			return int(k), nil
		case unix.EINTR:
			continue
		}
		return 0, e
	}
}
