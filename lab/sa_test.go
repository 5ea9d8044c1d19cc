package lab

import (
	"encoding/binary"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
	"heddle/sim"
)

// serveUp brings a subnet up whose manager serves the SA.
func serveUp(t testing.TB, f *fabric.Fabric, sc sim.Config) (*Cluster, *Manager) {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Attach(firstCA(f), TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	return c, m
}

// TestServeSA: a host gets a single record, a table of many segments, and a
// refusal, over the simulated wire.
func TestServeSA(t *testing.T) {
	c, m := serveUp(t, gen(t, "xgft", "2", "4,4", "1,2"), sim.Config{HopLatency: time.Microsecond})
	host := c.Fabric.Nodes[len(c.Fabric.Nodes)-1].ID
	k, err := c.Client(host)
	if err != nil {
		t.Fatal(err)
	}
	var q ib.MAD
	wire.New(&q, ib.MethodGet, wire.AttrClassPortInfo, 0, 0)
	b, err := k.Ask(time.Second, &q)
	if err != nil || ib.Method(b[3]) != ib.MethodGetResp || binary.BigEndian.Uint16(b[4:]) != 0 {
		t.Fatalf("ClassPortInfo: %v, %x", err, b)
	}
	wire.New(&q, ib.MethodGetTable, wire.AttrPathRecord, 0, 0)
	if b, err = k.Ask(time.Second, &q); err != nil {
		t.Fatal(err)
	}
	n := m.Snap.Counts.EndPorts
	if got := (len(b) - wire.HeaderLen) / wire.PathRecordLen; got != n*n {
		t.Errorf("%d paths in the table, want %d", got, n*n)
	}
	// Nobody has read SL-to-VL tables: they are read now.
	sw := 0
	for !c.Fabric.Nodes[sw].IsSwitch() {
		sw++
	}
	ni := m.Snap.NodeByGUID(c.Fabric.Nodes[sw].GUID)
	want := wire.SLtoVLRecord{LID: m.Snap.NodePorts(ni)[0].LID}
	wire.New(&q, ib.MethodGetTable, wire.AttrSLtoVLRecord, 0, wire.SLtoVLCompLID)
	want.Put(wire.Data(&q))
	if b, err = k.Ask(5*time.Second, &q); err != nil {
		t.Fatal(err)
	}
	recs := b[wire.HeaderLen:]
	if ports := c.Fabric.Nodes[sw].NumPorts + 1; len(recs) != ports*ports*wire.SLtoVLRecordLen {
		t.Fatalf("%d bytes of SLtoVLMappingTableRecords for %d ports", len(recs), ports)
	}
	for len(recs) > 0 {
		var r wire.SLtoVLRecord
		if err := r.Decode(recs[:wire.SLtoVLRecordLen]); err != nil {
			t.Fatal(err)
		}
		if has := c.Sim.SLtoVL(sw, r.InputPort, r.OutputPort); r.SLtoVL != has {
			t.Fatalf("from %d to %d: %v, the switch has %v", r.InputPort, r.OutputPort, r.SLtoVL, has)
		}
		recs = recs[wire.SLtoVLRecordLen:]
	}
	wire.New(&q, ib.MethodSet, wire.AttrNodeRecord, 0, 0)
	if b, err = k.Ask(time.Second, &q); err != nil || ib.Status(binary.BigEndian.Uint16(b[4:])) != ib.StatusBadMethodAttr {
		t.Errorf("Set of a NodeRecord: %v, %x", err, b)
	}
}
