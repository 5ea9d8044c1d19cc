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

// Core is the part of subnet administration that changes: it takes the
// requests that Answer passes on, forwards events to subscribers, and owns
// groups, services, subscriptions and alias GUIDs. Like every manager it is a
// pure state machine: the shell gives it events, one at a time, and does what
// the output lists, in the order of its fields.
//
// What it keeps is stored before it is told: a reply, a Report or a new View
// that rests on a change comes out only after Persisted.
type Core struct {
	cfg  Config
	now  mad.Time
	wall int64 // Unix nanoseconds at mad.Time 0
	out  *Output
	by   ib.LID // of the request that is carried out; 0: none is

	snap    *subnet.Snapshot
	started bool

	absent absent
	mc     multicast
	svc    services
	inform informs
	alias  aliases
	wait   waiting

	ops     []store.Op // of this step
	replies []Reply    // of this step
	changed bool       // the view did in this step

	persistGen uint64
	durable    uint64     // the last generation that Persisted has told of
	held       []heldStep // steps whose ops are not durable yet, oldest first
	unsaved    unsaved
	view       *View
}

// Config is what a Core is told at start. It begins with Defaults.
type Config struct {
	SAKey      uint64 // see Options
	TrustLocal bool   // see Options
	// FirstTID shifts the transaction ids of Reports.
	FirstTID uint32
	// TransportTimed: see mad.Config.
	TransportTimed bool
	// ConsolidateSNM has the IPv6 solicited-node groups of one scope and P_Key
	// share an MLID even while there are others.
	ConsolidateSNM bool
	// ExclusiveMLIDs refuses a new group with status 0x0100 when MLIDs have run
	// out, where otherwise it shares one with groups that agree with it in
	// P_Key, MTU, rate and service level.
	ExclusiveMLIDs bool
	// RejoinTime is how long ports have to join their groups again after this
	// manager took the subnet over from another one, until which they are
	// members as before: hosts do so within seconds of being asked to, but a large
	// subnet has many of them. 0: nobody has to. It needs a subnet manager that asks
	// clients to register anew.
	RejoinTime time.Duration
	// MigrateTime is how long a virtual port may be gone from the subnet, as one that
	// migrates is, before its memberships in groups end. 0: they end at once, as
	// those of other ports. A port that comes back in that time with
	// another LID gives trap 69 (RePath) besides 64.
	MigrateTime time.Duration
	// DropAfter is how long a subscriber may be away from the subnet, or leave
	// Reports unanswered, before its subscriptions are dropped. 0: never (as
	// OpenSM without drop_event_subscriptions).
	DropAfter time.Duration
	// AssignedGUIDByte is the byte behind the OUI 00:14:05 in alias GUIDs that
	// the SA assigns (OpenSM's sm_assigned_guid): another one for each subnet.
	AssignedGUIDByte uint8
}

// Defaults returns the configuration of a Core that was told nothing, and is the
// one owner of its values. A zero means zero.
func Defaults() Config {
	return Config{RejoinTime: 5 * time.Minute, MigrateTime: 10 * time.Second, DropAfter: 10 * time.Minute}
}

// Event is something that happens to a Core: one of the types below.
type Event interface{ event() }

// Start is the first event. Records are what the store held.
type Start struct {
	Records []store.Record
	Wall    int64 // Unix nanoseconds at the time of this step; leases are kept by it
}

// Published is a new state of the subnet.
type Published struct{ Snap *subnet.Snapshot }

// Requests are requests that Answer reported as ForCore, in the order in which
// they came. They need only live for the call.
type Requests struct{ List []Request }

// Received is an answer to a Report, or a Failed one of ours.
type Received struct{ P *mad.Packet }

// Trap is a trap that the subnet manager took.
type Trap struct {
	Notice smp.Notice
	From   mad.Addr
}

// Timer says that the deadline of the last Output has come.
type Timer struct{}

// Persisted answers Output.Persist.
type Persisted struct {
	Gen uint64
	Err error
}

func (Start) event()     {}
func (Published) event() {}
func (Requests) event()  {}
func (Received) event()  {}
func (Trap) event()      {}
func (Timer) event()     {}
func (Persisted) event() {}

// Reply is the answer to a request.
type Reply struct {
	To   mad.Addr
	Data []byte
}

// Output is what a Step wants done, in this order.
type Output struct {
	Persist    []store.Op
	PersistGen uint64 // to be returned in Persisted
	Publish    *View  // before Replies: who asks after an answer sees what it said
	Replies    []Reply
	Sends      []mad.Packet // Reports
	// Groups, with GroupsChanged, are all multicast groups for the subnet
	// manager to route.
	Groups        []subnet.Group
	GroupsChanged bool
	// Aliases, with AliasesChanged, are all alias GUIDs for the subnet manager
	// to program.
	Aliases        []subnet.Alias
	AliasesChanged bool
	// Read are nodes whose SL-to-VL and VL arbitration tables the subnet manager
	// is to read: somebody asks for them.
	Read    []ib.GUID
	Notices []Notice
	Timer   mad.Time
}

// Notice is something worth logging.
type Notice struct {
	Kind string // group_created, service_registered, … : one for each fact
	Warn bool
	Text string
	By   ib.LID // whose request caused it; 0: none did
}

// Reset empties o for the next Step.
func (o *Output) Reset() { *o = Output{Timer: mad.Never} }

// heldStep is what waits for an Apply.
type heldStep struct {
	gen     uint64
	ops     []store.Op
	replies []Reply
	publish *View
}

// NewCore returns a core that waits for Start.
func NewCore(cfg Config) *Core {
	c := &Core{cfg: cfg}
	c.inform.init(cfg)
	c.mc.joins, c.mc.proxies = map[ib.GUID]int{}, map[membershipID]ib.GUID{}
	return c
}

// Step applies one event at time now, which never goes back, and fills out,
// which the caller has reset.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.now, c.out = max(now, c.now), out
	switch ev := ev.(type) {
	case Start:
		c.onStart(ev)
	case Published:
		c.onPublished(ev.Snap)
	case Requests:
		for i := range ev.List {
			c.by = ev.List[i].From.LID
			c.onRequest(&ev.List[i])
		}
		c.by = 0
	case Received:
		c.inform.received(c, ev.P)
	case Trap:
		c.inform.trap(c, &ev)
	case Persisted:
		c.onPersisted(ev)
	case Timer:
	}
	if c.started {
		c.mc.expire(c)
		c.svc.expire(c)
		c.inform.timers(c)
		c.alias.timers(c)
		c.wait.expire(c)
	}
	c.flush()
	c.inform.reports.send(c)
	out.Timer = min(c.mc.nextTimer(c), c.svc.nextTimer(), c.inform.nextTimer(c), c.alias.nextTimer(), c.wait.nextTimer(), c.unsaved.nextTimer())
	c.out = nil
}

func (c *Core) onStart(ev Start) {
	c.started = true
	c.wall = ev.Wall - int64(c.now)
	for i := range ev.Records {
		r := &ev.Records[i]
		var err error
		switch r.Table {
		case store.TableGroups, store.TableMembers:
			err = c.mc.load(c, r)
		case store.TableServices:
			err = c.svc.load(c, r)
		case store.TableSubscriptions:
			err = c.inform.load(c, r)
		case store.TableAliases:
			err = c.alias.load(c, r)
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
	c.inform.locate(c) // before anything is told to subscribers
	c.mc.published(c, old, s)
	c.svc.published(c, old, s)
	c.alias.published(c, old, s)
	c.inform.published(c, old, s)
	c.wait.published(c, s)
}

// onRequest takes a request that changes something, or has to wait.
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
		case Answered: // it need not wait any more
			c.reply(req, out)
		case ForCore:
			c.wait.park(c, &q, m, nodes)
		}
		return
	}
	switch attr {
	case wire.AttrMCMemberRecord:
		c.mc.request(c, &q, m)
	case wire.AttrServiceRecord:
		c.svc.request(c, &q, m)
	case wire.AttrInformInfo:
		c.inform.request(c, &q, m)
	case wire.AttrGUIDInfoRecord:
		c.alias.request(c, &q, m)
	}
}

// reply answers a request once what it changed is durable.
func (c *Core) reply(req *Request, data []byte) {
	c.replies = append(c.replies, Reply{To: req.From, Data: data})
}

// answer replies with one record, laid out by put in recLen bytes.
func (c *Core) answer(req *Request, m []byte, recLen int, put func(b []byte)) {
	b := make([]byte, ib.MADLen)
	copy(b, m[:wire.HeaderLen])
	respond(b, 0)
	off := wire.OffsetWords(recLen)
	b[44], b[45] = byte(off>>8), byte(off)
	put(b[wire.HeaderLen:])
	c.reply(req, b)
}

// save has a record stored; a nil value deletes it.
func (c *Core) save(t store.Table, key, value []byte) {
	op := store.Op{Kind: store.PutRecord, Record: store.Record{Table: t, Key: key, Value: value}}
	if value == nil {
		op.Kind = store.DeleteRecord
	}
	c.ops = append(c.ops, op)
}

// flush ends a step: what rests on a change waits for it to be durable.
func (c *Core) flush() {
	c.mc.settle(c)
	h := heldStep{replies: c.replies}
	if c.changed {
		v := &View{}
		c.mc.view(v)
		c.svc.view(v)
		c.inform.view(v)
		c.view, h.publish = v, v
	}
	if c.out.GroupsChanged {
		c.out.Groups = c.mc.routed()
	}
	if c.out.AliasesChanged {
		c.out.Aliases = c.alias.wanted()
	}
	c.unsaved.overtake(c.ops)
	c.ops = append(c.ops, c.unsaved.take(c.now)...)
	if len(c.ops) > 0 {
		c.persistGen++
		c.out.Persist, c.out.PersistGen = c.ops, c.persistGen
		h.ops = c.ops
	}
	h.gen = c.persistGen
	c.inform.reports.sealed(h.gen)
	c.out.Read, c.wait.read = c.wait.read, nil
	c.ops, c.replies, c.changed = nil, nil, false
	if len(c.out.Persist) == 0 && len(c.held) == 0 {
		c.release(&h)
		return
	}
	if len(h.replies) > 0 || h.publish != nil || len(c.out.Persist) > 0 {
		c.held = append(c.held, h)
	}
}

func (c *Core) release(h *heldStep) {
	c.out.Replies = append(c.out.Replies, h.replies...)
	if h.publish != nil {
		c.out.Publish = h.publish
	}
}

// onPersisted lets out what waited. If the store cannot be written the change
// stands in memory and is told, and is stored later: a subnet without a disk
// goes on.
func (c *Core) onPersisted(ev Persisted) {
	if ev.Err != nil {
		c.out.Notices = append(c.out.Notices, Notice{
			Kind: "persist_failed", Warn: true,
			Text: "what the SA keeps could not be stored, is tried again and is lost if the manager restarts before: make room or mend the state directory: " + ev.Err.Error(),
		})
	} else {
		c.unsaved.retry = c.now
		c.unsaved.full = false
	}
	c.durable = max(c.durable, ev.Gen)
	n := 0
	for n < len(c.held) && c.held[n].gen <= ev.Gen {
		h := &c.held[n]
		if ev.Err != nil && !c.unsaved.add(h.ops, c.now.Add(retryStore)) && !c.unsaved.full {
			c.unsaved.full = true
			c.out.Notices = append(c.out.Notices, Notice{
				Kind: "unsaved_full", Warn: true,
				Text: fmt.Sprintf("%d changes wait for the store; what is more is lost at a restart", maxUnsaved),
			})
		}
		c.release(h)
		n++
	}
	c.held = slices.Delete(c.held, 0, n) // what is gone is not kept from the collector
}

func (c *Core) notice(kind, text string) {
	c.out.Notices = append(c.out.Notices, Notice{Kind: kind, Text: text, By: c.by})
}
