package daemon

import (
	"math/bits"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sm"
)

// saAttrs are the attributes that are counted apart; any other is counted as
// "other", so that nobody can make new series by asking for nonsense.
var saAttrs = [...]ib.AttrID{
	wire.AttrClassPortInfo, wire.AttrNotice, wire.AttrInformInfo, wire.AttrNodeRecord, wire.AttrPortInfoRecord,
	wire.AttrSLtoVLRecord, wire.AttrSwitchInfoRecord, wire.AttrLFTRecord, wire.AttrRFTRecord, wire.AttrMFTRecord,
	wire.AttrSMInfoRecord, wire.AttrLinkRecord, wire.AttrGUIDInfoRecord, wire.AttrServiceRecord,
	wire.AttrPKeyTableRecord, wire.AttrPathRecord, wire.AttrVLArbRecord, wire.AttrMCMemberRecord,
	wire.AttrTraceRecord, wire.AttrMultiPathRecord, wire.AttrInformInfoRecord,
}

// saMethods are the methods that are counted apart.
var saMethods = [...]ib.Method{
	ib.MethodGet, ib.MethodSet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti, ib.MethodDelete,
}

const (
	attrSlots   = len(saAttrs) + 1 // the last one is "other"
	methodSlots = len(saMethods) + 1
)

// attrSlotOf and methodSlotOf number what is counted apart.
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
	busyRequester     busyReason = iota // it has its share waiting
	busyQueue                           // the queue is full
	busyLate                            // it waited so long that the requester has given up
	busyPeerTransfers                   // the requester has its share of RMPP transfers
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

// answerStats is what one goroutine that answers counts. Nobody else writes to
// it, so that the goroutines do not take cache lines from each other.
type answerStats struct {
	took    [attrSlots]histogram // arrival to answer sent
	dropped atomic.Uint64        // requests that must not be answered
	unsent  atomic.Uint64        // answers that the port did not take
	busy    [busyReasons]atomic.Uint64
	_       [64]byte
}

// saStats counts what the SA does. Any goroutine may read it.
type saStats struct {
	// By the receiver alone.
	requests  [attrSlots][methodSlots]atomic.Uint64
	returned  atomic.Uint64 // answers of ours that came back undelivered
	lostRep   atomic.Uint64 // answers to Reports that found the SA's queue full
	receiving answerStats

	workers, tables []answerStats

	// By the SA's loop alone.
	changing    answerStats
	batches     histogram // requests in one step
	persist     histogram // time of an Apply
	reports     atomic.Uint64
	reportsBack atomic.Uint64 // Reports that came back undelivered
	noticesCut  atomic.Uint64 // notices that were not told, for their number

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

// saStatus sums up what the SA does.
func (d *Daemon) saStatus() (out api.SAStatus) {
	for a := range d.sa.requests {
		for m := range d.sa.requests[a] {
			out.Requests += d.sa.requests[a][m].Load()
		}
	}
	d.sa.each(func(w *answerStats) {
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
	if v := d.View(); v != nil {
		out.Groups, out.Services, out.Subscriptions = len(v.Groups), len(v.Services), len(v.Subs)
		for _, g := range v.Groups {
			out.Members += len(g.Members)
		}
	}
	return out
}

func partitionStatus(st *sm.Status) api.PartitionStatus {
	p := &st.Partitions
	return api.PartitionStatus{Count: p.Count, Settled: p.Settled, Pending: p.Pending, Quarantined: len(p.Quarantined)}
}

// bump adds one to a counter that has one writer.
func bump(c *atomic.Uint64) { c.Store(c.Load() + 1) }
