package sa_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

// TestWaitForTables: a query for unread tables names the nodes, and is answered when a
// snapshot has the tables, or refused in time.
func TestWaitForTables(t *testing.T) {
	s := snapshot(3, 0)
	r := newFixture(t, s, sa.Config{SAKey: 7})
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

	// A flood of them costs no more than a bound.
	r.replies = nil
	for i := range 1000 {
		q = bytes.Clone(q)
		binary.BigEndian.PutUint32(q[12:], uint32(i)) // another transaction
		r.step(sa.Requests{List: []sa.Request{{From: req.From, Data: q}}})
	}
	if n := len(r.replies); n < 700 || status(r.replies[0].Data) != ib.StatusBusy {
		t.Errorf("%d of 1000 refused", n)
	}
}

// withLanes is a snapshot that shows the lane tables of the first n nodes.
func withLanes(s *subnet.Snapshot, n int) *subnet.Snapshot {
	c := *s
	c.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
	for i := range n {
		ports := int(s.Nodes[i].Info.NumPorts) + 1
		l := &subnet.LaneTables{
			SL: make([]uint16, ports*ports), Arb: make([]uint16, 4*ports),
			SLRows: []smp.SLtoVL{{1}}, ArbRows: []smp.VLArb{{}}, Complete: true,
		}
		for k := range l.SL {
			l.SL[k] = 1
		}
		for k := range l.Arb {
			l.Arb[k] = 1
		}
		c.Lanes[i] = l
	}
	return &c
}

// TestWaitForAllTables: a query for the tables of all nodes triggers their reading,
// waits while there is progress, and is answered as a whole; a retry is answered once,
// and several queries one per step.
func TestWaitForAllTables(t *testing.T) {
	s := snapshot(300, 0)
	r := newFixture(t, s, sa.Config{SAKey: 7})
	q := ask(ib.MethodGetTable, wire.AttrSLtoVLRecord, 0, nil)
	for from := range ib.LID(3) {
		for range 5 {
			r.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: 2 + from, QP: 1}, Data: q}}})
		}
	}
	seen := map[ib.GUID]bool{}
	for _, g := range r.read {
		seen[g] = true
	}
	if len(seen) != len(s.Nodes) || len(r.read) != 3*len(s.Nodes) {
		t.Fatalf("%d nodes to read, %d in all, of %d", len(seen), len(r.read), len(s.Nodes))
	}
	for n := 30; n < len(s.Nodes); n += 30 {
		r.until(r.now.Add(3 * time.Second))
		r.publish(withLanes(s, n))
	}
	if len(r.replies) != 0 {
		t.Fatalf("answered after %v with status %v", r.now, status(r.replies[0].Data))
	}
	r.publish(withLanes(s, len(s.Nodes)))
	r.until(r.now.Add(time.Second))
	if len(r.replies) != 3 {
		t.Fatalf("%d replies", len(r.replies))
	}
	ports := int(s.Nodes[0].Info.NumPorts) + 1
	for _, a := range r.replies {
		if n := len(records(t, a.Data)); n != ports*ports+len(s.Nodes)-1 {
			t.Errorf("%d records, want %d", n, ports*ports+len(s.Nodes)-1)
		}
	}

	// It answers without the last node after a time.
	r.publish(s)
	r.replies = nil
	r.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: 2, QP: 1}, Data: q}}})
	r.publish(withLanes(s, len(s.Nodes)-1))
	began := r.now
	r.until(r.now.Add(time.Minute))
	if len(r.replies) != 1 || status(r.replies[0].Data) != ib.StatusSANoResources || r.answered.Sub(began) > 5*time.Second {
		t.Errorf("%d replies, %v", len(r.replies), r.answered.Sub(began))
	}
}
