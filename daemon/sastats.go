package daemon

import (
	"math/bits"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/ib"
	wire "heddle/ib/sa"
)

// saAttrs are the attributes with counters of their own. All others count as "other", so that
// requests for invalid attributes cannot create new series.
var saAttrs = [...]ib.AttrID{
	wire.AttrClassPortInfo, wire.AttrNotice, wire.AttrInformInfo, wire.AttrNodeRecord, wire.AttrPortInfoRecord,
	wire.AttrSLtoVLRecord, wire.AttrSwitchInfoRecord, wire.AttrLFTRecord, wire.AttrRFTRecord, wire.AttrMFTRecord,
	wire.AttrSMInfoRecord, wire.AttrLinkRecord, wire.AttrGUIDInfoRecord, wire.AttrServiceRecord,
	wire.AttrPKeyTableRecord, wire.AttrPathRecord, wire.AttrVLArbRecord, wire.AttrMCMemberRecord,
	wire.AttrTraceRecord, wire.AttrMultiPathRecord, wire.AttrInformInfoRecord,
}

// saMethods are the methods with counters of their own.
var saMethods = [...]ib.Method{
	ib.MethodGet, ib.MethodSet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti, ib.MethodDelete,
}

const (
	attrSlots   = len(saAttrs) + 1 // the last one is "other"
	methodSlots = len(saMethods) + 1
)

// attrSlotOf and methodSlotOf number the counters.
var attrSlotOf, methodSlotOf = slotTables()

func slotTables() (attrs, methods [256]uint8) {
	for i := range attrs {
		attrs[i], methods[i] = uint8(attrSlots-1), uint8(methodSlots-1)
	}
	for i, a := range saAttrs {
		attrs[a] = uint8(i)
	}
	for i, m := range saMethods {
		methods[m] = uint8(i)
	}
	return attrs, methods
}

// attrSlot is the number of a MAD's attribute.
func attrSlot(m []byte) int {
	if m[16] != 0 {
		return attrSlots - 1
	}
	return int(attrSlotOf[m[17]])
}

func attrSlotName(i int) string {
	if i < len(saAttrs) {
		return ib.AttrName(ib.ClassSA, saAttrs[i])
	}
	return "other"
}

func methodSlotName(i int) string {
	if i < len(saMethods) {
		return saMethods[i].String()
	}
	return "other"
}

// busyReason is why a request was answered BUSY.
type busyReason uint8

const (
	busyRequester     busyReason = iota // it has used its share of the queue
	busyQueue                           // the queue is full
	busyLate                            // it waited longer than the requester does
	busyPeerTransfers                   // it has used its share of RMPP transfers
	busyTransfers                       // no room for one more RMPP transfer
	busyStopping                        // the manager stops
	busyReasons       = iota
)

var busyNames = [busyReasons]string{"requester", "queue", "late", "requester_transfers", "transfers", "stopping"}

// histogram counts durations or sizes by powers of two. One goroutine adds,
// any may read.
type histogram struct {
	sum     atomic.Uint64
	buckets [histBuckets]atomic.Uint64 // bucket i: less than 2^i, the last one all above
}

const histBuckets = 25

// add counts v: a duration in microseconds, or a number.
func (h *histogram) add(v, sum uint64) {
	b := &h.buckets[min(bits.Len64(v), histBuckets-1)]
	b.Store(b.Load() + 1) // one writer: cheaper than Add
	h.sum.Store(h.sum.Load() + sum)
}

func (h *histogram) addTime(d time.Duration) {
	d = max(d, 0)
	h.add(uint64(d.Microseconds()), uint64(d))
}

// addTo adds h to c.
func (h *histogram) addTo(c *metrics.Counts) {
	if c.Buckets == nil {
		c.Buckets = make([]uint64, histBuckets)
	}
	for i := range h.buckets {
		c.Buckets[i] += h.buckets[i].Load()
	}
	c.Sum += h.sum.Load()
}

func (h *histogram) values(label string) (c metrics.Counts) {
	c.Label = label
	h.addTo(&c)
	return c
}

// answerStats are the counters of one answering goroutine. It is their only writer, so
// goroutines do not contend for cache lines.
type answerStats struct {
	took    [attrSlots]histogram // arrival to answer sent
	dropped atomic.Uint64        // requests that get no answer
	unsent  atomic.Uint64        // answers that the port refused
	busy    [busyReasons]atomic.Uint64
	_       [64]byte
}

// saStats are the SA's counters. Any goroutine may read them.
type saStats struct {
	// By the receiver alone.
	requests  [attrSlots][methodSlots]atomic.Uint64
	returned  atomic.Uint64 // our answers that came back undelivered
	lostRep   atomic.Uint64 // responses to Reports dropped because the SA's queue was full
	receiving answerStats

	workers, tables []answerStats

	// By the SA's loop alone.
	changing    answerStats
	batches     histogram // requests in one step
	persist     histogram // time of an Apply
	reports     atomic.Uint64
	reportsBack atomic.Uint64 // Reports that came back undelivered
	noticesCut  atomic.Uint64 // suppressed notices

	lostTraps atomic.Uint64 // by the manager's loop alone
}

func (s *saStats) each(f func(*answerStats)) {
	f(&s.receiving)
	f(&s.changing)
	for i := range s.workers {
		f(&s.workers[i])
	}
	for i := range s.tables {
		f(&s.tables[i])
	}
}

// addTo adds the counters to the SA's metrics.
func (s *saStats) addTo(out *api.SAStatus) {
	for a := range s.requests {
		for m := range s.requests[a] {
			out.Requests += s.requests[a][m].Load()
		}
	}
	s.each(func(w *answerStats) {
		for a := range w.took {
			for i := range w.took[a].buckets {
				out.Answered += w.took[a].buckets[i].Load()
			}
		}
		for r := range w.busy {
			out.Busy += w.busy[r].Load()
		}
		out.Dropped += w.dropped.Load()
	})
}

// values are the counts.
func (s *saStats) values() metrics.SA {
	out := metrics.SA{
		Returned: s.returned.Load(), Batches: s.batches.values(""), Persist: s.persist.values(""),
		Reports: s.reports.Load(), ReportsBack: s.reportsBack.Load(), NoticesCut: s.noticesCut.Load(),
		Lost: []metrics.Count{{Labels: []string{"trap"}, N: s.lostTraps.Load()}, {Labels: []string{"report_response"}, N: s.lostRep.Load()}},
	}
	for a := range s.requests {
		for m := range s.requests[a] {
			if n := s.requests[a][m].Load(); n > 0 {
				out.Requests = append(out.Requests, metrics.Count{Labels: []string{attrSlotName(a), methodSlotName(m)}, N: n})
			}
		}
	}
	var took [attrSlots]metrics.Counts
	var busy [busyReasons]uint64
	s.each(func(w *answerStats) {
		for a := range w.took {
			w.took[a].addTo(&took[a])
		}
		for r := range w.busy {
			busy[r] += w.busy[r].Load()
		}
		out.Dropped += w.dropped.Load()
		out.Unsent += w.unsent.Load()
	})
	for a := range took {
		if took[a].Any() {
			took[a].Label = attrSlotName(a)
			out.Took = append(out.Took, took[a])
		}
	}
	for r, n := range busy {
		out.Busy = append(out.Busy, metrics.Count{Labels: []string{busyNames[r]}, N: n})
	}
	return out
}

// bump adds one to a counter that has one writer.
func bump(c *atomic.Uint64) { c.Store(c.Load() + 1) }
