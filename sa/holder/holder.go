// Package holder estimates which paths hosts hold, from the answers that they got. The estimate
// errs to one side: a path that a host may hold is never denied.
//
// Note, Keep, May and Known may be called from any goroutine, and concurrently with every other method. The
// other methods belong to one goroutine, the SA's.
//
// Memory: 32 bytes for each unicast LID, and up to 384 for each source LID that asked: at most 21 MB
// for 49,151 LIDs.
package holder

import (
	"math/bits"
	"sync/atomic"

	"heddle/ib"
)

const (
	words = 16 // of a set: 1,024 bits, one for each value of the hash of a destination
	// dense is how many bits make a set say nothing: it then stands for all destinations.
	dense = words * 64 / 2
)

// Table holds, for each base LID of a source, the destinations that it may hold paths to. The
// zero value knows of no source, so that each may hold any path.
type Table struct {
	sources [int(ib.LIDMaxUnicast) + 1]source
}

// source has two sets while it learns: all paths that may be held, and those asked for since the
// host was notified that any path may have changed. A nil now means that nothing is known.
type source struct {
	now, next atomic.Pointer[set]
	// before is what now was before the last Learned; keeps: the host asks for what changed, and
	// keeps the rest without asking.
	before atomic.Pointer[set]
	keeps  atomic.Bool
}

type set [words]atomic.Uint64

func bit(dst ib.LID) (word int, mask uint64) {
	h := uint32(dst) * 0x9E3779B1 >> 22 // 10 bits
	return int(h >> 6), 1 << (h & 63)
}

func (s *set) note(dst ib.LID) {
	w, m := bit(dst)
	if s[w].Load()&m == 0 { // the common case does not write
		s[w].Or(m)
	}
}

// Note records that a path from src to dst, base LIDs, was handed out. The peer of a connection
// uses the reverse path without asking for it, so both ends may hold a path then.
func (t *Table) Note(src, dst ib.LID) {
	t.note(src, dst)
	t.note(dst, src)
}

func (t *Table) note(src, dst ib.LID) {
	if int(src) >= len(t.sources) {
		return
	}
	x := &t.sources[src]
	if s := x.now.Load(); s != nil {
		s.note(dst)
	}
	if s := x.next.Load(); s != nil {
		s.note(dst)
	}
}

// Known reports whether the table knows which paths src may hold.
func (t *Table) Known(src ib.LID) bool {
	return int(src) < len(t.sources) && t.sources[src].now.Load() != nil
}

// May reports whether src may hold a path to dst.
func (t *Table) May(src, dst ib.LID) bool {
	s := t.set(src)
	if s == nil {
		return true
	}
	w, m := bit(dst)
	return s[w].Load()&m != 0
}

// Any reports whether src may hold any path.
func (t *Table) Any(src ib.LID) bool {
	s := t.set(src)
	return s == nil || s.ones() > 0
}

// set is what src may hold; nil: anything.
func (t *Table) set(src ib.LID) *set {
	if int(src) >= len(t.sources) {
		return nil
	}
	s := t.sources[src].now.Load()
	if s == nil || s.ones() > dense {
		return nil
	}
	return s
}

func (s *set) ones() (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i].Load())
	}
	return n
}

// Clear is for a source that is new in the subnet: it holds no path.
func (t *Table) Clear(src ib.LID) {
	if int(src) < len(t.sources) {
		t.sources[src].now.Store(new(set))
		t.sources[src].before.Store(t.sources[src].now.Load())
		t.sources[src].next.Store(nil)
	}
}

// Forget is for a source of which nothing is known any more.
func (t *Table) Forget(src ib.LID) {
	if int(src) < len(t.sources) {
		t.sources[src].now.Store(nil)
		t.sources[src].before.Store(nil)
		t.sources[src].next.Store(nil)
		t.sources[src].keeps.Store(false)
	}
}

// Reset forgets all sources.
func (t *Table) Reset() {
	for l := range t.sources {
		t.Forget(ib.LID(l))
	}
}

// Learn is called when src is about to be notified that any of its paths may have changed. It
// then asks for the paths that it goes on using.
func (t *Table) Learn(src ib.LID) {
	if int(src) < len(t.sources) && !t.sources[src].keeps.Load() {
		t.sources[src].next.Store(new(set))
	}
}

// Keep is called when src asked for what changed since a generation, and got a list: it keeps the
// other paths that it holds without asking for them. From then on it does not learn, and what it
// last learned is void.
func (t *Table) Keep(src ib.LID) {
	if int(src) >= len(t.sources) {
		return
	}
	x := &t.sources[src]
	if x.keeps.Swap(true) {
		return
	}
	x.next.Store(nil)
	x.unlearn()
}

// unlearn makes what was held before the last Learned held again.
func (x *source) unlearn() {
	now, before := x.now.Load(), x.before.Load()
	switch {
	case now == nil:
	case before == nil:
		x.now.Store(nil)
	default:
		for i := range before {
			now[i].Or(before[i].Load())
		}
	}
}

// Learned is called when src has acknowledged that notice: it holds the paths that it asked for
// since Learn, and those that it asks for from now on.
func (t *Table) Learned(src ib.LID) {
	if int(src) >= len(t.sources) {
		return
	}
	x := &t.sources[src]
	if s := x.next.Load(); s != nil {
		x.before.Store(x.now.Load())
		x.now.Store(s)
		x.next.Store(nil)
		if x.keeps.Load() { // since Learn
			x.unlearn()
		}
	}
}

// Sources counts the source LIDs of which the table knows what they may hold.
func (t *Table) Sources() (n int) {
	for i := range t.sources {
		if t.sources[i].now.Load() != nil {
			n++
		}
	}
	return n
}
