package metrics

import "github.com/prometheus/client_golang/prometheus"

// n is the sum of the buckets, so that it matches them while others continue to
// count.
func (c *Counts) n() (n uint64) {
	for _, b := range c.Buckets {
		n += b
	}
	return n
}

// Any reports whether anything was counted.
func (c *Counts) Any() bool { return c.n() > 0 }

// upTo is how many were counted up to each bound, which is unit times a power
// of two.
func (c *Counts) upTo(unit float64) map[float64]uint64 {
	m := make(map[float64]uint64, len(c.Buckets)-1)
	var n uint64
	for i := range len(c.Buckets) - 1 {
		n += c.Buckets[i]
		m[unit*float64(uint64(1)<<i)] = n
	}
	return m
}

// seconds shows a histogram of microseconds.
func (c *Counts) seconds(d *prometheus.Desc, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstHistogram(d, c.n(), float64(c.Sum)*1e-9, c.upTo(1e-6), labels...)
}

// numbers shows a histogram of whole numbers. Bucket i holds those below 2^i,
// which are those up to 2^i-1.
func (c *Counts) numbers(d *prometheus.Desc) prometheus.Metric {
	m := make(map[float64]uint64, len(c.Buckets)-1)
	var n uint64
	for i := range len(c.Buckets) - 1 {
		n += c.Buckets[i]
		m[float64(uint64(1)<<i-1)] = n
	}
	return prometheus.MustNewConstHistogram(d, c.n(), float64(c.Sum), m)
}
