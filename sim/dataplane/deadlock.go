package dataplane

import (
	"fmt"
	"math/bits"
	"strings"

	"heddle/fabric"
	"heddle/ib"
)

// Deadlock is a circle of full buffers: the head of each waits for credits of the
// next, so none will move. It is found from what waits for what, not from time
// that passes; packets that wait for a host that has stopped, for an output that
// sends, or for blocks that a running read will free, close no circle.
//
// With limits (head of queue life, lifetime) a circle is broken by loss.
type Deadlock struct {
	At    Time
	Cycle []Wait
	Stuck int // buffers that cannot move, those that lead into the circle included
}

// Wait is a buffer whose head waits.
type Wait struct {
	In   fabric.Ref // input port of the buffer
	VL   ib.VL      // its lane
	Out  fabric.Ref // output that the head waits for
	Lane ib.VL      // its lane
	DLID ib.LID     // of the head
}

// String prints a line for each switch of the circle.
func (d *Deadlock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock at %v: %d buffers, %d of them in a circle", d.At, d.Stuck, len(d.Cycle))
	for _, w := range d.Cycle {
		fmt.Fprintf(&b, "\nswitch %d: input %d lane %d waits for output %d lane %d with a packet for LID %d",
			w.In.Node, w.In.Port, w.VL, w.Out.Port, w.Lane, w.DLID)
	}
	return b.String()
}

// detector looks for deadlocks at the next multiple of a period after a packet
// begins to wait for credits that no known read will give. A circle closes with
// such a wait, so nothing else needs to start it. A part may not know yet of a
// read that another has begun, and so look in vain: looking changes nothing.
type detector struct {
	every Time // 0: off
	found *Deadlock
	runs  uint64
	stuck []bool  // by input port and lane; all false between searches
	order []int32 // those that may be stuck, kept for its memory
}

// Deadlock returns the first deadlock found, nil if there was none.
func (e *Engine) Deadlock() *Deadlock { return e.det.found }

// ForgetDeadlock lets the next one be found.
func (e *Engine) ForgetDeadlock() {
	e.det.found = nil
	e.watch(e.det.every)
}

// watch has the parts ask for a search at multiples of a period, 0: never.
func (e *Engine) watch(every Time) {
	for _, p := range e.parts {
		p.every = every
	}
}

func (e *Engine) startDetector() {
	e.det.every = e.cfg.DetectEvery
	if e.det.every == 0 {
		for i := range e.out {
			e.det.every = max(e.det.every, 20*e.out[i].rate.Time(2048+OverheadRC))
		}
	}
	e.watch(e.det.every)
}

func (e *part) armDetector() {
	if e.every > 0 && e.look == Never {
		e.look = (e.now/e.every + 1) * e.every
	}
}

// lookAt is when the detector is to look, Never: it need not.
func (e *Engine) lookAt() Time {
	t := Never
	for _, p := range e.parts {
		t = min(t, p.look)
	}
	return t
}

func (e *Engine) detect() {
	for _, p := range e.parts {
		p.look = Never
	}
	e.det.runs++
	if e.det.found = e.FindDeadlock(); e.det.found != nil {
		e.watch(0)
	}
}

// FindDeadlock looks for a deadlock now. It takes time proportional to the
// buffers that wait.
//
// A buffer can move if one of its heads can: because its output sends or may
// send, or because the buffer that it waits for can move. Those that can are
// taken away until none is left that can; what remains is stuck, and each of its
// heads waits for another that is.
func (e *Engine) FindDeadlock() *Deadlock {
	if e.det.stuck == nil {
		e.det.stuck = make([]bool, len(e.in)*int(e.stride))
	}
	stuck, order := e.det.stuck, e.det.order[:0]
	for i := range e.in {
		for m := e.in[i].lanes; m != 0; m &= m - 1 {
			b := int32(i)*e.stride + int32(bits.TrailingZeros16(m))
			if e.partOf(b/e.stride).eachTarget(b, func(t int32, _ *packet) bool { return t >= 0 }) {
				stuck[b] = true
				order = append(order, b)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		kept := order[:0]
		for _, b := range order {
			if e.partOf(b/e.stride).eachTarget(b, func(t int32, _ *packet) bool { return t >= 0 && stuck[t] }) {
				kept = append(kept, b)
			} else {
				stuck[b] = false
				changed = true
			}
		}
		order = kept
	}
	e.det.order = order
	if len(order) == 0 {
		return nil
	}
	d := &Deadlock{At: e.now, Cycle: e.circle(order[0]), Stuck: len(order)}
	for _, b := range order {
		stuck[b] = false
	}
	return d
}

// circle follows waits from a stuck buffer until one comes again.
func (e *Engine) circle(b int32) []Wait {
	var path []Wait
	at := map[int32]int{}
	for {
		if n, ok := at[b]; ok {
			return path[n:]
		}
		at[b] = len(path)
		next := int32(-1)
		e.partOf(b/e.stride).eachTarget(b, func(t int32, p *packet) bool {
			if next < 0 && t >= 0 && e.det.stuck[t] {
				next = t
				out := e.in[t/e.stride].up
				path = append(path, Wait{
					In: e.ref(b / e.stride), VL: ib.VL(b % e.stride), Out: e.ref(out), Lane: ib.VL(t % e.stride), DLID: p.dlid,
				})
			}
			return true
		})
		b = next
	}
}

// eachTarget calls fn for the buffer that each head of a buffer waits for, -1 if
// the head will move, and reports whether fn was true for all heads (for a
// multicast packet: for one of its copies, as it leaves with the last).
func (e *part) eachTarget(b int32, fn func(target int32, p *packet) bool) bool {
	i := b / e.stride
	first := e.nodes[e.in[i].node].first
	one := func(q int32) bool {
		p := &e.packets[e.inLanes[q].head]
		if p.flags&flagExposed == 0 {
			return fn(-1, p)
		}
		if p.mc < 0 || e.voq {
			return fn(e.awaited(first+int32(p.out), p.vl), p)
		}
		any := false
		c := &e.groups.copies[p.mc]
		for out := range c.each {
			if fn(e.awaited(first+int32(out), c.lanes[out]), p) {
				any = true
			}
		}
		return any
	}
	if !e.voq {
		return one(b)
	}
	all := true
	for w, outs := range e.voqOuts[b] {
		for ; outs != 0; outs &= outs - 1 {
			all = one(b*e.radix()+int32(w<<6+bits.TrailingZeros64(outs))) && all
		}
	}
	return all
}

// awaited is the buffer behind a lane of an output if the packet whose turn it is
// waits for credits that only a new read there can give; -1 if it will move.
func (e *part) awaited(oi int32, vl uint8) int32 {
	o := &e.out[oi]
	if !o.active || o.sink >= 0 {
		return -1
	}
	ol := oi*e.stride + int32(vl)
	l := &e.outLanes[ol]
	n := l.avail
	for i := l.readHead; i >= 0; i = e.reads[i].next {
		n += e.reads[i].blocks
	}
	if need := int32(l.need); need == 0 || n >= need || l.capacity < need {
		return -1
	}
	return o.peer*e.stride + int32(vl)
}

// Undersized lists the lanes that can never carry the packet that waits for them,
// because it needs more blocks than their buffer has: port, lane, blocks needed
// and present.
func (e *Engine) Undersized() (list []Undersized) {
	for i := range e.outLanes {
		if l := &e.outLanes[i]; l.need != 0 && int32(l.need) > l.capacity {
			list = append(list, Undersized{e.ref(int32(i) / e.stride), ib.VL(int32(i) % e.stride), int(l.need), int(l.capacity)})
		}
	}
	return list
}

// Undersized is a lane whose buffer at the far end is smaller than a packet.
type Undersized struct {
	Out          fabric.Ref
	Lane         ib.VL
	Need, Blocks int
}
