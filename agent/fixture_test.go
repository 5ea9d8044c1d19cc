package agent_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

const (
	ownLID = ib.LID(10)
	smLID  = ib.LID(1)
)

func gid(n int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x100+n)) }

// fixture is a shell of a Core in virtual time, with an SA that knows the path to GID n at
// LID 100+n.
type fixture struct {
	t     testing.TB
	cfg   agent.Config
	core  *agent.Core
	now   mad.Time
	timer mad.Time

	lids    map[ib.GID]ib.LID // what the SA knows
	sls     map[ib.GID]ib.SL
	permit  uint8
	silent  bool
	refuse  bool // subscriptions
	busy    bool // for subscriptions
	delay   time.Duration
	rng     *rand.Rand
	loss    float64
	history uint64 // upper half of the SA's generations; 0: it has none
	gen     uint64 // lower half
	changed map[ib.GID]uint64
	giving  bool   // half of the changes come with values
	oldest  uint64 // the SA remembers changes after this generation
	catches int    // questions for changes
	queries int    // path queries that the SA got
	informs int
	acks    int // ReportResps
	replies []reply

	answers map[uint64]agent.Answer
	at      map[uint64]mad.Time // when answered
	notices []agent.Notice
	tokens  uint64
	reports uint64
}

type reply struct {
	at mad.Time
	p  *mad.Packet
}

func newFixture(t testing.TB, cfg agent.Config) *fixture {
	f := &fixture{
		t: t, cfg: cfg, core: agent.New(cfg), lids: map[ib.GID]ib.LID{}, sls: map[ib.GID]ib.SL{}, permit: 1, delay: time.Millisecond, timer: mad.Never,
		answers: map[uint64]agent.Answer{}, at: map[uint64]mad.Time{},
	}
	for n := range 50 {
		f.lids[gid(n)] = ib.LID(100 + n)
	}
	f.step(agent.SetPort{Port: port(smLID)})
	f.run(100 * time.Millisecond)
	return f
}

func port(sm ib.LID) agent.Port {
	return agent.Port{Active: true, LID: ownLID, SM: mad.Addr{LID: sm}, GIDs: []ib.GID{gid(1000)}, PKeys: []ib.PKey{ib.PKeyDefaultFull}}
}

func (f *fixture) step(ev agent.Event) {
	var out agent.Output
	out.Reset()
	f.core.Step(f.now, ev, &out)
	f.timer = out.Timer
	for i := range out.Sends {
		f.serve(&out.Sends[i])
	}
	for _, a := range out.Answers {
		if _, twice := f.answers[a.Token]; twice {
			f.t.Fatalf("ask %d is answered twice", a.Token)
		}
		f.answers[a.Token], f.at[a.Token] = a, f.now
	}
	f.notices = append(f.notices, out.Notices...)
}

// serve is the SA.
func (f *fixture) serve(s *agent.Send) {
	m := s.MAD
	if m.Method() == ib.MethodReport|ib.MethodResponseBit {
		f.acks++
		return
	}
	if f.silent || f.rng != nil && f.rng.Float64() < f.loss {
		return
	}
	st := ib.StatusOK
	switch m.AttrID() {
	case wire.AttrInformInfo:
		f.informs++
		if f.refuse {
			st = ib.StatusSAReqInvalid
		} else if f.busy {
			st = ib.StatusBusy
		}
	case wire.AttrPathChangeRecord:
		f.catches++
		f.catchUp(s, &m)
		return
	case wire.AttrPathRecord:
		f.queries++
		var r wire.PathRecord
		if err := r.Decode(wire.Data(&m)); err != nil {
			f.t.Fatal(err)
		}
		lid, ok := f.lids[r.DGID]
		if !ok {
			st = ib.StatusSANoRecords
			break
		}
		q := r
		r = f.values(r.DGID)
		r.DLID = lid
		if !q.SGID.IsZero() {
			r.SGID = q.SGID
		}
		if q.PKey != 0 {
			r.PKey = q.PKey
		}
		r.Put(wire.Data(&m))
	}
	m[3] = byte(ib.MethodGetResp)
	m.SetStatus(st)
	f.reply(s, m[:])
}

// values is the record of the path to a GID, as a question for it alone is answered.
func (f *fixture) values(g ib.GID) wire.PathRecord {
	return wire.PathRecord{
		SGID: gid(1000), DGID: g, SLID: ownLID, DLID: f.lids[g], SL: f.sls[g], MTU: ib.MTU2048, MTUSelector: wire.SelExactly,
		Reversible: true, PKey: ib.PKeyDefaultFull, Reserved3: f.permit,
	}
}

func (f *fixture) reply(s *agent.Send, b []byte) {
	d := f.delay
	if f.rng != nil {
		d += time.Duration(f.rng.Int64N(int64(20 * time.Millisecond)))
	}
	f.replies = append(f.replies, reply{f.now.Add(d), &mad.Packet{Addr: mad.Addr{LID: s.Addr.LID, QP: 1}, Data: append([]byte(nil), b...)}})
}

// catchUp answers a question for changes, as one reassembled message.
func (f *fixture) catchUp(s *agent.Send, m *ib.MAD) {
	m[3] |= byte(ib.MethodResponseBit)
	if f.history == 0 {
		m.SetStatus(0x000C)
		f.reply(s, m[:])
		return
	}
	var q wire.PathChangeRecord
	_ = q.Decode(wire.Data(m)[:wire.PathChangeRecordLen])
	if q.Path.SGID != gid(1000) || !wire.CompMask(m[55]).Has(wire.PathChangeCompGeneration|wire.PathChangeCompSGID) {
		f.t.Fatalf("a question for changes: %+v", q)
	}
	now := f.history<<32 | f.gen
	list := []wire.PathChangeRecord{{Generation: now, Head: true}}
	if q.Generation>>32 != f.history || uint32(q.Generation) < uint32(f.oldest) || m.Method() == ib.MethodGetResp && q.Generation != now {
		list[0].All = true
	} else if m.Method() == ib.MethodGetTableResp {
		for g, at := range f.changed {
			if at > q.Generation&0xFFFFFFFF {
				_, here := f.lids[g]
				r := wire.PathRecord{SGID: gid(1000), DGID: g, DLID: f.lids[g]}
				if here && f.giving && at%2 == 0 {
					r = f.values(g)
				}
				list = append(list, wire.PathChangeRecord{Generation: f.history<<32 | at, Path: r, Lost: !here})
			}
		}
	}
	m[44], m[45] = 0, wire.PathChangeRecordLen/8
	b := append([]byte(nil), m[:wire.HeaderLen]...)
	for i := range list {
		b = append(b, make([]byte, wire.PathChangeRecordLen)...)
		list[i].Put(b[len(b)-wire.PathChangeRecordLen:])
	}
	f.reply(s, b)
}

// change records a change of paths to a GID.
func (f *fixture) change(g ib.GID) {
	f.gen++
	if f.changed == nil {
		f.changed = map[ib.GID]uint64{}
	}
	f.changed[g] = f.gen
}

// run lets time pass.
func (f *fixture) run(d time.Duration) {
	end := f.now.Add(d)
	for {
		next, which := f.timer, -1
		for i, r := range f.replies {
			if r.at < next {
				next, which = r.at, i
			}
		}
		if next > end {
			f.now = end
			return
		}
		f.now = max(f.now, next)
		if which < 0 {
			f.step(agent.Timer{})
			continue
		}
		p := f.replies[which].p
		f.replies = append(f.replies[:which], f.replies[which+1:]...)
		f.step(agent.Received{P: p})
	}
}

// ask asks for the path to GID n.
func (f *fixture) ask(n int, wait time.Duration) uint64 {
	f.tokens++
	q := agent.Query{Mask: wire.PathCompDGID | wire.PathCompReversible, Record: wire.PathRecord{DGID: gid(n), Reversible: true}}
	f.step(agent.Ask{Token: f.tokens, Query: q, Wait: wait})
	return f.tokens
}

// get asks, lets time pass, and returns the answer.
func (f *fixture) get(n int) agent.Answer {
	f.t.Helper()
	token := f.ask(n, time.Second)
	for _, answered := f.answers[token]; !answered; _, answered = f.answers[token] {
		f.run(time.Millisecond)
	}
	return f.answers[token]
}

// want checks the answer for GID n and how many queries the SA got for it.
func (f *fixture) want(n, queries int, res agent.Result, src agent.Source) agent.Answer {
	f.t.Helper()
	before := f.queries
	a := f.get(n)
	if a.Result != res || a.Source != src || f.queries-before != queries {
		f.t.Fatalf("path %d: %v from %v with %d queries, want %v from %v with %d", n, a.Result, a.Source, f.queries-before, res, src, queries)
	}
	if res == agent.Found && a.Record.Reserved3 != 0 {
		f.t.Fatalf("path %d: the permission to cache is in the answer: %d", n, a.Record.Reserved3)
	}
	return a
}

// gidNotice reports a GID; pathNotice reports paths.
func (f *fixture) gidNotice(trap uint16, g ib.GID) { f.report(smLID, trap, smp.DetailGID{GID: g}, nil) }

func (f *fixture) pathNotice(trap uint16, mask wire.CompMask, r wire.PathRecord) {
	f.report(smLID, trap, smp.DetailPath{ComponentMask: uint64(mask)}, &r)
}

func (f *fixture) report(from ib.LID, trap uint16, d smp.Detail, path *wire.PathRecord) {
	var n *wire.PathNotice
	if path != nil {
		n = &wire.PathNotice{Path: *path}
	}
	f.reportGen(from, trap, d, n)
}

// reportGen reports paths, with generations.
func (f *fixture) reportGen(from ib.LID, trap uint16, d smp.Detail, path *wire.PathNotice) {
	f.reports++
	var m ib.MAD
	wire.New(&m, ib.MethodReport, wire.AttrNotice, 0, 0)
	m.SetTID(1<<40 | f.reports)
	n := wire.Notice{Notice: smp.NewTrap(trap, smp.ProducerClassManager, from, d)}
	n.Put(wire.Data(&m))
	if path != nil {
		path.Put(wire.Data(&m)[wire.NoticeLen:])
	}
	f.step(agent.Received{P: &mad.Packet{Addr: mad.Addr{LID: from, QP: 1}, Data: m[:]}})
}
