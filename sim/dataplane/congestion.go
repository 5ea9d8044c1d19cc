package dataplane

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/cc"
)

// Congestion control (IBA annex A10). A lane of a switch port is congested while the
// packets in the buffers of the switch that wait for it, and not behind one for another
// output, take more than its threshold, and until they take less than it by
// Config.MarkHysteresis.
// Packets that leave it then without having waited for credits are marked (FECN): the
// port is a root of congestion. Where they had to wait it is a victim, and marks only
// if its mask says so. The destination of a marked packet sends a notification (CNP,
// with BECN) to its source, a packet like any other, and never in an acknowledgment.
// Each notification raises the index of the sender into its table of pauses; the timer
// of the service level, which expires at its multiples, lowers it.

// CongestionTables is implemented by Tables of devices that have congestion control.
// Both are read when the Engine is made, and again by Engine.Refresh.
type CongestionTables interface {
	// Marking is that of an output port of a switch.
	Marking(sw int32, port uint8) Marking
	// Throttling is that of an end port. It is not changed while the Engine has it.
	// An end port without one, nil, sends no notifications and takes no notice of them.
	Throttling(node int32, port uint8) *Throttling
}

// Marking says which packets a port of a switch marks.
type Marking struct {
	// Threshold is 0, none, to 15: marking begins when what waits takes
	// (16−Threshold)/16 of the buffer that a lane of an input port has.
	Threshold uint8
	// MinBytes is the length on the wire below which packets are not marked.
	MinBytes int
	// Rate is how many packets that could be marked are not, after one that is.
	Rate uint16
	// Victim marks packets that waited for credits too.
	Victim bool
}

// Throttling says how an end port slows its queue pairs. A queue of a Stream or of a
// Program is a queue pair.
type Throttling struct {
	// BySL has all queue pairs of a service level share an index.
	BySL  bool
	SL    [16]cc.SLSetting
	Table []cc.Delay // up to the limit of the index; empty: no pauses
}

// CongestionCounts are those of a port since New.
type CongestionCounts struct {
	Marked   uint64 // packets that left with FECN set by this switch
	Notified uint64 // notifications that came to this end port
	Events   uint64 // an index reached the trigger of its service level
}

// congestion is the state that parts share; a record is used by one part alone.
type congestion struct {
	ports   []Marking     // by port
	lanes   []markedLane  // by port and lane
	ends    []*Throttling // by end port; nil: none
	bySL    []throttle    // by end port and service level
	replies []int32       // send queue of notifications, by end port; -1
	counts  []CongestionCounts
	logs    []congestionLog // by node
}

// markedLane is a lane of a port that marks packets.
type markedLane struct {
	waiting int32 // blocks that wait for it
	passed  uint16
	starved bool // its next packet has waited for credits
	full    bool // it is congested
}

// throttle is the index of a queue pair, or of a service level.
type throttle struct {
	since Time // when index was right
	gate  Time // nothing of the queue leaves before
	index uint16
}

// CongestionEvent is what a switch or an adapter puts into its log.
type CongestionEvent struct {
	At     Time
	SLID   ib.LID // of the flow that was marked, or slowed
	DLID   ib.LID
	SL     ib.SL
	Port   uint8 // that marked, or of the adapter
	Stream int
}

// congestionLog keeps the last events of a node.
type congestionLog struct {
	n    uint64
	last [cc.NumSwitchEvents]CongestionEvent
}

func (l *congestionLog) add(v CongestionEvent) {
	l.last[l.n%uint64(len(l.last))] = v
	l.n++
}

// CongestionLog appends the last events of a node to buf, the latest first, and says
// how many there were in all.
func (e *Engine) CongestionLog(node int32, buf []CongestionEvent) ([]CongestionEvent, uint64) {
	if e.cong == nil {
		return buf, 0
	}
	l := &e.cong.logs[node]
	for k := uint64(1); k <= min(l.n, uint64(len(l.last))); k++ {
		buf = append(buf, l.last[(l.n-k)%uint64(len(l.last))])
	}
	return buf, l.n
}

// Congestion returns the counts of a port.
func (e *Engine) Congestion(r fabric.Ref) CongestionCounts {
	if e.cong == nil {
		return CongestionCounts{}
	}
	return e.cong.counts[e.port(r)]
}

// refreshCongestion reads what Tables says about a port. The first one that has
// congestion control on turns it on in the Engine.
func (e *Engine) refreshCongestion(p int32) {
	t, ok := e.tables.(CongestionTables)
	if !ok {
		return
	}
	nd, num := &e.nodes[e.out[p].node], e.out[p].num
	var m Marking
	var th *Throttling
	if nd.sw {
		m = t.Marking(nd.ref, num)
	} else {
		th = t.Throttling(nd.ref, num)
	}
	if e.cong == nil {
		if m.Threshold == 0 && (th == nil || len(th.Table) == 0) {
			return
		}
		e.cong = e.newCongestion()
		for i := range e.out {
			if e.out[i].peer >= 0 {
				e.refreshCongestion(int32(i))
			}
		}
	}
	e.cong.ports[p] = m
	if h := e.out[p].source; h >= 0 {
		e.cong.ends[h] = th
	}
}

func (e *Engine) newCongestion() *congestion {
	c := &congestion{
		ports: make([]Marking, len(e.out)), lanes: make([]markedLane, len(e.outLanes)), ends: make([]*Throttling, len(e.hosts)),
		bySL: make([]throttle, 16*len(e.hosts)), replies: make([]int32, len(e.hosts)), counts: make([]CongestionCounts, len(e.out)),
		logs: make([]congestionLog, len(e.top.Nodes)),
	}
	for i := range c.replies {
		c.replies[i] = -1
	}
	return c
}

// awaits counts the packets of a queue, from one on, that wait for a lane of an output.
// What stands behind a packet for another one waits for that, and is not counted yet.
func (e *part) awaits(in *inPort, id int32, out, vl uint8) {
	l := &e.cong.lanes[(e.nodes[in.node].first+int32(out))*e.stride+int32(vl)]
	for ; id >= 0; id = e.packets[id].next {
		p := &e.packets[id]
		if p.out != out || p.vl != vl || p.mc >= 0 || p.flags&flagCounted != 0 {
			return
		}
		p.flags |= flagCounted
		l.waiting += int32(p.blocks)
	}
}

// awaitsNot takes a packet out of that count.
func (e *part) awaitsNot(in *inPort, p *packet) {
	if p.flags&flagCounted == 0 {
		return
	}
	p.flags &^= flagCounted
	e.cong.lanes[(e.nodes[in.node].first+int32(p.out))*e.stride+int32(p.vl)].waiting -= int32(p.blocks)
}

// mark sets FECN of a packet that a switch sends now, if it is to.
func (e *part) mark(oi, ol int32, o *outPort, p *packet) {
	m, l := &e.cong.ports[oi], &e.cong.lanes[ol]
	starved := l.starved
	l.starved = false
	if m.Threshold == 0 {
		l.full = false
		return
	}
	if p.flags&flagCounted != 0 {
		from := int32(16-m.Threshold) * e.laneBuffer(oi, int(ol%e.stride), int(o.vls)) // in 1/16 blocks
		full := l.full || 16*l.waiting >= from
		// Without a packet that waits it is never congested.
		l.full = full && 16*(l.waiting-int32(p.blocks)) >= max(from-16*int32(e.cfg.MarkHysteresis), 1)
		if !full {
			return
		}
	}
	if p.flags&(flagCounted|flagNotify) != flagCounted || starved && !m.Victim || int(p.bytes) < m.MinBytes {
		return
	}
	if l.passed < m.Rate {
		l.passed++
		return
	}
	l.passed = 0
	p.flags |= flagFECN
	e.cong.counts[oi].Marked++
	v := CongestionEvent{At: e.now, DLID: p.dlid, SL: p.sl, Port: o.num, Stream: int(p.stream)}
	if p.stream >= 0 {
		v.SLID = e.hosts[e.streams[p.stream].Src].lid
	}
	e.cong.logs[e.nodes[o.node].ref].add(v)
}

// cnpBytes is a notification on the wire: LRH, BTH, 16 bytes, ICRC and VCRC.
const cnpBytes = 8 + 12 + 16 + 4 + 2

// notify sends a notification for a marked packet that has come to an end port.
func (e *part) notify(hi int32, p *packet) {
	if p.stream < 0 || e.cong.ends[hi] == nil {
		return
	}
	h := &e.hosts[hi]
	vl := ib.VL(0)
	if h.ref.Port != 0 {
		vl = e.tables.Lane(h.ref.Node, 0, h.ref.Port, p.sl)
	}
	if !e.out[h.port].active || uint8(vl) >= e.out[h.port].vls {
		return
	}
	q := &e.cong.replies[hi]
	if *q < 0 {
		*q = e.newSendQueue(hi, 0)
	}
	id := e.newPacket()
	e.packets[id] = packet{
		created: e.now, next: -1, stream: noStream, dst: hi, seq: uint32(p.stream), mc: -1, dlid: e.hosts[e.streams[p.stream].Src].lid,
		bytes: cnpBytes, blocks: uint16(Blocks(cnpBytes)), lane: uint8(vl), sl: p.sl, flags: flagNotify,
	}
	e.stat.live++
	e.stat.made++
	e.enqueueSend(*q, id)
}

// notified is a notification at an end port: the queue pair that it is about, or its
// service level, slows down.
func (e *part) notified(hi int32, p *packet) {
	s := &e.streams[p.seq]
	t := e.cong.ends[hi]
	if int32(s.Src) != hi || t == nil || len(t.Table) == 0 {
		return
	}
	set := &t.SL[p.sl]
	x := e.throttleOf(t, hi, e.sendQueueOf(s, int32(p.seq), p.dst, int32(p.lane)), p.sl)
	e.settleThrottle(x, set)
	was := x.index
	x.index = min(x.index+uint16(set.Increase), uint16(len(t.Table)-1))
	n := &e.cong.counts[e.hosts[hi].port]
	n.Notified++
	if set.Trigger > 0 && was < uint16(set.Trigger) && x.index >= uint16(set.Trigger) {
		n.Events++
		e.cong.logs[e.hosts[hi].ref.Node].add(CongestionEvent{
			At: e.now, SLID: e.hosts[hi].lid, DLID: e.hosts[p.dst].lid, SL: p.sl, Port: e.hosts[hi].ref.Port, Stream: int(p.seq),
		})
	}
}

// throttleOf is the index of a queue pair.
func (e *part) throttleOf(t *Throttling, hi, queue int32, sl ib.SL) *throttle {
	if t.BySL {
		return &e.cong.bySL[16*hi+int32(sl)]
	}
	return e.pacer(queue)
}

// pacer is the record of a send queue.
func (e *part) pacer(queue int32) *throttle {
	for len(e.pacers) <= int(queue) {
		e.pacers = append(e.pacers, throttle{})
	}
	return &e.pacers[queue]
}

// settleThrottle takes off what the timer has since the index was right.
func (e *part) settleThrottle(x *throttle, set *cc.SLSetting) {
	if period := Time(set.Timer) * cc.TimeUnit * Nanosecond; period > 0 {
		n := e.now/period - x.since/period
		x.index -= uint16(min(n, Time(x.index)))
	}
	x.index = max(x.index, uint16(set.Min))
	x.since = e.now
}

// pause holds a send queue back after a packet that takes dur on the link, as the index
// now says.
func (e *part) pause(hi, queue int32, p *packet, dur Time) {
	t := e.cong.ends[hi]
	if t == nil || len(t.Table) == 0 || p.flags&flagNotify != 0 || p.stream < 0 {
		return
	}
	x := e.throttleOf(t, hi, queue, p.sl)
	e.settleThrottle(x, &t.SL[p.sl])
	d := t.Table[min(int(x.index), len(t.Table)-1)]
	if m := Time(d.Multiplier()); m > 0 {
		e.pacer(queue).gate = e.now + dur + dur>>d.Shift()*m
	}
}

// heldBack reports whether a send queue has to pause, and arranges its end.
func (e *part) heldBack(queue int32, s *sendQueue) bool {
	if s.held {
		return true
	}
	if int(queue) >= len(e.pacers) || e.pacers[queue].gate <= e.now {
		return false
	}
	s.held = true
	e.push(e.pacers[queue].gate, evRelease, queue, 0)
	return true
}

// resume ends the pause of a send queue.
func (e *part) resume(queue int32) {
	s := &e.sendq[queue]
	if s.held = false; s.q.head >= 0 {
		e.list(queue)
	}
}

// Index is where a stream with a queue of its own stands now in the table of its end
// port, for packets of a service level.
func (e *Engine) Index(stream int, sl ib.SL) int {
	s := &e.streams[stream]
	hi := int32(s.Src)
	own := e.partOfHost(s.Src)
	if e.cong == nil || e.cong.ends[hi] == nil || s.queue < 0 {
		return 0
	}
	t := e.cong.ends[hi]
	x := *own.throttleOf(t, hi, s.queue, sl)
	own.settleThrottle(&x, &t.SL[sl])
	return int(x.index)
}

// starve notes that the next packet of a lane waits for credits.
func (e *part) starve(ol int32) {
	if e.cong != nil {
		e.cong.lanes[ol].starved = true
	}
}

func (c *congestion) clone() *congestion {
	if c == nil {
		return nil
	}
	return &congestion{
		ports: slices.Clone(c.ports), lanes: slices.Clone(c.lanes), ends: slices.Clone(c.ends), bySL: slices.Clone(c.bySL),
		replies: slices.Clone(c.replies), counts: slices.Clone(c.counts), logs: slices.Clone(c.logs),
	}
}
