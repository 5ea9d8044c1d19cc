package agent

import (
	"math"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// key identifies a question: its components, all others zero.
type key struct {
	mask wire.CompMask
	rec  [wire.PathRecordLen]byte
}

// entry is one cached answer.
type entry struct {
	key      key
	rec      [wire.PathRecordLen]byte
	at       mad.Time // when the query was sent
	negative bool
	blind    bool  // read without subscriptions
	suspect  bool  // notices may have been missed since
	prev     int32 // more recently used, -1: none
	next     int32 // less recently used, -1: none; of a free entry: the next free one
}

// cache is a bounded map of entries in order of use.
type cache struct {
	max         int
	maxNegative int // so that questions about nothing displace few paths
	index       map[key]int32
	entries     []entry
	free        int32
	head, tail  int32
	negative    int
	suspect     int
}

// negativeShare is the part of the entries that absent paths may take.
const negativeShare = 16

func newCache(most int) cache {
	most = max(most, 1)
	return cache{max: most, maxNegative: max(most/negativeShare, 1), index: map[key]int32{}, free: -1, head: -1, tail: -1}
}

func (c *cache) len() int { return len(c.index) }

// find returns the entry of a question without using it.
func (c *cache) find(k *key) *entry {
	i, ok := c.index[*k]
	if !ok {
		return nil
	}
	return &c.entries[i]
}

// use makes the entry of a question the most recently used one.
func (c *cache) use(k *key) {
	if i, ok := c.index[*k]; ok && c.head != i {
		c.unlink(i)
		c.push(i)
	}
}

// put inserts or replaces an entry, and returns how many were removed to make room.
func (c *cache) put(e entry) (evicted int) {
	c.remove(&e.key)
	if e.negative && c.negative >= c.maxNegative {
		for i := c.tail; i >= 0; i = c.entries[i].prev {
			if c.entries[i].negative {
				c.removeAt(i)
				evicted++
				break
			}
		}
	}
	for c.len() >= c.max {
		c.removeAt(c.tail)
		evicted++
	}
	i := c.free
	if i >= 0 {
		c.free = c.entries[i].next
	} else {
		i = int32(len(c.entries))
		c.entries = append(c.entries, entry{})
	}
	c.entries[i] = e
	c.index[e.key] = i
	if e.negative {
		c.negative++
	}
	if e.suspect {
		c.suspect++
	}
	c.push(i)
	return evicted
}

func (c *cache) push(i int32) {
	e := &c.entries[i]
	e.prev, e.next = -1, c.head
	if c.head >= 0 {
		c.entries[c.head].prev = i
	} else {
		c.tail = i
	}
	c.head = i
}

func (c *cache) unlink(i int32) {
	e := &c.entries[i]
	if e.prev >= 0 {
		c.entries[e.prev].next = e.next
	} else {
		c.head = e.next
	}
	if e.next >= 0 {
		c.entries[e.next].prev = e.prev
	} else {
		c.tail = e.prev
	}
}

// remove deletes the entry of a question, if there is one.
func (c *cache) remove(k *key) {
	if i, ok := c.index[*k]; ok {
		c.removeAt(i)
	}
}

func (c *cache) removeAt(i int32) {
	c.unlink(i)
	e := &c.entries[i]
	if e.negative {
		c.negative--
	}
	if e.suspect {
		c.suspect--
	}
	delete(c.index, e.key)
	*e = entry{prev: -1, next: c.free}
	c.free = i
}

// removeIf deletes the entries that match, in order of use, and returns how many.
func (c *cache) removeIf(match func(e *entry) bool) (n int) {
	for i := c.head; i >= 0; {
		next := c.entries[i].next
		if match(&c.entries[i]) {
			c.removeAt(i)
			n++
		}
		i = next
	}
	return n
}

// doubt makes all entries suspect. Absent paths leave.
func (c *cache) doubt() {
	c.removeIf(func(e *entry) bool { return e.negative })
	for i := c.head; i >= 0; i = c.entries[i].next {
		c.entries[i].suspect = true
	}
	c.suspect = c.len()
}

// names reports whether an entry leads to or from a GID, by its question or its answer.
func (e *entry) names(g ib.GID) bool {
	return gidAt(&e.key.rec, offDGID) == g || gidAt(&e.key.rec, offSGID) == g || gidAt(&e.rec, offDGID) == g || gidAt(&e.rec, offSGID) == g
}

// namesLID reports whether an entry leads to or from a LID.
func (e *entry) namesLID(l ib.LID) bool {
	return lidAt(&e.key.rec, offDLID) == l || lidAt(&e.key.rec, offSLID) == l || lidAt(&e.rec, offDLID) == l || lidAt(&e.rec, offSLID) == l
}

// Offsets in a PathRecord (IBA §15.2.5.16).
const (
	offDGID = 8
	offSGID = 24
	offDLID = 40
	offSLID = 42
)

func gidAt(r *[wire.PathRecordLen]byte, off int) ib.GID { return ib.GID(r[off : off+16]) }

func lidAt(r *[wire.PathRecordLen]byte, off int) ib.LID {
	return ib.LID(r[off])<<8 | ib.LID(r[off+1])
}

// life is how long an entry is served. It differs by up to an eighth between entries, so
// that those read together do not end together.
func (c *Core) life(e *entry) time.Duration {
	switch {
	case c.cfg.Policy == AsPublished:
		return math.MaxInt64
	case e.negative:
		return c.cfg.NegativeTime
	case e.blind:
		return min(c.cfg.BlindAge, c.cfg.MaxAge)
	}
	h := uint32(2166136261) // FNV-1a
	for _, b := range e.key.rec[offDGID:offSLID] {
		h = (h ^ uint32(b)) * 16777619
	}
	return c.cfg.MaxAge - c.cfg.MaxAge/8*time.Duration(h>>24)/256
}

// fresh reports whether an entry may be served without a query.
func (c *Core) fresh(e *entry) bool {
	return !e.suspect && c.now.Sub(e.at) < c.life(e)
}

// usable reports whether an entry may be served while the SA is silent.
func (c *Core) usable(e *entry) bool {
	return !e.negative && (c.cfg.Policy == AsPublished || c.now.Sub(e.at) < c.cfg.MaxAge+c.cfg.StaleTime)
}
