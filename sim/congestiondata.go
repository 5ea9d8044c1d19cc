package sim

import (
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/sim/dataplane"
)

// The congestion control agents and the packets: settings for the data plane, and its
// events for the logs.

// cong is the state of the congestion control agent of an end port, nil: nobody has
// asked it for anything.
func (s *Subnet) cong(ep int32) *congestion {
	if c := s.ports[ep].cold; c != nil {
		return c.cong
	}
	return nil
}

// Marking implements dataplane.CongestionTables. A port's own setting takes the place
// of the switch's.
func (t dataTables) Marking(sw int32, port uint8) dataplane.Marking {
	c := t.s.cong(t.s.devs[sw].first)
	if c == nil {
		return dataplane.Marking{}
	}
	m := dataplane.Marking{
		Threshold: c.sw.Threshold, MinBytes: int(c.sw.PacketSize) * 64, Rate: c.sw.MarkingRate, Victim: c.sw.VictimMask.Has(port),
	}
	if p := &c.ports[port]; p.Valid && !p.Starvation {
		m.Threshold, m.MinBytes, m.Rate = p.Threshold, int(p.PacketSize)*64, p.Parameter
	}
	return m
}

// onlyNotifies is an end port without settings.
var onlyNotifies dataplane.Throttling

// Throttling implements dataplane.CongestionTables.
func (t dataTables) Throttling(node int32, port uint8) *dataplane.Throttling {
	d := &t.s.devs[node]
	c := t.s.cong(d.first + int32(port))
	switch {
	case d.isSwitch() && !d.sw.info.EnhancedPort0:
		return nil
	case c == nil:
		return &onlyNotifies
	}
	return &dataplane.Throttling{
		BySL: c.ca.PortControl&cc.PortControlSL != 0, SL: c.ca.SL, Table: append([]cc.Delay(nil), c.table[:c.limit+1]...),
	}
}

// ccTimeOf is the clock of a node's logs at a time of the data plane.
func (s *Subnet) ccTimeOf(d *device, t dataplane.Time) uint32 {
	return uint32((s.data.began.Add(time.Duration(t/dataplane.Nanosecond)) - d.began) / mad.Time(cc.TimeUnit))
}

// events are those of a node that its log has not been read of, the latest first, and
// how many there were.
func (r *ccRequest) events() (list []dataplane.CongestionEvent, n uint16) {
	if r.s.data == nil {
		return nil, 0
	}
	list, all := r.s.Data().CongestionLog(r.s.ports[r.ep].dev, nil)
	if all < r.c.logged { // another data plane
		r.c.logged = 0
	}
	fresh := all - r.c.logged
	r.c.logged = all
	return list[:min(uint64(len(list)), fresh)], uint16(min(fresh, 0xFFFF))
}

func (r *ccRequest) switchLog() *cc.SwitchLog {
	l := &cc.SwitchLog{Type: cc.LogSwitch, Now: r.s.ccTime(r.d)}
	events, n := r.events()
	l.Events = n
	for i := range events {
		v := &events[i]
		if i < len(l.Event) {
			l.Event[i] = cc.SwitchEvent{SLID: v.SLID, DLID: v.DLID, SL: v.SL, Time: r.s.ccTimeOf(r.d, v.At)}
		}
	}
	for port := 1; port <= int(r.d.nports) && r.s.data != nil; port++ {
		marked := r.s.data.engine.Congestion(fabric.Ref{Node: r.s.ports[r.ep].dev, Port: uint8(port)}).Marked
		if marked != r.c.marked[port] {
			r.c.marked[port] = marked
			l.Ports.Add(uint8(port))
		}
	}
	return l
}

func (r *ccRequest) caLog() *cc.CALog {
	l := &cc.CALog{Type: cc.LogCA, Now: r.s.ccTime(r.d)}
	events, n := r.events()
	l.Events = n
	for i := range events {
		v := &events[i]
		if i < len(l.Event) {
			l.Event[i] = cc.CAEvent{
				LocalQP: uint32(v.Stream) & 0xFFFFFF, RemoteQP: uint32(v.Stream) & 0xFFFFFF, SL: v.SL,
				LocalLID: v.SLID, RemoteLID: v.DLID, Time: r.s.ccTimeOf(r.d, v.At),
			}
		}
		l.EventMap |= 1 << (v.SL & 15)
	}
	return l
}

// log answers with what happened since it was last read.
func (r *ccRequest) log() ib.Status {
	if !r.get || r.mod != 0 {
		return ib.StatusInvalidField
	}
	if r.d.isSwitch() {
		return r.answer(r.switchLog())
	}
	return r.answer(r.caLog())
}
