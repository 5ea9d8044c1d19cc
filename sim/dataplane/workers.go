package dataplane

import (
	"heddle/sim/dataplane/lockstep"
)

// Workers run at the same time, each with a part of the fabric: some switches
// with their hosts. What a part does is felt by another no sooner than the
// lookahead: a packet after the cable and the delay of the switch, a credit after
// the cable and the flow control packet, an acknowledgement after its delay. So
// all parts process the events of a window as long as that, each by itself; then
// they exchange mail, and the next window begins at the first event that is left.
//
// Events have the same order in every part as in a single one, since their keys
// depend on ports and streams alone. What happens at one instant in two parts has
// nothing to do with each other, but for hooks, which are called in the order of
// a single part after the window.

// MaxWorkers is the largest useful value of Config.Workers.
const MaxWorkers = 64

// minAhead is the lookahead from which windows are worth while.
const minAhead = Nanosecond

// mail is what a part has for others.
type mail struct {
	boxes  [2][]box // by turn and part
	turn   int      // the windows take turns: what is in the boxes of one is read in the next
	first  Time     // before which nothing of this window's mail matters
	notes  [2][]note
	direct bool // boxes are emptied at once, and hooks called at once
	// During is the event that is processed: its key, or the port that chooses.
	round  int // see note
	during uint64
}

// box is the mail for one part.
type box struct {
	packets []packetMail
	reads   []readMail
	acks    []ackMail
}

// packetMail is a packet on a cable.
type packetMail struct {
	at   Time // when it is eligible
	port int32
	packet
	cargo cargo // of a packet of a program
}

// readMail is a packet that leaves the buffer behind a lane.
type readMail struct {
	lane       int32
	start, end Time
	rate       Rate
	blocks     uint16
}

// ackMail is an acknowledgement.
type ackMail struct {
	at     Time
	stream int32
}

// note is a call of a hook.
type note struct {
	at     Time
	round  int // how often ports have chosen at that time before
	during uint64
	d      *Delivery
	x      *Drop
	c      *Carried
}

// duringArbitration marks notes of the end of an instant.
const duringArbitration = 1 << 32

func (m *mail) init(n int) {
	m.first, m.direct = Never, true
	for i := range m.boxes {
		m.boxes[i] = make([]box, n)
	}
}

// begin empties the boxes of a turn, whose mail has been read.
func (m *mail) begin(turn int) {
	m.turn, m.first = turn, Never
	for i := range m.boxes[turn] {
		b := &m.boxes[turn][i]
		b.packets, b.reads, b.acks = b.packets[:0], b.reads[:0], b.acks[:0]
	}
	m.notes[turn] = m.notes[turn][:0]
}

// mailPacket sends a packet to a port of another part.
func (e *part) mailPacket(at Time, port, id int32) {
	m := &e.mail
	b := &m.boxes[m.turn][e.owner[port]]
	x := packetMail{at: at, port: port, packet: e.packets[id]}
	if x.flags&flagProgram != 0 {
		x.cargo = e.cargo[id]
	}
	b.packets = append(b.packets, x)
	m.first = min(m.first, at)
	e.release(id)
}

// mailRead tells another part that a port of it will have credits.
func (e *part) mailRead(port int32, r readMail) {
	m := &e.mail
	b := &m.boxes[m.turn][e.owner[port]]
	b.reads = append(b.reads, r)
	m.first = min(m.first, r.start)
}

func (e *part) mailAck(to uint8, a ackMail) {
	m := &e.mail
	b := &m.boxes[m.turn][to]
	b.acks = append(b.acks, a)
	m.first = min(m.first, a.at)
}

// take takes in mail.
func (e *part) take(b *box) {
	for i := range b.packets {
		x := &b.packets[i]
		id := e.newPacket()
		e.packets[id] = x.packet
		if x.flags&flagProgram != 0 {
			e.carry(id, x.cargo)
		}
		e.push(x.at, evEligible, x.port, id)
	}
	for i := range b.reads {
		x := &b.reads[i]
		e.addRead(x.lane, x.start, x.end, x.rate, x.blocks)
	}
	for i := range b.acks {
		e.push(b.acks[i].at, evAck, b.acks[i].stream, 0)
	}
}

// exchange delivers all mail at once.
func (e *Engine) exchange() {
	for _, p := range e.parts {
		if p.mail.first == Never {
			continue
		}
		for k, q := range e.parts {
			q.take(&p.mail.boxes[p.mail.turn][k])
		}
		p.mail.begin(p.mail.turn)
	}
}

// workers is what the parts have in common while they run.
type workers struct {
	ahead Time // the lookahead
	stale bool // it must be found again
	acks  Time // the least delay of an acknowledgement of a closed loop; 0: there is none
	zero  bool // there is a closed loop with a delay of 0
	post  bool // there are streams that hooks may post to

	always bool // in tests: use goroutines however little there is to do
	slots  [2][]slot

	windows uint64 // so far
}

// slot is what a part says of itself between two windows.
type slot struct {
	next, look Time
	_          [48]byte // a cache line for each worker
}

// note notes what the lookahead depends on.
func (w *workers) note(s *Stream) {
	switch {
	case s.Arrival == Posted:
		w.post = true
	case s.Arrival == Closed && s.AckDelay == 0:
		w.zero = true
	case s.Arrival == Closed && (w.acks == 0 || s.AckDelay < w.acks):
		w.acks = s.AckDelay
	}
}

// lookahead is how much later at the earliest what a part does is felt by another.
func (e *Engine) lookahead() Time {
	t := Never
	for i := range e.out {
		o := &e.out[i]
		if !o.far {
			continue
		}
		t = min(t, o.cable+e.cfg.SwitchDelay)
		for v := range e.stride {
			t = min(t, e.outLanes[int32(i)*e.stride+v].tau)
		}
	}
	if e.workers.acks > 0 {
		t = min(t, e.workers.acks)
	}
	if e.workers.zero {
		t = 0
	}
	return t
}

// runParts processes all events before until, or before the detector is to look.
func (e *Engine) runParts(until Time) {
	w := &e.workers
	if w.stale {
		w.stale, w.ahead = false, e.lookahead()
	}
	hooked := e.hooks.OnDeliver != nil || e.hooks.OnDrop != nil
	if w.ahead < minAhead || hooked && w.post {
		e.stepParts(until)
		return
	}
	events := e.startWindows()
	n := len(e.parts)
	if w.always || e.worth(events, until) {
		lockstep.Run(n, func(k int, wait func()) {
			for turn := 0; ; turn ^= 1 {
				to, more := e.window(turn, until)
				if !more {
					return
				}
				e.work(k, turn, to)
				wait()
				e.receive(k, turn)
			}
		})
	} else {
		for turn := 0; ; turn ^= 1 {
			to, more := e.window(turn, until)
			if !more {
				break
			}
			for k := range n {
				e.work(k, turn, to)
			}
			for k := range n {
				e.receive(k, turn)
			}
		}
	}
	e.endWindows()
}

// startWindows prepares the first window, and counts the events that are pending.
func (e *Engine) startWindows() (events int) {
	w := &e.workers
	for i := range w.slots {
		if w.slots[i] == nil {
			w.slots[i] = make([]slot, len(e.parts))
		}
	}
	for k, p := range e.parts {
		w.slots[0][k] = slot{next: p.nextEvent(), look: p.look}
		p.mail.direct = false
		events += p.q.Len()
	}
	return events
}

func (e *Engine) endWindows() {
	for _, p := range e.parts {
		p.mail.begin(0)
		p.mail.direct = true
	}
}

// worth reports whether windows have so many events that goroutines gain more
// than it costs that they wait for each other: some 20 for each worker. A pending
// event is some 500 ns away.
func (e *Engine) worth(events int, until Time) bool {
	span := float64(min(e.workers.ahead, Microsecond)) / float64(500*Nanosecond)
	return float64(events)*span > 20*float64(len(e.parts)) && until-e.now > 20*e.workers.ahead
}

// window is where the next window ends; false: there is none. All workers find
// the same.
func (e *Engine) window(turn int, until Time) (to Time, more bool) {
	from, look := Never, until
	for _, s := range e.workers.slots[turn] {
		from, look = min(from, s.next), min(look, s.look)
	}
	if from >= look {
		return 0, false
	}
	to = look
	if ahead := e.workers.ahead; ahead < to-from {
		to = from + ahead
	}
	if every := e.det.every; every > 0 { // the detector may have to look there
		to = min(to, (from/every+1)*every)
	}
	return to, true
}

// work processes the events of part k before to, and says what is left.
func (e *Engine) work(k, turn int, to Time) {
	if k == 0 {
		e.workers.windows++
	}
	p := e.parts[k]
	p.mail.begin(turn)
	p.run(to)
	e.workers.slots[turn^1][k] = slot{next: min(p.nextEvent(), max(p.mail.first, to)), look: p.look}
}

// receive takes in what the others have sent in a window. The first worker calls
// the hooks.
func (e *Engine) receive(k, turn int) {
	p := e.parts[k]
	for _, from := range e.parts {
		p.take(&from.mail.boxes[turn][k])
	}
	if k == 0 {
		e.callHooks(turn)
	}
}

// callHooks calls hooks for what happened in a window, in the order of a single
// part.
func (e *Engine) callHooks(turn int) {
	at := make([]int, 0, MaxWorkers)
	for range e.parts {
		at = append(at, 0)
	}
	for {
		best := -1
		for k, p := range e.parts {
			if at[k] < len(p.mail.notes[turn]) &&
				(best < 0 || e.before(&p.mail.notes[turn][at[k]], &e.parts[best].mail.notes[turn][at[best]])) {
				best = k
			}
		}
		if best < 0 {
			return
		}
		e.parts[best].call(&e.parts[best].mail.notes[turn][at[best]])
		at[best]++
	}
}

// before is the order of notes. What ports choose may cause events of the same time,
// which come when the ports of all parts have chosen. No part causes such events in
// another, so each counts by itself how often its ports have chosen.
func (e *Engine) before(a, b *note) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.round != b.round {
		return a.round < b.round
	}
	return a.during < b.during
}

func (e *part) call(n *note) {
	switch {
	case n.d != nil:
		e.hooks.OnDeliver(n.d)
	case n.x != nil:
		e.hooks.OnDrop(n.x)
	default:
		e.carriers.report(n.c)
	}
}

func (e *part) tellDelivery(d *Delivery) {
	if m := &e.mail; !m.direct {
		m.notes[m.turn] = append(m.notes[m.turn], note{at: e.now, round: m.round, during: m.during, d: d})
		return
	}
	e.hooks.OnDeliver(d)
}

func (e *part) tellDrop(x *Drop) {
	if m := &e.mail; !m.direct {
		m.notes[m.turn] = append(m.notes[m.turn], note{at: e.now, round: m.round, during: m.during, x: x})
		return
	}
	e.hooks.OnDrop(x)
}

// stepParts is runParts without windows: event by event over all parts, for what
// one part does to another at once. It uses no goroutines.
func (e *Engine) stepParts(until Time) {
	for {
		t, look := Never, until
		for _, p := range e.parts {
			t, look = min(t, p.nextEvent()), min(look, p.look)
		}
		if t >= look {
			return
		}
		for _, p := range e.parts {
			p.now, p.running = t, true
		}
		for p := e.firstEvent(t); p != nil; p = e.firstEvent(t) {
			ev, _ := p.q.PopAt(int64(t))
			p.handle(ev)
			e.exchange()
		}
		for _, p := range e.parts {
			p.running = false
		}
		e.settle()
	}
}

// firstEvent is the part with the first event of an instant, nil: none is left.
func (e *Engine) firstEvent(t Time) (first *part) {
	key := uint32(0)
	for _, p := range e.parts {
		p.q.NextBefore(int64(t) + 1) // what came by mail may be in a bucket
		if ev, ok := p.q.HeadAt(int64(t)); ok && (first == nil || ev.Key < key) {
			first, key = p, ev.Key
		}
	}
	return first
}
