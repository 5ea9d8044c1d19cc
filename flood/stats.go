package flood

import (
	"math"
	"math/bits"
	"time"
)

// Stats summarizes response times in constant memory. Number, mean, standard
// deviation, minimum and maximum are exact; quantiles come from a histogram
// whose buckets are 1/128 of their value wide, so the error is 0.4 % at most.
// The zero value is empty.
type Stats struct {
	n        uint64
	mean, m2 float64 // Welford's running mean and sum of squares, nanoseconds
	min, max time.Duration
	hist     []uint64 // by bucket
}

// subBits is how finely an octave of the histogram is parted.
const subBits = 7

// bucket numbers the bucket of d ≥ 0: one each below 2^subBits ns, and
// 2^subBits for every octave above.
func bucket(d time.Duration) int {
	v := uint64(d)
	shift := max(0, bits.Len64(v)-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// middle is the middle of a bucket.
func middle(b int) time.Duration {
	if b < 2<<subBits {
		return time.Duration(b)
	}
	shift := b>>subBits - 1
	low := uint64(b&(1<<subBits-1)|1<<subBits) << shift
	return time.Duration(low + 1<<shift/2)
}

// Add adds a response time; a negative one counts as 0.
func (s *Stats) Add(d time.Duration) {
	d = max(d, 0)
	if s.n == 0 || d < s.min {
		s.min = d
	}
	s.max = max(s.max, d)
	s.n++
	delta := float64(d) - s.mean
	s.mean += delta / float64(s.n)
	s.m2 += delta * (float64(d) - s.mean)
	s.room(bucket(d))
	s.hist[bucket(d)]++
}

// room extends the histogram to bucket b.
func (s *Stats) room(b int) {
	if b >= len(s.hist) {
		s.hist = append(s.hist, make([]uint64, b+1-len(s.hist))...)
	}
}

// Merge adds the samples of o.
func (s *Stats) Merge(o *Stats) {
	if o.n == 0 {
		return
	}
	if s.n == 0 || o.min < s.min {
		s.min = o.min
	}
	s.max = max(s.max, o.max)
	n := float64(s.n + o.n)
	delta := o.mean - s.mean
	s.m2 += o.m2 + delta*delta*float64(s.n)*float64(o.n)/n
	s.mean += delta * float64(o.n) / n
	s.n += o.n
	s.room(len(o.hist) - 1)
	for b, k := range o.hist {
		s.hist[b] += k
	}
}

// N is how many response times there are.
func (s *Stats) N() uint64 { return s.n }

// Mean is 0 if there are none.
func (s *Stats) Mean() time.Duration { return time.Duration(math.Round(s.mean)) }

// StdDev is the standard deviation of the population, 0 if there are none.
func (s *Stats) StdDev() time.Duration {
	if s.n == 0 {
		return 0
	}
	return time.Duration(math.Round(math.Sqrt(s.m2 / float64(s.n))))
}

// Max is the greatest, 0 if there are none.
func (s *Stats) Max() time.Duration { return s.max }

// Quantile is the least value that at least a part q of all do not exceed; 0
// if there are none. Quantile(0.5) is the median.
func (s *Stats) Quantile(q float64) time.Duration {
	if s.n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(s.n)))
	rank = min(max(rank, 1), s.n)
	sum := uint64(0)
	for b, k := range s.hist {
		if sum += k; sum >= rank {
			return min(max(middle(b), s.min), s.max)
		}
	}
	return s.max
}
