package perf

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
	"heddle/subnet"
)

// Flags say what became of a port in a round.
type Flags uint8

// The flags.
const (
	// Sampled: the port was read since the last round was published.
	Sampled Flags = 1 << iota
	// Cleared: counters went back, and what was counted before is in the totals.
	Cleared
	// Wrapped: a counter overflowed, and the totals count on.
	Wrapped
	// Stuck: a counter of limited width has reached its end and counts no more until somebody
	// clears it.
	Stuck
	// Narrow: traffic is counted in 32 bits, which the link can fill within the period, so that
	// totals and rates are lower bounds.
	Narrow
	// Silent: its agent did not answer the last request and is set aside for a while.
	Silent
)

// Has reports whether all of g are set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// dense are the counters that have a column; the others have a row where one is not 0.
const dense = 9 // the traffic counters, and XmitWait behind them

func column(c Counter) int {
	switch {
	case c < SymbolErrors:
		return int(c)
	case c == XmitWait:
		return dense - 1
	}
	return -1
}

// columns are what is known of the ports, by index. Those of a Round are immutable. Blocks are shared
// between rounds, and copied when a port of theirs is read: not all at once when a round ends, which
// would hold up what shares the processors.
type columns struct {
	flags  []Flags
	blocks []*block
}

// blockPorts is the number of ports of a block, a power of two.
const blockPorts = 256

// block are the columns of some ports. It is immutable once a round has it.
type block struct {
	rows [blockPorts]*row // nil: errors are 0, nothing was cleared, no details
	// speeds are the errors of the line code; nil: they are 0, or were not read.
	speeds [blockPorts]*pm.ExtendedSpeeds
	at     [blockPorts]mad.Time // when the agent read the counters; 0: never
	raw    [dense][blockPorts]uint64
	have   [blockPorts]set // which counters the port has, and which of them have 64 bits (wideBits)
	round  uint64          // the round in which it was made, and may be changed
}

func (x *columns) len() int { return len(x.flags) }

// of is the block of a port, and its place there.
func (x *columns) of(i int32) (b *block, k int32) { return x.blocks[i/blockPorts], i % blockPorts }

func (x *columns) at(i int32) mad.Time {
	b, k := x.of(i)
	return b.at[k]
}

func (x *columns) row(i int32) *row {
	b, k := x.of(i)
	return b.rows[k]
}

func (x *columns) have(i int32) set {
	b, k := x.of(i)
	return b.have[k]
}

// edit is the block of a port for the round that is being filled, copied if it is of another one.
func (c *Core) edit(i int32) (b *block, k int32) {
	b, k = c.now.of(i)
	if b.round != c.number {
		x := *b
		x.round, b = c.number, &x
		c.now.blocks[i/blockPorts] = b
	}
	return b, k
}

// row is the part of a port that most ports have not. It is immutable once a round has it.
type row struct {
	round  uint64 // the round in which it was made, and may be changed
	err    [NumCounters - dense]uint64
	offset *[NumCounters]uint64 // nil: 0
	det    *Details
}

// errIndex is the place of a counter that has no column in row.err.
func errIndex(c Counter) int {
	if c > XmitWait {
		return int(c) - dense
	}
	return int(c) - (dense - 1)
}

// copy returns columns that share the blocks.
func (x *columns) copy() columns { return columns{slices.Clone(x.flags), slices.Clone(x.blocks)} }

// moved returns columns of their own with ports at other indices: was[i] is the old index of port i,
// -1: none.
func (x *columns) moved(was []int32, round uint64) columns {
	y := columns{moved(x.flags, was), make([]*block, (len(was)+blockPorts-1)/blockPorts)}
	for n := range y.blocks {
		y.blocks[n] = &block{round: round}
	}
	for i, old := range was {
		if old < 0 || int(old) >= x.len() {
			continue
		}
		b, k := x.of(old)
		to, at := y.of(int32(i))
		to.rows[at], to.speeds[at], to.at[at], to.have[at] = b.rows[k], b.speeds[k], b.at[k], b.have[k]
		for c := range to.raw {
			to.raw[c][at] = b.raw[c][k]
		}
	}
	return y
}

// value is a counter as the agent gave it.
func (x *columns) value(i int32, c Counter) uint64 {
	b, k := x.of(i)
	if n := column(c); n >= 0 {
		return b.raw[n][k]
	}
	if r := b.rows[k]; r != nil {
		return r.err[errIndex(c)]
	}
	return 0
}

// total is a counter with what it had before it was cleared or overflowed.
func (x *columns) total(i int32, c Counter) uint64 {
	v := x.value(i, c)
	if r := x.row(i); r != nil && r.offset != nil {
		v += r.offset[c]
	}
	return v
}

// Round is the state of all counters after a round of polling, and what changed since the round
// before. Ports are those of Snap, by index in Snap.Ports, without virtual ones; use it with other
// snapshots only through GUIDs. A Round is immutable and may be read by any goroutine.
type Round struct {
	// Number counts the rounds from 1.
	Number uint64
	// Began and Ended are the limits of the round; samples that arrived late belong to the next
	// one.
	Began, Ended mad.Time
	// Period is the time from one sample of a port to the next that the manager aims at.
	Period time.Duration
	Snap   *subnet.Snapshot
	// Cleared are the ports whose counters went back in this round, ascending.
	Cleared []int32
	// Virtual are the counters of virtual ports, by GUID of the physical port and index.
	Virtual []VPortSample
	Status  Status

	now, before columns
	tick        []uint8 // PortSamplesControl:Tick + 1; 0: unknown
	history     *history
}

// Len is the number of ports.
func (r *Round) Len() int { return r.now.len() }

// At is when a port was read last; 0: never.
func (r *Round) At(i int32) mad.Time { return r.now.at(i) }

// Elapsed is the time between the last two samples of a port, if the last one is of this round and
// there is one before it; otherwise 0, and there are no differences and rates.
func (r *Round) Elapsed(i int32) time.Duration {
	was := r.before.at(i)
	if r.now.flags[i]&Sampled == 0 || was == 0 {
		return 0
	}
	return r.now.at(i).Sub(was)
}

// Flags say what became of a port.
func (r *Round) Flags(i int32) Flags { return r.now.flags[i] }

// Has reports whether a port counts c.
func (r *Round) Has(i int32, c Counter) bool { return r.now.have(i).has(c) }

// Total is what a port has counted since its counters first were read, and what they had then. It
// does not fall when counters are cleared.
func (r *Round) Total(i int32, c Counter) uint64 { return r.now.total(i, c) }

// Value is what the port's agent said.
func (r *Round) Value(i int32, c Counter) uint64 { return r.now.value(i, c) }

// AtEnd reports whether an error counter of a port has reached its end and counts no more.
func (r *Round) AtEnd(i int32, c Counter) bool {
	return c.IsError() && r.Has(i, c) && r.now.have(i)&wideErrors == 0 && r.Value(i, c) == c.end()
}

// Delta is what a port counted between its last two samples; 0 if Elapsed is.
func (r *Round) Delta(i int32, c Counter) uint64 {
	if r.Elapsed(i) <= 0 || !r.before.have(i).has(c) {
		return 0
	}
	return r.now.total(i, c) - r.before.total(i, c)
}

// MayErr is false if no error counter of a port changed between its last two samples. It costs less
// than Delta of each.
func (r *Round) MayErr(i int32) bool { return r.now.row(i) != r.before.row(i) }

// Rate is Delta in one second.
func (r *Round) Rate(i int32, c Counter) float64 {
	d := r.Elapsed(i)
	if d <= 0 {
		return 0
	}
	return float64(r.Delta(i, c)) / d.Seconds()
}

// Use is the share of the data rate of its link that a port used, 0 to about 1: of XmitData or
// RcvData.
func (r *Round) Use(i int32, c Counter) float64 {
	g := DataGbps(r.Snap, i)
	if g == 0 {
		return 0
	}
	return r.Rate(i, c) * 32 / (g * 1e9)
}

// WaitTick is the unit of XmitWait; 0: the port did not tell.
func (r *Round) WaitTick(i int32) time.Duration {
	return time.Duration(r.waitTick(i) * float64(time.Second))
}

// waitTick is the unit of XmitWait in seconds: Tick + 1 times what a lane takes for 10 bits (IBA
// §16.1.3.2).
func (r *Round) waitTick(i int32) float64 {
	speed := SpeedOf(r.Snap, i)
	if r.tick[i] == 0 || speed == ib.SpeedNone {
		return 0
	}
	return float64(r.tick[i]) * 10 / (speed.LaneGbps() * 1e9)
}

// WaitShare is the share of time in which a port had something to send and could not; 0 also if the
// port does not tell the unit.
func (r *Round) WaitShare(i int32) float64 {
	rate := r.Rate(i, XmitWait)
	if rate == 0 || r.tick[i] == 0 {
		return 0
	}
	return min(rate*r.waitTick(i), 1)
}

// Details are those of a port, nil if none were read.
func (r *Round) Details(i int32) *Details {
	if w := r.now.row(i); w != nil {
		return w.det
	}
	return nil
}

// Speeds are the errors of the line code of a port, as its agent gave them last; zero if they were
// not read, or are 0.
func (r *Round) Speeds(i int32) (s pm.ExtendedSpeeds) {
	b, k := r.now.of(i)
	if p := b.speeds[k]; p != nil {
		s = *p
	}
	return s
}

// SpeedOf is the speed of the lanes of port i of s, SpeedNone if it has no link.
func SpeedOf(s *subnet.Snapshot, i int32) ib.LinkSpeed {
	p := s.Ports[i]
	if !p.Known || p.Info.PortPhysicalState != ib.PhysLinkUp {
		return ib.SpeedNone
	}
	return s.Speed(p)
}

// DataGbps is the data rate of the link of port i of s in Gb/s; 0 if there is none.
func DataGbps(s *subnet.Snapshot, i int32) float64 {
	p := s.Ports[i]
	return SpeedOf(s, i).DataGbps() * float64(p.Info.LinkWidthActive.Lanes())
}
