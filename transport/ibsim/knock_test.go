package ibsim

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
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
		c.wait.close()
		unix.Close(c.control)
		c.control = -1
	}
}

// TestSecondNodeInfo: a simulator that gets the processor late answers both requests for the NodeInfo
// of the attached port. The second answer is nothing for the user of the Conn.
func TestSecondNodeInfo(t *testing.T) {
	s := startIbsim(t)
	c := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1"})
	for _, tid := range []uint64{ownTID, 7} {
		var m ib.MAD
		smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
		m.SetTID(tid)
		if err := c.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}); err != nil {
			t.Fatal(err)
		}
	}
	var p mad.Packet
	if err := c.Recv(&p); err != nil || (*ib.MAD)(p.Data).TID()&0xFFFFFFFF != 7 {
		t.Fatalf("%v, transaction %#x", err, (*ib.MAD)(p.Data).TID())
	}
}
