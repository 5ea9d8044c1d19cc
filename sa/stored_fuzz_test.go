package sa_test

import (
	"math"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// FuzzStoredRecords: with any stored services, subscriptions and alias GUIDs a core
// starts, logs what it ignores, and serves; a restart gives the same state.
func FuzzStoredRecords(f *testing.F) {
	s := up(3)
	add := func(r store.Record, wall int64) { f.Add(uint8(r.Table), r.Key, r.Value, wall) }
	service := &sa.Service{Record: *serviceOf(7, 1, "s"), Until: 1e18, By: 0x1011}
	add(sa.ServiceRecordOf(service), 5e17)
	service.Until = mad.Never
	add(sa.ServiceRecordOf(service), math.MinInt64/2)
	add(sa.SubscriptionRecord(&sa.Subscription{
		GID: hostGID(2), Addr: mad.Addr{LID: 2, QP: 1},
		Info: wire.InformInfo{LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: 64, QPN: 1, Producer: 4},
	}), 0)
	add(sa.AliasRecord(subnet.Alias{Port: 0x1011, Index: 3, GUID: 0xA1}), 0)
	f.Fuzz(func(t *testing.T, table uint8, key, value []byte, wall int64) {
		var shown [2]string
		rec := store.Record{Table: store.Table(table), Key: key, Value: value}
		for i := range shown {
			w := &testbed{t: t, cfg: usual(sa.Config{SAKey: 7}), core: sa.NewCore(usual(sa.Config{SAKey: 7})), store: store.NewMemory(), snap: s}
			w.step(sa.Start{Records: []store.Record{rec, rec}, Wall: wall})
			w.publish(s)
			w.step(sa.Trap{})
			shown[i] = contents(w.view)
			for _, a := range []ib.AttrID{wire.AttrServiceRecord, wire.AttrInformInfoRecord, wire.AttrGUIDInfoRecord} {
				w.get(2, ib.MethodGetTable, a, 0, nil, 7)
			}
			w.now = mad.Never - 1
			w.step(sa.Timer{})
		}
		if shown[0] != shown[1] {
			t.Errorf("%s\nthen\n%s", shown[0], shown[1])
		}
	})
}
