package perf

import (
	"time"
)

// A counter that is less than at the last sample was cleared, by another tool or because its node
// began anew, or it overflowed. The specification has counters of PortCounters stop at their end
// (IBA §16.1.3.5), so that a clear is the usual case; but devices whose 32-bit counters go on from
// 0 exist, and 64-bit counters go on from 0. An overflow is assumed where it can be one:
//
//   - the difference to the next turn is what the link can carry in the time since the last sample;
//   - words and packets of one direction agree with each other: a packet has minWords to maxWords;
//   - the counter had not stopped at its end;
//   - not all counters of its group went back together, as those of a clear do.
//
// Everything else is a clear, of all counters of a group: tools clear all traffic counters, all
// error counters, or both. What was counted between the last sample and the clear is lost, and
// nobody can know it.

const (
	minWords = 5    // of a packet: LRH, BTH, ICRC and VCRC are 26 bytes; raw packets are shorter
	maxWords = 1100 // MTU of 4096, and headers
	// slack is how many words a difference may be above what the time permits: agents take
	// their time between reading and answering.
	slack = 1 << 16
)

// change says what became of the counters of a port since the last sample.
type change struct {
	add     [NumCounters]uint64 // to the offset: total = value + offset
	cleared set
	wrapped set
}

// compare compares a sample with the last one. words is how many the link can carry in the time
// between them.
func compare(last, now *values, words float64) (ch change) {
	both := last.have & now.have
	var back set
	for c := range NumCounters {
		if both.has(c) && now.v[c] < last.v[c] {
			back |= 1 << c
		}
	}
	if back == 0 {
		return ch
	}
	if back&traffic != 0 {
		ch.traffic(last, now, back&traffic, both, words)
	}
	if back&errorSet != 0 {
		ch.clear(last, now, errorSet&both)
	}
	if back&waiting != 0 {
		turn := turnOf(XmitWait, now)
		if ch.cleared == 0 && last.v[XmitWait] > turn/4*3 && last.v[XmitWait] != turn && now.v[XmitWait] < turn/4 {
			ch.wrap(XmitWait, now)
		} else {
			ch.clear(last, now, waiting&both)
		}
	}
	return ch
}

// traffic decides whether the traffic counters in back overflowed or were cleared.
func (ch *change) traffic(last, now *values, back, both set, words float64) {
	grown := set(0) // those with a value that a clear would have taken away
	for c := range SymbolErrors {
		if both.has(c) && last.v[c] > 0 {
			grown |= 1 << c
		}
	}
	if back == grown && back&(back-1) != 0 || !fits(last, now, back, words) {
		ch.clear(last, now, traffic&both)
		return
	}
	for c := range SymbolErrors {
		if back.has(c) {
			ch.wrap(c, now)
		}
	}
}

// fits reports whether all counters in back may have overflowed.
func fits(last, now *values, back set, words float64) bool {
	step := func(c Counter) float64 { return float64((now.v[c] - last.v[c]) & turnOf(c, now)) }
	for c := range SymbolErrors {
		if !back.has(c) {
			continue
		}
		most := words + slack
		if c > RcvData {
			most /= minWords
		}
		if step(c) > most || last.v[c] == turnOf(c, now) && !now.wide.has(c) {
			return false
		}
	}
	for _, d := range [2][2]Counter{{XmitData, XmitPkts}, {RcvData, RcvPkts}} {
		if !back.has(d[0]) && !back.has(d[1]) {
			continue
		}
		data, pkts := step(d[0]), step(d[1])
		if data > maxWords*(pkts+64) || pkts > (data+slack)/minWords {
			return false
		}
	}
	return true
}

// turnOf is the largest value of a counter.
func turnOf(c Counter, now *values) uint64 {
	if now.wide.has(c) {
		return 1<<64 - 1
	}
	return c.end()
}

// clear adds up what the counters of a group had: they began anew from 0.
func (ch *change) clear(last, now *values, group set) {
	for c := range NumCounters {
		if group.has(c) {
			ch.add[c] = last.v[c]
			ch.cleared |= 1 << c
		}
	}
}

// wrap adds a turn of the counter; of 64 bits that is 0, as totals have 64 bits too.
func (ch *change) wrap(c Counter, now *values) {
	ch.add[c] = turnOf(c, now) + 1
	ch.wrapped |= 1 << c
}

// wordsIn is how many words a link of a rate, in Gb/s, carries in a time, with a tenth to spare; 0
// Gb/s: the rate is not known.
func wordsIn(gbps float64, d time.Duration) float64 {
	if gbps == 0 {
		gbps = 2400
	}
	return gbps * 1e9 / 32 * d.Seconds() * 1.1
}
