// Package precopy is the live copy of a virtual machine's memory: rounds of pages
// while the machine runs and writes some of them again (pre-copy), and the rest when
// it has been stopped (stop-and-copy).
//
//	c, _ := precopy.New(precopy.Defaults(), seed)
//	c.Start(0)
//	for c.Phase() != precopy.Complete {
//		if c.Phase() == precopy.Pausing {
//			// stop the machine, then
//			c.Paused(now)
//		}
//		if n := c.Next(now); n > 0 {
//			// send n bytes; when the destination has them:
//			c.Arrived(now, n)
//		}
//	}
//
// A Copy is pure: it sends nothing and reads no clock. Times are durations since any
// moment that its user chose, in virtual or in real time, and must not go back. The
// user moves the bytes, so how long a round takes is what its path gives. Several
// chunks may be under way at once.
//
// Programs write pages at a constant rate, each a random one of the part of the
// memory that they use (Config.Hot). A page that was written again before its turn in
// a round is left for the next round, as Xen does. The same seed and the same times
// give the same pages.
package precopy

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Config describes a machine and when its copy stops it. Start from Defaults.
type Config struct {
	Memory int64 // bytes, a multiple of Page
	Page   int   // bytes
	// Dirty is how much programs write while the machine runs, in bytes/s: each page
	// counts whole.
	Dirty float64
	// Hot is the part of the memory that they write, above 0 and at most 1.
	Hot float64
	// Rounds is how many rounds run at most before the machine is stopped, the first
	// included.
	Rounds int
	// Pause: the machine is stopped after a round when what is left would take no
	// longer than this at that round's rate.
	Pause time.Duration
	// Chunk is how many bytes Next gives at most, at least a page.
	Chunk int
}

// Defaults is the machine of Paper V of W. L. Guay's thesis: 512 MB, of which programs
// write 500 Mb/s. Where they write, when Xen stopped it and what a chunk was is not
// published: everywhere, when 50 ms are left or after 29 rounds (Xen's limit), 1 MiB.
func Defaults() Config {
	return Config{Memory: 512 << 20, Page: 4096, Dirty: 500e6 / 8, Hot: 1, Rounds: 29, Pause: 50 * time.Millisecond, Chunk: 1 << 20}
}

// Phase is how far a copy is.
type Phase uint8

// The phases.
const (
	Idle     Phase = iota // Start has not been called
	PreCopy               // the machine runs
	Pausing               // the machine must be stopped now, then Paused be called
	StopCopy              // it is stopped, and the rest is under way
	Complete              // the destination has all
)

// String prints "pre-copy".
func (p Phase) String() string {
	return [...]string{"idle", "pre-copy", "pausing", "stop-and-copy", "complete"}[p]
}

// Round is a round of a copy.
type Round struct {
	Begin, End time.Duration
	Bytes      int64
	Left       int64 // bytes that programs had written again at its end
}

// Copy is the copy of a machine's memory.
type Copy struct {
	cfg   Config
	rng   *rand.Rand
	phase Phase

	dirty  []uint64 // by page: written, or not copied yet, and in no round
	todo   []uint64 // by page: to be sent in this round
	cursor int      // page of todo
	hot    int      // pages that programs write
	wrote  time.Duration
	part   float64 // of a page that is written

	away   int64 // bytes of the round that are under way
	round  Round
	rounds []Round
}

// New prepares the copy of a machine, whose programs write random pages by seed.
func New(c Config, seed uint64) (*Copy, error) {
	switch {
	case c.Page < 1 || c.Memory < int64(c.Page) || c.Memory%int64(c.Page) != 0:
		return nil, fmt.Errorf("precopy: %d bytes of memory are no pages of %d bytes", c.Memory, c.Page)
	case !(c.Hot > 0 && c.Hot <= 1):
		return nil, fmt.Errorf("precopy: programs use %v of the memory, want above 0 and at most 1", c.Hot)
	case !(c.Dirty >= 0) || c.Pause < 0:
		return nil, errors.New("precopy: a rate or a time is negative")
	case c.Rounds < 1 || c.Chunk < c.Page:
		return nil, fmt.Errorf("precopy: %d rounds and chunks of %d bytes, want at least one round and a page", c.Rounds, c.Chunk)
	}
	n := int(c.Memory / int64(c.Page))
	k := &Copy{
		cfg: c, rng: rand.New(rand.NewPCG(seed, 0x7072652d636f7079)), dirty: make([]uint64, (n+63)/64), todo: make([]uint64, (n+63)/64),
		hot: max(1, int(float64(n)*c.Hot)),
	}
	for i := range n {
		k.dirty[i/64] |= 1 << (i % 64)
	}
	return k, nil
}

// Phase is how far the copy is.
func (c *Copy) Phase() Phase { return c.phase }

// Start begins the first round, with all pages.
func (c *Copy) Start(at time.Duration) {
	if c.phase == Idle {
		c.phase, c.wrote = PreCopy, at
		c.begin(at)
	}
}

// begin begins a round with all pages that are dirty.
func (c *Copy) begin(at time.Duration) {
	c.dirty, c.todo = c.todo, c.dirty
	clear(c.dirty)
	c.cursor, c.round = 0, Round{Begin: at}
}

// write has programs write until a time.
func (c *Copy) write(at time.Duration) {
	if c.phase != PreCopy && c.phase != Pausing {
		return
	}
	c.part += c.cfg.Dirty * (at - c.wrote).Seconds() / float64(c.cfg.Page)
	c.wrote = at
	if c.part > 32*float64(c.hot) { // more would change nothing but the time this takes
		c.part = 32 * float64(c.hot)
	}
	for ; c.part >= 1; c.part-- {
		i := c.rng.IntN(c.hot)
		c.dirty[i/64] |= 1 << (i % 64)
	}
}

// Next takes the next chunk that is to be sent, in bytes. 0: there is none now,
// because all of the round is under way or the machine must be stopped.
func (c *Copy) Next(at time.Duration) (bytes int) {
	if c.phase != PreCopy && c.phase != StopCopy {
		return 0
	}
	c.write(at)
	for most := c.cfg.Chunk - c.cfg.Page; bytes <= most; bytes += c.cfg.Page {
		if !c.nextPage() {
			break
		}
	}
	c.away += int64(bytes)
	c.round.Bytes += int64(bytes)
	if bytes == 0 && c.away == 0 {
		c.end(at) // all that was left has been written again
		if c.phase == PreCopy {
			return c.Next(at)
		}
	}
	return bytes
}

// nextPage moves the cursor behind the next page that is to be sent.
func (c *Copy) nextPage() bool {
	for w := c.cursor / 64; w < len(c.todo); w++ {
		x := (c.todo[w] &^ c.dirty[w]) >> (c.cursor % 64)
		if x != 0 {
			c.cursor += bits.TrailingZeros64(x) + 1
			return true
		}
		c.cursor = (w + 1) * 64
	}
	return false
}

// Arrived says that the destination has a chunk of so many bytes.
func (c *Copy) Arrived(at time.Duration, bytes int) {
	c.write(at)
	c.away -= int64(bytes)
	if c.away > 0 || c.phase != PreCopy && c.phase != StopCopy {
		return
	}
	was := c.cursor
	if more := c.nextPage(); more {
		c.cursor = was
		return
	}
	c.end(at)
}

// end ends a round and decides what comes.
func (c *Copy) end(at time.Duration) {
	c.round.End, c.round.Left = at, c.left()
	c.rounds = append(c.rounds, c.round)
	if c.phase == StopCopy {
		c.phase = Complete
		return
	}
	took := c.round.End - c.round.Begin
	rest := time.Duration(0)
	switch {
	case c.round.Bytes > 0:
		rest = time.Duration(float64(c.round.Left) / float64(c.round.Bytes) * float64(took))
	case c.round.Left > 0: // everything was written again
		rest = c.cfg.Pause + 1
	}
	if rest <= c.cfg.Pause || len(c.rounds) >= c.cfg.Rounds {
		c.phase = Pausing
		return
	}
	c.begin(at)
}

// left is how many bytes are dirty.
func (c *Copy) left() (n int64) {
	for _, w := range c.dirty {
		n += int64(bits.OnesCount64(w))
	}
	return n * int64(c.cfg.Page)
}

// Paused says that the machine is stopped: it writes no more, and the rest can be
// sent. Before Pausing it ends pre-copy at once; chunks that are under way count for
// the last round.
func (c *Copy) Paused(at time.Duration) {
	if c.phase != PreCopy && c.phase != Pausing {
		return
	}
	c.write(at)
	if c.phase == PreCopy {
		for w := range c.todo { // what has not had its turn
			switch {
			case c.cursor >= (w+1)*64:
				c.todo[w] = 0
			case c.cursor > w*64:
				c.todo[w] &^= 1<<(c.cursor%64) - 1
			}
			c.dirty[w] |= c.todo[w]
		}
		c.round.End, c.round.Left = at, c.left()
		c.rounds = append(c.rounds, c.round)
	}
	c.phase = StopCopy
	c.begin(at)
	if c.away == 0 && c.left() == 0 && c.none() {
		c.end(at)
	}
}

// none reports whether the round has no page.
func (c *Copy) none() bool {
	for _, w := range c.todo {
		if w != 0 {
			return false
		}
	}
	return true
}

// Rounds lists the rounds that have ended; the last of a complete copy is
// stop-and-copy.
func (c *Copy) Rounds() []Round { return c.rounds }

// Moved is how many bytes have been taken by Next.
func (c *Copy) Moved() (n int64) {
	for i := range c.rounds {
		n += c.rounds[i].Bytes
	}
	if c.phase == PreCopy || c.phase == StopCopy {
		n += c.round.Bytes
	}
	return n
}

// Forecast is what a copy takes at a constant rate.
type Forecast struct {
	PreCopy, StopCopy time.Duration
	Bytes             int64
	Rounds            int // of pre-copy
}

// Predict computes what a copy takes at a constant rate in bytes/s, chunk after chunk.
func Predict(c Config, seed uint64, rate float64) (Forecast, error) {
	if !(rate > 0) {
		return Forecast{}, fmt.Errorf("precopy: a rate of %v bytes/s", rate)
	}
	k, err := New(c, seed)
	if err != nil {
		return Forecast{}, err
	}
	at, stopped := time.Duration(0), time.Duration(0)
	k.Start(at)
	for k.Phase() != Complete {
		if k.Phase() == Pausing {
			stopped = at
			k.Paused(at)
			continue
		}
		if n := k.Next(at); n > 0 {
			at += time.Duration(float64(n) / rate * 1e9)
			k.Arrived(at, n)
		}
	}
	return Forecast{PreCopy: stopped, StopCopy: at - stopped, Bytes: k.Moved(), Rounds: len(k.Rounds()) - 1}, nil
}
