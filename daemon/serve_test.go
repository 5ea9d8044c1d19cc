package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/fabrictest"
	"heddle/mad"
	"heddle/route/engine/auto"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// bringUp returns the snapshot of a simulated subnet that is up.
func bringUp(tb testing.TB, kind string, params ...string) *subnet.Snapshot {
	tb.Helper()
	return bringUpWith(tb, sm.Defaults(), kind, params...)
}

// bringUpWith is bringUp with settings of the manager's.
func bringUpWith(tb testing.TB, core sm.Config, kind string, params ...string) *subnet.Snapshot {
	tb.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	drv := live.New(s)
	defer drv.Close()
	port, err := drv.Port("")
	if err != nil {
		tb.Fatal(err)
	}
	defer port.Close()
	var snap *subnet.Snapshot
	core.Engines, core.MaxWindow = auto.Engines(), port.MaxInFlight()
	d := New(Config{
		Port: port, Core: core,
		Store: store.NewMemory(), Once: true, OnUp: func(s *subnet.Snapshot) { snap = s },
	})
	if err := d.Run(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return snap
}

// lids are the base LIDs of a snapshot's end ports.
func lids(s *subnet.Snapshot) (l []ib.LID) {
	for _, i := range s.EndPortPort {
		l = append(l, s.Ports[i].LID)
	}
	return l
}

// pathQuery is a PathRecord Get from LID src to LID dst.
func pathQuery(src, dst ib.LID, tid uint64) *mad.Packet {
	var m ib.MAD
	wire.New(&m, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompDLID|wire.PathCompSLID|wire.PathCompNumbPath)
	r := wire.PathRecord{DLID: dst, SLID: src, NumbPath: 1}
	r.Put(wire.Data(&m))
	m.SetTID(tid)
	return &mad.Packet{Addr: mad.Addr{LID: src, QP: 1}, LocalQP: 1, Data: m[:]}
}

// pipe is a port driven by the test: it receives the packets of in, and passes answers to out,
// which must not keep them.
type pipe struct {
	in  chan *mad.Packet
	out func(p *mad.Packet) error
}

func (p *pipe) Recv(q *mad.Packet) error {
	r, ok := <-p.in
	if !ok {
		return errors.New("the test has ended")
	}
	data := append(q.Data[:0], r.Data...)
	*q = *r
	q.Data = data
	return nil
}

func (p *pipe) Send(q *mad.Packet) error { return p.out(q) }
func (p *pipe) SetIsSM(bool) error       { return nil }
func (p *pipe) PortGUID() ib.GUID        { return 1 }
func (p *pipe) SegmentsRMPP() bool       { return true }
func (p *pipe) MaxInFlight() int         { return 0 }
func (p *pipe) Close() error             { return nil }

func newPiped(out func(p *mad.Packet) error, c Config) (*Daemon, *pipe) {
	p := &pipe{in: make(chan *mad.Packet), out: out}
	c.Port, c.Core, c.Store = p, sm.Defaults(), store.NewMemory()
	return New(c), p
}

func statusOf(b []byte) ib.Status { return ib.Status(binary.BigEndian.Uint16(b[4:])) }
func tidOf(b []byte) uint64       { return binary.BigEndian.Uint64(b[8:]) }

// TestAnswersWhileSnapshotsChange: every query is answered once, from one of the snapshots,
// never from parts of both.
func TestAnswersWhileSnapshotsChange(t *testing.T) {
	const queries, window = 20000, 500
	var versions [2]*subnet.Snapshot
	versions[0] = bringUp(t, "xgft", "2", "6,8", "1,3")
	other := *versions[0]
	other.PacketLife, other.Gen = versions[0].PacketLife+1, other.Gen+1
	versions[1] = &other
	from := lids(versions[0])

	room := make(chan struct{}, window)
	var mu sync.Mutex
	seen := make([]int, queries)
	var byLife [2]int
	d, p := newPiped(func(p *mad.Packet) error {
		var r wire.PathRecord
		if err := r.Decode(p.Data[wire.DataOffset:]); err != nil || statusOf(p.Data) != 0 {
			t.Errorf("query %d: status %v, %v", tidOf(p.Data), statusOf(p.Data), err)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[tidOf(p.Data)]++
		for v := range versions {
			if r.PacketLifeTime == versions[v].PacketLife {
				byLife[v]++
			}
		}
		<-room
		return nil
	}, Config{})
	d.shared.Snap.Store(versions[0])
	end := d.administer(nil)
	defer end()
	go d.receive()
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				smSays(d, sm.Output{Publish: versions[i%2]})
			}
		}
	})
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range queries {
		room <- struct{}{}
		a := rng.IntN(len(from))
		b := (a + 1 + rng.IntN(len(from)-1)) % len(from) // to itself a port has a path without a life time
		p.in <- pathQuery(from[a], from[b], uint64(i))
	}
	for range window {
		room <- struct{}{} // until the last one is answered
	}
	close(stop)
	swapper.Wait()
	close(p.in)
	for i, n := range seen {
		if n != 1 {
			t.Errorf("query %d was answered %d times", i, n)
		}
	}
	if byLife[0]+byLife[1] != queries || byLife[0] == 0 || byLife[1] == 0 {
		t.Errorf("%v answers by snapshot, of %d", byLife, queries)
	}
}

// TestFloodOfOne: a requester that has filled its share is answered BUSY immediately, and
// another one is served without delay.
func TestFloodOfOne(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	from := lids(snap)
	flooder, victim := from[1], from[2]
	var mu sync.Mutex
	var order []uint64 // of answers that are not BUSY
	busy := 0
	done := make(chan struct{}, 1)
	const share, flood = 300, 1000
	d, _ := newPiped(func(p *mad.Packet) error {
		mu.Lock()
		defer mu.Unlock()
		if statusOf(p.Data) == ib.StatusBusy {
			busy++
			return nil
		}
		if order = append(order, tidOf(p.Data)); len(order) == share+1 {
			done <- struct{}{}
		}
		return nil
	}, Config{QueuePerRequester: share})
	d.shared.Snap.Store(snap)
	for range flood {
		receiveSA(d, pathQuery(flooder, victim, 1))
	}
	if busy != flood-share {
		t.Errorf("%d requests were answered BUSY at once, want %d", busy, flood-share)
	}
	receiveSA(d, pathQuery(victim, flooder, 2))
	d.sa.workers = d.sa.workers[:1] // of several, one might rest with the request in hand
	defer d.administer(nil)()
	<-done
	mu.Lock()
	defer mu.Unlock()
	if at := slices.Index(order, 2); at != 0 {
		t.Errorf("the other requester was served after %d requests, want 0", at)
	}
	if n := d.sa.receiving.busy[busyRequester].Load(); n != flood-share {
		t.Errorf("%d counted as busy", n)
	}
}

// TestLate: a request older than lateAfter, by the worker's clock, is answered BUSY without
// work.
func TestLate(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	var got []ib.Status
	d, _ := newPiped(func(p *mad.Packet) error {
		got = append(got, statusOf(p.Data))
		return nil
	}, Config{})
	d.shared.Snap.Store(snap)
	w := worker{d: d, stats: &d.sa.workers[0]}
	from := lids(snap)
	q := query{p: pathQuery(from[0], from[1], 1), at: 1000}
	w.serve(&q, q.at.Add(lateAfter))
	w.serve(&q, q.at.Add(lateAfter+1))
	if len(got) != 2 || got[0] != 0 || got[1] != ib.StatusBusy {
		t.Errorf("statuses %v", got)
	}
}

// TestFullTransfers: an answer without a free transfer becomes BUSY. A repeated request whose
// answer is being sent gets no second answer.
func TestFullTransfers(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	var fail error
	var got []ib.Status
	d, _ := newPiped(func(p *mad.Packet) error {
		if p.Data[26]&wire.RMPPActive != 0 {
			return fail
		}
		got = append(got, statusOf(p.Data))
		return nil
	}, Config{})
	d.shared.Snap.Store(snap)
	w := worker{d: d, stats: &d.sa.workers[0]}
	var m ib.MAD
	wire.New(&m, ib.MethodGetTable, wire.AttrNodeRecord, 0, 0)
	for _, c := range []struct {
		err  error
		busy int
	}{{nil, 0}, {mad.ErrRMPPBusy, 0}, {mad.ErrRMPPFull, 1}, {mad.ErrRMPPPeer, 1}} {
		fail, got = c.err, nil
		w.serve(&query{p: &mad.Packet{Addr: mad.Addr{LID: lids(snap)[1], QP: 1}, Data: m[:]}}, 0)
		if len(got) != c.busy || c.busy > 0 && got[0] != ib.StatusBusy {
			t.Errorf("%v: statuses %v", c.err, got)
		}
	}
	if a, b := w.stats.busy[busyTransfers].Load(), w.stats.busy[busyPeerTransfers].Load(); a != 1 || b != 1 {
		t.Errorf("counted: %d busy for all transfers, %d for the peer's", a, b)
	}
}

// FuzzServe: every packet of the SA class is answered once, dropped, or passed to the core;
// nothing crashes, and packets are returned.
func FuzzServe(f *testing.F) {
	f.Add(uint16(1), pathQuery(1, 2, 3).Data)
	for _, method := range saMethods {
		for _, attr := range saAttrs {
			var m ib.MAD
			wire.New(&m, method, attr, 0, ^wire.CompMask(0))
			f.Add(uint16(2), m[:])
		}
	}
	snap := bringUp(f, "xgft", "1", "4", "1")
	answers := 0
	d, _ := newPiped(func(*mad.Packet) error { answers++; return nil }, Config{})
	d.shared.Snap.Store(snap)
	l := newSALoop(d)
	l.shell.Start(nil, 0)
	l.shell.Mail()
	w := worker{d: d, stats: &d.sa.workers[0]}
	f.Fuzz(func(t *testing.T, lid uint16, data []byte) {
		if len(data) < 24 {
			return // receive does not let it pass
		}
		answers = 0
		receiveSA(d, &mad.Packet{Addr: mad.Addr{LID: ib.LID(lid), QP: 1}, Data: data})
		for _, q := range []*queue{d.queries, d.tables} {
			if q.take(w.batch[:], nil, 1) > 0 {
				w.serve(&w.batch[0], d.now())
				q.take(nil, w.batch[:1], 1)
			}
		}
		l.change()
		l.change()
		l.settle()
		for len(d.reports) > 0 {
			l.shell.Step(sa.Received{P: <-d.reports})
		}
		if n, _ := d.changes.load(); n != 0 || answers > 1 {
			t.Fatalf("%d answers, %d requests left", answers, n)
		}
	})
}

// stream is a port that keeps an SA fully loaded: up to window path queries of random ports are
// outstanding. It is cheap, so that a benchmark measures the daemon.
type stream struct {
	pipe
	ask      ib.MAD // but for the LIDs
	lids     []ib.LID
	rng      *rand.Rand
	left     int64 // receiver only
	window   int64
	inFlight atomic.Int64
	answered atomic.Int64
	refused  atomic.Int64
	total    int64
	room     chan struct{}
	done     chan struct{}
}

func newStream(s *subnet.Snapshot, total int64) *stream {
	return &stream{
		ask: ib.MAD(pathQuery(0, 0, 1).Data), lids: lids(s), rng: rand.New(rand.NewPCG(1, 1)), left: total, total: total,
		window: 4096, room: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

func (s *stream) Recv(q *mad.Packet) error {
	if s.left == 0 {
		<-s.done
		return errors.New("the end")
	}
	s.left--
	if s.inFlight.Add(1) > s.window {
		<-s.room
	}
	n := uint32(len(s.lids))
	src, dst := s.lids[s.rng.Uint32N(n)], s.lids[s.rng.Uint32N(n)]
	*q = mad.Packet{Addr: mad.Addr{LID: src, QP: 1}, LocalQP: 1, Data: append(q.Data[:0], s.ask[:]...)}
	binary.BigEndian.PutUint16(q.Data[wire.DataOffset+40:], uint16(dst))
	binary.BigEndian.PutUint16(q.Data[wire.DataOffset+42:], uint16(src))
	return nil
}

func (s *stream) Send(p *mad.Packet) error {
	if p.Data[4]|p.Data[5] != 0 {
		s.refused.Add(1)
	}
	// The reader sleeps at a full window until half of it is free.
	if s.inFlight.Add(-1) == s.window/2 {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
	if s.answered.Add(1) == s.total {
		close(s.done)
	}
	return nil
}

// BenchmarkServe is the whole path of a PathRecord query through the daemon: receive, queue,
// worker, answer, count. ns/op is the time from one answer to the next, cpu-ns/op what an
// answer costs, on a machine that others use too.
func BenchmarkServe(b *testing.B) {
	for _, c := range []struct {
		name   string
		params []string
	}{
		{"648", []string{"2", "18,36", "1,18"}},
		{"11664", []string{"3", "18,18,36", "1,18,18"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			snap := bringUp(b, "xgft", c.params...)
			s := newStream(snap, int64(b.N))
			d := New(Config{Port: s, Core: sm.Defaults(), Store: store.NewMemory()})
			d.shared.Snap.Store(snap)
			defer d.administer(nil)()
			runtime.GC() // of the bring-up
			b.ReportAllocs()
			b.ResetTimer()
			cpu := processorTime(b)
			go d.receive()
			<-s.done
			b.StopTimer()
			b.ReportMetric(float64(processorTime(b)-cpu)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
			if n := s.refused.Load(); n > 0 {
				b.Errorf("%d of %d answers have a status", n, b.N)
			}
		})
	}
}

// processorTime is the CPU time of this process.
func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
