package mad

import (
	"cmp"
	"slices"
	"time"

	"heddle/ib"
)

// AttrStats counts what happened to the requests of one attribute and
// method. Directed-route and LID-routed SMPs are counted together under
// ib.ClassSubnLID.
type AttrStats struct {
	Class  ib.Class
	Method ib.Method
	Attr   ib.AttrID

	Sent     uint64 // packets, retries included
	Retried  uint64
	Answered uint64 // requests that completed with an answer
	TimedOut uint64 // tries
	Failed   uint64 // tries that the transport reported as failed
	Bad      uint64 // answers with a wrong header
	Errors   uint64 // requests that completed with an error

	// RTTSum and RTTMax cover the RTTCount requests answered at the first try.
	RTTSum   time.Duration
	RTTMax   time.Duration
	RTTCount uint64
}

// Stats is a copy of an engine's counters.
type Stats struct {
	Attrs       []AttrStats // by class, attribute, method
	Stale       uint64      // late, repeated or foreign answers
	Unsolicited uint64
	Window      int
	Queued      int
	Outstanding int
}

// Stats copies the counters; dst's memory is reused.
func (e *Engine) Stats(dst *Stats) {
	a := append(dst.Attrs[:0], e.stats.rows...)
	slices.SortFunc(a, func(x, y AttrStats) int {
		return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(x.Attr, y.Attr), cmp.Compare(x.Method, y.Method))
	})
	*dst = Stats{
		Attrs: a, Stale: e.stats.stale, Unsolicited: e.stats.unsolicited,
		Window: e.win.size, Queued: e.Queued(), Outstanding: e.used,
	}
}

// statTable finds the row of an attribute by an open-addressed index. A manager
// uses some forty attributes, and the lookup runs once per request.
type statTable struct {
	rows        []AttrStats
	index32     []int32 // row + 1; length a power of two
	stale       uint64
	unsolicited uint64
}

func (t *statTable) init() { t.index32 = make([]int32, 128) }

func statKey(c ib.Class, m ib.Method, a ib.AttrID) uint32 {
	return uint32(c)<<24 | uint32(m)<<16 | uint32(a)
}

func (t *statTable) index(c ib.Class, m ib.Method, a ib.AttrID) int32 {
	if c == ib.ClassSubnDR {
		c = ib.ClassSubnLID
	}
	for k := t.hash(c, m, a); ; k = (k + 1) & uint32(len(t.index32)-1) {
		i := t.index32[k] - 1
		if i < 0 {
			return t.add(c, m, a)
		}
		if r := &t.rows[i]; r.Attr == a && r.Method == m && r.Class == c {
			return i
		}
	}
}

func (t *statTable) hash(c ib.Class, m ib.Method, a ib.AttrID) uint32 {
	return statKey(c, m, a) * 0x9E3779B1 >> 16 & uint32(len(t.index32)-1)
}

func (t *statTable) add(c ib.Class, m ib.Method, a ib.AttrID) int32 {
	t.rows = append(t.rows, AttrStats{Class: c, Method: m, Attr: a})
	if 2*len(t.rows) > len(t.index32) {
		t.index32 = make([]int32, 2*len(t.index32))
		for i := range t.rows[:len(t.rows)-1] {
			t.place(int32(i))
		}
	}
	t.place(int32(len(t.rows) - 1))
	return int32(len(t.rows) - 1)
}

func (t *statTable) place(i int32) {
	r := &t.rows[i]
	k := t.hash(r.Class, r.Method, r.Attr)
	for t.index32[k] != 0 {
		k = (k + 1) & uint32(len(t.index32)-1)
	}
	t.index32[k] = i + 1
}
