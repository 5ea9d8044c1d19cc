package ipoib

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/heap"
	"heddle/mad"
	"heddle/sim/host/saclient"
)

// world is a subnet with an SA and devices, in virtual time.
type world struct {
	t       *testing.T
	now     mad.Time
	seq     uint64
	queue   heap.Heap[mad.Time, func()]
	places  []*place
	servers []*Server
	noSA    bool // it does not answer
	noGroup bool // joins are refused
	inside  bool // datagrams arrive during Send, as inside an adapter
	harm    func() (lost bool, later time.Duration)
}

// place is where a device is.
type place struct {
	w    *world
	dev  *Device
	lid  ib.LID // 0: it has no port now
	told int    // datagrams for its LID with another QPN
}

const hop = 5 * time.Microsecond

func (w *world) after(d time.Duration, fn func()) {
	w.seq++
	w.queue.Push(w.now.Add(d), w.seq, fn)
}

// Send implements Link: datagrams follow LID and QPN.
func (p *place) Send(_ mad.Time, to Address, f *Frame) bool {
	if p.lid == 0 {
		return false
	}
	// As in a simulation, a frame goes through Pack.
	message, more := f.Pack()
	bytes, qpn, lost, later := f.Bytes(), p.dev.hw.QPN, false, hop
	if p.w.harm != nil {
		var d time.Duration
		lost, d = p.w.harm()
		later += d
	}
	if lost {
		return true
	}
	deliver := func() {
		for _, q := range p.w.places {
			var g Frame
			g.Unpack(message, more, bytes, qpn, ib.DefaultSubnetPrefix)
			switch {
			case to.Path.DLID.IsMulticast() && q != p && q.lid != 0 && q.dev.Joined():
				q.dev.Input(p.w.now, &g)
			case q.lid != to.Path.DLID || q.lid == 0:
			case q.dev.hw.QPN == to.QPN:
				q.dev.Input(p.w.now, &g)
			default:
				q.told++
			}
		}
	}
	if p.w.inside {
		deliver()
	} else {
		p.w.after(later, deliver)
	}
	return true
}

// Paths implements SA.
func (p *place) Paths(_ mad.Time, q *wire.PathRecord, _ wire.CompMask, _ bool, done func(mad.Time, []wire.PathRecord, error)) {
	dst := q.DGID
	p.w.after(2*hop, func() {
		if p.w.noSA {
			p.w.after(time.Second, func() { done(p.w.now, nil, mad.ErrTimeout) })
			return
		}
		for _, x := range p.w.places {
			if x.lid != 0 && x.dev.hw.GID == dst {
				done(p.w.now, []wire.PathRecord{{DGID: dst, DLID: x.lid, SL: 1, MTU: 4}}, nil)
				return
			}
		}
		done(p.w.now, nil, &saclient.StatusError{Attr: wire.AttrPathRecord, Status: 0x0300})
	})
}

// Join implements SA.
func (p *place) Join(_ mad.Time, group, port ib.GID, done func(mad.Time, wire.MCMemberRecord, error)) {
	p.w.after(2*hop, func() {
		if p.w.noGroup {
			done(p.w.now, wire.MCMemberRecord{}, errors.New("refused"))
			return
		}
		done(p.w.now, wire.MCMemberRecord{MGID: group, PortGID: port, MLID: 0xC000, QKey: 0xB1B}, nil)
	})
}

// run runs the world for d.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for {
		at := mad.Never
		if w.queue.Len() > 0 {
			at = w.queue.Min().Key
		}
		for _, v := range w.servers {
			at = min(at, v.NextTimer())
		}
		if at > end {
			w.now = end
			return
		}
		w.now = max(w.now, at)
		for w.queue.Len() > 0 && w.queue.Min().Key <= w.now {
			w.queue.Pop().Value()
		}
		for _, v := range w.servers {
			v.Run(w.now)
		}
	}
}

func gid(n int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(n)) }

// add puts a stack with IP n at LID n of a server of its own.
func (w *world) add(n int, c Config, rate int64) *Stack {
	p := &place{w: w, lid: ib.LID(n)}
	p.dev = New(c, IP(n), p, p)
	w.places = append(w.places, p)
	v := &Server{Rate: rate, CPU: 0.3}
	w.servers = append(w.servers, v)
	k := NewStack(p.dev, v)
	p.dev.Up(w.now, Hardware{QPN: uint32(100 + n), GID: gid(n)})
	return k
}

// move takes the device of place i away for d, and brings it up at another LID with another QPN.
func (w *world) move(i int, d time.Duration, to ib.LID) {
	p := w.places[i]
	hw := p.dev.hw
	p.lid = 0
	p.dev.Down()
	w.run(d)
	p.lid = to
	p.dev.Up(w.now, Hardware{QPN: hw.QPN + 50, GID: hw.GID})
}

// notice is a Report of trap 69 about the paths to a GID, without values.
func notice(mask wire.CompMask, r wire.PathRecord, trap uint16) *saclient.Report {
	return &saclient.Report{
		Notice: wire.Notice{Notice: smp.NewTrap(trap, smp.ProducerClassManager, 1, smp.DetailPath{ComponentMask: uint64(mask)})}, PathNotice: wire.PathNotice{Path: r},
	}
}

// tiles checks that bytes come once and in order.
func tiles(t *testing.T, r *Receiver) *uint64 {
	next := new(uint64)
	r.OnBytes = func(_ mad.Time, from uint64, n int) {
		if from != *next || n <= 0 {
			t.Errorf("%d bytes at %d where %d must come", n, from, *next)
		}
		*next = from + uint64(n)
	}
	return next
}

// lossy is a channel that loses and delays.
func lossy(r *rand.Rand, loss float64) func() (bool, time.Duration) {
	return func() (bool, time.Duration) {
		return r.Float64() < loss, time.Duration(r.IntN(200)) * time.Microsecond
	}
}
