package ibsim

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// calmAfter is the wait for a datagram after which the next wait is the runtime's poller's.
const calmAfter = 200 * time.Microsecond

// waiter waits for datagrams. While they come one after the other it blocks in the receiving call
// itself: one call per packet, instead of four with the poller. A goroutine that blocks so keeps its
// processor of the Go runtime, until the runtime's monitor thread takes it away after some 60 naps of
// 20 µs. Where packets come now and then, as on standby, those naps cost more than all else.
//
// The poller watches an epoll, which watches the socket while waits are long. A socket that is watched
// wakes a thread with each packet, also when another one waits for it: a round trip took twice as long.
type waiter struct {
	epoll  *os.File
	fd     int             // of epoll
	poller syscall.RawConn // of epoll; nil if there is none
	calm   bool            // the last wait was long, and epoll may watch the socket
	socket int
	ended  func() error // of a socket that was shut down, why
}

// open prepares the poller for a socket. Without one, every wait blocks. ended says why the socket was
// shut down, or nil.
func (w *waiter) open(socket int, ended func() error) {
	w.socket, w.ended = socket, ended
	var err error
	if w.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return
	}
	_ = unix.SetNonblock(w.fd, true) // os.NewFile asks for it
	w.epoll = os.NewFile(uintptr(w.fd), "epoll")
	if w.poller, err = w.epoll.SyscallConn(); err != nil {
		w.close()
	}
}

func (w *waiter) close() {
	if w.epoll != nil {
		w.epoll.Close()
	}
	w.epoll, w.poller = nil, nil
}

// fill reads the queued datagrams, and waits for the first one until the socket is shut down.
func (w *waiter) fill(b *batch) error {
	began := time.Now()
	var err error
	if w.calm {
		err = w.poll(b)
	} else {
		err = b.fill(w.socket, true)
	}
	w.watch(w.poller != nil && time.Since(began) > calmAfter)
	return err
}

// watch has epoll watch the socket, or end it.
func (w *waiter) watch(calm bool) {
	if calm == w.calm {
		return
	}
	op := unix.EPOLL_CTL_DEL
	if calm {
		op = unix.EPOLL_CTL_ADD
	}
	if w.poller == nil || unix.EpollCtl(w.fd, op, w.socket, &unix.EpollEvent{Events: unix.EPOLLIN}) != nil {
		w.close()
		calm = false
	}
	w.calm = calm
}

// poll is fill with the runtime's poller.
func (w *waiter) poll(b *batch) (err error) {
	e := w.poller.Read(func(uintptr) bool {
		err = b.fill(w.socket, false)
		return err != unix.EAGAIN || w.ended() != nil // of a socket that is shut down the kernel says EAGAIN
	})
	if e != nil {
		w.close() // it cannot be polled
		return unix.EINTR
	}
	return err
}

// fill reads the queued datagrams, and waits for one if there is none and wait is set. The caller holds
// recvMu.
func (c *Conn) fill(wait bool) error {
	if !wait {
		return c.in.fill(c.data, false)
	}
	return c.wait.fill(&c.in)
}
