package dataplane

import (
	"math/bits"

	"heddle/fabric"
	"heddle/sim/dataplane/wheel"
)

// world is what all parts have in common. Tables and numbers do not change while
// packets move; a record of a port, lane, queue, host or stream is used by one
// part alone.
type world struct {
	cfg    Config
	top    *Topology
	tables Tables
	// functions are tables that know virtual functions, nil: they do not.
	functions Functions
	voq       bool
	lazy      bool // an event at the end of a transmission only if something waits
	stride    int32
	words     int32   // of a set of inputs
	owner     []uint8 // part by port; nil: there is one

	nodes    []node
	out      []outPort
	in       []inPort
	outLanes []outLane  // by port and lane
	inLanes  []queue    // by port and lane, and output if voq
	voqOuts  []PortMask // by port and lane: outputs with packets, if voq
	requests []uint64   // inputs with a packet, by output and lane
	busyIn   []uint64   // inputs that cannot be read, by node
	noneBusy []uint64   // the empty set
	arbs     []arbTable

	hosts     []host
	numHosts  int
	hostLanes []queue // ready send queues, by end port and lane
	streams   []stream
	faults    []portFaults
	limits    limits
	residents []resident // by end port; nil: there are none
	carriers  carriers
	details   []Detail    // by port; nil: Config.Details is off
	cong      *congestion // nil: no device has congestion control on
}

// part moves the packets of some switches and their hosts. It has an event queue
// and arenas of its own; what reaches other parts goes by mail (workers.go).
type part struct {
	world
	id      uint8
	running bool // in the midst of an instant: what is touched will be asked
	now     Time
	q       *wheel.Queue
	touched portSet

	packets    []packet
	freePacket int32
	reads      []read
	freeRead   int32
	sendq      []sendQueue
	shared     map[sendKey]int32
	groups     groups
	cargo      []cargo    // by packet, of those of programs
	purged     []int32    // scratch of purge
	pacers     []throttle // by send queue, of those that congestion control has slowed

	stat   *Stats
	flows  []FlowStats
	events uint64
	wakes  uint64 // those of credits
	hooks  Hooks
	look   Time // when the detector is to look, Never: it need not
	every  Time // how often it looks, 0: never

	mail mail

	fetcher fetcher
}

// init makes part k of n, without its world.
func (e *part) init(k, n int, t *Topology) {
	e.id, e.look = uint8(k), Never
	e.q = newWheel(len(t.Links) / n)
	e.fetcher.on = len(e.out) > largeFabric
	e.touched = newPortSet(len(e.out))
	e.freePacket, e.freeRead, e.groups.free = -1, -1, -1
	e.shared = map[sendKey]int32{}
	e.stat = &Stats{}
	e.mail.init(n)
}

// newWheel fits the buckets to the number of ports, which the number of events at
// full load is proportional to: some to a bucket. It spans 2 or 4 µs.
func newWheel(links int) *wheel.Queue {
	switch n := links; {
	case n < 300:
		return wheel.New(7, 14)
	case n < 5000:
		return wheel.New(6, 16)
	}
	return wheel.New(5, 17)
}

// radix is the number of VoQs of each (input, lane).
func (e *part) radix() int32 { return int32(len(e.inLanes)) / int32(len(e.outLanes)) }

// port is the index of a port of the topology.
func (e *part) port(r fabric.Ref) int32 { return e.nodes[r.Node].first + int32(r.Port) }

// ref is the name of a port: that of a switch's end port is port 0.
func (e *part) ref(p int32) fabric.Ref {
	o := &e.out[p]
	return fabric.Ref{Node: e.nodes[o.node].ref, Port: o.num}
}

// nextEvent is the time of the next event, Never if there is none.
func (e *part) nextEvent() Time {
	if e.q.Len() == 0 {
		return Never
	}
	return Time(e.q.Peek())
}

// run processes all events before until, or before the detector is to look.
func (e *part) run(until Time) {
	for {
		t, ok := e.q.NextBefore(int64(min(until, e.look)))
		if !ok {
			return
		}
		if e.fetcher.on && e.fetcher.bucket != e.q.Bucket() {
			e.fetcher.bucket = e.q.Bucket()
			e.fetch(e.q.Current())
		}
		if e.mail.round++; e.now != Time(t) {
			e.mail.round = 0
		}
		e.now, e.running = Time(t), true
		for {
			ev, ok := e.q.PopAt(t)
			if !ok {
				break
			}
			e.handle(ev)
		}
		e.running = false
		e.arbitrateTouched()
	}
}

func (e *part) push(at Time, kind uint32, index, arg int32) {
	e.q.Push(int64(at), kind|uint32(index), arg)
}

func (e *part) handle(ev wheel.Event) {
	e.events++
	e.mail.during = uint64(ev.Key)
	i := int32(ev.Key & (1<<keyBits - 1))
	switch ev.Key &^ (1<<keyBits - 1) {
	case evEligible:
		e.eligible(i, ev.Arg)
	case evDeliver:
		e.deliver(i, ev.Arg)
	case evSource:
		e.arrival(i)
	case evAck:
		e.acked(i)
	case evProgram:
		e.programTimer(i)
	case evFree:
		e.free(i)
	case evCredit:
		if l := &e.outLanes[i]; l.armedAt <= e.now {
			l.armedAt = Never
		}
		e.wakes++
		e.touched.add(i / e.stride)
	case evGate:
		e.out[i].gated = false
		e.touched.add(i)
	case evReady:
		if q := e.inLanes[i]; q.head >= 0 {
			e.expose(i, q.head)
		}
	case evLimit:
		e.limit(i)
	case evRelease:
		e.resume(i)
	}
}

// arbitrateTouched lets every port that something happened to choose a packet,
// in the order of port numbers. A choice can bring the head of another queue to
// light, so ports may come again.
func (e *part) arbitrateTouched() {
	if e.running {
		return // at the end of the instant
	}
	e.running = true
	for {
		p := e.touched.take()
		if p < 0 {
			e.running = false
			return
		}
		e.choose(p)
	}
}

func (e *part) choose(port int32) {
	e.mail.during = duringArbitration | uint64(port)
	e.arbitrate(port)
}

// portSet is a set of ports, taken out lowest first.
type portSet struct {
	words []uint64
	sums  []uint64
	low   int // no sum below it has a bit
}

func newPortSet(n int) portSet {
	w := (n + 63) / 64
	return portSet{words: make([]uint64, w), sums: make([]uint64, (w+63)/64)}
}

func (s *portSet) add(p int32) {
	w := p >> 6
	s.words[w] |= 1 << (p & 63)
	s.sums[w>>6] |= 1 << (w & 63)
	s.low = min(s.low, int(w>>6))
}

// take removes the lowest port, -1: the set is empty.
func (s *portSet) take() int32 {
	for ; s.low < len(s.sums); s.low++ {
		if m := s.sums[s.low]; m != 0 {
			w := s.low<<6 + bits.TrailingZeros64(m)
			b := bits.TrailingZeros64(s.words[w])
			if s.words[w] &= s.words[w] - 1; s.words[w] == 0 {
				s.sums[s.low] &= m - 1
			}
			return int32(w<<6 + b)
		}
	}
	return -1
}
