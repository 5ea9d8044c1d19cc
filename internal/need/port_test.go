package need

import (
	"fmt"
	"net"
	"testing"
)

// TestPort: a port is given once while a test runs, and is free.
func TestPort(t *testing.T) {
	first := Port(t, 4)
	if reserve(t, first+3, 1) {
		t.Error("a port was given twice")
	}
	for p := first; p < first+4; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			t.Error(err)
			continue
		}
		if free(p) == nil {
			t.Errorf("port %d is in use, and free", p)
		}
		l.Close()
	}
}
