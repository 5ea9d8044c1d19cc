package sa_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// FuzzRequests sends whatever requests to a core, between traps, changes of the
// subnet, passing time and restarts: each gets one answer at most, now or
// later, nothing crashes, and what is kept is bounded.
func FuzzRequests(f *testing.F) {
	// Each request is followed by a trap, an answer, a change of the subnet, two
	// seconds, and its return.
	seed := func(q ...[]byte) {
		var b []byte
		for _, m := range q {
			b = append(b, 0, 2)
			b = append(b, m...)
			b = append(b, 9, 3, 5, 0, 2, 0, 3|7<<3, 0, 0x82, 1, 5, 0)
		}
		f.Add(append(b, 4, 0, 9, 3))
	}
	table := func(hosts int) *subnet.Snapshot {
		s := snapshot(hosts, 0)
		for i := range s.Ports {
			s.Ports[i].Info.GUIDCap = 12
		}
		return s
	}
	x, mask := guidInfo(2, 0, map[int]ib.GUID{1: 0})
	seed(set(wire.AttrServiceRecord, compRID, serviceOf(1, 1, "x")), set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, serviceOf(2, 1, "y")), del(wire.AttrServiceRecord, compRID, serviceOf(1, 1, "x")))
	seed(inform(nil), inform(trapNumber(64)), leave(nil))
	seed(set(wire.AttrGUIDInfoRecord, mask, x), del(wire.AttrGUIDInfoRecord, mask, x))
	f.Fuzz(func(t *testing.T, data []byte) {
		hosts := 4
		r := newRig(t, table(hosts), sa.Config{SAKey: saKey})
		asked := 0
		for len(data) >= 2 && asked < 64 {
			what, lid := data[0], ib.LID(data[1]%8)
			data = data[2:]
			switch what % 8 {
			case 1:
				r.trap(lid, smp.NewTrap(uint16(what)<<4, 1, lid, nil))
			case 2:
				s := gone(hosts, 2+lid%4)
				if what&0x80 != 0 {
					s = table(hosts)
				}
				r.publish(s)
			case 3:
				r.until(r.now.Add(1 << (24 + what>>3)))
			case 4:
				s := r.snap
				r.restart()
				r.publish(s)
				asked, r.replies = 0, nil
			case 5:
				for _, p := range r.sends {
					r.answer(p)
				}
				r.sends = nil
			default:
				var m [ib.MADLen]byte
				data = data[copy(m[:], data):]
				m[0], m[1], m[2] = 1, byte(ib.ClassSA), wire.ClassVersion
				asked++
				r.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: lid, QP: 1}, Data: m[:]}}})
			}
		}
		if len(r.replies) > asked {
			t.Fatalf("%d replies to %d requests", len(r.replies), asked)
		}
		for _, p := range r.replies {
			if len(p.Data) < ib.MADLen || !ib.Method(p.Data[3]).IsResponse() || binary.BigEndian.Uint64(p.Data[36:]) != 0 {
				t.Fatalf("reply %x", p.Data[:56])
			}
		}
		if s := r.core.Reports(); s.Waiting > 64*s.Peers {
			t.Fatalf("%+v", s)
		}
	})
}

// FuzzStored reads damaged records: each is left out with a notice or kept as
// it is, and what is kept is stored in the same bytes again.
func FuzzStored(f *testing.F) {
	r := newRig(f, snapshot(3, 0), sa.Config{})
	s := serviceOf(1, 1, "x")
	s.ServiceLease = 100
	r.want(2, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, s), 0)
	r.want(2, inform(nil), 0)
	for _, k := range slices.Sorted(maps.Keys(r.stored)) {
		rec := r.stored[k]
		f.Add(uint8(rec.Table), rec.Key, rec.Value)
	}
	f.Add(uint8(store.TableAliases), []byte{0, 0, 0, 0, 0, 0, 0, 5, 1}, bytes.Repeat([]byte{1}, 17))
	f.Fuzz(func(t *testing.T, table uint8, key, value []byte) {
		rec := store.Record{Table: store.Table(table), Key: key, Value: value}
		core := sa.NewCore(sa.Config{})
		var out sa.Output
		out.Reset()
		core.Step(0, sa.Start{Records: []store.Record{rec}, Wall: 1}, &out)
		if out.Publish == nil {
			t.Skip() // it waits for the store
		}
		damaged := len(out.Notices) > 0
		for _, x := range out.Publish.Services {
			if again := sa.ServiceRecordOf(&sa.Service{Record: x.Record, By: x.By, Until: mad.Never}); !bytes.Equal(again.Key, key) {
				t.Fatalf("service %x is stored as %x", key, again.Key)
			}
		}
		for _, x := range out.Publish.Subs {
			if again := sa.SubscriptionRecord(x); damaged || !bytes.Equal(again.Key, key) || len(again.Value) != len(value) {
				t.Fatalf("subscription %x %x is stored as %x %x", key, value, again.Key, again.Value)
			}
		}
		out.Reset()
		core.Step(1, sa.Published{Snap: snapshot(3, 0)}, &out)
	})
}
