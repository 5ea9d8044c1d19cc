package ipoib

import (
	"time"

	"heddle/mad"
)

// Stack is the IP stack of a host or of a virtual machine: its streams stay when its interface is
// taken away and comes back elsewhere.
type Stack struct {
	dev       *Device
	server    *Server
	senders   []*Sender
	receivers map[uint16]*Receiver
}

// NewStack puts a stack above an interface, on a server.
func NewStack(d *Device, s *Server) *Stack {
	k := &Stack{dev: d, receivers: map[uint16]*Receiver{}}
	d.OnFrame = k.input
	k.Place(s)
	return k
}

// Device is the interface below.
func (k *Stack) Device() *Device { return k.dev }

// Server is where the stack runs.
func (k *Stack) Server() *Server { return k.server }

// Place moves the stack to a server.
func (k *Stack) Place(s *Server) {
	if k.server != nil {
		k.server.remove(k)
	}
	k.server = s
	s.stacks = append(s.stacks, k)
}

// Send begins a stream with a number to an IP address; limit is its bytes, 0: no end. The other
// end must Receive that number.
func (k *Stack) Send(id uint16, to IP, limit uint64, c TCP) *Sender {
	s := &Sender{stack: k, cfg: c, id: id, to: to, limit: limit, window: c.Segment, rto: c.RTOInitial, timer: mad.Never}
	k.senders = append(k.senders, s)
	return s
}

// Receive takes a stream with a number.
func (k *Stack) Receive(id uint16) *Receiver {
	r := &Receiver{stack: k, id: id}
	k.receivers[id] = r
	return r
}

func (k *Stack) input(now mad.Time, f *Frame) {
	k.server.work(f.Len)
	if f.Kind == Data {
		if r := k.receivers[f.Stream]; r != nil {
			r.take(now, f)
		}
		return
	}
	for _, s := range k.senders {
		if s.id == f.Stream && s.to == f.From {
			s.acknowledged(now, f.Seq)
		}
	}
}

// Server is a physical machine.
type Server struct {
	// Rate is what its adapter sends in all, in bits/s; 0: no limit. Streams between its own
	// stacks count too.
	Rate int64
	// CPU is what a byte costs the processor, sent or received, in ns. It is counted, and limits
	// nothing: rates are limited by Rate and TCP.Rate.
	CPU float64

	stacks []*Stack
	free   mad.Time // when the adapter takes the next segment
	turn   int
	bytes  uint64
}

func (v *Server) remove(k *Stack) {
	for i, x := range v.stacks {
		if x == k {
			v.stacks = append(v.stacks[:i], v.stacks[i+1:]...)
			return
		}
	}
}

// work counts bytes that the processor handles.
func (v *Server) work(n int) { v.bytes += uint64(n) }

// Busy is the time that the processor has worked for streams.
func (v *Server) Busy() time.Duration { return time.Duration(float64(v.bytes) * v.CPU) }

// NextTimer is when Run is due.
func (v *Server) NextTimer() mad.Time {
	t := mad.Never
	for _, k := range v.stacks {
		t = min(t, k.dev.NextTimer())
		for _, s := range k.senders {
			t = min(t, s.timer)
			if at := s.ready(); at != mad.Never {
				t = min(t, max(at, v.free))
			}
		}
	}
	return t
}

// Run does what is due: timers, and segments of the senders in turn.
func (v *Server) Run(now mad.Time) {
	var all []*Sender
	for _, k := range v.stacks {
		if k.dev.NextTimer() <= now {
			k.dev.Expire(now)
		}
		for _, s := range k.senders {
			if s.timer <= now {
				s.expire(now)
			}
			all = append(all, s)
		}
	}
	for tried := 0; v.free <= now && tried < len(all); {
		v.turn = (v.turn + 1) % len(all)
		s := all[v.turn]
		if s.ready() > now {
			tried++
			continue
		}
		tried = 0
		n := s.transmit(now)
		v.work(n)
		if v.Rate > 0 {
			v.free = max(v.free, now).Add(transferTime(n, v.Rate))
		}
	}
}
