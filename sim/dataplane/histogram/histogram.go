// Package histogram counts times in logarithmic buckets.
package histogram

import "math/bits"

// Histogram counts times in logarithmic buckets, 64 to an octave: a quantile is
// at most 1.1 % too high.
type Histogram[T ~int64] struct {
	N        uint64
	Sum      T
	Min, Max T
	counts   [48 * 64]uint32
}

// Merge adds the times of x.
func (h *Histogram[T]) Merge(x *Histogram[T]) {
	if x.N == 0 {
		return
	}
	if h.N == 0 || x.Min < h.Min {
		h.Min = x.Min
	}
	h.Max = max(h.Max, x.Max)
	h.N += x.N
	h.Sum += x.Sum
	for i, n := range x.counts {
		h.counts[i] += n
	}
}

// base is the time below which times are not told apart.
const base = 6 // bits: 64 ps

// Add counts a time.
func (h *Histogram[T]) Add(t T) {
	if h.N == 0 || t < h.Min {
		h.Min = t
	}
	h.Max = max(h.Max, t)
	h.N++
	h.Sum += t
	h.counts[bucket(uint64(t))]++
}

func bucket(t uint64) int {
	n := bits.Len64(t)
	if n <= base+1 {
		return int(t) >> 1 & 63
	}
	return min((n-base-1)<<6+int(t>>(n-base-1)&63), 48*64-1)
}

// Mean is the mean.
func (h *Histogram[T]) Mean() T {
	if h.N == 0 {
		return 0
	}
	return h.Sum / T(h.N)
}

// Quantile is the time that the share q of all times does not exceed.
func (h *Histogram[T]) Quantile(q float64) T {
	want, n := q*float64(h.N), 0.0
	for i, c := range h.counts {
		if n += float64(c); n >= want && c > 0 {
			k := uint(i >> 6)
			if k == 0 {
				return min(T(i&63+1)<<1, h.Max)
			}
			return min(T(64+i&63+1)<<k, h.Max)
		}
	}
	return h.Max
}
