package rc

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heddle/ib"
	"heddle/sim/dataplane"
)

// channel joins two queue pairs by lanes of different delay, each of which keeps
// the order. It is the test's adapter and fabric.
type channel struct {
	t     *testing.T
	now   Time
	ends  [2]*end
	wires []flying
	cut   [2]Time // nothing that leaves before arrives, by direction
	loss  float64
	rng   *rand.Rand
	log   func(format string, a ...any)
}

// flying is a packet on the wire.
type flying struct {
	at   Time
	seq  int
	to   int
	slid ib.LID
	p    Packet
}

// end is one side: the adapter and the consumer.
type end struct {
	c    *channel
	num  int
	q    *QP
	lid  ib.LID
	lane [16]Time // arrival of the last packet of a lane
	busy Time
	pkt  Packet // in the adapter
	full bool
	away bool // suspended: it takes and sends nothing

	posted, done, got uint64
	ok                uint64 // sends that ended in success
	failed            Status
	failedAt          Time
	progress          Time // when something new was acknowledged, or begun, last
	events            []Event
}

const (
	packetTime = Microsecond
	laneDelay  = 3 * Microsecond
)

// Microsecond is that of the data plane.
const Microsecond = dataplane.Microsecond

func newChannel(t *testing.T, seed uint64, c Config, s Sender) *channel {
	x := &channel{t: t, rng: rand.New(rand.NewPCG(seed, 7))}
	for i := range x.ends {
		e := &end{c: x, num: i, lid: ib.LID(10 + i)}
		c.QPN = uint32(100 + i)
		e.q = New(c, e)
		x.ends[i] = e
	}
	for i, e := range x.ends {
		peer := x.ends[1-i]
		psn := [2]uint32{1<<24 - 40, 5}
		must(t, e.q.Init())
		e.q.PostReceives(1 << 20)
		must(t, e.q.Receivable(Connect{RemoteQPN: peer.q.QPN(), PSN: psn[1-i], Path: Path{DLID: peer.lid}, RNRTimer: 1}))
		s.PSN = psn[i]
		must(t, e.q.Sendable(s))
	}
	return x
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (e *end) Sent(q *QP, id uint64, s Status) {
	if e.done++; id != e.done {
		e.c.t.Errorf("end %d: completion of %d, want %d", e.num, id, e.done)
	}
	if s == Success {
		if e.ok++; e.failed != Success {
			e.c.t.Errorf("end %d: success after an error", e.num)
		}
		if peer := e.c.ends[1-e.num]; peer.got < id {
			e.c.t.Errorf("end %d: message %d is acknowledged, the peer has %d", e.num, id, peer.got)
		}
		e.progress = e.c.now
	} else if e.failed == Success {
		e.failed, e.failedAt = s, e.c.now
	}
}

func (e *end) Received(q *QP, message uint64, bytes int) {
	if e.got++; message != e.got {
		e.c.t.Errorf("end %d at %v: message %d comes, want %d", e.num, e.c.now, message, e.got)
	}
	if want := sizeOf(message); bytes != want {
		e.c.t.Errorf("end %d: message %d has %d bytes, want %d", e.num, message, bytes, want)
	}
}

func (e *end) Happened(_ *QP, v Event) { e.events = append(e.events, v) }

func sizeOf(id uint64) int { return int(id*id*977) % 20000 }

func (e *end) post(n int) {
	for range n {
		if e.q.State() != ReadyToSend && e.q.State() != SendQueueDrain {
			return
		}
		if e.q.Idle() {
			e.progress = e.c.now
		}
		e.posted++
		must(e.c.t, e.q.Post(e.posted, sizeOf(e.posted)))
	}
}

// pump fills the adapter, and puts its packet on the wire when that is free.
func (e *end) pump() {
	for !e.away {
		if !e.full {
			e.full = e.q.Poll(e.c.now, &e.pkt)
		}
		if !e.full || e.busy > e.c.now {
			return
		}
		e.full = false
		e.busy = e.c.now + packetTime
		c := e.c
		path := e.q.Path()
		at := c.now + packetTime + laneDelay*Time(1+path.SL)
		at = max(at, e.lane[path.SL]+1)
		e.lane[path.SL] = at
		if c.now >= c.cut[e.num] && (c.loss == 0 || c.rng.Float64() >= c.loss) {
			c.wires = append(c.wires, flying{at: at, seq: len(c.wires), to: 1 - e.num, slid: e.lid, p: e.pkt})
		}
		e.q.Left(c.now)
	}
}

// step does what is next, until limit; false: nothing is.
func (c *channel) step(limit Time) bool {
	for _, e := range c.ends {
		e.pump()
	}
	best, at := -1, Time(dataplane.Never)
	for i := range c.wires {
		if f := &c.wires[i]; f.at < at {
			best, at = i, f.at
		}
	}
	for _, e := range c.ends {
		if t := e.q.NextTimer(); t < at && !e.away {
			best, at = -1, t
		}
		if e.full && !e.away && e.busy < at {
			best, at = -1, e.busy
		}
	}
	if at > limit {
		c.now = limit
		return false
	}
	c.now = max(c.now, at)
	if best >= 0 {
		f := c.wires[best]
		c.wires = append(c.wires[:best], c.wires[best+1:]...)
		var w dataplane.Payload
		var p Packet
		f.p.Pack(&w)
		p.Unpack(&w)
		if p != f.p {
			c.t.Fatalf("%+v is unpacked as %+v", f.p, p)
		}
		if c.log != nil {
			c.log("%v to %d: %+v", c.now, f.to, p)
		}
		if !c.ends[f.to].away {
			c.ends[f.to].q.Receive(c.now, &p, f.slid)
		}
		return true
	}
	for _, e := range c.ends {
		if e.q.NextTimer() <= c.now && !e.away {
			e.q.Expire(c.now)
		}
	}
	return true
}

// run runs until a time.
func (c *channel) run(until Time) {
	for c.step(until) {
	}
}

// settle runs until nothing is left to do, at most so long.
func (c *channel) settle(most Time) error {
	end := c.now + most
	for c.step(end) {
	}
	for _, e := range c.ends {
		if e.failed == Success && (!e.q.Idle() || c.ends[1-e.num].failed == Success && c.ends[1-e.num].got != e.posted) {
			return fmt.Errorf("end %d: %d posted, %d complete, %d received by its peer after %v", e.num, e.posted, e.done, c.ends[1-e.num].got, most)
		}
	}
	return nil
}
