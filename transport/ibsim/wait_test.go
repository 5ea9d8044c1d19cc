package ibsim

import (
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWaiter: both ways to wait bring a datagram, and end when the socket is shut down.
func TestWaiter(t *testing.T) {
	for _, calm := range []bool{false, true} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		var closed atomic.Bool
		gone := errors.New("closed")
		ended := func() error {
			if closed.Load() {
				return gone
			}
			return nil
		}
		var w waiter
		w.open(fds[0], ended)
		defer w.close()
		if w.poller == nil {
			t.Fatal("the runtime's poller does not take the socket")
		}
		var b batch
		b.init()
		for round := range 3 {
			w.watch(calm)
			got := make(chan error)
			go func() { got <- w.fill(&b) }()
			if _, err := unix.Write(fds[1], []byte{1, 2, 3}); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil || b.n != 1 || len(b.take()) != 3 {
				t.Fatalf("calm %v, round %d: %d datagrams, %v", calm, round, b.n, err)
			}
		}
		w.watch(calm)
		got := make(chan error)
		go func() { got <- w.fill(&b) }()
		closed.Store(true)
		if err := unix.Shutdown(fds[0], unix.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil && err != unix.EAGAIN {
			t.Fatalf("calm %v: after the shutdown: %v", calm, err)
		}
		if w.poller == nil {
			t.Error("the poller was given up")
		}
	}
}
