package saclient

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

// wireOf collects what a client sends.
type wireOf struct{ sent []mad.Packet }

func (w *wireOf) send(p *mad.Packet) {
	q := *p
	q.Data = append([]byte(nil), p.Data...)
	w.sent = append(w.sent, q)
}

func newClient() (*Client, *wireOf) {
	w := &wireOf{}
	return New(w.send, func() Master { return Master{LID: 5, SL: 3} }, mad.Config{Timeout: 100 * time.Millisecond, Retries: 1}), w
}

// answer turns a request into its response.
func answer(p *mad.Packet, st ib.Status, put func(data []byte)) *mad.Packet {
	q := *p
	q.Data = append([]byte(nil), p.Data...)
	m := (*ib.MAD)(q.Data)
	m.SetHeader(m.Class(), wire.ClassVersion, ib.Method(byte(m.Method())|byte(ib.MethodResponseBit)), m.AttrID(), m.AttrMod())
	if m.Method() == ib.MethodSet|ib.MethodResponseBit {
		q.Data[3] = byte(ib.MethodGetResp)
	}
	m.SetTID((*ib.MAD)(p.Data).TID())
	q.Data[4], q.Data[5] = byte(st>>8), byte(st)
	if put != nil {
		put(wire.Data(m))
	}
	return &q
}

// TestQuery: a path query goes to the master, and its answer comes back once.
func TestQuery(t *testing.T) {
	k, w := newClient()
	var got []wire.PathRecord
	calls := 0
	k.Paths(0, &wire.PathRecord{NumbPath: 1}, wire.PathCompNumbPath, true, func(_ mad.Time, list []wire.PathRecord, err error) {
		calls++
		got = list
		if err != nil {
			t.Error(err)
		}
	})
	if len(w.sent) != 1 || w.sent[0].Addr.LID != 5 || w.sent[0].Addr.SL != 3 || w.sent[0].Addr.QP != 1 {
		t.Fatalf("%+v", w.sent)
	}
	want := wire.PathRecord{DLID: 9, SLID: 4, SL: 2, MTU: 4}
	r := answer(&w.sent[0], 0, want.Put)
	k.Receive(1, r)
	k.Receive(2, r)
	if calls != 1 || len(got) != 1 || got[0] != want {
		t.Errorf("%d calls, %+v", calls, got)
	}
}

// TestUnanswered: a request is repeated, and then ends; an error status is an error.
func TestUnanswered(t *testing.T) {
	k, w := newClient()
	var failed error
	done := func(_ mad.Time, _ []wire.PathRecord, err error) { failed = err }
	k.Paths(0, &wire.PathRecord{}, 0, true, done)
	for failed == nil {
		k.Expire(k.NextTimer())
	}
	if len(w.sent) != 2 || !mad.Unanswered(failed) {
		t.Errorf("%d sent, %v", len(w.sent), failed)
	}
	k.Paths(mad.Time(time.Second), &wire.PathRecord{}, 0, true, done)
	k.Receive(mad.Time(time.Second), answer(&w.sent[len(w.sent)-1], 0x0300, nil))
	var st *StatusError
	if !errors.As(failed, &st) || st.Status != 0x0300 || mad.Unanswered(failed) {
		t.Errorf("%v", failed)
	}
}

// TestJoin: a join names group and port, and its answer has the group's LID; what is shorter
// than a record is an error.
func TestJoin(t *testing.T) {
	k, w := newClient()
	group, port := ib.GID{0xFF, 0x12, 15: 1}, ib.GID{0xFE, 0x80, 15: 7}
	var got wire.MCMemberRecord
	var failed error
	done := func(_ mad.Time, r wire.MCMemberRecord, err error) { got, failed = r, err }
	k.Join(0, group, port, done)
	var asked wire.MCMemberRecord
	m := (*ib.MAD)(w.sent[0].Data)
	if err := asked.Decode(wire.Data(m)[:wire.MCMemberRecordLen]); err != nil || asked.MGID != group || asked.PortGID != port ||
		asked.JoinState != wire.JoinFull || m.Method() != ib.MethodSet || m.AttrID() != wire.AttrMCMemberRecord {
		t.Errorf("%+v %v", asked, err)
	}
	want := wire.MCMemberRecord{MGID: group, PortGID: port, MLID: 0xC001, QKey: 0xB1B, SL: 2, JoinState: wire.JoinFull}
	k.Receive(1, answer(&w.sent[0], 0, want.Put))
	if failed != nil || got != want {
		t.Errorf("%+v %v", got, failed)
	}
	k.Join(2, group, port, done)
	k.Receive(3, answer(&w.sent[1], 0x0200, nil))
	var st *StatusError
	if !errors.As(failed, &st) || st.Status != 0x0200 {
		t.Errorf("%v", failed)
	}
}

// TestRedirect: what was asked of a manager that is dead is asked of its successor.
func TestRedirect(t *testing.T) {
	w := &wireOf{}
	at := Master{LID: 5}
	k := New(w.send, func() Master { return at }, mad.Config{})
	ended := 0
	k.Paths(0, &wire.PathRecord{}, 0, true, func(_ mad.Time, _ []wire.PathRecord, err error) {
		if ended++; err != nil {
			t.Error(err)
		}
	})
	k.Redirect(1)
	if len(w.sent) != 1 {
		t.Errorf("%d sent: the master is the same", len(w.sent))
	}
	at.LID = 9
	k.Redirect(2)
	if len(w.sent) != 2 || w.sent[1].Addr.LID != 9 {
		t.Fatalf("%+v", w.sent)
	}
	var r wire.PathRecord
	k.Receive(3, answer(&w.sent[0], 0, r.Put)) // late, from the old one
	k.Receive(4, answer(&w.sent[1], 0, r.Put))
	if ended != 1 {
		t.Errorf("%d ends", ended)
	}
}

// TestReport: a Report is answered with its own content, and handed on.
func TestReport(t *testing.T) {
	k, w := newClient()
	var got *Report
	k.OnReport = func(r *Report) { c := *r; got = &c }
	var m ib.MAD
	wire.New(&m, ib.MethodReport, wire.AttrNotice, 0, 0)
	m.SetTID(77)
	n := wire.Notice{Notice: smp.NewTrap(smp.TrapRePath, smp.ProducerClassManager, 1, smp.DetailPath{ComponentMask: 12})}
	n.Put(wire.Data(&m))
	path := wire.PathRecord{DLID: 3, SL: 1}
	path.Put(wire.Data(&m)[wire.NoticeLen:])
	p := &mad.Packet{Addr: mad.Addr{LID: 5, QP: 1}, LocalQP: 1, Data: m[:]}
	if !Accepts(p) {
		t.Error("a Report is not accepted")
	}
	k.Receive(4, p)
	if got == nil || got.Path != path || got.Notice.TrapNumber != smp.TrapRePath || got.At != 4 {
		t.Fatalf("%+v", got)
	}
	if len(w.sent) != 1 || w.sent[0].Addr.LID != 5 || ib.Method(w.sent[0].Data[3]) != ib.MethodReportResp || (*ib.MAD)(w.sent[0].Data).TID() != 77 {
		t.Errorf("%+v", w.sent)
	}
}

// TestSubscribe: the subscription names the trap, and any source.
func TestSubscribe(t *testing.T) {
	k, w := newClient()
	ok := false
	k.Subscribe(0, smp.TrapRePath, func(_ mad.Time, err error) { ok = err == nil })
	var i wire.InformInfo
	if err := i.Decode(wire.Data((*ib.MAD)(w.sent[0].Data))[:36]); err != nil || i.TrapNumber != 69 || i.Subscribe != 1 || i.LIDRangeBegin != 0xFFFF {
		t.Errorf("%+v %v", i, err)
	}
	k.Receive(1, answer(&w.sent[0], 0, nil))
	if !ok || k.Count.Subscribed != 1 {
		t.Errorf("%+v", k.Count)
	}
}

// FuzzReceive: no packet upsets a client.
func FuzzReceive(f *testing.F) {
	var m ib.MAD
	wire.New(&m, ib.MethodReport, wire.AttrNotice, 0, 0)
	f.Add(m[:])
	wire.New(&m, ib.MethodGetTable|ib.MethodResponseBit, wire.AttrPathRecord, 0, 0)
	f.Add(m[:])
	f.Add([]byte{1, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, _ := newClient()
		k.OnReport = func(*Report) {}
		k.Paths(0, &wire.PathRecord{}, 0, false, func(mad.Time, []wire.PathRecord, error) {})
		k.Receive(1, &mad.Packet{Addr: mad.Addr{LID: 5, QP: 1}, LocalQP: 1, Data: b})
		k.Expire(mad.Time(time.Hour))
	})
}
