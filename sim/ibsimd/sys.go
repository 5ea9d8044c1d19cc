package ibsimd

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of the kernel.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// batch is how many messages one system call moves.
const batch = 32

// mmsgs is a prepared argument of recvmmsg or sendmmsg.
type mmsgs struct {
	hdrs [batch]mmsghdr
	iovs [batch]unix.Iovec
}

// set points message i at b[:n]. The mmsgs must stay where it is.
func (v *mmsgs) set(i int, b *byte, n int) {
	v.iovs[i].Base = b
	v.iovs[i].SetLen(n)
	v.hdrs[i].hdr.Iov = &v.iovs[i]
	v.hdrs[i].hdr.SetIovlen(1)
}

// The calls below never block (MSG_DONTWAIT), so they skip the runtime's
// bookkeeping for blocking system calls.

func recvBatch(fd int, v *mmsgs) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.hdrs[0])), batch,
		unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

func sendBatch(fd int, v *mmsgs, n int) (int, unix.Errno) {
	k, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.hdrs[0])), uintptr(n),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(k), 0
}

func sendOne(fd int, b *dataMsg) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(b)), uintptr(b.size()),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return e
}

func epollNow(ep int, ev []unix.EpollEvent) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&ev[0])), uintptr(len(ev)), 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// Abstract names include a NUL at their end: without it a client built in C
// does not find the socket.

func ctlName(base string) string { return "@" + base + ":ctl\x00" }

func outName(base string, slot int) string {
	return fmt.Sprintf("@%s:out%d\x00", base, slot)
}

func inName(base string, id uint32) string {
	return fmt.Sprintf("@%s:in%d\x00", base, id)
}

func dgram(family int) (int, error) {
	return unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

func bound(family int, sa unix.Sockaddr) (int, error) {
	fd, err := dgram(family)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, sa); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func loopback(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}
