package sim

import (
	"testing"
	"unsafe"
)

// TestPortInTwoLines: an SMP that comes in touches one cache line of its port, one that leaves two.
// Ports of a large fabric are in no cache when an SMP comes by.
func TestPortInTwoLines(t *testing.T) {
	const line = 64
	var p port
	if n := unsafe.Sizeof(p); n != 2*line {
		t.Errorf("a port has %d bytes", n)
	}
	if in, out := unsafe.Offsetof(p.cnt)+unsafe.Offsetof(p.cnt.urcv), unsafe.Offsetof(p.cnt)+unsafe.Offsetof(p.cnt.xmitData32); in >= line || out != line {
		t.Errorf("counters of what comes in end at %d, those of what leaves begin at %d", in, out)
	}
}
