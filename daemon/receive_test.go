package daemon

import (
	"errors"
	"sync"
	"testing"
	"time"

	"heddle/api"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
)

// script is a port whose packets arrive at once or gradually, and that accepts room answers
// without blocking. It runs on one goroutine.
type script struct {
	mu sync.Mutex // of TrySend
	pipe
	in       []*mad.Packet
	each     int // so many are there before Recv waits for the next; 0 = all
	got      int
	room     int
	rmpp     bool
	answers  []*mad.Packet
	received int // packets since answers were last sent
	longest  int // run of them
	calls    int // of TrySend
}

func (s *script) Bursts() bool     { return true }
func (s *script) BurstsRMPP() bool { return s.rmpp }

func (s *script) Recv(p *mad.Packet) error {
	s.got = 0
	if ok, _ := s.TryRecv(p); !ok {
		return errors.New("the script is over")
	}
	return nil
}

func (s *script) TryRecv(p *mad.Packet) (bool, error) {
	if len(s.in) == 0 || s.each > 0 && s.got == s.each {
		return false, nil
	}
	s.got++
	s.received++
	s.longest = max(s.longest, s.received)
	data := append(p.Data[:0], s.in[0].Data...)
	*p = *s.in[0]
	p.Data, s.in = data, s.in[1:]
	return true, nil
}

func (s *script) TrySend(ps []mad.Packet) (int, error) {
	s.mu.Lock() // several workers send
	defer s.mu.Unlock()
	s.received = 0
	s.calls++
	n := min(len(ps), s.room)
	s.room -= n
	for _, p := range ps[:n] {
		p.Data = append([]byte(nil), p.Data...)
		s.answers = append(s.answers, &p)
	}
	return n, nil
}

// tids are the transactions of the answers, in their order.
func (s *script) tids(t *testing.T) (ids []uint64) {
	for _, p := range s.answers {
		if st := statusOf(p.Data); st != 0 {
			t.Errorf("answer %d has status %v", tidOf(p.Data), st)
		}
		ids = append(ids, tidOf(p.Data))
	}
	return ids
}

// withScript makes a manager on a subnet of four hosts whose receiver runs
// through a script. It has no workers; Send fails the test.
func withScript(t *testing.T, s *script) (*Daemon, []ib.LID) {
	t.Helper()
	snap := bringUp(t, "xgft", "1", "4", "1")
	s.out = func(p *mad.Packet) error {
		t.Errorf("the receiver waited for room to answer %d", tidOf(p.Data))
		return nil
	}
	core := sm.Defaults()
	core.SMKey = 1
	d := New(Config{Port: s, Core: core, Store: store.NewMemory()})
	d.shared.Snap.Store(snap)
	return d, lids(snap)
}

// rung reports whether a worker was woken.
func rung(q *queue) bool {
	select {
	case <-q.bell:
		return true
	default:
		return false
	}
}

// TestReceiverAnswers: quick requests are answered without waking a worker once no more packets
// wait, and counted.
func TestReceiverAnswers(t *testing.T) {
	for _, each := range []int{1, 3, 0} {
		s := &script{each: each, room: 1000}
		d, from := withScript(t, s)
		const n = 40
		for i := range uint64(n) {
			s.in = append(s.in, pathQuery(from[i%4], from[(i+1)%4], i))
		}
		d.receive()
		seen := map[uint64]bool{}
		for _, id := range s.tids(t) {
			seen[id] = true
		}
		if len(seen) != n || len(s.answers) != n {
			t.Errorf("%d at once: %d answers to %d of %d requests", each, len(s.answers), len(seen), n)
		}
		if rung(d.queries) {
			t.Errorf("%d at once: a worker was woken", each)
		}
		var counted api.SAStatus
		if d.sa.addTo(&counted); counted.Answered != n {
			t.Errorf("%d at once: %d answers counted, want %d", each, counted.Answered, n)
		}
	}
}

// TestReceiverIsFair: a requester with many requests does not delay one with a single request that
// comes after all of them.
func TestReceiverIsFair(t *testing.T) {
	s := &script{room: 1000}
	d, from := withScript(t, s)
	for range ownMost - 1 {
		s.in = append(s.in, pathQuery(from[1], from[2], 1))
	}
	s.in = append(s.in, pathQuery(from[2], from[1], 2))
	d.receive()
	ids := s.tids(t)
	if len(ids) != ownMost || ids[0] != 2 {
		t.Errorf("answers in the order %v; the other requester's is 2", ids)
	}
}

// TestReceiverDrains: with any number of packets waiting, requests are answered after drainMost
// packets, and workers are woken.
func TestReceiverDrains(t *testing.T) {
	s := &script{room: 10000}
	d, from := withScript(t, s)
	for i := range uint64(4 * drainMost) {
		s.in = append(s.in, pathQuery(from[i%4], from[(i+1)%4], i))
	}
	d.receive()
	if s.longest != drainMost {
		t.Errorf("%d packets were received before an answer, want %d", s.longest, drainMost)
	}
	if !rung(d.queries) {
		t.Error("no worker was woken")
	}
}

// TestReceiverRefuses: requests without a place in the queue are answered BUSY, many with one
// call, and without waiting for room in the port.
func TestReceiverRefuses(t *testing.T) {
	const share, n = 20, 100
	for _, room := range []int{1000, 7} {
		s := &script{room: room}
		d, from := withScript(t, s)
		d.queries = newQueue(share, 1000)
		for range n {
			s.in = append(s.in, pathQuery(from[1], from[2], 1))
		}
		d.receive()
		busy := 0
		for _, p := range s.answers {
			if statusOf(p.Data) == ib.StatusBusy && tidOf(p.Data) == 1 && p.Addr.LID == from[1] {
				busy++
			}
		}
		unsent := int(d.sa.receiving.unsent.Load())
		if refused := int(d.sa.receiving.busy[busyRequester].Load()); refused != n-share || busy != min(room, refused) || unsent != refused-busy {
			t.Errorf("room for %d: %d refused, %d answered BUSY, %d unsent", room, refused, busy, unsent)
		}
		if most := n/maxBatch + share/ownBatch + 1; s.calls > most {
			t.Errorf("room for %d: %d calls, want at most %d", room, s.calls, most)
		}
	}
}

// TestReceiverPolls: where a look into the port is slow, the receiver looks less often; one slow look
// changes nothing.
func TestReceiverPolls(t *testing.T) {
	r := &receiver{}
	for range 20 {
		r.polled(time.Microsecond)
	}
	if r.polled(3 * time.Millisecond); r.own() != ownBatch {
		t.Errorf("batches of %d after one slow look", r.own())
	}
	for range 20 {
		r.polled(25 * time.Microsecond)
	}
	if r.own() != maxBatch {
		t.Errorf("batches of %d where looks are slow", r.own())
	}
	for range 40 {
		r.polled(time.Microsecond)
	}
	if r.own() != ownBatch {
		t.Errorf("batches of %d where looks are fast again", r.own())
	}
}

// TestReceiverDoesNotWait: answers for which the port has no room are sent by the workers.
func TestReceiverDoesNotWait(t *testing.T) {
	s := &script{room: 3}
	d, from := withScript(t, s)
	const n = 12
	for i := range uint64(n) {
		s.in = append(s.in, pathQuery(from[1], from[2], i))
	}
	d.receive()
	if got := s.tids(t); len(got) != 3 {
		t.Fatalf("%d answers taken, want 3", len(got))
	}
	if waiting, _ := d.queries.load(); waiting != n-3 {
		t.Fatalf("%d requests wait, want %d", waiting, n-3)
	}
	seen := make(chan uint64, n)
	s.out = func(p *mad.Packet) error {
		seen <- tidOf(p.Data)
		return nil
	}
	got := map[uint64]bool{}
	for _, p := range s.answers {
		got[tidOf(p.Data)] = true
	}
	defer d.administer(nil)() // workers: from here on answers are not ours alone
	for len(got) < n {
		if id := <-seen; got[id] {
			t.Fatalf("%d was answered twice", id)
		} else {
			got[id] = true
		}
	}
}

// TestReceiverLeavesWork: if a request waits that is not quick, the workers get all requests,
// in order.
func TestReceiverLeavesWork(t *testing.T) {
	s := &script{room: 1000}
	d, from := withScript(t, s)
	var m ib.MAD
	wire.New(&m, ib.MethodGetTable, wire.AttrNodeRecord, 0, 1)
	s.in = append(s.in, pathQuery(from[1], from[2], 1), &mad.Packet{Addr: mad.Addr{LID: from[1], QP: 1}, LocalQP: 1, Data: m[:]}, pathQuery(from[1], from[2], 2))
	d.receive()
	if waiting, _ := d.queries.load(); waiting != 3 || len(s.answers) != 0 {
		t.Errorf("%d requests wait and %d were answered, want 3 and 0", waiting, len(s.answers))
	}
	if !rung(d.queries) {
		t.Error("no worker was woken")
	}
}

// TestQuick: which queries the receiver may answer.
func TestQuick(t *testing.T) {
	both := wire.PathCompDLID | wire.PathCompSLID
	for _, c := range []struct {
		method ib.Method
		attr   ib.AttrID
		mask   wire.CompMask
		want   bool
		tables bool // want where the port takes RMPP messages at once
	}{
		{ib.MethodGet, wire.AttrPathRecord, both, true, true},
		{ib.MethodGet, wire.AttrPathRecord, wire.PathCompDGID | wire.PathCompSGID, true, true},
		{ib.MethodGet, wire.AttrPathRecord, wire.PathCompDLID, false, false},
		{ib.MethodGetTable, wire.AttrPathRecord, both, false, false},
		{ib.MethodGet, wire.AttrNodeRecord, 1, false, false},
		{ib.MethodGetTable, wire.AttrNodeRecord, 1, false, true},
		{ib.MethodGetTable, wire.AttrPortInfoRecord, 1, false, true},
		{ib.MethodGetTable, wire.AttrPortInfoRecord, 2, false, false}, // of no LID
		{ib.MethodGetTable, wire.AttrSLtoVLRecord, 1, false, false},
		{ib.MethodGet, wire.AttrClassPortInfo, 0, true, true},
		{ib.MethodGetMulti, wire.AttrMultiPathRecord, both, false, false},
	} {
		var m ib.MAD
		wire.New(&m, c.method, c.attr, 0, c.mask)
		if got, tables := quick(m[:], false), quick(m[:], true); got != c.want || tables != c.tables {
			t.Errorf("%v of %#x, components %#x: %v, with tables %v", c.method, c.attr, c.mask, got, tables)
		}
	}
}
