package ibsim

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKilledManagersAreFreed: ibsim keeps the slot of a killed client, one of ten, and
// passes it requests for the port's manager. A starting manager frees such slots.
func TestKilledManagersAreFreed(t *testing.T) {
	s := startIbsim(t)
	for n := range 25 {
		c := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1"})
		if err := c.SetIsSM(true); err != nil {
			t.Fatalf("manager %d: %v", n, err)
		}
		// Killed: its sockets are closed, and nothing is said.
		if err := unix.Shutdown(c.data, syscall.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		unix.Close(c.data)
		c.data = -1
		unix.Close(c.control)
		c.control = -1
	}
}
