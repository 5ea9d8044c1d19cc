package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/heap"
	"heddle/mad"
	"heddle/store"
	"heddle/store/journal"
)

// world is two managers, their disks, both channels and the fabric, in virtual time.
type world struct {
	t    testing.TB
	r    *rand.Rand
	now  mad.Time
	next int // order of events of one time
	due  heap.Heap[mad.Time, func()]
	site [2]*site

	cut    [2]bool   // channels that carry nothing
	oneWy  [2]int    // channel carries nothing from this site (1 or 2; 0: both ways work)
	loss   [2][2]int // by site and channel: percent of its signs that are lost
	split  bool      // the fabric is in two halves
	deaf   bool      // SMInfo is not answered
	port   [2]bool   // ports that are active
	third  third     // of another vendor
	single single    // a Heddle that is not of the pair
	spared *site     // is not killed; nil: both may be
	soak   *soak     // nil: clients ask for changes of one key each

	acked   map[uint64]acked  // by change
	number  map[string]uint64 // of the entry, by key
	forks   int               // fork files
	last    mad.Time          // of them
	nextID  uint64
	size    int        // bytes more of each change
	quiet   bool       // nothing is lost or late by chance
	turns   []turn     // who became active
	loud    []mad.Time // takeovers that said that entries may be missing
	begun   int        // takeovers that began to write this down; a crash may come before they say it
	log     []string
	notices [2][]Notice // by site

	forked  bool     // two histories are possible now
	forkEnd mad.Time // or were until then; 0: never
	both    bool     // entries count on each manager alone, as of its disk
	whole   bool     // no fault makes two histories
	history *history // nil: none is kept
	healthy mad.Time // since when one is active, and both are a pair; or mad.Never
}

// turn is a manager that became active.
type turn struct {
	at  mad.Time
	by  int
	why Why
}

type acked struct {
	at    mad.Time
	by    int
	alone bool
	fork  bool // as one of two histories
}

// site is one manager's host.
type site struct {
	w       *world
	i       int
	core    *Core
	life    int // grows with each crash
	disk    journal.Store
	times   Clock
	wrote   map[string]bool // keys that were ever on its disk
	boot    uint64          // the highest in a note of it
	sync    []Command       // commands at the disk that have not begun
	busy    bool
	doing   Command       // being carried out
	slow    time.Duration // more time of each command
	full    bool          // writes fail, and change nothing
	fullFor bool          // ... but those of notes
	fails   int           // commands that fail
	written bool          // ... but are written all the same
	unread  bool          // ... and the last entry of a disk that failed is not known
	alone   bool          // its note says so
	solo    int           // the life in which its note said first that the peer may lack what counted; 0: it does not
	forked  bool          // the last note that says so was given to the disk while two histories were possible
	began   journal.Term  // of its own, in which entries count, as its note says
	wall    time.Duration // what its wall clock is ahead
	stop    bool          // SIGSTOP
	held    []func()      // what came while it was stopped
	wake    mad.Time      // of the last timer that was asked for
	drive   bool          // it drives the fabric
	sm      int           // who is the SM of this port: 0 or 1, -1 nobody
	// speed of its clock: 0.953 to 1.048, so that one may be 10 % faster than the other
	speed  float64
	zero   mad.Time
	looked mad.Time          // its clock when its port named it last
	view   [registers]uint64 // of an active manager
	mine   *stream           // the stream that it made
	// unproved: it became active without a loud word, and has acknowledged nothing in its term.
	unproved bool
	theirs   *stream // the one of the other site that its core knows of
}

type stream struct {
	from, to *site
	fromLife int
	toLife   int
	open     bool
	last     mad.Time // arrival of the last message each way: in order
	back     mad.Time
}

func (w *world) at(d time.Duration, f func()) {
	w.next++
	w.due.Push(w.now.Add(max(d, 0)), uint64(w.next), f)
}

func (w *world) run(until mad.Time) {
	for w.due.Len() > 0 && w.due.Min().Key <= until {
		e := w.due.Pop()
		w.now = e.Key
		e.Value()
	}
	w.now = until
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8.3f ", float64(w.now)/1e9)+fmt.Sprintf(format, args...))
}

func newWorld(t testing.TB, seed uint64) *world {
	return newWorldOn(t, seed, func(w *world, _ int) journal.Store { return journal.NewMemory(1 + w.r.IntN(300)) })
}

// newWorldOn returns a world with the given disks.
func newWorldOn(t testing.TB, seed uint64, disk func(w *world, i int) journal.Store) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 77)), port: [2]bool{true, true}, acked: map[uint64]acked{}, number: map[string]uint64{}, now: 1e9, healthy: mad.Never}
	for i := range 2 {
		w.site[i] = &site{w: w, i: i, disk: disk(w, i), wrote: map[string]bool{}, sm: -1, speed: 0.953 + 0.095*w.r.Float64()}
	}
	if w.r.IntN(4) == 0 {
		fast := w.r.IntN(2)
		w.site[fast].speed, w.site[1-fast].speed = 1.048, 0.953
	}
	for _, s := range w.site {
		s.start()
	}
	return w
}

// clock is the site's own time.
func (s *site) clock() mad.Time { return mad.Time(float64(s.w.now-s.zero)*s.speed) + 5e9 }

// unix is its wall clock.
func (s *site) unix() time.Duration { return s.w.now.Sub(0) + s.wall + 10*time.Hour }

func (s *site) other() *site { return s.w.site[1-s.i] }

func (s *site) start() {
	s.life++
	s.w.logf("%d starts", s.i)
	s.core = New(Defaults(ib.GUID(10+s.i), ib.GUID(11-s.i)))
	s.zero = s.w.now
	s.times.Start(s.clock(), int64(s.unix()))
	if s.w.soak != nil {
		s.w.soak.restarted(s)
	}
	s.doing = nil
	s.sync, s.busy, s.stop, s.held, s.drive, s.mine, s.theirs, s.wake = nil, false, false, nil, false, nil, nil, 0
	last, err := s.disk.Last()
	if err != nil {
		s.w.t.Fatal(err)
	}
	note, err := s.disk.Note()
	if err != nil {
		s.w.t.Fatal(err)
	}
	var begin *journal.Begin
	if list, err := s.disk.Entries(last.Number, 1); err == nil && len(list) > 0 {
		begin = list[0].Begin
	}
	s.step(Start{Last: last, Begin: begin, Note: note, Boot: uint64(s.unix() / time.Second)})
	s.dial()
}

// crash ends the process, or the host. What was being written is there or not, as a whole,
// because a store is atomic; what came after it is lost.
func (s *site) crash() {
	s.w.logf("%d crashes", s.i)
	if c := s.doing; c != nil && s.fails == 0 && !s.full && s.w.r.IntN(2) == 0 {
		s.apply(c)
	}
	s.life++
	s.core = nil
	s.drive = false
	for _, x := range s.w.site {
		if m := x.mine; m != nil && (m.from == s || m.to == s) {
			s.w.breakStream(m, s.w.r.IntN(2) == 0)
		}
	}
}

// later runs f at the site if it is the same process then.
func (s *site) later(d time.Duration, f func()) {
	life := s.life
	s.w.at(d, func() {
		if s.core == nil || s.life != life {
			return
		}
		if s.stop {
			s.held = append(s.held, f)
			return
		}
		f()
	})
}

func (s *site) step(ev Event) {
	if s.core == nil {
		return
	}
	var out Output
	out.Reset()
	s.core.Step(s.clock(), ev, &out)
	s.do(&out)
	s.w.check()
}

func (w *world) lag(most time.Duration) time.Duration {
	if !w.quiet && w.r.IntN(40) == 0 {
		most *= 20
	}
	return time.Duration(w.r.Int64N(int64(most))) + 1
}

func (s *site) do(out *Output) {
	w := s.w
	for _, c := range out.Disk {
		s.command(c)
	}
	for _, d := range out.Done {
		s.done(d)
	}
	if out.Yield {
		s.drive = false
		w.logf("%d yields", s.i)
	}
	if out.Grant != nil {
		w.logf("%d is active: %v, %v", s.i, out.Grant.Why, s.core.term)
		s.drive = true
		w.turns = append(w.turns, turn{w.now, s.i, out.Grant.Why})
		s.granted(out.Grant)
		until := out.Grant.Until
		s.later(w.lag(100*time.Millisecond), func() { s.fence(until) })
	}
	if out.Close && s.mine != nil {
		w.breakStream(s.mine, true)
		s.mine = nil
	}
	if out.Hangup && s.theirs != nil {
		w.breakStream(s.theirs, true)
		s.theirs = nil
	}
	for _, m := range out.Sends {
		s.send(m)
	}
	if out.Sign != nil {
		for ch := range 2 {
			o := s.other()
			if !w.carries(s.i, Channel(ch)) || w.r.IntN(100) < w.loss[s.i][ch] || !w.quiet && w.r.IntN(50) == 0 || o.core == nil {
				if Channel(ch) == Fabric {
					s.later(150*time.Millisecond, func() { s.step(Unanswered{}) })
				}
				continue
			}
			sign := *out.Sign
			if sign.Active {
				sign.Wall = s.times.At(s.clock())
			}
			o.later(w.lag(5*time.Millisecond), func() {
				if o.core.role == Standby {
					o.times.Heard(o.clock(), sign.Boot, sign.Wall)
				}
				o.step(Heard{Channel(ch), sign})
			})
		}
	}
	if out.Probe {
		begun := s.clock()
		s.later(w.lag(5*time.Millisecond), func() {
			mine := s.sm == s.i
			port := w.port[s.i]
			master := s.master()
			s.later(w.lag(5*time.Millisecond), func() { s.step(Probed{Begun: begun, Port: port, Fabr: port, Mine: mine, Master: master}) })
		})
	}
	for _, n := range out.Notices {
		w.notices[s.i] = append(w.notices[s.i], n)
		w.logf("%d notice %d %v %v %v", s.i, n.Kind, n.Why, n.Err, n.Mark)
	}
	s.wake = out.Wake
	if out.Wake != mad.Never {
		d := time.Duration(float64(out.Wake.Sub(s.clock())) / s.speed)
		s.later(d+time.Microsecond, func() {
			if s.wake == out.Wake {
				s.wake = 0
				s.step(Timer{})
			}
		})
	}
}

// carries reports whether a channel carries what site i sends.
func (w *world) carries(i int, ch Channel) bool {
	if w.cut[ch] || w.oneWy[ch] == i+1 {
		return false
	}
	return ch == Stream || !w.split && w.port[0] && w.port[1]
}

// command carries out one command after the other.
func (s *site) command(c Command) {
	s.sync = append(s.sync, c)
	if n, ok := c.(SetNote); ok && must(decodeNote(n.Note)).alone {
		s.forked = s.w.maybeFork()
	}
	if a, ok := c.(Append); ok && a.Entry.Begin != nil && a.Entry.Term.Owner == s.core.cfg.Me {
		if r := a.Entry.Begin.Reason; r == WhyStale.String() || r == WhyAsked.String() {
			s.w.begun++
		}
	}
	s.pump()
}

func (s *site) pump() {
	if s.busy || len(s.sync) == 0 {
		return
	}
	s.busy, s.doing = true, s.sync[0]
	s.sync = s.sync[1:]
	life := s.life
	s.w.at(s.slow+s.w.lag(3*time.Millisecond), func() {
		if s.core != nil && s.life == life {
			s.carryOut()
		}
	})
}

func (s *site) carryOut() {
	c := s.doing
	s.doing = nil
	var d Did
	_, reads := c.(ReadEntries)
	if _, ok := c.(ReadState); ok {
		reads = true
	}
	switch {
	case s.full && !reads, s.fullFor && isAppend(c):
		d.Err = errFull
	case s.fails > 0:
		s.fails--
		if !reads && (s.written || s.w.r.IntN(3) == 0) {
			s.apply(c) // a write whose sync fails may be there all the same
		}
		d.Err = errIO
	default:
		d = s.apply(c)
	}
	if d.Err != nil && !s.unread && s.w.r.IntN(4) > 0 {
		d.Mark = must(s.disk.Last())
	}
	// The answer may be lost with a crash, or late by a stop.
	s.later(s.w.lag(time.Millisecond), func() {
		s.busy = false
		s.pump()
		s.step(d)
	})
}

func isAppend(c Command) bool { _, is := c.(Append); return is }

// apply carries a command out at a disk that works.
func (s *site) apply(c Command) (d Did) {
	switch c := c.(type) {
	case Append:
		before := must(s.disk.Last())
		if d.Err = s.disk.Append(&c.Entry); d.Err == nil {
			if before.Term.Compare(c.Entry.Term) > 0 {
				s.w.fail("%v follows %v", c.Entry.Mark, before)
			}
			for i := range c.Entry.Ops {
				s.wrote[string(c.Entry.Ops[i].Record.Key)] = true
				s.w.number[string(c.Entry.Ops[i].Record.Key)] = c.Entry.Number
			}
		}
	case SetNote:
		n := must(decodeNote(c.Note))
		if n.boot < s.boot {
			s.w.fail("start %d of %d follows start %d", n.boot, s.i, s.boot)
		}
		if n.solo && s.solo == 0 {
			s.solo = s.life
		} else if !n.solo {
			s.solo = 0
		}
		s.boot, s.alone, s.began = n.boot, n.alone, n.began
		d.Err = s.disk.SetNote(c.Note)
	case ReadEntries:
		d.Entries, d.Err = s.disk.Entries(c.From, c.Size)
	case ReadState:
		d.State, d.Err = s.disk.Load()
		d.Mark, _ = s.disk.Last()
	case Replace:
		if before := must(s.disk.Last()); before.Term.Compare(c.At.Term) > 0 {
			s.w.fail("a state of %v replaces one of %v", c.At, before)
		}
		s.replaced(&c)
		d.Err = s.disk.Replace(c.State, c.At)
	}
	return d
}

func (s *site) done(d Done) {
	w := s.w
	if w.history != nil {
		w.history.answered(s, d)
	}
	if w.soak != nil {
		w.soak.done(s, d, s.core.active.alone)
		return
	}
	if d.Err != nil {
		return
	}
	if !s.wrote[string(key(d.ID))] {
		w.fail("change %d counts, but its manager %d has it not on its disk", d.ID, s.i)
	}
	if _, ok := w.acked[d.ID]; ok {
		w.fail("change %d is answered twice", d.ID)
	}
	w.last = w.now
	s.proved()
	alone := s.core.active.alone
	if alone && !s.alone {
		w.fail("change %d counts on %d alone, and its disk does not say so", d.ID, s.i)
	}
	w.acked[d.ID] = acked{w.now, s.i, alone, alone && (w.maybeFork() || s.other().isAlone() || w.unheard(s))}
}

// key is the record that a change writes.
func key(id uint64) []byte { return fmt.Appendf(nil, "%08d", id) }

func (s *site) ask() {
	w := s.w
	if s.core == nil || s.stop {
		return
	}
	w.nextID++
	rec := store.Record{Table: store.TableServices, Key: key(w.nextID), Value: append(make([]byte, w.size), byte(s.i))}
	ops := []store.Op{{Kind: store.PutRecord, Record: rec}}
	if w.history != nil {
		w.history.read(s)
		ops = append(ops, w.history.asked(w, w.nextID))
	}
	s.step(Change{ID: w.nextID, Wall: int64(s.unix()), Ops: ops})
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.log {
		w.t.Log(l)
	}
	w.t.Fatalf(format, args...)
}
