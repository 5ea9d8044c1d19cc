package dataplane

import "unsafe"

// Bytes is the memory that the Engine has reserved for its records.
func (e *Engine) Bytes() (n int) {
	n = sizeOf(e.nodes) + sizeOf(e.out) + sizeOf(e.in) + sizeOf(e.outLanes) + sizeOf(e.inLanes) + sizeOf(e.voqOuts) + sizeOf(e.requests) +
		sizeOf(e.hosts) + sizeOf(e.hostLanes) + sizeOf(e.streams) + sizeOf(e.faults) + sizeOf(e.details)
	for _, p := range e.parts {
		n += sizeOf(p.packets) + sizeOf(p.reads) + sizeOf(p.sendq) + sizeOf(p.flows) + sizeOf(p.groups.copies) + p.q.Bytes()
	}
	return n
}

func sizeOf[T any](s []T) int {
	var x T
	return cap(s) * int(unsafe.Sizeof(x))
}
