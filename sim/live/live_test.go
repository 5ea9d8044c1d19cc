package live

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

func star(t testing.TB, n int) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	sw := b.AddSwitch("S", n)
	for i := range n {
		b.Connect(sw, i+1, b.AddCA(fmt.Sprintf("H%d", i+1), 1), 1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func start(t testing.TB, n int, c sim.Config) *Driver {
	t.Helper()
	s, err := sim.New(star(t, n), c)
	if err != nil {
		t.Fatal(err)
	}
	d := New(s)
	t.Cleanup(d.Close)
	return d
}

func open(t testing.TB, d *Driver, node string) *Port {
	t.Helper()
	p, err := d.Port(node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func get(tid uint64, attr ib.AttrID, path ...byte) *mad.Packet {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, attr, 0, 0, path)
	m.SetTID(tid)
	return &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}
}

func TestSendIsSynchronous(t *testing.T) {
	d := start(t, 2, sim.Config{})
	p := open(t, d, "H1")
	if err := p.Send(get(9, smp.AttrNodeInfo, 1, 2)); err != nil {
		t.Fatal(err)
	}
	var q mad.Packet
	if !p.TryRecv(&q) {
		t.Fatal("no answer without latency")
	}
	m := (*ib.MAD)(q.Data)
	if m.Method() != ib.MethodGetResp || m.TID()&0xffffffff != 9 {
		t.Fatalf("% x", m[:24])
	}
	if p.TryRecv(&q) {
		t.Fatal("a second answer")
	}
}

// The answer takes as long as the simulated fabric says, in real time.
func TestLatency(t *testing.T) {
	const sma = 3 * time.Millisecond
	d := start(t, 1, sim.Config{SMALatency: sma, HopLatency: 100 * time.Microsecond})
	p := open(t, d, "H1")
	begin := time.Now()
	if err := p.Send(get(1, smp.AttrNodeInfo, 1)); err != nil {
		t.Fatal(err)
	}
	var q mad.Packet
	if !p.TryRecv(&q) { // there already if this goroutine lost the processor
		if err := p.Recv(&q); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < sma+200*time.Microsecond {
		t.Errorf("took %v", took)
	}
}

func TestLostRequestReturns(t *testing.T) {
	d := start(t, 1, sim.Config{})
	p := open(t, d, "H1")
	if err := p.Send(get(5, smp.AttrNodeInfo, 1, 1, 1, 1, 7)); err != nil {
		t.Fatal(err)
	}
	var q mad.Packet
	if !p.TryRecv(&q) || q.Status != mad.Failed || (*ib.MAD)(q.Data).TID()&0xffffffff != 5 {
		t.Fatalf("status %v", q.Status)
	}
}

func TestQueueIsBounded(t *testing.T) {
	d := start(t, 1, sim.Config{})
	p := open(t, d, "H1")
	const over = 10
	for i := range QueueLen + over {
		if err := p.Send(get(uint64(i+1), smp.AttrNodeInfo)); err != nil {
			t.Fatal(err)
		}
	}
	if p.Lost() != over {
		t.Errorf("%d lost, want %d", p.Lost(), over)
	}
	var q mad.Packet
	for i := range QueueLen {
		if !p.TryRecv(&q) || (*ib.MAD)(q.Data).TID()&0xffffffff != uint64(i+1) {
			t.Fatalf("packet %d is out of order or missing", i)
		}
	}
	if p.TryRecv(&q) {
		t.Error("more than the queue holds")
	}
}

func TestManyGoroutines(t *testing.T) {
	const ports, requests = 8, 300
	for _, c := range []sim.Config{{}, {HopLatency: 2 * time.Microsecond, SMALatency: time.Microsecond}} {
		d := start(t, ports, c)
		var wg sync.WaitGroup
		for i := range ports {
			p := open(t, d, fmt.Sprintf("H%d", i+1))
			wg.Go(func() {
				for k := range requests {
					_ = p.Send(get(uint64(k+1), smp.AttrNodeInfo, 1))
				}
			})
			wg.Go(func() {
				seen := make([]bool, requests+1)
				var q mad.Packet
				for range requests {
					if err := p.Recv(&q); err != nil {
						t.Error(err)
						return
					}
					tid := (*ib.MAD)(q.Data).TID() & 0xffffffff
					if seen[tid] {
						t.Errorf("transaction %d twice", tid)
					}
					seen[tid] = true
				}
			})
		}
		wg.Wait()
	}
}

// A list is sent in order, and wakes a reader that waits.
func TestSendAll(t *testing.T) {
	d := start(t, 2, sim.Config{})
	p := open(t, d, "H1")
	const n = 3*sendBatch + 1
	var list []mad.Packet
	for i := range n {
		list = append(list, *get(uint64(i+1), smp.AttrNodeInfo, 1, 2))
	}
	done := make(chan error)
	go func() {
		var q mad.Packet
		for i := range n {
			if err := p.Recv(&q); err != nil {
				done <- err
				return
			}
			if tid := (*ib.MAD)(q.Data).TID() & 0xffffffff; tid != uint64(i+1) {
				done <- fmt.Errorf("answer %d is to request %d", i+1, tid)
				return
			}
		}
		done <- nil
	}()
	if sent, err := p.SendAll(list); sent != n || err != nil {
		t.Fatal(sent, err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.Close()
	if sent, err := p.SendAll(list); sent != 0 || err == nil {
		t.Errorf("a closed port sent %d: %v", sent, err)
	}
}

func TestIsSMAndUnsolicited(t *testing.T) {
	d := start(t, 2, sim.Config{})
	sm, other := open(t, d, "H1"), open(t, d, "H1")
	asker := open(t, d, "H2")
	if err := sm.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	if other.SetIsSM(true) == nil {
		t.Error("two hold IsSM")
	}
	if pi := sm.PortInfo(); !pi.CapabilityMask.Has(ib.CapIsSM) {
		t.Error("IsSM is not in the capability mask")
	}
	if err := asker.Send(get(3, smp.AttrSMInfo, 1, 1)); err != nil {
		t.Fatal(err)
	}
	var q mad.Packet
	if !sm.TryRecv(&q) || (*ib.MAD)(q.Data).AttrID() != smp.AttrSMInfo {
		t.Fatal("the SM was not asked")
	}
	smp.Respond((*ib.MAD)(q.Data), 0)
	if err := sm.Send(&q); err != nil {
		t.Fatal(err)
	}
	if !asker.TryRecv(&q) || (*ib.MAD)(q.Data).Method() != ib.MethodGetResp {
		t.Fatal("the answer did not come back")
	}
	sm.Close()
	if err := other.SetIsSM(true); err != nil {
		t.Errorf("after the holder closed: %v", err)
	}
}

func TestClose(t *testing.T) {
	d := start(t, 1, sim.Config{})
	p := open(t, d, "H1")
	done := make(chan error)
	go func() {
		var q mad.Packet
		done <- p.Recv(&q)
	}()
	p.Close()
	p.Close()
	if err := <-done; err == nil {
		t.Error("Recv of a closed port succeeded")
	}
	if p.Send(get(1, smp.AttrNodeInfo)) == nil {
		t.Error("Send on a closed port succeeded")
	}
	d.Close()
	d.Close()
	if _, err := d.Port("H1"); err == nil {
		t.Error("a closed driver gave a port")
	}
	d.Do(func(s *sim.Subnet) {
		if s.Fabric() == nil {
			t.Error("the subnet cannot be looked at")
		}
	})
	if _, err := d.Port("nobody"); err == nil {
		t.Error("an unknown node was opened")
	}
}

type counter struct {
	d     *Driver
	calls int
}

func (c *counter) Flush() {
	// The lock is free: taking it must not deadlock.
	c.d.Begin()
	c.calls++
	c.d.End()
}

func TestAfterUnlock(t *testing.T) {
	d := start(t, 1, sim.Config{})
	var cs [40]counter
	d.Begin()
	for i := range cs {
		cs[i].d = d
		d.AfterUnlock(&cs[i])
	}
	d.End()
	for i := range cs {
		if cs[i].calls != 1 {
			t.Errorf("flusher %d: %d calls", i, cs[i].calls)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	d := start(t, 2, sim.Config{})
	p := open(t, d, "H1")
	req := get(1, smp.AttrNodeInfo, 1, 2)
	q := mad.Packet{Data: make([]byte, 0, ib.MADLen)}
	if n := testing.AllocsPerRun(200, func() {
		_ = p.Send(req)
		_ = p.Recv(&q)
	}); n != 0 {
		t.Errorf("%v allocations a round trip", n)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	d := start(b, 2, sim.Config{})
	p := open(b, d, "H1")
	req := get(1, smp.AttrNodeInfo, 1, 2)
	q := mad.Packet{Data: make([]byte, 0, ib.MADLen)}
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Send(req)
		_ = p.Recv(&q)
	}
}
