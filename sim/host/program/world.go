package program

import (
	"fmt"

	"heddle/ib"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// Step is a step of a rank: it computes, then sends to each of To, and goes on when
// its sends are acknowledged and a message of each of From has come. A rank named
// twice counts twice.
type Step struct {
	Compute  Time
	To, From []int
	Bytes    int
}

// World is a parallel program: ranks on hosts, connected as their steps want.
type World struct {
	ranks []*rank
	local Time
}

// rank is a process.
type rank struct {
	w     *World
	num   int
	a     *adapter.Adapter
	steps []Step
	at    int // step; len(steps): ended

	to       map[int]*adapter.Connection // by rank
	from     map[*adapter.Connection]int
	posted   map[int]uint64
	got      map[int]uint64
	need     map[int]uint64
	unsent   int
	computes bool
	ended    bool
	endedAt  Time
	began    []Time // of steps
	failed   rc.Status
	bad      error
}

// Links says how a World connects hosts.
type Links struct {
	Options adapter.Options
	Sender  rc.Sender
	// Path is the path from one adapter to another.
	Path func(from, to *adapter.Adapter) (rc.Path, error)
	// Peer names an adapter for Connection.Peer; nil: not at all.
	Peer func(a *adapter.Adapter) ib.GID
	// Local is the time of a message between ranks of one host.
	Local Time
}

// NewWorld places rank i on hosts[i] and connects all pairs that exchange messages.
func NewWorld(hosts []*adapter.Adapter, steps [][]Step, l Links) (*World, error) {
	w := &World{local: l.Local}
	for i, a := range hosts {
		r := &rank{
			w: w, num: i, a: a, steps: steps[i], to: map[int]*adapter.Connection{}, from: map[*adapter.Connection]int{},
			posted: map[int]uint64{}, got: map[int]uint64{}, need: map[int]uint64{},
		}
		w.ranks = append(w.ranks, r)
	}
	for i, list := range steps {
		for _, s := range list {
			for _, j := range s.To {
				if err := w.connect(i, j, l); err != nil {
					return nil, err
				}
			}
		}
	}
	return w, nil
}

func (w *World) connect(i, j int, l Links) error {
	x, y := w.ranks[i], w.ranks[j]
	if x.a == y.a || x.to[j] != nil {
		return nil
	}
	there, err := l.Path(x.a, y.a)
	if err != nil {
		return err
	}
	back, err := l.Path(y.a, x.a)
	if err != nil {
		return err
	}
	c, d, err := Pair(x.a, y.a, l.Options, l.Sender, there, back, x, y)
	if err != nil {
		return err
	}
	if l.Peer != nil {
		c.SetPeer(l.Peer(y.a))
		d.SetPeer(l.Peer(x.a))
	}
	x.to[j], x.from[c] = c, j
	y.to[i], y.from[d] = d, i
	return nil
}

// Run starts all ranks.
func (w *World) Run() {
	for _, r := range w.ranks {
		r.begin()
	}
}

// Ended reports whether all ranks are at their end, and since when.
func (w *World) Ended() (all bool, at Time) {
	all = true
	for _, r := range w.ranks {
		all = all && r.ended
		at = max(at, r.endedAt)
	}
	return all, at
}

// Step is the least step that a rank is at.
func (w *World) Step() int {
	n := w.ranks[0].at
	for _, r := range w.ranks {
		n = min(n, r.at)
	}
	return n
}

// Check reports a message that was lost, doubled or out of order, or a connection
// that failed.
func (w *World) Check() error {
	for _, r := range w.ranks {
		if r.bad != nil {
			return r.bad
		}
		if r.failed != rc.Success {
			return fmt.Errorf("program: a send of rank %d: %v", r.num, r.failed)
		}
	}
	return nil
}

// Began are the times at which a rank began its steps so far, and after the last one its end.
func (w *World) Began(rank int) []Time { return w.ranks[rank].began }

// begin begins a step.
func (r *rank) begin() {
	r.began = append(r.began, r.a.Now())
	if r.at == len(r.steps) {
		r.ended, r.endedAt = true, r.a.Now()
		return
	}
	s := &r.steps[r.at]
	for _, j := range s.From {
		r.need[j]++
	}
	if s.Compute > 0 {
		r.computes = true
		r.a.After(r.a.Now()+s.Compute, r, compute)
		return
	}
	r.send()
}

// compute is the token of Due that ends computing; lower ones are ranks of this host
// whose message has come.
const compute = 1 << 32

// send sends what a step sends.
func (r *rank) send() {
	s := &r.steps[r.at]
	r.unsent += len(s.To)
	for _, j := range s.To {
		c := r.to[j]
		if c == nil { // on this host
			r.unsent--
			r.a.After(r.a.Now()+r.w.local, r.w.ranks[j], uint64(r.num))
			continue
		}
		r.posted[j]++
		if err := c.Post(r.posted[j], s.Bytes); err != nil && r.bad == nil {
			r.bad = err
		}
	}
	r.next()
}

// next goes on to the next step if this one is complete.
func (r *rank) next() {
	if r.computes || r.unsent > 0 || r.at == len(r.steps) {
		return
	}
	for _, j := range r.steps[r.at].From {
		if r.got[j] < r.need[j] {
			return
		}
	}
	r.at++
	r.begin()
}

// Sent implements adapter.Program.
func (r *rank) Sent(_ *adapter.Connection, _ uint64, st rc.Status) {
	if st != rc.Success {
		if r.failed == rc.Success {
			r.failed = st
		}
		return
	}
	r.unsent--
	r.next()
}

// Received implements adapter.Program.
func (r *rank) Received(c *adapter.Connection, message uint64, _ int) {
	j := r.from[c]
	r.got[j]++
	if message != r.got[j] && r.bad == nil {
		r.bad = fmt.Errorf("program: rank %d has message %d of rank %d where %d must come", r.num, message, j, r.got[j])
	}
	r.next()
}

// Happened implements adapter.Program.
func (r *rank) Happened(*adapter.Connection, rc.Event) {}

// Due implements adapter.Program.
func (r *rank) Due(token uint64) {
	if token == compute {
		r.computes = false
		r.send()
		return
	}
	r.got[int(token)]++
	r.next()
}
