// Package random has repeatable random numbers in integers: equal on all machines, and
// a stream for each purpose.
package random

import "math"

// Stream is a random stream (SplitMix64, Steele, Lea and Flood 2014).
type Stream uint64

// New derives the stream of one purpose from the seed of the run.
func New(seed, purpose uint64) Stream {
	r := Stream(seed)
	r = Stream(r.Next() ^ purpose)
	return Stream(r.Next())
}

// Next is the next number.
func (r *Stream) Next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Below is uniform in [0, n).
func (r *Stream) Below(n uint32) int32 { return int32(r.Next() >> 32 * uint64(n) >> 32) }

// Exp is exponentially distributed with the given mean: −ln u by a table in
// integers, so that all machines agree to the picosecond.
func (r *Stream) Exp(mean int64) int64 {
	u := r.Next()
	k := uint64(0)
	for u < 1<<63 { // −ln u = k ln 2 − ln m, m in [1/2, 1)
		if u == 0 {
			u = r.Next() | 1
			k += 64
			continue
		}
		u <<= 1
		k++
	}
	i, f := u<<1>>(64-lnBits), u<<1<<lnBits>>32
	ln := uint64(lnTable[i]) - (uint64(lnTable[i])-uint64(lnTable[i+1]))*f>>32
	x := k*ln2 + ln // in 2^-32
	return int64(uint64(mean)>>20*x>>12 + uint64(mean)&(1<<20-1)*x>>32)
}

const (
	lnBits = 12
	ln2    = 2977044472 // ln 2 · 2³²
)

// lnTable[i] is −ln((1 + i/2¹²)/2) · 2³².
var lnTable = func() (t [1<<lnBits + 1]uint32) {
	for i := range t {
		t[i] = uint32(math.Round(-math.Log((1+float64(i)/(1<<lnBits))/2) * (1 << 32)))
	}
	return t
}()
