package daemon

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
)

// client is a port with the requesters of a whole subnet. The number of its outstanding
// requests is bounded.
type client struct {
	room  chan struct{}
	start chan int // how many to ask next; closed at the end
	done  chan struct{}

	// Of Recv, which one goroutine calls.
	left, asked int
	rng         *rand.Rand
	lids        []ib.LID

	answered, refused, busy atomic.Int64
	goal                    atomic.Int64
}

func newClient(lids []ib.LID, window int) *client {
	return &client{
		room: make(chan struct{}, window), start: make(chan int), done: make(chan struct{}, 1),
		rng: rand.New(rand.NewPCG(1, 2)), lids: lids,
	}
}

// ask sends n requests and returns when all are answered.
func (c *client) ask(n int) {
	c.goal.Add(int64(n))
	c.start <- n
	<-c.done
}

func (c *client) Recv(p *mad.Packet) error {
	for c.left == 0 {
		n, ok := <-c.start
		if !ok {
			return errors.New("the test has ended")
		}
		c.left = n
	}
	c.room <- struct{}{}
	c.left--
	c.asked++
	src, dst := c.lids[c.rng.IntN(len(c.lids))], c.lids[c.rng.IntN(len(c.lids))]
	var m ib.MAD
	switch k := c.rng.IntN(10000); {
	case k == 0: // a table, which comes whole
		wire.New(&m, ib.MethodGetTable, wire.AttrPathRecord, 0, wire.PathCompSLID)
		r := wire.PathRecord{SLID: src}
		r.Put(wire.Data(&m))
	case k < 500:
		wire.New(&m, ib.MethodGet, wire.AttrNodeRecord, 0, wire.NodeCompLID)
		r := wire.NodeRecord{LID: dst}
		r.Put(wire.Data(&m))
	case k < 600: // refused: there is no such LID
		wire.New(&m, ib.MethodGet, wire.AttrNodeRecord, 0, wire.NodeCompLID)
		r := wire.NodeRecord{LID: ib.LIDMaxUnicast}
		r.Put(wire.Data(&m))
	default:
		wire.New(&m, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompDLID|wire.PathCompSLID|wire.PathCompNumbPath)
		r := wire.PathRecord{DLID: dst, SLID: src, NumbPath: 1}
		r.Put(wire.Data(&m))
	}
	m.SetTID(uint64(c.asked))
	*p = mad.Packet{Addr: mad.Addr{LID: src, QP: 1}, LocalQP: 1, Data: append(p.Data[:0], m[:]...)}
	return nil
}

func (c *client) Send(p *mad.Packet) error {
	switch statusOf(p.Data) {
	case ib.StatusOK:
	case ib.StatusBusy:
		c.busy.Add(1)
	default:
		c.refused.Add(1)
	}
	<-c.room
	if c.answered.Add(1) == c.goal.Load() {
		c.done <- struct{}{}
	}
	return nil
}

func (c *client) SetIsSM(bool) error { return nil }
func (c *client) PortGUID() ib.GUID  { return 1 }
func (c *client) SegmentsRMPP() bool { return true }
func (c *client) MaxInFlight() int   { return 0 }
func (c *client) Close() error       { return nil }

// memory is what this process uses: live heap and resident pages, in bytes, and goroutines.
func memory(t *testing.T) (heap, resident, goroutines int) {
	t.Helper()
	debug.FreeOSMemory() // collects first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return int(m.HeapAlloc), pages * os.Getpagesize(), runtime.NumGoroutine()
}

// TestMemoryFlat: the SA's memory does not grow with the number of answers, from a tenth of the
// queries to all of them. With HEDDLE_LONG these are 10^8.
func TestMemoryFlat(t *testing.T) {
	queries := 300_000
	if os.Getenv("HEDDLE_LONG") != "" {
		queries = 100_000_000
	}
	snap := bringUp(t, "xgft", "2", "6,8", "1,3")
	c := newClient(lids(snap), 256)
	d := New(Config{Port: c, Core: sm.Defaults(), Store: store.NewMemory()})
	d.shared.Snap.Store(snap)
	end := d.administer(nil)
	defer end()
	go d.receive()
	defer close(c.start)

	c.ask(queries / 10)
	heap, resident, goroutines := memory(t)
	c.ask(queries - queries/10)
	heap2, resident2, goroutines2 := memory(t)
	t.Logf("%d queries: heap %d to %d KiB, resident %d to %d KiB", queries, heap>>10, heap2>>10, resident>>10, resident2>>10)
	if n := c.answered.Load(); n != int64(queries) {
		t.Errorf("%d answers to %d queries", n, queries)
	}
	if c.busy.Load() != 0 {
		t.Errorf("%d answers were BUSY; 256 queries under way are no flood", c.busy.Load())
	}
	if c.refused.Load() == 0 {
		t.Error("nothing was refused: the questions are not what they should be")
	}
	if heap2 > heap+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", heap, heap2)
	}
	if resident2 > resident+16<<20 {
		t.Errorf("resident memory grew from %d to %d bytes", resident, resident2)
	}
	if goroutines2 > goroutines {
		t.Errorf("%d goroutines became %d", goroutines, goroutines2)
	}
}
