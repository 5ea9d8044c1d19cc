package kernel

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/mad"
)

// net joins ports by LID in virtual time. Packets travel at once, from inside
// Send, as in the simulator without latencies.
type net struct {
	now   mad.Time
	at    []event
	ports map[ib.LID]*wire
	lose  func() bool
	sent  int
}

type event struct {
	t  mad.Time
	fn func()
}

type wire struct {
	n    *net
	lid  ib.LID
	port *Port
	isSM bool
}

func newNet(lids ...ib.LID) *net {
	n := &net{ports: map[ib.LID]*wire{}, lose: func() bool { return false }}
	for _, l := range lids {
		w := &wire{n: n, lid: l}
		w.port = New(w, true, new(uint16))
		n.ports[l] = w
	}
	return n
}

func (w *wire) Now() mad.Time { return w.n.now }
func (w *wire) At(t mad.Time, fn func()) {
	w.n.at = append(w.n.at, event{t, fn})
}
func (w *wire) SetIsSM(on bool) error { w.isSM = on; return nil }
func (w *wire) LMC() uint8            { return 0 }
func (w *wire) NumGIDs() int          { return 1 }

func (w *wire) Send(p *mad.Packet) {
	w.n.sent++
	to := w.n.ports[p.Addr.LID]
	if to == nil || w.n.lose() {
		return
	}
	c := *p
	c.Data = slices.Clone(p.Data)
	c.Addr.LID, c.Addr.QP = w.lid, p.LocalQP
	c.LocalQP = p.Addr.QP
	to.port.Deliver(&c)
}

// run advances the time to t.
func (n *net) run(t mad.Time) {
	for {
		best := -1
		for i, e := range n.at {
			if e.t <= t && (best < 0 || e.t < n.at[best].t) {
				best = i
			}
		}
		if best < 0 {
			n.now = t
			return
		}
		e := n.at[best]
		n.at = slices.Delete(n.at, best, best+1)
		n.now = max(n.now, e.t)
		e.fn()
	}
}

func open(t testing.TB, p *Port) *File {
	t.Helper()
	f, e := p.Open()
	if e != 0 {
		t.Fatal(e)
	}
	if e := f.Ioctl(umadabi.EnablePKey, nil); e != 0 {
		t.Fatal(e)
	}
	return f
}

func register(t testing.TB, f *File, a umadabi.Agent) uint32 {
	t.Helper()
	b := make([]byte, umadabi.AgentLen)
	a.Put(b)
	if e := f.Ioctl(umadabi.RegisterAgent, b); e != 0 {
		t.Fatal(e)
	}
	a.Decode(b)
	return a.ID
}

func packet(id uint32, lid ib.LID, timeout, retries uint32, m []byte) []byte {
	h := umadabi.Header{ID: id, LID: uint16(lid), QPN: 1, TimeoutMS: timeout, Retries: retries}
	b := make([]byte, umadabi.HeaderLen)
	h.Put(b, umadabi.HeaderLen)
	return append(b, m...)
}

func request(class, version uint8, method ib.Method, tid uint32) []byte {
	var m ib.MAD
	m.SetHeader(ib.Class(class), version, method, 0x10, 0)
	m.SetTID(uint64(tid))
	return m[:]
}

func read(t testing.TB, f *File) (h umadabi.Header, m []byte) {
	t.Helper()
	b, e := f.Read(1 << 25)
	if e != 0 {
		t.Fatal(e)
	}
	h.Decode(b, umadabi.HeaderLen)
	return h, b[umadabi.HeaderLen:]
}

// TestRetries: each try at its moment, the completion after the last.
func TestRetries(t *testing.T) {
	n := newNet(1)
	p := n.ports[1].port
	f := open(t, p)
	id := register(t, f, umadabi.Agent{QPN: 1, Class: 4, Version: 1})
	if e := f.Write(packet(id, 99, 100, 2, request(4, 1, ib.MethodGet, 7))); e != 0 {
		t.Fatal(e)
	}
	for i, c := range []struct {
		at   time.Duration
		sent int
		done bool
	}{{99, 1, false}, {100, 2, false}, {199, 2, false}, {200, 3, false}, {299, 3, false}, {300, 3, true}} {
		n.run(mad.Time(c.at * time.Millisecond))
		if n.sent != c.sent || f.Readable() != c.done {
			t.Errorf("step %d, %d ms: %d sent, readable %v", i, c.at, n.sent, f.Readable())
		}
	}
	h, m := read(t, f)
	if h.Status != umadabi.StatusTimedOut || h.TimeoutMS != 100 || h.Retries != 2 || len(m) != 24 || tid(m) != uint64(f.agents[id].num)<<32|7 {
		t.Errorf("completion %+v % x", h, m)
	}
	clean(t, p, f)
}

// TestSegmentRetries: an unacknowledged segment is repeated as often as the program
// requested, possibly never.
func TestSegmentRetries(t *testing.T) {
	for retries := range uint32(3) {
		n := newNet(1)
		p := n.ports[1].port
		f := open(t, p)
		id := register(t, f, umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1})
		m := append(request(3, 2, ib.MethodGetTable, 7), make([]byte, 300)...)
		m[24], m[26] = 1, 1 // RMPP, active
		if e := f.Write(packet(id, 99, 100, retries, m)); e != 0 {
			t.Fatal(e)
		}
		n.run(mad.Time(100*time.Millisecond) * mad.Time(retries+1))
		if h, _ := read(t, f); n.sent != int(retries)+2 || h.Status != umadabi.StatusTimedOut {
			t.Errorf("%d retries: %d segments and an ABORT, status %d", retries, n.sent-1, h.Status)
		}
		clean(t, p, f)
	}
}

// clean closes the files and checks that nothing is left.
func clean(t testing.TB, p *Port, files ...*File) {
	t.Helper()
	for _, f := range files {
		f.Close()
	}
	if len(p.files)+len(p.agents)+len(p.owners)+p.timers.heap.Len()+len(p.inbox)+p.pending+p.sending+p.held != 0 {
		t.Errorf("left: files %d agents %d owners %d timers %d inbox %d pending %d held %d",
			len(p.files), len(p.agents), len(p.owners), p.timers.heap.Len(), len(p.inbox), p.pending, p.held)
	}
}

// TestUnregister: pending requests of an agent end silently, and its methods are free.
func TestUnregister(t *testing.T) {
	n := newNet(1)
	p := n.ports[1].port
	f := open(t, p)
	a := umadabi.Agent{QPN: 0, Class: 0x81, Version: 1, Methods: umadabi.MaskOf(ib.MethodGet)}
	id := register(t, f, a)
	if e := f.Write(packet(id, 99, 100, 0, request(0x81, 1, ib.MethodGet, 1))); e != 0 {
		t.Fatal(e)
	}
	f.dropAgents()
	n.run(mad.Time(time.Second))
	if f.Readable() {
		t.Error("a completion came for an agent that is gone")
	}
	register(t, f, a)
	clean(t, p, f)
}

// TestQueueBound: unread packets above the limit are lost, but completions are not.
func TestQueueBound(t *testing.T) {
	n := newNet(1, 2)
	f, g := open(t, n.ports[1].port), open(t, n.ports[2].port)
	fid := register(t, f, umadabi.Agent{QPN: 1, Class: 9, Version: 1})
	register(t, g, umadabi.Agent{QPN: 1, Class: 9, Version: 1, Methods: umadabi.MaskOf(ib.MethodSend)})
	m := request(9, 1, ib.MethodSend, 0)
	for range maxQueued + 10 {
		if e := f.Write(packet(fid, 2, 0, 0, m)); e != 0 {
			t.Fatal(e)
		}
	}
	if g.nrecv != maxQueued || n.ports[2].port.Dropped() != 10 {
		t.Errorf("%d queued, %d dropped", g.nrecv, n.ports[2].port.Dropped())
	}
	for range 3000 {
		read(t, g)
	}
	if g.nrecv != maxQueued-3000 {
		t.Errorf("%d queued after reading", g.nrecv)
	}
	clean(t, n.ports[1].port, f)
	clean(t, n.ports[2].port, g)
}

// TestRMPPLoss: messages arrive whole or not at all, at any loss rate.
func TestRMPPLoss(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := newNet(1, 2)
		f, g := open(t, n.ports[1].port), open(t, n.ports[2].port)
		fid := register(t, f, umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1})
		gid := register(t, g, umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1, Methods: umadabi.MaskOf(ib.MethodGetTable)})
		if e := f.Write(packet(fid, 2, 60000, 0, request(3, 2, ib.MethodGetTable, 5))); e != 0 {
			t.Fatal(e)
		}
		_, m := read(t, g)
		n.lose = func() bool { return r.IntN(100) < int(seed%20) }
		ans := make([]byte, 56+r.IntN(40000))
		for i := range ans {
			ans[i] = byte(r.Uint32())
		}
		copy(ans, m[:24])
		ans[3], ans[26] = 0x92, 1
		if e := g.Write(packet(gid, 1, 0, 7, ans)); e != 0 {
			t.Fatal(e)
		}
		n.run(mad.Time(200 * time.Second))
		h, got := read(t, f)
		switch {
		case h.Status != 0:
			if seed%20 < 5 {
				t.Errorf("seed %d: no answer at %d %% loss", seed, seed%20)
			}
		case !bytes.Equal(got[36:], ans[36:]):
			t.Errorf("seed %d: %d bytes arrived, %d were sent, or they differ", seed, len(got), len(ans))
		}
		n.lose = func() bool { return false }
		n.run(mad.Time(400 * time.Second))
		if f.Readable() && seed%20 == 0 {
			t.Errorf("seed %d: more arrived", seed)
		}
		clean(t, n.ports[1].port, f)
		clean(t, n.ports[2].port, g)
	}
}

// TestIsSM: waiting openers get the issm device in order.
func TestIsSM(t *testing.T) {
	n := newNet(1)
	w := n.ports[1]
	p := w.port
	a, e := p.OpenIsSM(nil)
	if e != 0 || !w.isSM {
		t.Fatal(e)
	}
	if _, e := p.OpenIsSM(nil); e != syscall.EAGAIN {
		t.Errorf("second open: %v", e)
	}
	var got []int
	var waiting [3]*Holder
	for i := range waiting {
		waiting[i], e = p.OpenIsSM(func(e syscall.Errno) {
			if e == 0 {
				got = append(got, i)
			} else {
				got = append(got, -1)
			}
		})
		if e != syscall.EINPROGRESS {
			t.Fatal(e)
		}
	}
	waiting[1].Close() // gave up
	a.Close()
	if !slices.Equal(got, []int{0}) || !w.isSM {
		t.Errorf("got %v, IsSM %v", got, w.isSM)
	}
	p.Remove()
	if !slices.Equal(got, []int{0, -1}) || w.isSM || !p.Idle() {
		t.Errorf("got %v, IsSM %v", got, w.isSM)
	}
	waiting[0].Close()
	if _, e := p.OpenIsSM(nil); e != syscall.ENXIO {
		t.Errorf("open of a removed device: %v", e)
	}
	p.Restore()
	if b, e := p.OpenIsSM(nil); e != 0 || !w.isSM {
		t.Error(e)
	} else {
		b.Close()
	}
}

// FuzzFile feeds a port with random data from programs and from the wire. It must not
// panic, and closing must leave no state.
func FuzzFile(f *testing.F) {
	var reg [umadabi.AgentLen]byte
	a := umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1, Methods: umadabi.Mask{^uint64(0), ^uint64(0)}}
	a.Put(reg[:])
	f.Add(reg[:], packet(0, 1, 100, 1, request(3, 2, ib.MethodGetTable, 1)), request(3, 2, ib.MethodGet, 1), uint32(300))
	long := append(request(3, 2, ib.MethodGetTableResp, 1), make([]byte, 500)...)
	long[26] = 1
	f.Add(reg[:], packet(0, 1, 0, 1, long), long[:256], uint32(320))
	f.Fuzz(func(t *testing.T, ioctl, write, deliver []byte, size uint32) {
		n := newNet(1, 2)
		p := n.ports[1].port
		x := open(t, p)
		if len(ioctl) >= umadabi.Agent2Len {
			x.Ioctl(umadabi.RegisterAgent2, ioctl)
		} else {
			x.Ioctl(umadabi.RegisterAgent, ioctl)
		}
		for range 2 {
			x.Write(write)
			for _, qp := range []uint32{0, 1} {
				p.Deliver(&mad.Packet{Addr: mad.Addr{LID: 2, QP: qp}, LocalQP: qp, Data: slices.Clone(deliver)})
				p.Accepts(&mad.Packet{LocalQP: qp, Data: deliver})
			}
			n.run(n.now.Add(3 * time.Second))
			for i := 0; i < 100 && x.Readable(); i++ {
				if _, e := x.Read(int(size % 5000)); e != 0 {
					x.Read(1 << 20)
				}
			}
		}
		clean(t, p, x)
	})
}

// TestManyMessages: lingering messages do not block new ones, at any rate.
func TestManyMessages(t *testing.T) {
	n := newNet(1, 2)
	f, g := open(t, n.ports[1].port), open(t, n.ports[2].port)
	fid := register(t, f, umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1})
	gid := register(t, g, umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1, Methods: umadabi.MaskOf(ib.MethodGetTable)})
	for i := range 3 * maxLingering {
		if e := f.Write(packet(fid, 2, 1000, 0, request(3, 2, ib.MethodGetTable, uint32(i+1)))); e != 0 {
			t.Fatal(e)
		}
		_, m := read(t, g)
		size := 56 + 64
		if i%1000 == 0 {
			size = maxLingerBytes * 2 / 3
		}
		ans := make([]byte, size)
		copy(ans, m[:24])
		ans[3], ans[26] = 0x92, 1
		if e := g.Write(packet(gid, 1, 0, 0, ans)); e != 0 {
			t.Fatal(e)
		}
		if h, got := read(t, f); h.Status != 0 || len(got) != size {
			t.Fatalf("message %d: status %d, %d bytes", i, h.Status, len(got))
		}
		r := f.agents[fid].rmpp
		if len(r.recv) > maxLingering || r.waiting > maxLingerBytes || r.open != 0 {
			t.Fatalf("message %d: %d receptions, %d open, %d bytes", i, len(r.recv), r.open, r.waiting)
		}
	}
	n.run(mad.Time(time.Minute))
	if r := f.agents[fid].rmpp; len(r.recv) != 0 || r.waiting != 0 || len(r.done) != r.head {
		t.Errorf("after a minute: %d receptions, %d bytes, %d in done", len(r.recv), r.waiting, len(r.done)-r.head)
	}
	clean(t, n.ports[1].port, f)
	clean(t, n.ports[2].port, g)
}
