package sa_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// fixture is a shell of a Core: time stands where the test puts it, the store is a
// map, and what the core puts out is kept.
type fixture struct {
	t        testing.TB
	cfg      sa.Config
	core     *sa.Core
	now      mad.Time
	wall     int64 // Unix nanoseconds at now
	snap     *subnet.Snapshot
	view     *sa.View
	stored   map[string]store.Record
	replies  []sa.Reply
	sends    []mad.Packet
	aliases  []subnet.Alias
	notices  []sa.Notice
	read     []ib.GUID // nodes whose tables are wanted
	answered mad.Time  // when the last reply came
	timer    mad.Time
	// holdStore keeps back Persisted.
	holdStore bool
	gen       uint64
}

func newFixture(t testing.TB, s *subnet.Snapshot, cfg sa.Config) *fixture {
	r := &fixture{t: t, cfg: usual(cfg), stored: map[string]store.Record{}, wall: 1_700_000_000_000_000_000}
	r.restart()
	r.publish(s)
	return r
}

// restart starts a new core from what is stored, at time 0.
func (r *fixture) restart() {
	r.core, r.now, r.view = sa.NewCore(r.cfg), 0, nil
	var recs []store.Record
	for _, k := range slices.Sorted(maps.Keys(r.stored)) {
		recs = append(recs, r.stored[k])
	}
	r.step(sa.Start{Records: recs, Wall: r.wall})
}

func (r *fixture) publish(s *subnet.Snapshot) {
	r.snap = s
	r.step(sa.Published{Snap: s})
}

func (r *fixture) step(ev sa.Event) {
	var out sa.Output
	out.Reset()
	r.core.Step(r.now, ev, &out)
	for i := range out.Persist {
		rec := out.Persist[i].Record
		k := string(rune(rec.Table)) + string(rec.Key)
		if out.Persist[i].Kind == store.PutRecord {
			rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
			r.stored[k] = rec
		} else {
			delete(r.stored, k)
		}
	}
	if out.Publish != nil {
		r.view = out.Publish
	}
	r.replies = append(r.replies, out.Replies...)
	if len(out.Replies) > 0 {
		r.answered = r.now
	}
	r.read = append(r.read, out.Read...)
	r.sends = append(r.sends, out.Sends...)
	r.notices = append(r.notices, out.Notices...)
	if out.AliasesChanged {
		r.aliases = out.Aliases
	}
	r.timer = out.Timer
	if len(out.Persist) > 0 {
		r.gen = out.PersistGen
		if !r.holdStore {
			r.step(sa.Persisted{Gen: r.gen})
		}
	}
}

// until lets time pass, timer by timer.
func (r *fixture) until(t mad.Time) {
	for r.timer <= t {
		at := max(r.timer, r.now)
		r.wall += int64(at - r.now)
		r.now = at
		r.step(sa.Timer{})
	}
	r.wall += int64(t - r.now)
	r.now = t
}

// ask sends a request and returns the answer, which must be one.
func (r *fixture) ask(from ib.LID, q []byte) []byte {
	r.t.Helper()
	req := sa.Request{From: mad.Addr{LID: from, QP: 1}, Data: q}
	src := &sa.Source{Snap: r.snap, View: r.view, Opt: &sa.Options{SAKey: r.cfg.SAKey}, Held: r.core.Held()}
	b, v := sa.Answer(src, &req, nil)
	if v == sa.ForCore {
		r.replies = nil
		r.step(sa.Requests{List: []sa.Request{req}})
		if len(r.replies) != 1 {
			r.t.Fatalf("%d replies", len(r.replies))
		}
		if r.replies[0].To != req.From {
			r.t.Fatalf("reply to %+v", r.replies[0].To)
		}
		return r.replies[0].Data
	}
	if v != sa.Answered {
		r.t.Fatalf("verdict %d", v)
	}
	return b
}

// want asks and checks the status.
func (r *fixture) want(from ib.LID, q []byte, st ib.Status) []byte {
	r.t.Helper()
	b := r.ask(from, q)
	if status(b) != st {
		r.t.Fatalf("status %v, want %v", status(b), st)
	}
	return b
}

// trusted puts the SM_Key into a request.
func trusted(q []byte, key uint64) []byte {
	var h wire.Header
	if err := h.Decode(q); err != nil {
		panic(err)
	}
	h.SMKey = key
	h.Put(q)
	return q
}

// answer acknowledges a Report.
func (r *fixture) answer(p mad.Packet) {
	d := bytes.Clone(p.Data)
	d[3] |= byte(ib.MethodResponseBit)
	r.step(sa.Received{P: &mad.Packet{Addr: p.Addr, Data: d}})
}

// reports takes the Reports that are on their way, and acknowledges them until
// no more come.
func (r *fixture) reports() (list []report) {
	r.t.Helper()
	for len(r.sends) > 0 {
		p := r.sends[0]
		r.sends = r.sends[1:]
		list = append(list, decodeReport(r.t, p))
		r.answer(p)
	}
	return list
}

type report struct {
	to   ib.LID
	n    wire.Notice
	path wire.PathRecord
}

func decodeReport(t testing.TB, p mad.Packet) report {
	t.Helper()
	m := (*ib.MAD)(p.Data)
	if m.Class() != ib.ClassSA || m.ClassVersion() != wire.ClassVersion || m.Method() != ib.MethodReport || m.AttrID() != wire.AttrNotice || p.LocalQP != 1 {
		t.Fatalf("no Report: %x", p.Data[:24])
	}
	x := report{to: p.Addr.LID}
	if err := x.n.Decode(wire.Data(m)[:wire.NoticeLen]); err != nil {
		t.Fatal(err)
	}
	if err := x.path.Decode(wire.Data(m)[wire.NoticeLen : wire.NoticeLen+wire.PathRecordLen]); err != nil {
		t.Fatal(err)
	}
	return x
}

func set(attr ib.AttrID, mask wire.CompMask, r record) []byte {
	return ask(ib.MethodSet, attr, mask, r)
}

func del(attr ib.AttrID, mask wire.CompMask, r record) []byte {
	return ask(ib.MethodDelete, attr, mask, r)
}
