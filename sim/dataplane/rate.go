package dataplane

import (
	"math"
	"strconv"
	"time"

	"heddle/ib"
)

// Time is virtual time, or a span of it, in picoseconds. It lasts for 106 days.
type Time int64

// Units of Time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond

	// Never is later than every event.
	Never Time = math.MaxInt64
)

// FromDuration is d in picoseconds.
func FromDuration(d time.Duration) Time { return Time(d) * Nanosecond }

// Duration is t, rounded down to nanoseconds.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// Seconds is t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// String prints nanoseconds like a time.Duration, with the picoseconds.
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	ns, ps := t/Nanosecond, t%Nanosecond
	if ps == 0 {
		return time.Duration(ns).String()
	}
	if ns == 0 {
		return strconv.FormatInt(int64(ps), 10) + "ps"
	}
	return time.Duration(ns).String() + "+" + strconv.FormatInt(int64(ps), 10) + "ps"
}

// Rate is how long a byte takes: Num/Den picoseconds. Whole packets are rounded
// once, to the nearest picosecond. The zero value is no limit.
type Rate struct{ Num, Den uint32 }

// Time is how long so many bytes take.
func (r Rate) Time(bytes int) Time {
	if r.Den == 1 {
		return Time(bytes) * Time(r.Num)
	}
	if r.Den == 0 {
		return 0
	}
	return (Time(bytes)*Time(r.Num) + Time(r.Den)/2) / Time(r.Den)
}

// Unlimited reports whether r is no limit.
func (r Rate) Unlimited() bool { return r.Num == 0 }

// slower reports whether a byte takes longer at r than at s.
func (r Rate) slower(s Rate) bool {
	if r.Num == 0 || s.Num == 0 {
		return r.Num != 0 && s.Num == 0
	}
	return uint64(r.Num)*uint64(s.Den) > uint64(s.Num)*uint64(r.Den)
}

// Gbps is r in Gb/s.
func (r Rate) Gbps() float64 { return 8000 * float64(r.Den) / float64(r.Num) }

// Times is r taken n/d times as long.
func (r Rate) Times(n, d uint32) Rate {
	return reduced(uint64(r.Num)*uint64(n), uint64(r.Den)*uint64(d))
}

// Cap is the rate at which packets of the given size on the wire carry their
// payload at gbps Gb/s: how the caps of test beds (PCIe, per host) are given.
func Cap(gbps float64, payload, bytes int) Rate {
	// In steps of 10 kb/s, so that what is written as 12.9 is exact.
	return reduced(uint64(payload)*8*100_000_000, uint64(math.Round(gbps*100_000))*uint64(bytes))
}

func reduced(num, den uint64) Rate {
	for a, b := num, den; ; a, b = b, a%b {
		if b == 0 {
			num, den = num/a, den/a
			break
		}
	}
	for num > math.MaxUint32 || den > math.MaxUint32 {
		num, den = num/2, den/2
	}
	return Rate{uint32(num), uint32(max(den, 1))}
}

// lanePS is what a byte takes on one lane of a link, in thirds of a picosecond:
// 8b/10b up to QDR, 64b/66b or a code of the same data rate from FDR10 on.
var lanePS = [...]uint64{
	ib.SpeedSDR: 3 * 4000, ib.SpeedDDR: 3 * 2000, ib.SpeedQDR: 3 * 1000, ib.SpeedFDR10: 3 * 800, ib.SpeedFDR: 1760,
	ib.SpeedEDR: 3 * 320, ib.SpeedHDR: 3 * 160, ib.SpeedNDR: 3 * 80, ib.SpeedXDR: 3 * 40,
}

// LinkRate is the data rate of a link: after the line code, so that QDR 4X is 32
// Gb/s. It is the zero Rate for a width or speed that is none or several.
func LinkRate(w ib.LinkWidth, s ib.LinkSpeed) Rate {
	if w.Lanes() == 0 || int(s) >= len(lanePS) || s == ib.SpeedNone {
		return Rate{}
	}
	return reduced(lanePS[s], 3*uint64(w.Lanes()))
}

// Bytes that packets have besides their payload, from LRH to VCRC (IBA chapters
// 5 and 9).
const (
	OverheadRC    = 26 // LRH 8, BTH 12, ICRC 4, VCRC 2
	OverheadRCRDM = 42 // and RETH 16: first or only packet of an RDMA write
	OverheadUD    = 34 // and DETH 8
	BytesACK      = 30 // and AETH 4
	BytesMAD      = 290
	maxOverhead   = 126
)

const (
	blockBytes = 64
	// maxLaneBlocks is what a lane can advertise: half of the 12-bit counters of
	// flow control packets (IBA §7.9).
	maxLaneBlocks = 2048
	// fcBytes is a flow control packet with its delimiters.
	fcBytes = 8
)

// Blocks is how many credits a packet takes.
func Blocks(bytes int) int { return (bytes + blockBytes - 1) / blockBytes }

// words is what PortXmitData counts of a packet: 4-byte words from LRH to ICRC
// (IBA §16.1.3.5), so without the VCRC.
func words(bytes uint16) uint64 { return uint64(bytes-2) / 4 }
