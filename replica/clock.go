package replica

import (
	"time"

	"heddle/mad"
)

// clockSpan is for how long, and twice as long at most, a sign counts for a Clock: clocks of two
// machines drift apart by less than a millisecond in that time.
const clockSpan = 10 * time.Second

// Clock is the time in which the active manager of a pair stores the ends of leases. The wall
// clocks of two machines may differ by hours, and one may be set while a lease lasts. So the active
// manager advances its time by its monotonic clock from its start, and its signs carry the time.
// The standby follows: when it takes over, it continues with that time, not with its own.
//
// The zero Clock is of no use before Start.
type Clock struct {
	offset int64 // wall time at mad.Time 0
	boot   uint64
	began  mad.Time // when newest began
	older  int64    // the highest offset of signs of the span before
	newest int64    // of signs since began
}

// Start sets the clock to this machine's wall time, in nanoseconds since 1970.
func (c *Clock) Start(now mad.Time, wall int64) { *c = Clock{offset: wall - int64(now)} }

// Heard takes the time in a sign of the peer, of the start boot; 0: the sign has none. A sign is
// late by its transfer time, so the sign of a span with the highest offset was the fastest.
func (c *Clock) Heard(now mad.Time, boot uint64, wall int64) {
	if wall == 0 {
		return
	}
	v := wall - int64(now)
	switch {
	case boot != c.boot: // its clock began anew
		c.boot, c.began, c.older, c.newest = boot, now, v, v
	case now.Sub(c.began) >= clockSpan:
		c.began, c.older, c.newest = now, c.newest, v
	}
	c.newest = max(c.newest, v)
	c.offset = max(c.older, c.newest)
}

// At is the time at now, in nanoseconds since 1970.
func (c *Clock) At(now mad.Time) int64 { return c.offset + int64(now) }
