// Package program has what runs on simulated hosts: streams of messages, and ranks
// of parallel programs that compute, send and wait in steps: ping-pong, rings,
// all-to-all, request and response.
//
// A program uses connections of package adapter and knows no fabric. It counts what
// it receives against what must come: a message that is lost, doubled or out of
// order is an error that Check reports.
package program

import (
	"fmt"
	"math/rand/v2"

	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// Time is that of the data plane.
type Time = dataplane.Time

// plenty is a number of receives that never runs out.
const plenty = 1 << 30

// Pair connects two adapters: a connection at each, in RTS.
func Pair(a, b *adapter.Adapter, o adapter.Options, s rc.Sender, there, back rc.Path, pa, pb adapter.Program) (x, y *adapter.Connection, err error) {
	if x, err = a.Connect(o, pa); err != nil {
		return nil, nil, err
	}
	if y, err = b.Connect(o, pb); err != nil {
		return nil, nil, err
	}
	x.PostReceives(plenty)
	y.PostReceives(plenty)
	s.PSN = 0
	if err = y.Start(rc.Connect{RemoteQPN: x.QPN(), Path: back}, s); err != nil {
		return nil, nil, err
	}
	return x, y, x.Start(rc.Connect{RemoteQPN: y.QPN(), Path: there}, s)
}

// Stream sends messages over a connection, always some of them posted.
type Stream struct {
	Bytes int    // of a message
	Depth int    // messages posted at once
	Limit uint64 // messages in all, 0: no end
	// Gap, if not 0, is the mean time between two messages: exponentially distributed
	// by Seed. One that finds Depth messages posted waits, and the next time begins
	// when it is posted. 0: the next is posted when one is acknowledged.
	Gap  Time
	Seed uint64

	rng        *rand.Rand
	armed      bool
	paused     bool
	conn       *adapter.Connection
	posted, ok uint64
	stopped    bool
	status     rc.Status
	failedAt   Time
}

// Run starts the stream on a connection whose program it is.
func (s *Stream) Run(c *adapter.Connection) {
	s.conn = c
	if s.Gap > 0 {
		s.rng = rand.New(rand.NewPCG(s.Seed, uint64(c.QPN())))
		s.pause()
		return
	}
	s.fill()
}

// pause waits for the next message.
func (s *Stream) pause() {
	a := s.conn.Adapter()
	s.armed = true
	a.After(a.Now()+Time(s.rng.ExpFloat64()*float64(s.Gap)), s, 0)
}

// Stop has it post no more.
func (s *Stream) Stop() { s.stopped = true }

// Pause has it post nothing until Continue: its machine stands still.
func (s *Stream) Pause() { s.paused = true }

// Continue ends Pause.
func (s *Stream) Continue() {
	if !s.paused {
		return
	}
	s.paused = false
	if s.armed || s.conn == nil {
		return
	}
	if s.Gap > 0 {
		s.pause()
		return
	}
	s.fill()
}

func (s *Stream) fill() {
	for !s.stopped && !s.paused && s.posted-s.ok < uint64(s.Depth) && (s.Limit == 0 || s.posted < s.Limit) {
		if s.conn.Post(s.posted+1, s.Bytes) != nil {
			return
		}
		s.posted++
		if s.Gap > 0 {
			s.pause()
			return
		}
	}
}

// Sent implements adapter.Program.
func (s *Stream) Sent(c *adapter.Connection, _ uint64, st rc.Status) {
	if st != rc.Success {
		if s.status == rc.Success {
			s.status, s.failedAt = st, c.Adapter().Now()
		}
		return
	}
	s.ok++
	if !s.armed {
		s.fill()
	}
}

// Received implements adapter.Program.
func (s *Stream) Received(*adapter.Connection, uint64, int) {}

// Happened implements adapter.Program.
func (s *Stream) Happened(*adapter.Connection, rc.Event) {}

// Due implements adapter.Program: the time of the next message has come.
func (s *Stream) Due(uint64) {
	s.armed = false
	s.fill()
}

// Posted and Acknowledged count messages.
func (s *Stream) Posted() uint64       { return s.posted }
func (s *Stream) Acknowledged() uint64 { return s.ok }

// Failed reports with what status, and when, the connection ended.
func (s *Stream) Failed() (st rc.Status, at Time) { return s.status, s.failedAt }

// Sink receives a stream.
type Sink struct {
	got, bytes uint64
	last       Time
	gap        Time // the longest between two messages since the last look
	bad        error
}

// Sent implements adapter.Program.
func (s *Sink) Sent(*adapter.Connection, uint64, rc.Status) {}

// Received implements adapter.Program.
func (s *Sink) Received(c *adapter.Connection, message uint64, bytes int) {
	s.got++
	if message != s.got && s.bad == nil {
		s.bad = fmt.Errorf("program: message %d comes where %d must", message, s.got)
	}
	s.bytes += uint64(bytes)
	now := c.Adapter().Now()
	if s.last > 0 {
		s.gap = max(s.gap, now-s.last)
	}
	s.last = now
}

// Happened implements adapter.Program.
func (s *Sink) Happened(*adapter.Connection, rc.Event) {}

// Due implements adapter.Program.
func (s *Sink) Due(uint64) {}

// Got is how many messages and bytes have come.
func (s *Sink) Got() (messages, bytes uint64) { return s.got, s.bytes }

// Gap is the longest time between two messages since the last call, or until now
// if none has come since.
func (s *Sink) Gap(now Time) Time {
	g := max(s.gap, now-s.last)
	s.gap = 0
	return g
}

// Check reports a message that was lost, doubled or out of order.
func (s *Sink) Check(from *Stream) error {
	if s.bad != nil {
		return s.bad
	}
	if s.got < from.ok || s.got > from.posted {
		return fmt.Errorf("program: %d messages came; %d were posted and %d acknowledged", s.got, from.posted, from.ok)
	}
	return nil
}
