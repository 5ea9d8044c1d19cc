package perf

import (
	"math"
	"time"

	"heddle/mad"
)

// Point is one sample of the history of a port.
type Point struct {
	Number     uint64        // of the round
	Began      mad.Time      // of the round
	Elapsed    time.Duration // between the two samples, at most 65 s in steps of 1 ms; 0: none in this round
	Xmit, Rcv  float64       // share of the data rate of the link
	Wait       float64       // share of time
	ErrorDelta uint16        // all error counters; 65,535: that many or more
}

// point is 8 bytes: the shares in 1/255 of a square root, so that small ones are told apart.
type point struct {
	elapsed          uint16 // ms
	errors           uint16
	xmit, rcv, waits uint8
	_                uint8
}

// history is a ring of rounds, each a column of points. Columns are immutable; the ring is copied
// when one is added, which copies pointers only.
type history struct {
	number []uint64
	began  []mad.Time
	col    [][]point
}

// with returns the history with a column more, and without the oldest if there are too many.
func (h *history) with(number uint64, began mad.Time, col []point, most int) *history {
	n := &history{}
	from := 0
	if h != nil {
		from = max(0, len(h.col)+1-most)
		n.number = append(n.number, h.number[from:]...)
		n.began = append(n.began, h.began[from:]...)
		n.col = append(n.col, h.col[from:]...)
	}
	n.number, n.began, n.col = append(n.number, number), append(n.began, began), append(n.col, col)
	return n
}

// moved returns the history with ports at other indices: was[i] is the old index of port i, -1:
// none.
func (h *history) moved(was []int32) *history {
	if h == nil {
		return nil
	}
	n := &history{number: h.number, began: h.began}
	for _, col := range h.col {
		to := make([]point, len(was))
		for i, k := range was {
			if k >= 0 {
				to[i] = col[k]
			}
		}
		n.col = append(n.col, to)
	}
	return n
}

// note adds the sample of port i to the column of the round. It is done at each sample, so that the
// end of a round takes little time.
func (c *Core) note(i int32) {
	x, was := &c.now, &c.before
	if c.cfg.History == 0 || was.at(i) == noSample {
		return
	}
	d := x.at(i).Sub(was.at(i))
	if d <= 0 {
		return
	}
	delta := func(k Counter) uint64 {
		if !was.have(i).has(k) {
			return 0
		}
		return x.total(i, k) - was.total(i, k)
	}
	var sum uint64
	if x.row(i) != nil {
		for k := SymbolErrors; k < NumCounters; k++ {
			if k.IsError() {
				sum += delta(k)
			}
		}
	}
	p := point{elapsed: uint16(min(d.Milliseconds(), 65535)), errors: uint16(min(sum, 65535))}
	if words := DataGbps(c.snap, i) * 1e9 / 32 * d.Seconds(); words > 0 {
		p.xmit, p.rcv = pack(float64(delta(XmitData))/words), pack(float64(delta(RcvData))/words)
	}
	p.waits = pack(float64(delta(XmitWait)) * c.tickSeconds(i) / d.Seconds())
	c.points[i] = p
}

// History are the samples of a port, oldest first.
func (r *Round) History(i int32) []Point {
	if r.history == nil {
		return nil
	}
	out := make([]Point, 0, len(r.history.col))
	for k, col := range r.history.col {
		p := &col[i]
		out = append(out, Point{
			Number: r.history.number[k], Began: r.history.began[k], Elapsed: time.Duration(p.elapsed) * time.Millisecond,
			Xmit: unpack(p.xmit), Rcv: unpack(p.rcv), Wait: unpack(p.waits), ErrorDelta: p.errors,
		})
	}
	return out
}

// pack rounds a share up to the next step, so that only 0 becomes 0.
func pack(x float64) uint8 { return uint8(math.Ceil(255 * math.Sqrt(min(max(x, 0), 1)))) }

func unpack(v uint8) float64 { return float64(v) * float64(v) / (255 * 255) }
