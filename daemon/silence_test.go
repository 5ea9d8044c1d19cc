package daemon

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// inTime receives from done, and fails the test if nothing comes in time.
func inTime[T any](t *testing.T, what string, done <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-done:
	case <-time.After(need.Patience):
		t.Fatalf("%s: nothing in %v", what, need.Patience)
	}
	return v
}

// torrent delivers requests as fast as they are received, until it is stopped.
type torrent struct {
	pipe
	rng   *rand.Rand
	lids  []ib.LID
	enter func(src ib.LID) *mad.Packet
	stop  atomic.Bool
	asked int
}

func (s *torrent) Recv(p *mad.Packet) error {
	if s.stop.Load() {
		return errors.New("the end")
	}
	s.asked++
	q := s.enter(s.lids[s.rng.IntN(len(s.lids))])
	*p = mad.Packet{Addr: q.Addr, LocalQP: 1, Data: append(p.Data[:0], q.Data...)}
	return nil
}

// TestStopInAFlood: a flood does not keep a manager from stopping, and all requests that wait
// then, or arrive later, are answered.
func TestStopInAFlood(t *testing.T) {
	snap := bringUp(t, "xgft", "2", "4,4", "1,2")
	for _, c := range []struct {
		name  string
		enter func(src ib.LID) *mad.Packet
	}{
		{"queries", func(src ib.LID) *mad.Packet { return pathQuery(src, src, 1) }},
		{"changes", func(src ib.LID) *mad.Packet { return joinRequest(snap, src, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers atomic.Int64
			many := make(chan bool, 1)
			s := &torrent{rng: rand.New(rand.NewPCG(1, 1)), lids: lids(snap), enter: c.enter}
			s.out = func(*mad.Packet) error {
				if answers.Add(1) == 20_000 {
					many <- true
				}
				return nil
			}
			cfg := Config{Port: s, Core: sm.Defaults()}
			d, _ := newPiped(s.out, cfg)
			d.cfg.Port = s
			d.shared.Snap.Store(snap)
			end := d.administer(nil)
			received, ended := make(chan bool), make(chan bool)
			go func() { d.receive(); close(received) }()
			inTime(t, "answers", many)
			go func() { end(); close(ended) }()
			inTime(t, "the end", ended)
			s.stop.Store(true)
			inTime(t, "the end of the port", received)
			if n := answers.Load(); n != int64(s.asked) {
				t.Errorf("%d requests had %d answers", s.asked, n)
			}
		})
	}
}

// TestManagerHoldsNobody: while the manager's loop waits for its disk, for example, any number
// of unsolicited SMP responses do not keep the SA from its requests.
func TestManagerHoldsNobody(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	from := lids(snap)
	answered := make(chan bool, 1)
	d, p := newPiped(func(*mad.Packet) error { answered <- true; return nil }, Config{})
	d.shared.Snap.Store(snap)
	defer d.administer(nil)()
	go d.receive()
	defer close(p.in)
	var m ib.MAD
	smp.NewLID(&m, ib.MethodGetResp, smp.AttrNodeInfo, 0, 0)
	sent := make(chan bool)
	go func() {
		for range smpQueue + 10 {
			p.in <- &mad.Packet{Addr: mad.Addr{LID: from[1]}, Data: m[:]}
		}
		p.in <- pathQuery(from[1], from[2], 1)
		close(sent)
	}()
	inTime(t, "requests are not received", sent)
	inTime(t, "an answer", answered)
	if n := d.smpsCut.Load(); n != 10 {
		t.Errorf("%d SMPs counted as thrown away", n)
	}
}

// TestOnePortIsOneRequester: a port cannot exceed its share by using all of its LIDs, and
// invented LIDs share one queue.
func TestOnePortIsOneRequester(t *testing.T) {
	const share, lmc = 50, 3
	core := sm.Defaults()
	core.LMC = lmc
	snap := bringUpWith(t, core, "xgft", "1", "4", "1")
	from := lids(snap)
	busy := 0
	d, _ := newPiped(func(*mad.Packet) error { busy++; return nil }, Config{QueuePerRequester: share})
	d.shared.Snap.Store(snap)
	port := snap.Ports[snap.PortByLID(from[1])]
	if port.LMC != lmc {
		t.Fatalf("the port has LMC %d", port.LMC)
	}
	for i := range 10 * share {
		receiveSA(d, pathQuery(port.LID+ib.LID(i%(1<<lmc)), from[2], 1))
	}
	if busy != 9*share {
		t.Errorf("%d of %d requests of a port were refused", busy, 10*share)
	}
	busy = 0
	for i := range 10 * share {
		receiveSA(d, pathQuery(0xB000+ib.LID(i), from[2], 1))
	}
	if busy != 9*share {
		t.Errorf("%d of %d requests from invented LIDs were refused", busy, 10*share)
	}
}

// TestTableThatWaitedFindsNoTransfer: a table that the core answers later also becomes BUSY
// when no transfer is free.
func TestTableThatWaitedFindsNoTransfer(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	whole := *snap
	whole.Lanes = make([]*subnet.LaneTables, len(snap.Nodes))
	for i := range whole.Lanes {
		whole.Lanes[i] = &subnet.LaneTables{Complete: true}
	}
	fail := mad.ErrRMPPFull
	var got []ib.Status
	d, _ := newPiped(func(p *mad.Packet) error {
		if p.Data[26]&wire.RMPPActive != 0 {
			return fail
		}
		got = append(got, statusOf(p.Data))
		if tidOf(p.Data) != 77 || ib.Method(p.Data[3]) != ib.MethodGetTableResp {
			t.Errorf("a refusal of another request: % x", p.Data[:24])
		}
		return nil
	}, Config{})
	d.shared.Snap.Store(snap)
	l := newSALoop(d)
	l.shell.Start(nil, 0)
	l.shell.Mail()
	l.settle()
	w := worker{d: d, stats: &d.sa.workers[0]}
	var m ib.MAD
	wire.New(&m, ib.MethodGetTable, wire.AttrSLtoVLRecord, 0, 0)
	m.SetTID(77)
	w.serve(&query{p: &mad.Packet{Addr: mad.Addr{LID: lids(snap)[1], QP: 1}, Data: m[:]}}, 0)
	l.change()
	if len(got) != 0 || len(l.list) != 1 {
		t.Fatalf("statuses %v, %d requests for the core: the tables were to be read first", got, len(l.list))
	}
	d.shared.Snap.Store(&whole)
	l.shell.Mail()
	if len(got) != 1 || got[0] != ib.StatusBusy {
		t.Errorf("statuses %v", got)
	}
}

// TestTablesHoldNobody: while as many hosts as there are cores request tables that are
// never complete, another host gets the path record that it requests.
func TestTablesHoldNobody(t *testing.T) {
	snap := bringUp(t, "xgft", "2", "6,8", "1,3")
	from := lids(snap)
	forever := make(chan bool)
	answered := make(chan bool, 1000) // BUSY to those that wait at the end too
	d, p := newPiped(func(p *mad.Packet) error {
		if p.Data[26]&wire.RMPPActive != 0 {
			<-forever // as if it had taken that long to make it
			return nil
		}
		answered <- true
		return nil
	}, Config{})
	d.shared.Snap.Store(snap)
	defer d.administer(nil)()
	defer close(forever)
	go d.receive()
	defer close(p.in)
	for i := range 3 * len(d.sa.workers) {
		var m ib.MAD
		switch i % 3 {
		case 0:
			wire.New(&m, ib.MethodGetTable, wire.AttrPathRecord, 0, wire.PathCompDLID)
			r := wire.PathRecord{DLID: from[i]}
			r.Put(wire.Data(&m))
		case 1:
			wire.New(&m, ib.MethodGetTable, wire.AttrNodeRecord, 0, wire.NodeCompNodeType)
			wire.Data(&m)[6] = byte(ib.NodeCA)
		default:
			wire.New(&m, ib.MethodGetTable, wire.AttrLFTRecord, 0, 0)
		}
		p.in <- &mad.Packet{Addr: mad.Addr{LID: from[i], QP: 1}, Data: m[:]}
	}
	for range 50 {
		p.in <- pathQuery(from[40], from[1], 1)
		inTime(t, "an answer", answered)
	}
}

// TestSlowStore: while the store writes, a limited number of changes of each requester waits, and
// further ones are answered BUSY immediately. Queries are answered without delay, and so are requests
// that change nothing.
func TestSlowStore(t *testing.T) {
	const share, joins = 20, 100
	snap := bringUp(t, "xgft", "1", "4", "1")
	from := lids(snap)
	busy, path, joined := make(chan bool, joins), make(chan bool, 1), make(chan uint64, joins)
	d, _ := newPiped(func(p *mad.Packet) error {
		switch {
		case statusOf(p.Data) == ib.StatusBusy:
			busy <- true
		case ib.AttrID(p.Data[17]) == wire.AttrPathRecord:
			path <- true
		default:
			joined <- tidOf(p.Data)
		}
		return nil
	}, Config{QueuePerRequester: share})
	var slow atomic.Bool
	writing, written := make(chan bool, joins), make(chan bool)
	d.cfg.Store = &watchedStore{Store: d.cfg.Store, applied: func([]store.Op) {
		if slow.Load() {
			writing <- true
			<-written
		}
	}}
	d.shared.Snap.Store(snap)
	release := sync.OnceFunc(func() { close(written) })
	defer d.administer(nil)()
	defer release()
	receiveSA(d, joinRequest(snap, from[2], 1))
	inTime(t, "a join", joined)
	slow.Store(true)
	for n := range joins {
		receiveSA(d, joinRequest(snap, from[1], 2+n))
	}
	inTime(t, "a write", writing)
	for range joins - share {
		inTime(t, "BUSY", busy)
	}
	receiveSA(d, pathQuery(from[1], from[2], 1))
	inTime(t, "a path", path)
	receiveSA(d, joinRequest(snap, from[2], 1))
	if tid := inTime(t, "the answer to the join of a member", joined); tid != 1 {
		t.Errorf("join %d was answered before it was stored", tid)
	}
	release()
	for range share {
		inTime(t, "a join", joined)
	}
}
