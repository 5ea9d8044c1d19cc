package sa

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// subscriptionDropped is the kind of the notice when the SA ends a subscription.
const subscriptionDropped = "subscription_dropped"

// Limits on subscriptions. A subscription over a limit is refused with
// NO_RESOURCES.
const (
	maxSubs        = 1 << 18
	maxSubsPerPort = 256
)

// informs owns the subscriptions and the outstanding Reports (report.go).
//
// A subscription is identified by the subscriber's port and QP and by the
// events it names; a port that returns with another LID keeps its
// subscriptions. A subscription ends when the subscriber cancels it, when the
// partitions no longer allow it (IBA o13-17.1.2), or when its port was missing
// or unresponsive for Config.DropAfter.
type informs struct {
	all     shared[*Subscription] // ascending subscriber GID, Enum
	drop    time.Duration         // Config.DropAfter
	dropAt  mad.Time              // when the next missing port reaches drop
	reports reports
	gone    departed
}

func (x *informs) init(cfg Config) {
	x.drop, x.dropAt = cfg.DropAfter, mad.Never
	x.reports.init(cfg)
}

func (x *informs) view(v *View) { v.Subs = x.all.view() }

// of returns the range of a GID's subscriptions in the list.
func (x *informs) of(g ib.GID) (from, to int) {
	from, _ = slices.BinarySearchFunc(x.all.list, g, func(s *Subscription, g ib.GID) int { return bytes.Compare(s.GID[:], g[:]) })
	for to = from; to < len(x.all.list) && x.all.list[to].GID == g; to++ {
	}
	return from, to
}

// eachPathPeer calls fn for each peer that subscribes to traps 68 or 69, in the order of the
// subscriptions.
func (x *informs) eachPathPeer(fn func(p *peer)) {
	for i, s := range x.all.list {
		if !named(s) {
			continue
		}
		first := true
		for j := i - 1; j >= 0 && first && x.all.list[j].GID == s.GID; j-- {
			first = !named(x.all.list[j]) || x.all.list[j].Addr.QP != s.Addr.QP
		}
		if first {
			fn(x.reports.peer(s))
		}
	}
}

// find returns the subscription of a port's QP to the events that info names.
func (x *informs) find(g ib.GID, qp uint32, info wire.InformInfo) (i int, ok bool) {
	from, to := x.of(g)
	want := subscribed(info, qp)
	for i = from; i < to; i++ {
		if s := x.all.list[i]; s.Addr.QP == qp && subscribed(s.Info, qp) == want {
			return i, true
		}
	}
	return to, false
}

// subscribed reduces an InformInfo to the fields that identify a subscription.
func subscribed(info wire.InformInfo, qp uint32) wire.InformInfo {
	info.Subscribe, info.QPN, info.RespTimeValue = 1, qp, 0
	return info
}

func (x *informs) load(c *Core, r *store.Record) error {
	s, err := decodeSubscription(r.Key, r.Value)
	if err != nil {
		return err
	}
	i, ok := x.find(s.GID, s.Addr.QP, s.Info)
	if ok {
		x.all.set(i, s)
		return nil
	}
	x.insert(s)
	return nil
}

// insert adds s with its own Enum if that is free, otherwise with the lowest
// free Enum of its subscriber.
func (x *informs) insert(s *Subscription) {
	from, to := x.of(s.GID)
	run := x.all.list[from:to]
	i, taken := slices.BinarySearchFunc(run, s.Enum, func(s *Subscription, n uint16) int { return cmp.Compare(s.Enum, n) })
	if taken {
		for i = 0; i < len(run) && int(run[i].Enum) == i; i++ {
		}
		s.Enum = uint16(i)
	}
	x.all.insert(from+i, s)
	p := x.reports.peer(s)
	if p.subs++; named(s) {
		p.path.subs++
	}
}

// remove deletes a subscription.
func (x *informs) remove(c *Core, i int, kind, why string) {
	s := x.all.list[i]
	c.notice(kind, fmt.Sprintf("%v, QP %d, to %s%s", s.GID, s.Addr.QP, informText(&s.Info), why))
	c.save(store.TableSubscriptions, subscriptionKey(s), nil)
	x.all.remove(i)
	if named(s) {
		c.signals.unsubscribed(x.reports.peer(s), kind == subscriptionDropped, c.now)
	}
	x.reports.unsubscribed(s)
	c.changed = true
}

// request processes Set(InformInfo) (IBA §13.4.8.3, §15.4.4). A refused
// subscription is answered with Subscribe 0.
func (x *informs) request(c *Core, q *query, m []byte) {
	var r wire.InformInfo
	st, stored := statusInvalid, false
	if r.Decode(q.data[:wire.InformInfoLen]) == nil && q.me >= 0 {
		switch r.Subscribe {
		case 1:
			stored, st = x.subscribe(c, q, r)
		case 0:
			st = x.unsubscribe(c, q, r)
		}
	}
	if st != 0 {
		b := refuse(nil, m, st)
		b[wire.DataOffset+23] = 0
		c.reply(q.req, b)
		return
	}
	if stored {
		c.answerNow(q.req, m, wire.InformInfoLen, r.Put)
		return
	}
	c.answer(q.req, m, wire.InformInfoLen, r.Put)
}

// subscribe adds or replaces a subscription. stored reports that the store has the same one already.
func (x *informs) subscribe(c *Core, q *query, r wire.InformInfo) (stored bool, st ib.Status) {
	port := q.s.Ports[q.me]
	s := &Subscription{GID: ib.MakeGID(q.s.Prefix, port.GUID), Addr: q.req.From, Info: r, Trust: q.trusted}
	s.Info.QPN = s.Addr.QP
	if r.IsGeneric > 1 || security(&r) && !q.trusted || !mayHear(q.s, q.me, &r) {
		return false, statusInvalid
	}
	i, ok := x.find(s.GID, s.Addr.QP, r)
	if ok {
		was := x.all.list[i]
		s.Enum = was.Enum
		x.reports.heard(s, q.me)
		if bytes.Equal(subscriptionValue(s), subscriptionValue(was)) {
			// A renewal: what is stored says so already.
			return c.rests(store.Record{Table: store.TableSubscriptions, Key: subscriptionKey(s), Value: subscriptionValue(s)}), 0
		}
		x.all.set(i, s)
	} else {
		from, to := x.of(s.GID)
		if to-from >= maxSubsPerPort || len(x.all.list) >= maxSubs {
			return false, statusNoResources
		}
		x.insert(s)
		x.reports.heard(s, q.me)
		if named(s) {
			c.signals.subscribed(c, x.reports.peer(s))
		}
		c.notice("subscribed", fmt.Sprintf("%v, QP %d, to %s", s.GID, s.Addr.QP, informText(&s.Info)))
	}
	c.save(store.TableSubscriptions, subscriptionKey(s), subscriptionValue(s))
	c.changed = true
	return false, 0
}

func (x *informs) unsubscribe(c *Core, q *query, r wire.InformInfo) ib.Status {
	if r.QPN != q.req.From.QP {
		return statusInvalid
	}
	i, ok := x.find(ib.MakeGID(q.s.Prefix, q.s.Ports[q.me].GUID), r.QPN, r)
	if !ok {
		return statusInvalid
	}
	x.remove(c, i, "unsubscribed", "")
	return 0
}

// security reports whether a subscription asks for a security trap, which
// requires trust. (A subscription to all traps includes them only if it is
// trusted.)
func security(r *wire.InformInfo) bool { return r.IsGeneric == 1 && securityTrap(r.TrapNumber) }

func securityTrap(n uint16) bool {
	return n >= smp.TrapBadMKey && n <= smp.TrapBadPKeySwitchPort || n == smp.TrapVPortBadPKey || n == smp.TrapVPortBadQKey
}

// mayHear reports whether a port may subscribe to events at the sources that r
// names: they belong to this subnet and share a partition with the port.
func mayHear(s *subnet.Snapshot, me int32, r *wire.InformInfo) bool {
	if !r.GID.IsZero() {
		p := s.PortByGID(r.GID)
		return p >= 0 && s.Share(me, p)
	}
	if r.LIDRangeBegin == wire.InformAllLIDs {
		return true
	}
	if r.LIDRangeEnd > s.TopLID() {
		return false
	}
	for l, last := int(r.LIDRangeBegin), int32(-1); l <= int(r.LIDRangeEnd); l++ {
		p := s.PortByLID(ib.LID(l))
		if p >= 0 && p != last && !s.Share(me, p) {
			return false
		}
		last = p
	}
	return true
}

// published notifies subscribers of what changed between two snapshots.
func (x *informs) published(c *Core, old, now *subnet.Snapshot) {
	if serves(old) && serves(now) && len(x.all.list) > 0 {
		x.portEvents(c, old, now)
	}
	c.signals.published(c, now)
}

// serves reports whether s is a subnet that this manager has brought up.
func serves(s *subnet.Snapshot) bool { return s != nil && s.Up && s.State == subnet.Master }

// locate updates the subscribers' addresses from a new snapshot, and ends
// subscriptions whose source left the subscriber's partitions.
func (x *informs) locate(c *Core) {
	s := c.snap
	if !serves(s) {
		x.reports.silence()
		c.signals.silence()
		return
	}
	x.dropAt = mad.Never
	var gid ib.GID
	port := int32(-1)
	for i := 0; i < len(x.all.list); i++ {
		sub := x.all.list[i]
		if sub.GID != gid {
			gid, port = sub.GID, s.PortByPortGUID(sub.GID.GUID())
		}
		p := x.reports.peer(sub)
		p.port = port
		if port < 0 && c.maybeThere(s, gid.GUID()) { // it may still be in the subnet
			p.queue = nil
			p.back()
			continue
		}
		if port < 0 {
			p.away(c.now)
			c.signals.away(p)
			x.dropAt = min(x.dropAt, x.deadline(p))
			continue
		}
		p.back()
		c.signals.resume(p, c.now)
		if !sub.Info.GID.IsZero() {
			// A source missing from the subnet may return.
			if at := s.PortByGID(sub.Info.GID); at >= 0 && !s.Share(port, at) {
				x.remove(c, i, subscriptionDropped, ": it no longer shares a partition with that port")
				i--
				continue
			}
		}
		if to := addressOf(s, port, sub.Addr); to != sub.Addr {
			moved := *sub
			moved.Addr = to
			x.all.set(i, &moved)
			c.save(store.TableSubscriptions, subscriptionKey(&moved), subscriptionValue(&moved))
			c.changed = true
			p.addr = moved.Addr
		}
	}
}

// addressOf updates the address a of a subscriber: its LID may have changed, or its
// port may now share one.
func addressOf(s *subnet.Snapshot, port int32, a mad.Addr) mad.Addr {
	p := s.Ports[port]
	if a.LID == 0 { // the manager's own host
		return a
	}
	if !ownsLID(p, a.LID) && requester(s, &a) != port {
		a.LID, a.PathBits = p.LID, 0
	}
	if !a.HasGRH && s.NeedsGRH(port) {
		a.HasGRH, a.GRH = true, mad.GRH{GID: s.GID(port), HopLimit: DefaultVirtHopLimit}
	}
	return a
}

// deadline is when a missing or unresponsive subscriber is dropped.
func (x *informs) deadline(p *peer) mad.Time {
	if p.silent == mad.Never || x.drop <= 0 {
		return mad.Never
	}
	return p.silent.Add(x.drop)
}

// timers drops subscribers whose ports were missing too long, and handles
// Reports without a response.
func (x *informs) timers(c *Core) {
	if x.dropAt <= c.now && serves(c.snap) {
		x.dropAt = mad.Never
		for i := 0; i < len(x.all.list); i++ {
			p := x.reports.peer(x.all.list[i])
			switch at := x.deadline(p); {
			case p.port >= 0:
			case at <= c.now:
				x.remove(c, i, subscriptionDropped, ": its port has left the subnet")
				i--
			default:
				x.dropAt = min(x.dropAt, at)
			}
		}
	}
	x.reports.expire(c)
}

func (x *informs) nextTimer(c *Core) mad.Time {
	if !serves(c.snap) {
		return x.reports.nextTimer() // the port may be active under another manager
	}
	return min(x.dropAt, x.reports.nextTimer())
}

// giveUp ends the subscriptions of an unresponsive subscriber.
func (x *informs) giveUp(c *Core, p *peer) {
	from, to := x.of(p.gid)
	for i := to - 1; i >= from; i-- {
		if x.all.list[i].Addr.QP == p.addr.QP {
			x.remove(c, i, subscriptionDropped, fmt.Sprintf(": %d Reports in a row were not answered", p.failed))
		}
	}
}

// received processes a response to a Report.
func (x *informs) received(c *Core, p *mad.Packet) { x.reports.received(c, p) }
