package umad

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A device served by FUSE (heddle attach) costs a round trip to its server for
// every call: waiting for a packet through the runtime's poller takes three
// (poll, read, and a read that finds nothing), waiting in read(2) takes one. A
// kernel's own device answers immediately; there the poller is as good, and a
// blocking read could not be interrupted.

// waiter reads a device by calls that block. The zero value is not in use.
type waiter struct {
	on      bool
	reading atomic.Bool
	closing atomic.Bool

	// On a FUSE device an empty poll costs as much as a successful one, so after
	// one the next polls are skipped, more each time. Reader only.
	spare, spared int
}

// maxSpare is how many tries in a row are spared.
const maxSpare = 15

// worth reports whether to try at all.
func (w *waiter) worth() bool {
	if !w.on || w.spared >= w.spare {
		w.spared = 0
		return true
	}
	w.spared++
	return false
}

// tried records whether a poll found a packet.
func (w *waiter) tried(found bool) {
	if found {
		w.spare = 0
	} else {
		w.spare = min(2*w.spare+1, maxSpare)
	}
}

// fuseMagic is the statfs type of a file system served by FUSE.
const fuseMagic = 0x65735546

// open opens a device. If FUSE serves it, reads block, and the runtime's poller
// must not have it: it would wake for each packet and query the server.
func (w *waiter) open(path string) (*os.File, error) {
	fd, err := openRetry(path)
	if err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) == nil && st.Type == fuseMagic {
		w.on = unix.SetNonblock(fd, false) == nil
	}
	return os.NewFile(uintptr(fd), path), nil
}

// read is f.Read. One goroutine calls it at a time.
func (w *waiter) read(f *os.File, b []byte) (n int, err error) {
	if !w.on {
		return f.Read(b)
	}
	rc, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := rc.Control(func(fd uintptr) {
		w.reading.Store(true)
		defer w.reading.Store(false)
		for !w.closing.Load() {
			if n, err = unix.Read(int(fd), b); err != syscall.EINTR {
				return
			}
		}
		n, err = 0, os.ErrClosed
	})
	if cerr != nil {
		return 0, os.ErrClosed
	}
	return max(n, 0), err
}

// try is read without waiting; the error is EAGAIN if nothing is there.
func (w *waiter) try(f *os.File, b []byte) (n int, err error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := rc.Control(func(fd uintptr) {
		if w.on {
			// Writes never wait, so non-blocking mode does not affect them.
			if err = unix.SetNonblock(int(fd), true); err != nil {
				return
			}
			defer func() { _ = unix.SetNonblock(int(fd), false) }()
		}
		n, err = unix.Read(int(fd), b)
	})
	if cerr != nil {
		return 0, os.ErrClosed
	}
	return max(n, 0), err
}

// end makes a read in progress return and all later ones fail, by a signal that
// the runtime ignores. The reading thread is unknown and may not sleep yet, so
// all threads get the signal until the read is over.
func (w *waiter) end() {
	if !w.on {
		return
	}
	w.closing.Store(true)
	for w.reading.Load() {
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, t := range tasks {
			if tid, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
			}
		}
		time.Sleep(time.Millisecond)
	}
}
