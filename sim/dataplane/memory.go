package dataplane

import "unsafe"

// Bytes is the memory that the Engine has reserved for its records.
func (e *Engine) Bytes() (n int) {
	return sizeOf(e.nodes) + sizeOf(e.out) + sizeOf(e.in) + sizeOf(e.outLanes) + sizeOf(e.inLanes) + sizeOf(e.voqOuts) + sizeOf(e.requests) +
		sizeOf(e.packets) + sizeOf(e.reads) + sizeOf(e.hosts) + sizeOf(e.hostLanes) + sizeOf(e.sendq) + sizeOf(e.streams) + sizeOf(e.flows) +
		sizeOf(e.faults) + sizeOf(e.groups.copies) + e.q.Bytes()
}

func sizeOf[T any](s []T) int {
	var x T
	return cap(s) * int(unsafe.Sizeof(x))
}
