package sim

import (
	"errors"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/dataplane"
)

// data connects a data plane with the devices. Packets and management datagrams
// share the devices' tables and counters, and the links as Config.Carriage says.
//
// The engine is run up to the present whenever a management event is about to
// happen and whenever somebody looks. So what a Set writes holds for every packet
// that is looked up after it, and none before.
type data struct {
	engine  *dataplane.Engine
	began   mad.Time // the engine's time 0
	dirty   []int32  // nodes whose ports must be read again
	marked  []bool   // by node: in dirty
	shown   []dataplane.PortCounters
	lanes   []dataplane.Time   // by port and lane: waiting time that is counted
	details []dataplane.Detail // by port: what is counted, with Config.Details
	vls     int32

	traffic []Traffic // patterns that were started
	carry   carriage
}

// StartData adds a data plane to the subnet, with no traffic yet. Cables are those
// of the fabric that the Subnet was built from; each has the delay of delay. The
// engine's time begins now, at 0; its hooks must not call the Subnet.
func (s *Subnet) StartData(c dataplane.Config, delay dataplane.Time) (*dataplane.Engine, error) {
	if s.data != nil {
		return nil, errors.New("sim: the data plane is on already")
	}
	top, err := dataplane.FromFabric(s.f, delay)
	if err != nil {
		return nil, err
	}
	c.Lanes = max(c.Lanes, ib.VLsOf(s.cfg.VLCap))
	e, err := dataplane.New(top, dataTables{s}, c)
	if err != nil {
		return nil, err
	}
	s.data = &data{engine: e, began: s.k.now, marked: make([]bool, len(s.devs)), shown: make([]dataplane.PortCounters, len(s.ports)), vls: int32(c.Lanes)}
	s.data.lanes = make([]dataplane.Time, len(s.ports)*c.Lanes)
	if c.Details {
		s.data.details = make([]dataplane.Detail, len(s.ports))
	}
	s.data.carry = s.newCarriage(e)
	if s.data.carry.moved {
		for i := range s.devs {
			s.dataChanged(int32(i)) // packets do not use the cables that were moved
		}
	}
	return e, nil
}

// Data is the data plane, caught up with the present; nil if there is none.
func (s *Subnet) Data() *dataplane.Engine {
	if s.data == nil {
		return nil
	}
	s.catchUp(s.k.now)
	return s.data.engine
}

// StopData ends the data plane. What is on its way is gone, and what it counted
// stays in the counters.
func (s *Subnet) StopData() {
	if s.data == nil {
		return
	}
	s.catchUp(s.k.now)
	for p := range s.ports {
		s.countData(int32(p))
	}
	s.strand()
	s.data = nil
}

// PaceData catches up every period of virtual time, so that a driver in real time
// never has much to do at once. It ends with the data plane.
func (s *Subnet) PaceData(every time.Duration) {
	d := s.data
	if d == nil {
		return
	}
	s.After(every, func() {
		if s.data == d {
			s.PaceData(every)
		}
	})
}

// catchUp runs the data plane to t, where the tables are as they were since the
// last call.
func (s *Subnet) catchUp(t mad.Time) {
	s.data.carry.target = t
	s.refreshData()
	s.data.engine.Run(dataplane.FromDuration(t.Sub(s.data.began)))
}

// refreshData has the engine read again what has changed.
func (s *Subnet) refreshData() {
	d := s.data
	for _, n := range d.dirty {
		d.marked[n] = false
		d.engine.Refresh(n)
	}
	d.dirty = d.dirty[:0]
}

// dataChanged notes that what packets need of a node may have changed.
func (s *Subnet) dataChanged(node int32) {
	if d := s.data; d != nil && !d.marked[node] {
		d.marked[node] = true
		d.dirty = append(d.dirty, node)
	}
}

// restoreData connects a node again that had failed.
func (s *Subnet) restoreData(node int32) {
	d := &s.devs[node]
	for p := d.first + 1; p <= d.first+int32(d.nports); p++ {
		if q := s.cables[p]; q >= 0 && !s.devs[s.ports[q].dev].down {
			s.data.engine.RestoreLink(s.portRef(p))
		}
	}
}

// countData brings the counters of port p up to the present.
func (s *Subnet) countData(p int32) {
	d := s.data
	if d == nil {
		return
	}
	pt := &s.ports[p]
	if pt.num == 0 || s.cables[p] < 0 {
		return
	}
	ref := s.portRef(p)
	now, was := d.engine.Port(ref), &d.shown[p]
	c := &pt.cnt
	sent, got := now.XmitPackets-was.XmitPackets, now.RcvPackets-was.RcvPackets
	c.xmitPkts += sent
	c.rcvPkts += got
	c.uxmit += sent
	c.urcv += got
	c.xmitData += now.XmitWords - was.XmitWords
	c.rcvData += now.RcvWords - was.RcvWords
	add32(&c.xmitPkts32, sent, pt.wraps)
	add32(&c.rcvPkts32, got, pt.wraps)
	add32(&c.xmitData32, now.XmitWords-was.XmitWords, pt.wraps)
	add32(&c.rcvData32, now.RcvWords-was.RcvWords, pt.wraps)
	tick, _ := s.waitTick(p)
	if n := (now.XmitWait - was.XmitWait) / tick; n > 0 {
		s.coldOf(p).pm.err[errXmitWait] += uint64(n)
		was.XmitWait += n * tick
	}
	now.XmitWait = was.XmitWait // what is left counts next time
	for cause, n := range now.Dropped {
		if n -= was.Dropped[cause]; n > 0 {
			s.countLost(p, dataplane.Cause(cause), n)
		}
	}
	*was = now
	s.countDataLanes(p, tick)
}

// countDataLanes counts by VL and SL if the port has detail attributes or the data
// plane counts for them.
func (s *Subnet) countDataLanes(p int32, tick dataplane.Time) {
	d := s.data
	m := &s.coldOf(p).pm
	for v := range d.vls {
		_, wait := d.engine.Lane(s.portRef(p), ib.VL(v))
		was := &d.lanes[p*d.vls+v]
		if n := (wait - *was) / tick; n > 0 {
			*was += n * tick
			if m.row != nil || d.details != nil {
				m.rows()[detVLXmitWait][v] += uint64(n)
			}
		}
	}
	if d.details == nil {
		return
	}
	now, was := d.engine.Detail(s.portRef(p)), &d.details[p]
	if now == *was {
		return
	}
	row := m.rows()
	for i := range 16 {
		row[detXmitDataSL][i] += now.XmitWords[i] - was.XmitWords[i]
		row[detRcvDataSL][i] += now.RcvWords[i] - was.RcvWords[i]
		row[detVLPackets][i] += now.LanePackets[i] - was.LanePackets[i]
		row[detVLData][i] += now.LaneWords[i] - was.LaneWords[i]
		row[detOpRcv][opPackets] += now.LanePackets[i] - was.LanePackets[i]
		row[detOpRcv][opWords] += now.LaneWords[i] - was.LaneWords[i]
		row[detCongestion][i] += now.Congested[i] - was.Congested[i]
	}
	*was = now
}

// lossCounters says where a lost packet is counted (IBA §16.1.3.5, §16.1.4): the
// error counter, and the place in a row of details, -1: none.
var lossCounters = map[dataplane.Cause]struct{ err, row, place int }{
	dataplane.LostOnWire:  {errRcv, detRcvErrors, 0},
	dataplane.BadEnd:      {errRcvRemPhys, -1, 0},
	dataplane.NoRoute:     {errRelay, detRcvErrors, relayDLID},
	dataplane.NoLane:      {errRelay, detRcvErrors, relayVL},
	dataplane.TooLong:     {errDiscard, detXmitDiscards, discardMTU},
	dataplane.Inactive:    {errDiscard, detXmitDiscards, discardInactive},
	dataplane.HeadOfQueue: {errDiscard, detXmitDiscards, discardHOQ},
	dataplane.Stalled:     {errDiscard, detXmitDiscards, discardHOQ},
	dataplane.Expired:     {errDiscard, detXmitDiscards, discardLifetime},
	dataplane.FilteredIn:  {errRcvConstraint, -1, 0},
	dataplane.FilteredOut: {errXmitConstraint, -1, 0},
}

func (s *Subnet) countLost(p int32, why dataplane.Cause, n uint64) {
	l, ok := lossCounters[why]
	if !ok {
		return
	}
	c := s.coldOf(p)
	c.pm.err[l.err] += n
	if l.row >= 0 && (c.pm.row != nil || s.data.details != nil) {
		c.pm.rows()[l.row][l.place] += n
	}
}

// dataTables shows the engine what the devices have (dataplane.Tables).
type dataTables struct{ s *Subnet }

// Route implements dataplane.Tables.
func (t dataTables) Route(sw int32, dlid ib.LID) uint8 {
	w := t.s.devs[sw].sw
	if t.s.ports[t.s.devs[sw].first].ownsLID(dlid) {
		return 0
	}
	if dlid > w.info.LinearFDBTop {
		return noRoute
	}
	if out := w.route(dlid); out != 0 {
		return out
	}
	return noRoute // port 0, and the LID is another's
}

// Multicast implements dataplane.Tables.
func (t dataTables) Multicast(sw int32, dlid ib.LID, ports *dataplane.PortMask) {
	m := t.s.devs[sw].multicastPorts(dlid, noRoute)
	for i := range m {
		ports[i] |= m[i]
	}
}

// Lane implements dataplane.Tables. A mapping that nobody has written spreads the
// SLs over the lanes that the output has.
func (t dataTables) Lane(node int32, in, out uint8, sl ib.SL) ib.VL {
	d := &t.s.devs[node]
	p := d.first + int32(out)
	if d.isSwitch() {
		if w := d.sw; w.sl2vl != nil && w.sl2vl[out] != nil {
			return w.sl2vl[out][in][sl]
		}
	} else if c := t.s.ports[p].cold; c != nil && c.sl2vl != nil {
		return c.sl2vl[sl]
	}
	return ib.VL(int(sl) % max(ib.VLsOf(t.s.infos[p].OperationalVLs), 1))
}

// Owns implements dataplane.Functions.
func (t dataTables) Owns(node int32, port uint8, lid ib.LID) bool {
	h := t.s.ports[t.s.devs[node].first+int32(port)].hv
	if h == nil {
		return false
	}
	i, ok := h.owner(lid)
	return ok && h.vps[i].state == ib.StateActive
}

// Admits implements dataplane.Tables.
func (t dataTables) Admits(sw int32, port uint8, out bool, key ib.PKey) bool {
	p := t.s.devs[sw].first + int32(port)
	if !out {
		return t.s.pkeyMayEnter(p, key)
	}
	_, ok := t.s.pkeyMatch(p, key)
	return ok
}

// Port implements dataplane.Tables. A cable that was moved carries no packets.
func (t dataTables) Port(node int32, port uint8) dataplane.PortAttr {
	s := t.s
	d := &s.devs[node]
	p := d.first + int32(port)
	pt, pi := &s.ports[p], &s.infos[p]
	a := dataplane.PortAttr{
		State: pt.state, VLs: uint8(ib.VLsOf(pi.OperationalVLs)), MTU: uint16(pi.NeighborMTU.Bytes()), LID: pt.lid, LIDs: uint16(pt.lids()),
		HOQLife: dataplane.Never, FilterIn: pt.check&filterIn != 0, FilterOut: pt.check&filterOut != 0,
	}
	if d.down || pt.phys != ib.PhysLinkUp || s.data != nil && pt.peer != s.data.carry.wired[p] {
		a.State = ib.StateDown
	}
	if d.isSwitch() {
		a.HOQLife, a.StallCount = dataplane.LifeOf(pi.HOQLife), pi.VLStallCount
	}
	speed := pi.ActiveSpeedOf(s.infos[s.endPort(p)].CapabilityMask, pt.cold != nil && pt.cold.fdr10Active)
	if r := dataplane.LinkRate(pi.LinkWidthActive, speed); !r.Unlimited() {
		a.Rate = r
	}
	return a
}

// Arbitration implements dataplane.Tables.
func (t dataTables) Arbitration(node int32, port uint8) dataplane.Arbitration {
	s := t.s
	p := s.devs[node].first + int32(port)
	a := dataplane.Arbitration{HighLimit: s.infos[p].VLHighLimit}
	c := s.ports[p].cold
	if c == nil || c.vlarb == nil {
		return a
	}
	table := func(parts ...uint16) (l []dataplane.Weight) {
		for _, part := range parts {
			for _, e := range c.vlarb[part-1] {
				if e.Weight != 0 && e.VL != 15 {
					l = append(l, dataplane.Weight{VL: e.VL, Weight: e.Weight})
				}
			}
		}
		return l
	}
	a.Low, a.High = table(smp.VLArbLow0, smp.VLArbLow1), table(smp.VLArbHigh0, smp.VLArbHigh1)
	return a
}

// Life implements dataplane.Tables.
func (t dataTables) Life(sw int32) dataplane.Time {
	return dataplane.LifeOf(t.s.devs[sw].sw.info.LifeTimeValue)
}
