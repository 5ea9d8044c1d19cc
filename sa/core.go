package sa

import (
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

// Core is the stateful part of subnet administration. It processes the requests
// that Answer returns as ForCore, forwards events to subscribers, and owns
// groups, services, subscriptions and alias GUIDs. Like every manager it is a
// pure state machine: the shell passes it one event at a time and performs the
// effects in the output, in the order of its fields.
//
// State is durable before it is visible: a reply, a Report or a new View that
// depends on a change is released only after Persisted. One write is under way at a
// time; the changes of the steps meanwhile share the next one. A request that changes
// nothing is answered immediately, unless a record on which the answer rests is not
// stored yet.
type Core struct {
	cfg    Config
	now    mad.Time
	wall   int64 // Unix nanoseconds at mad.Time 0
	out    *Output
	by     ib.LID // requester of the current request; 0: none
	unsure bool   // Requests.Unsure of the current requests

	snap    *subnet.Snapshot
	started bool

	absent        absent
	groups        multicast
	services      services
	subscriptions informs
	signals       signals
	slow          slowPaths
	aliases       aliases
	wait          waiting

	ops     []store.Op // of this step
	replies []Reply    // of this step
	changed bool       // the view changed in this step

	persistGen uint64      // of the last write
	durable    uint64      // the last generation that Persisted reported
	stored     uint64      // the last generation with which all changes were stored
	held       []heldStep  // steps whose effects wait for a write, oldest first
	writing    write       // the one under way
	unwritten  []store.Op  // of the next write
	pending    pendingKeys // records of both
	waits      waitingReplies
	unsaved    unsaved
	view       *View
	hiding     hiding
}

// Config configures a Core. Start from Defaults.
type Config struct {
	SAKey      uint64 // see Options
	TrustLocal bool   // see Options
	// FirstTID shifts the transaction ids of Reports.
	FirstTID uint32
	// TransportTimed: see mad.Config.
	TransportTimed bool
	// ConsolidateSNM makes the IPv6 solicited-node groups of one scope and P_Key
	// share an MLID even while free MLIDs remain.
	ConsolidateSNM bool
	// ExclusiveMLIDs refuses a new group with status 0x0100 when no MLID is free.
	// Otherwise the group shares the MLID of groups with the same P_Key, MTU, rate
	// and service level.
	ExclusiveMLIDs bool
	// RejoinTime is how long ports keep their memberships after this manager takes
	// over the subnet from another one; by then they must have joined again. Hosts
	// rejoin within seconds of the request to reregister, but a large subnet has
	// many of them. 0: ports need not rejoin. It requires a subnet manager that
	// requests client reregistration.
	RejoinTime time.Duration
	// MigrateTime is how long a virtual port may be missing, as during a migration,
	// before its group memberships end. 0: they end immediately, like those of other
	// ports. A port that returns in time with another LID causes trap 69 (RePath) in
	// addition to trap 64.
	MigrateTime time.Duration
	// DropAfter is how long a subscriber may be missing from the subnet, or leave
	// Reports unanswered, before its subscriptions are dropped. 0: never (like
	// OpenSM without drop_event_subscriptions).
	DropAfter time.Duration
	// Signal says which subscribers are notified of changed paths, SignalRate how many
	// Reports about paths may be sent in a second; 0: any number.
	Signal     Signal
	SignalRate int
	// QoS says that a QoS policy decides about path answers: Reports then have no values of paths,
	// which hosts have to query.
	QoS bool
	// PathCaching and VirtHopLimit are those of Options: Reports have values as answers have them.
	PathCaching  uint8
	VirtHopLimit uint8
	// MustSave answers BUSY where the store does not take a change, instead of success: whoever
	// gets an answer can rely on it after a failure of this manager. The change stays in memory
	// and is written again, so the repeated request finds it. Until it is stored nobody else sees
	// it: not in views, Reports, groups or aliases.
	MustSave bool
	// WaitPerRequester is how many answers to one LID may wait for the store; further requests that may
	// change something are answered BUSY. 0: any number.
	WaitPerRequester int
	// AssignedGUIDByte follows the OUI 00:14:05 in alias GUIDs that the SA assigns
	// (OpenSM's sm_assigned_guid). Each subnet should use its own value.
	AssignedGUIDByte uint8
}

// Defaults returns the default configuration. In a Config, zero means zero.
func Defaults() Config {
	return Config{RejoinTime: 5 * time.Minute, MigrateTime: 10 * time.Second, DropAfter: 10 * time.Minute, SignalRate: 2000}
}

// Event is an input of Core: one of the types below.
type Event interface{ event() }

// Start is the first event. Records are the contents of the store.
type Start struct {
	Records []store.Record
	Wall    int64 // Unix nanoseconds at the time of this step; service leases use it
}

// Published announces a new snapshot of the subnet.
type Published struct{ Snap *subnet.Snapshot }

// Requests carries requests that Answer returned as ForCore, in order of
// arrival. The core does not keep them after the call.
type Requests struct {
	List []Request
	// Unsure: whether the store still has what the core read is not known, and it takes no change.
	// Output.Promised then has the records on which answers rest.
	Unsure bool
}

// Received is a response to a Report, or a Failed packet that this core sent.
type Received struct{ P *mad.Packet }

// Trap is a trap that the subnet manager accepted.
type Trap struct {
	Notice smp.Notice
	From   mad.Addr
}

// Timer reports that the deadline in the last Output has passed.
type Timer struct{}

// Persisted reports the result of Output.Persist.
type Persisted struct {
	Gen uint64
	Err error
}

// Configure changes what of a Config a running core can change; the rest of it does not count.
type Configure struct{ Config Config }

func (Configure) event() {}
func (Start) event()     {}
func (Published) event() {}
func (Requests) event()  {}
func (Received) event()  {}
func (Trap) event()      {}
func (Timer) event()     {}
func (Persisted) event() {}

// Reply is a response to a request.
type Reply struct {
	To    mad.Addr
	Data  []byte
	Asked mad.Time // of the Request
}

// Output lists the effects of a Step, in the order in which the shell performs
// them.
type Output struct {
	Persist    []store.Op // the shell may pass other events to the core while they are stored
	PersistGen uint64     // to be returned in Persisted
	Publish    *View      // before Replies, so that a query sent after a reply sees its change
	Replies    []Reply
	Sends      []mad.Packet // Reports
	// Groups, if GroupsChanged, are all multicast groups for the subnet manager to
	// route.
	Groups        []subnet.Group
	GroupsChanged bool
	// Aliases, if AliasesChanged, are all alias GUIDs for the subnet manager to
	// program.
	Aliases        []subnet.Alias
	AliasesChanged bool
	// Read lists nodes whose SL-to-VL and VL arbitration tables a query needs; the
	// subnet manager reads them.
	Read []ib.GUID
	// Notified, if set, says how many subscribers have to acknowledge a new service level; the
	// subnet manager waits for them.
	Notified *Notified
	Notices  []Notice
	Timer    mad.Time
	// Promised are records that hosts were told of again, in answers to Requests with Unsure set: whoever
	// can write next sees to it that they are stored (Redeem), even if another manager has withdrawn
	// them meanwhile.
	Promised []store.Record
}

// Notified is how many subscribers have not acknowledged that a service level changed, as of a
// snapshot.
type Notified struct {
	Gen  uint64 // of the snapshot
	Left int
}

// Notice is a log entry.
type Notice struct {
	Kind string // group_created, service_registered, … : one for each kind of fact
	Warn bool
	Text string
	By   ib.LID // LID of the requester that caused it; 0: none
}

// Reset empties o for the next Step.
func (o *Output) Reset() { *o = Output{Timer: mad.Never} }

// heldStep holds the effects of a step until its changes are durable.
type heldStep struct {
	gen     uint64 // of the write
	replies []Reply
	publish *View
}

// write is a write of the store that is under way.
type write struct {
	gen    uint64 // 0: none
	ops    []store.Op
	hidden routed // what is to be released with it, with Config.MustSave
}

// NewCore returns a core that waits for Start.
func NewCore(cfg Config) *Core {
	c := &Core{cfg: cfg}
	c.subscriptions.init(cfg)
	c.signals.init(cfg)
	c.groups.joins, c.groups.proxies = map[ib.GUID]int{}, map[membershipID]ib.GUID{}
	return c
}

// Step applies one event at time now, which never decreases, and fills out,
// which the caller has reset.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.now, c.out = max(now, c.now), out
	switch ev := ev.(type) {
	case Start:
		c.onStart(ev)
	case Published:
		c.onPublished(ev.Snap)
	case Requests:
		c.unsure = ev.Unsure
		for i := range ev.List {
			c.by = ev.List[i].From.LID
			c.onRequest(&ev.List[i])
		}
		c.by, c.unsure = 0, false
	case Received:
		c.subscriptions.received(c, ev.P)
	case Trap:
		c.subscriptions.trap(c, &ev)
	case SetSlowPaths:
		c.slow.set(c, &ev)
	case Persisted:
		c.onPersisted(ev)
	case Configure:
		c.configure(&ev.Config)
	case Timer:
	}
	if c.started {
		c.groups.expire(c)
		c.services.expire(c)
		c.slow.expire(c)
		c.subscriptions.timers(c)
		c.signals.timers(c)
		c.aliases.timers(c)
		c.wait.expire(c)
	}
	c.flush()
	c.subscriptions.reports.send(c)
	c.signals.announce(c)
	out.Timer = min(c.groups.nextTimer(c), c.services.nextTimer(), c.subscriptions.nextTimer(c), c.signals.nextTimer(c), c.slow.nextTimer(), c.aliases.nextTimer(), c.wait.nextTimer(), c.unsaved.nextTimer())
	c.out = nil
}

// configure takes other settings. Whoever rejoins or is away already has the time of before.
func (c *Core) configure(n *Config) {
	for _, cfg := range []*Config{&c.cfg, &c.signals.cfg} {
		cfg.ConsolidateSNM, cfg.ExclusiveMLIDs = n.ConsolidateSNM, n.ExclusiveMLIDs
		cfg.RejoinTime, cfg.MigrateTime, cfg.DropAfter = n.RejoinTime, n.MigrateTime, n.DropAfter
		cfg.SignalRate, cfg.AssignedGUIDByte = n.SignalRate, n.AssignedGUIDByte
		cfg.QoS, cfg.PathCaching, cfg.VirtHopLimit = n.QoS, n.PathCaching, n.VirtHopLimit
	}
	if c.subscriptions.drop = n.DropAfter; serves(c.snap) {
		c.subscriptions.dropAt = c.now // who is missing is looked for anew
	}
}

// Config is the configuration as it is now.
func (c *Core) Config() Config { return c.cfg }

func (c *Core) onStart(ev Start) {
	c.started = true
	c.wall = ev.Wall - int64(c.now)
	for i := range ev.Records {
		r := &ev.Records[i]
		var err error
		switch r.Table {
		case store.TableGroups, store.TableMembers:
			err = c.groups.load(c, r)
		case store.TableServices:
			err = c.services.load(c, r)
		case store.TableSubscriptions:
			err = c.subscriptions.load(c, r)
		case store.TableAliases:
			err = c.aliases.load(c, r)
		case store.TablePathHistory:
			err = c.signals.history.load(r)
		}
		if err != nil {
			c.out.Notices = append(c.out.Notices, Notice{Kind: "record_damaged", Warn: true, Text: err.Error()})
		}
	}
	c.changed = true
	c.out.GroupsChanged, c.out.AliasesChanged = true, true
}

func (c *Core) onPublished(s *subnet.Snapshot) {
	old := c.snap
	c.snap = s
	c.absent.published(c, old, s)
	c.subscriptions.locate(c) // before subscribers are notified
	c.groups.published(c, old, s)
	c.services.published(c, old, s)
	c.aliases.published(c, old, s)
	c.subscriptions.published(c, old, s)
	c.slow.published(c, s)
	c.wait.published(c, s)
}

// onRequest processes a request that changes state or has to wait.
func (c *Core) onRequest(req *Request) {
	q, m, v := open(c.source(), req)
	if v != Answered {
		return
	}
	mm := (*ib.MAD)(m)
	method, attr := mm.Method(), mm.AttrID()
	if !changes(method, attr) {
		out, v, nodes := answer(c.source(), req, nil)
		switch v {
		case Answered: // no reason to wait remains
			c.reply(req, out)
		case ForCore:
			c.wait.park(c, &q, m, nodes)
		}
		return
	}
	if c.cfg.MustSave && len(c.unsaved.at) >= maxUnsaved/2 {
		c.reply(req, refuse(nil, m, ib.StatusBusy)) // there would be no place to keep the change
		return
	}
	if most := c.cfg.WaitPerRequester; most > 0 && c.waits.by[req.From.LID] >= most {
		c.out.Replies = append(c.out.Replies, Reply{To: req.From, Data: refuse(nil, m, ib.StatusBusy), Asked: req.Asked})
		return
	}
	switch attr {
	case wire.AttrMCMemberRecord:
		c.groups.request(c, &q, m)
	case wire.AttrServiceRecord:
		c.services.request(c, &q, m)
	case wire.AttrInformInfo:
		c.subscriptions.request(c, &q, m)
	case wire.AttrGUIDInfoRecord:
		c.aliases.request(c, &q, m)
	}
}

// reply queues a reply, which is sent when the change it reports is durable.
func (c *Core) reply(req *Request, data []byte) {
	c.replies = append(c.replies, Reply{To: req.From, Data: data, Asked: req.Asked})
	c.waits.add(req.From.LID)
}

// answer replies with one record of recLen bytes, encoded by put.
func (c *Core) answer(req *Request, m []byte, recLen int, put func(b []byte)) {
	c.reply(req, oneRecord(m, recLen, put))
}

// answerNow is answer without a wait for changes: the answer rests on stored records alone.
func (c *Core) answerNow(req *Request, m []byte, recLen int, put func(b []byte)) {
	c.out.Replies = append(c.out.Replies, Reply{To: req.From, Data: oneRecord(m, recLen, put), Asked: req.Asked})
}

// oneRecord is the answer with one record to the request m.
func oneRecord(m []byte, recLen int, put func(b []byte)) []byte {
	b := make([]byte, ib.MADLen)
	copy(b, m[:wire.HeaderLen])
	respond(b, 0)
	off := wire.OffsetWords(recLen)
	b[44], b[45] = byte(off>>8), byte(off)
	put(b[wire.HeaderLen:])
	return b
}

// save stores a record; a nil value deletes it.
func (c *Core) save(t store.Table, key, value []byte) {
	op := store.Op{Kind: store.PutRecord, Record: store.Record{Table: t, Key: key, Value: value}}
	if value == nil {
		op.Kind = store.DeleteRecord
	}
	c.ops = append(c.ops, op)
	c.pending.add(&op)
}

// flush ends a step. Effects that depend on a change wait until it is durable.
func (c *Core) flush() {
	c.groups.settle(c)
	h := heldStep{replies: c.replies}
	if c.changed {
		v := &View{}
		c.groups.view(v)
		c.services.view(v)
		c.subscriptions.view(v)
		v.Paths, v.Slow = c.signals.log.View(), c.slow.paths
		c.view, h.publish = v, v
	}
	if c.cfg.MustSave && len(c.replies) > 0 {
		c.unsaved.retry = c.now // an answer may rest on them
	}
	if len(c.unwritten) == 0 {
		c.unwritten = c.ops
	} else {
		c.unwritten = append(c.unwritten, c.ops...)
	}
	c.write()
	h.gen = c.persistGen
	if len(c.unwritten) > 0 {
		h.gen++ // they wait for the next write
	}
	if c.cfg.MustSave {
		c.hide()
	} else {
		if c.out.GroupsChanged {
			c.out.Groups = c.groups.routed()
		}
		if c.out.AliasesChanged {
			c.out.Aliases = c.aliases.wanted()
		}
	}
	c.subscriptions.reports.sealed(h.gen)
	c.out.Read, c.wait.read = c.wait.read, nil
	c.ops, c.replies, c.changed = nil, nil, false
	switch {
	case h.gen <= c.durable:
		c.release(&h)
	case len(h.replies) > 0 || h.publish != nil:
		c.held = append(c.held, h)
	}
}

// write begins the next write, unless one is under way.
func (c *Core) write() {
	if c.writing.gen != 0 {
		return
	}
	c.unsaved.overtake(c.unwritten)
	again := c.unsaved.take(c.now)
	for i := range again {
		c.pending.add(&again[i])
	}
	ops := append(c.unwritten, again...)
	if c.unwritten = nil; len(ops) == 0 {
		return
	}
	c.persistGen++
	c.writing = write{gen: c.persistGen, ops: ops}
	c.out.Persist, c.out.PersistGen = ops, c.persistGen
}

func (c *Core) release(h *heldStep) {
	c.out.Replies = append(c.out.Replies, h.replies...)
	for i := range h.replies {
		c.waits.remove(h.replies[i].To.LID)
	}
	if h.publish != nil {
		c.publish(h.publish)
	}
}

// onPersisted releases the waiting effects. If the store cannot be written, the
// change stays in memory, its effects are released, and the write is retried: a
// subnet must work without a disk. With Config.MustSave the answers are BUSY then.
func (c *Core) onPersisted(ev Persisted) {
	w := c.writing
	c.writing = write{}
	for i := range w.ops {
		c.pending.remove(&w.ops[i])
	}
	if ev.Err != nil {
		c.out.Notices = append(c.out.Notices, Notice{
			Kind: "persist_failed", Warn: true,
			Text: "SA state was not stored: " + ev.Err.Error() + ". The write is retried; a restart before it succeeds loses the changes. " +
				"Look at the store: the state directory (space, disk), the partner, or etcd.",
		})
		if !c.unsaved.add(w.ops, c.now.Add(retryStore)) && !c.unsaved.full {
			c.unsaved.full = true
			c.out.Notices = append(c.out.Notices, Notice{
				Kind: "unsaved_full", Warn: true,
				Text: fmt.Sprintf("%d changes wait for the store; further changes are lost at a restart", maxUnsaved),
			})
		}
	} else {
		c.unsaved.retry = c.now
		c.unsaved.full = false
	}
	c.durable = max(c.durable, ev.Gen)
	n := 0
	for n < len(c.held) && c.held[n].gen <= ev.Gen {
		h := &c.held[n]
		if c.mustWait() {
			h.refuse()
		}
		c.release(h)
		n++
	}
	c.held = slices.Delete(c.held, 0, n) // let the collector free the rest
	if c.mustWait() {
		c.hiding.keepHidden(&w.hidden)
		return
	}
	c.stored, c.hiding.out = c.durable, w.hidden
	if c.hiding.view != nil {
		c.publish(c.hiding.view)
	}
}

// refuse makes BUSY of the answers, also of errors: that a host is no member, say, may rest on a
// change that is not stored.
func (h *heldStep) refuse() {
	for i := range h.replies {
		h.replies[i].Data = busy(h.replies[i].Data)
	}
}

// busy is the answer BUSY in the place of another one.
func busy(data []byte) []byte {
	var m ib.MAD // an answer with an empty table is shorter
	copy(m[:24], data)
	respond(m[:], ib.StatusBusy)
	return m[:]
}

func (c *Core) notice(kind, text string) {
	c.out.Notices = append(c.out.Notices, Notice{Kind: kind, Text: text, By: c.by})
}
