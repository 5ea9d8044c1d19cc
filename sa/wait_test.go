package sa_test

import (
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

// TestWaitForTables: a query for tables that nobody has read names the nodes,
// and is answered when a snapshot shows them, or refused in time.
func TestWaitForTables(t *testing.T) {
	s := snapshot(3, 0)
	r := newRig(t, s, sa.Config{SAKey: 7})
	q := ask(ib.MethodGetTable, wire.AttrSLtoVLRecord, wire.SLtoVLCompLID, &wire.SLtoVLRecord{LID: 1})
	req := sa.Request{From: mad.Addr{LID: 2, QP: 1}, Data: q}
	if _, v := sa.Answer(source(s), &req, nil); v != sa.ForCore {
		t.Fatalf("verdict %d for tables that are not known", v)
	}
	r.step(sa.Requests{List: []sa.Request{req}})
	if len(r.replies) != 0 || len(r.read) != 1 || r.read[0] != s.Nodes[0].Info.NodeGUID {
		t.Fatalf("%d replies, nodes to read %v", len(r.replies), r.read)
	}
	// A snapshot without them changes nothing.
	same := *s
	r.publish(&same)
	if len(r.replies) != 0 {
		t.Fatalf("answered without the tables: %x", r.replies[0].Data)
	}
	ports := int(s.Nodes[0].Info.NumPorts) + 1
	known := *s
	row := smp.SLtoVL{3, 2, 1}
	l := &subnet.LaneTables{SL: make([]uint16, ports*ports), Arb: make([]uint16, 4*ports), SLRows: []smp.SLtoVL{row}, Complete: true}
	for i := range l.SL {
		l.SL[i] = 1
	}
	known.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
	known.Lanes[0] = l
	r.publish(&known)
	if len(r.replies) != 1 {
		t.Fatalf("%d replies when the tables are known", len(r.replies))
	}
	recs := records(t, r.replies[0].Data)
	if len(recs) != ports*ports {
		t.Fatalf("%d records, want %d", len(recs), ports*ports)
	}
	var rec wire.SLtoVLRecord
	if err := rec.Decode(recs[5]); err != nil || rec.SLtoVL != row {
		t.Errorf("%v: %+v", err, rec)
	}

	// A node whose tables never come.
	q = ask(ib.MethodGet, wire.AttrVLArbRecord, wire.VLArbCompLID|wire.VLArbCompOutputPort|wire.VLArbCompBlock, &wire.VLArbRecord{LID: 3, OutputPort: 1, Block: 1})
	r.replies = nil
	r.step(sa.Requests{List: []sa.Request{{From: req.From, Data: q}}})
	began := r.now
	r.until(r.now.Add(time.Minute))
	if len(r.replies) != 1 || status(r.replies[0].Data) != ib.StatusSANoResources {
		t.Fatalf("%d replies", len(r.replies))
	}
	if r.answered.Sub(began) > 5*time.Second {
		t.Errorf("refused after %v", r.answered.Sub(began))
	}

	// Neither a flood of them nor a query for too many nodes costs more than a
	// bound.
	r.replies = nil
	for range 1000 {
		r.step(sa.Requests{List: []sa.Request{{From: req.From, Data: q}}})
	}
	if n := len(r.replies); n < 700 || status(r.replies[0].Data) != ib.StatusBusy {
		t.Errorf("%d of 1000 refused", n)
	}
	big := snapshot(100, 0)
	b, v := sa.Answer(source(big), &sa.Request{From: req.From, Data: ask(ib.MethodGetTable, wire.AttrVLArbRecord, 0, nil)}, nil)
	if v != sa.Answered || status(b) != ib.StatusSANoResources {
		t.Errorf("tables of 101 nodes: verdict %d, status %v", v, status(b))
	}
}
