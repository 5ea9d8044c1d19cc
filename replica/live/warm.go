package live

import (
	"bytes"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"heddle/replica/wire"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

// The active manager shows the standby what it publishes, so that the standby can answer from it when
// it takes over. Nothing acknowledges that. It goes in pieces when no entry waits, so an entry waits
// for one piece at most. While a message is under way only the newest snapshot waits for the next one.

const (
	// pieceLen is how much goes at a time.
	pieceLen = wire.MaxFrame - 64
	// warmAge is how long what was shown counts after the stream has ended.
	warmAge = time.Minute
)

// warm is what is shown, and what the peer has shown.
type warm struct {
	mu     sync.Mutex
	shown  *subnet.Snapshot // by the manager here; nil: none. Guarded by mu
	past   uint64           // the last mastership that has ended; guarded by mu
	mirror mirror.Mirror    // of the peer's; guarded by mu
	has    bool             // the mirror is that of a stream; guarded by mu
	ended  time.Time        // when that stream ended, zero: it is open; guarded by mu
	from   *seen            // that stream; guarded by mu
}

// Show returns the function with which the managers of the current mastership send their snapshots
// to the peer; call it in OnActive, or after. After the mastership the function does nothing,
// because its managers may still call it.
func (p *Pair) Show() func(*subnet.Snapshot) {
	reign := p.reign.Load()
	return func(s *subnet.Snapshot) {
		p.warm.mu.Lock()
		over := reign <= p.warm.past
		if !over {
			p.warm.shown = s
		}
		p.warm.mu.Unlock()
		if !over {
			p.tryPost(func() {
				if st := p.streams.theirs; st != nil {
					st.showLatest()
				}
			})
		}
	}
}

// showNothing ends what the managers of the present mastership show.
func (p *Pair) showNothing() {
	p.warm.mu.Lock()
	defer p.warm.mu.Unlock()
	p.warm.shown, p.warm.past = nil, p.reign.Load()
}

// tryPost is post that does not wait; the next snapshot is shown in any case.
func (p *Pair) tryPost(f func()) {
	select {
	case p.events <- f:
	default:
	}
}

// counts reports whether what the peer has shown is known and not old. It is called with mu held.
func (w *warm) counts() bool {
	return w.has && (w.ended.IsZero() || time.Since(w.ended) <= warmAge)
}

// isWarm reports whether Warm would return a snapshot.
func (p *Pair) isWarm() bool {
	w := &p.warm
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts()
}

// Warm is the last snapshot of the active peer, nil if that is not known or old.
func (p *Pair) Warm() *subnet.Snapshot {
	w := &p.warm
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counts() {
		return nil
	}
	s := w.mirror.Snapshot()
	w.mirror, w.has, w.from = mirror.Mirror{}, false, nil
	return s
}

// Shown is the last snapshot of the active peer, nil if that is not known or old. It does not end
// the updates, as Warm does.
func (p *Pair) Shown() *subnet.Snapshot {
	w := &p.warm
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.has || !w.ended.IsZero() && time.Since(w.ended) > warmAge {
		return nil
	}
	return w.mirror.Snapshot()
}

// showing is what a stream shows.
type showing struct {
	enc  *mirror.Encoder
	next *subnet.Snapshot // to be shown; nil: none
	busy bool             // next is being encoded
	rest []byte           // of the message under way
}

// showLatest shows the newest snapshot, after the message under way.
func (st *stream) showLatest() {
	w := &st.p.warm
	w.mu.Lock()
	s := w.shown
	w.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if s != nil && !st.closed {
		st.show.next = s
		st.show.begin(st)
	}
}

// begin has the next snapshot encoded, unless a message is under way. It is called with st.mu held.
func (x *showing) begin(st *stream) {
	if x.busy || len(x.rest) > 0 || x.next == nil {
		return
	}
	if x.enc == nil {
		x.enc = mirror.NewEncoder(st.p.nonce)
	}
	s, enc := x.next, x.enc
	x.next, x.busy = nil, true
	go func() {
		b := bytes.Clone(enc.Next(s))
		st.mu.Lock()
		defer st.mu.Unlock()
		if !st.closed {
			st.show.busy, st.show.rest = false, b
			st.ring()
		}
	}()
}

// piece is the next piece of the message under way, nil without any. It is called with st.mu held.
func (x *showing) piece(st *stream) *wire.Shown {
	n := min(len(x.rest), pieceLen)
	if n == 0 {
		return nil
	}
	m := &wire.Shown{Piece: x.rest[:n], Last: n == len(x.rest)}
	if x.rest = x.rest[n:]; m.Last {
		x.rest = nil
		x.begin(st)
	}
	return m
}

// seen takes what a stream of the peer shows. Messages are applied on a goroutine of their own: a whole
// one takes longer than entries may wait.
type seen struct {
	p    *Pair
	part []byte       // of a message that has not ended
	list chan []byte  // messages
	held atomic.Int64 // bytes of the messages in list, and of the one that is being applied
	most int64        // of held and part
	lost bool         // a message was dropped: what follows is of no use
	over bool         // the stream has ended; guarded by warm.mu
	dead bool         // what it shows is not followed any more; guarded by warm.mu
}

// seenMessages is how many messages may wait to be applied. With the message that has not ended they
// have mirror.MaxMessage bytes at most.
const seenMessages = 64

func newSeen(p *Pair) *seen { return &seen{p: p, most: mirror.MaxMessage} }

func (x *seen) take(piece *wire.Shown) {
	if x.lost {
		return
	}
	if x.part = append(x.part, piece.Piece...); int64(len(x.part))+x.held.Load() > x.most {
		x.drop("more came than can be kept")
		return
	}
	if !piece.Last {
		return
	}
	if x.list == nil {
		x.list = make(chan []byte, seenMessages)
		go x.apply(x.list)
	}
	x.held.Add(int64(len(x.part)))
	select {
	case x.list <- x.part:
	default:
		x.drop("too many wait")
	}
	x.part = nil
}

// drop ends the mirror of this stream.
func (x *seen) drop(why string) {
	x.lost, x.part = true, nil
	x.p.log.Warn("what the other manager publishes is not followed: a takeover reads the subnet first", "why", why)
	w := &x.p.warm
	w.mu.Lock()
	defer w.mu.Unlock()
	x.giveUp()
}

// giveUp forgets what the stream has shown: it is not followed any more, so it would never be old. It
// is called with warm.mu held.
func (x *seen) giveUp() {
	x.dead = true
	if w := &x.p.warm; w.from == x {
		w.has, w.from, w.mirror = false, nil, mirror.Mirror{}
	}
}

func (x *seen) end() {
	if x.list != nil {
		close(x.list)
	}
	w := &x.p.warm
	w.mu.Lock()
	defer w.mu.Unlock()
	x.over = true
	if w.from == x {
		w.ended = time.Now()
	}
}

// apply applies messages until the stream ends. The snapshot is made when no further message waits.
func (x *seen) apply(list <-chan []byte) {
	w, tidy := &x.p.warm, false
	for b := range list {
		w.mu.Lock()
		if x.dead {
			w.mu.Unlock()
			x.held.Add(-int64(len(b)))
			continue
		}
		err := w.mirror.Apply(b)
		whole := err == nil && len(list) == 0
		if err == nil {
			w.has, w.ended, w.from = true, time.Time{}, x
			if x.over { // messages waited
				w.ended = time.Now()
			}
			if whole {
				w.mirror.Snapshot()
			}
		} else {
			x.giveUp()
		}
		w.mu.Unlock()
		x.held.Add(-int64(len(b)))
		if err != nil {
			x.p.log.Warn("what the other manager publishes is not followed: a takeover reads the subnet first", "err", err)
			for b := range list { // until the stream ends
				x.held.Add(-int64(len(b)))
			}
			return
		}
		if whole && x.p.cfg.OnShown != nil {
			x.p.cfg.OnShown()
		}
		if whole && !tidy {
			// The first message and what is made of it leave as much garbage as they are long, and a
			// manager that was active has left its own. A standby makes so little that the runtime would
			// keep all that for minutes.
			tidy, b = true, nil
			debug.FreeOSMemory()
		}
	}
}
