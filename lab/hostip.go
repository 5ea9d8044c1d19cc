package lab

import (
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/rc"
	"heddle/sim/host/saclient"
)

// HostIP is an IPoIB interface of a Host, with streams above it. Its datagrams are packets of the
// data plane: they take lanes and credits, and follow the tables. Interface and streams act in the
// data plane's time; what they ask of the SA leaves when the host's software looks, every ipLook.
type HostIP struct {
	*ipoib.Stack

	h     *Host
	dev   *ipoib.Device
	sock  *adapter.Socket
	armed mad.Time
	asks  []func(now mad.Time) // for the SA
}

// ipLook is how often a host looks what its interface asks of the SA.
const ipLook = 50 * time.Microsecond

// ipSegment is the longest segment that fits into a datagram of 2,044 bytes (RFC 4391, §7).
const ipSegment = 2044 - 56

// IP gives a host an IPoIB interface with an address; rate is what it sends in bits/s, 0: no limit
// but the adapter's.
func (h *Host) IP(ip ipoib.IP, c ipoib.Config, rate int64) *HostIP {
	x := &HostIP{h: h, armed: mad.Never}
	x.dev = ipoib.New(c, ip, x, x)
	x.Stack = ipoib.NewStack(x.dev, &ipoib.Server{Rate: rate})
	x.sock = h.Adapter.Datagrams(0, c.PKey, x.take)
	h.ip = x
	x.dev.Up(h.l.Sim.Now(), ipoib.Hardware{QPN: x.sock.QPN(), GID: h.GID()})
	h.l.Sim.After(ipLook, x.look)
	return x
}

// Device is the interface.
func (x *HostIP) Device() *ipoib.Device { return x.dev }

// Stream begins a stream with a number to another host; limit is its bytes, 0: no end. Its segments
// fit into datagrams.
func (x *HostIP) Stream(to *HostIP, id uint16, limit uint64, c ipoib.TCP) (*ipoib.Sender, *ipoib.Receiver) {
	c.Segment = min(c.Segment, ipSegment)
	r := to.Receive(id)
	s := x.Stack.Send(id, to.dev.IP(), limit, c)
	x.arm()
	return s, r
}

// now is the data plane's time as the subnet's.
func (x *HostIP) now() mad.Time { return x.h.l.began.Add(x.h.Adapter.Now().Duration()) }

// look passes on what the interface has asked of the SA.
func (x *HostIP) look() {
	x.h.l.Sim.Data() // the data plane is caught up
	now := x.h.l.Sim.Now()
	asks := x.asks
	x.asks = nil
	for _, ask := range asks {
		ask(now)
	}
	if len(asks) > 0 {
		x.h.alarm.Set()
	}
	x.h.l.Sim.After(ipLook, x.look)
}

// Paths implements ipoib.SA.
func (x *HostIP) Paths(_ mad.Time, q *wire.PathRecord, mask wire.CompMask, one bool, done func(mad.Time, []wire.PathRecord, error)) {
	query := *q
	x.asks = append(x.asks, func(now mad.Time) {
		x.h.Client.Paths(now, &query, mask, one, func(now mad.Time, list []wire.PathRecord, err error) {
			x.h.l.Sim.Data()
			done(now, list, err)
			x.arm()
		})
	})
}

// Join implements ipoib.SA. The queue pair gets the Q_Key of the group.
func (x *HostIP) Join(_ mad.Time, group, port ib.GID, done func(mad.Time, wire.MCMemberRecord, error)) {
	x.asks = append(x.asks, func(now mad.Time) {
		x.h.Client.Join(now, group, port, func(now mad.Time, r wire.MCMemberRecord, err error) {
			x.h.l.Sim.Data()
			if err == nil {
				x.sock.SetQKey(uint32(r.QKey))
			}
			done(now, r, err)
			x.arm()
		})
	})
}

// Send implements ipoib.Link.
func (x *HostIP) Send(_ mad.Time, to ipoib.Address, f *ipoib.Frame) bool {
	message, more := f.Pack()
	return x.sock.SendMore(adapter.Address{
		Path: rc.Path{DLID: to.Path.DLID, SL: to.Path.SL}, QPN: to.QPN, QKey: uint32(to.QKey),
	}, message, more, f.Bytes())
}

// take takes a datagram, in the data plane's time.
func (x *HostIP) take(d *adapter.Datagram) {
	var f ipoib.Frame
	f.Unpack(d.Message, d.More, d.Bytes, d.QPN, ib.DefaultSubnetPrefix)
	x.dev.Input(x.now(), &f)
	x.arm()
}

// arm has the streams run when something of them is due, in the data plane's time.
func (x *HostIP) arm() {
	t := x.Server().NextTimer()
	if t == mad.Never || x.armed <= t {
		return
	}
	t = max(t, x.now())
	x.armed = t
	x.h.Adapter.After(dataplane.FromDuration(t.Sub(x.h.l.began)), (*ipProgram)(x), uint64(t))
}

// ipProgram is a HostIP as a program of its adapter, which gets timers alone.
type ipProgram HostIP

// Sent implements adapter.Program.
func (p *ipProgram) Sent(*adapter.Connection, uint64, rc.Status) {}

// Received implements adapter.Program.
func (p *ipProgram) Received(*adapter.Connection, uint64, int) {}

// Happened implements adapter.Program.
func (p *ipProgram) Happened(*adapter.Connection, rc.Event) {}

// Due implements adapter.Program.
func (p *ipProgram) Due(at uint64) {
	x := (*HostIP)(p)
	if x.armed != mad.Time(at) {
		return
	}
	x.armed = mad.Never
	x.Server().Run(max(mad.Time(at), x.now()))
	x.arm()
}

// notice hands a notice to the interface.
func (x *HostIP) notice(r *saclient.Report) {
	x.h.l.Sim.Data()
	x.dev.Notice(x.h.l.Sim.Now(), r)
	x.arm()
}

// reregister joins again, and asks for all paths again.
func (x *HostIP) reregister() {
	x.h.l.Sim.Data()
	now := x.h.l.Sim.Now()
	x.dev.Rejoin(now)
	x.dev.Refresh(now)
	x.arm()
}
