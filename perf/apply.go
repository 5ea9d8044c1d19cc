package perf

import (
	"slices"

	"heddle/internal/plural"
)

// own is the row of port i, made or copied if it is not of this round.
func (c *Core) own(i int32) *row {
	b, k := c.edit(i)
	w := b.rows[k]
	switch {
	case w == nil:
		w = &row{round: c.number}
	case w.round != c.number:
		x := *w
		x.round = c.number
		w = &x
	default:
		return w
	}
	b.rows[k] = w
	return w
}

// ownOffset gives w offsets of its own.
func (w *row) ownOffset() *[NumCounters]uint64 {
	off := new([NumCounters]uint64)
	if w.offset != nil {
		*off = *w.offset
	}
	w.offset = off
	return off
}

// apply takes over a sample of port i.
func (c *Core) apply(i int32, got *values) {
	x := &c.now
	b, at := c.edit(i)
	if b.at[at] != noSample {
		c.change(i, got)
	} else {
		x.flags[i] = 0
	}
	for k := range NumCounters {
		if !got.have.has(k) {
			continue
		}
		if n := column(k); n >= 0 {
			b.raw[n][at] = got.v[k]
		} else if x.value(i, k) != got.v[k] {
			c.own(i).err[errIndex(k)] = got.v[k]
		}
	}
	b.have[at] = got.have | got.widthOf()
	b.at[at] = c.at
	x.flags[i] = x.flags[i]&^(Stuck|Narrow|Silent) | Sampled
	c.ends(i, got)
}

// change adds up across clears and overflows since the last sample.
func (c *Core) change(i int32, got *values) {
	x := &c.now
	last := values{have: x.have(i) & (wideTraffic - 1)}
	other := c.rebase(i, got)
	last.have &^= other
	for k := range NumCounters {
		if last.have.has(k) {
			last.v[k] = x.value(i, k)
		}
	}
	words := wordsIn(DataGbps(c.snap, i), c.at.Sub(x.at(i)))
	ch := compare(&last, got, words)
	if ch.cleared|ch.wrapped == 0 {
		return
	}
	off := c.own(i).ownOffset()
	for k, v := range ch.add {
		off[k] += v
	}
	if ch.wrapped != 0 {
		x.flags[i] |= Wrapped
	}
	if ch.cleared != 0 {
		if x.flags[i]&Cleared == 0 {
			c.cleared = append(c.cleared, i)
		}
		x.flags[i] |= Cleared
		c.st.Cleared++
	}
}

// rebase has the totals of counters that are read from another attribute than before, of another
// width, go on from where they are. It returns those counters.
func (c *Core) rebase(i int32, got *values) (other set) {
	x := &c.now
	width := x.have(i) ^ got.widthOf()
	if width&wideTraffic != 0 {
		other |= traffic
	}
	if width&wideErrors != 0 {
		other |= errorSet | waiting
	}
	if other &= x.have(i) & got.have; other == 0 {
		return 0
	}
	off := c.own(i).ownOffset()
	for k := range NumCounters {
		if other.has(k) {
			off[k] += x.value(i, k) - got.v[k]
		}
	}
	return other
}

// ends looks for counters that count no more, or that the link can fill between two samples.
func (c *Core) ends(i int32, got *values) {
	narrow := got.have &^ got.wide
	if narrow == 0 {
		return
	}
	x := &c.now
	for k := range NumCounters {
		if narrow.has(k) && got.v[k] == k.end() {
			x.flags[i] |= Stuck
		}
	}
	if narrow.has(XmitData) && wordsIn(DataGbps(c.snap, i), c.period) > 1<<32 {
		x.flags[i] |= Narrow
	}
}

// tellRound tells what happened in the round: one notice for all ports of a kind.
func (c *Core) tellRound() {
	slices.Sort(c.cleared)
	if n := len(c.cleared); n > 0 {
		c.tell(KindCleared, false, "counters of %s went back: they were cleared by another tool, or the nodes began anew; the totals go on (the first is %s)", plural.Of(n, "port"), c.name(c.cleared[0]))
	}
	stuck, first := 0, int32(-1)
	for i, f := range c.now.flags {
		if f.Has(Stuck|Sampled) && !c.before.flags[i].Has(Stuck) {
			if stuck++; first < 0 {
				first = int32(i)
			}
		}
	}
	if stuck > 0 {
		c.tell(KindStuck, true, "counters of %s have reached their end and count no more (the first is %s); Heddle never clears counters: perfquery -R does", plural.Of(stuck, "port"), c.name(first))
	}
}
