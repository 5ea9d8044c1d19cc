package need

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports that Port gives: Linux takes others for sockets that name none.
const firstPort, lastPort = 10_000, 32_000

// Port returns the first of n numbers of ports of 127.0.0.1 that are free for UDP and TCP, and that
// no other test on this machine gets while t runs. Nothing listens on them. A port that was free a
// moment ago is not enough: until the program under test listens there, anybody may get it.
func Port(t testing.TB, n int) int {
	t.Helper()
	for range 1000 {
		first := firstPort + rand.IntN(lastPort-firstPort-n)
		if reserve(t, first, n) {
			return first
		}
	}
	t.Fatalf("no %d free ports", n)
	return 0
}

// Addr returns 127.0.0.1 with a number from Port.
func Addr(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t, 1))
}

// reserve holds an abstract socket for each port until t ends: its name tells other tests.
func reserve(t testing.TB, first, n int) bool {
	var held []net.Listener
	for port := first; port < first+n; port++ {
		l, err := net.Listen("unix", fmt.Sprintf("@heddle-test-port-%d", port))
		if err == nil {
			held = append(held, l)
			err = free(port)
		}
		if err != nil {
			for _, l := range held {
				l.Close()
			}
			return false
		}
	}
	t.Cleanup(func() {
		for _, l := range held {
			l.Close()
		}
	})
	return true
}

// free is nil if nobody uses a port.
func free(port int) error {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	l.Close()
	p, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	return p.Close()
}
