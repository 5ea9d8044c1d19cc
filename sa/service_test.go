package sa_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

const (
	compRID = wire.ServiceCompServiceID | wire.ServiceCompServiceGID | wire.ServiceCompServicePKey
	saKey   = 7
)

// guids gives the hosts of a snapshot port GUIDs of their own.
func guids(s *subnet.Snapshot, list ...ib.GUID) *subnet.Snapshot {
	for i, g := range list {
		p := s.PortByLID(ib.LID(i + 2))
		s.Ports[p].GUID = g
	}
	s.Finish()
	return s
}

// TestServiceVectors replays requests and OpenSM's answers (recorded on the wire; the
// client library damaged the last word of the answers, which is 0 here).
func TestServiceVectors(t *testing.T) {
	r := newFixture(t, guids(snapshot(2, 0), 0x100001, 0x100004), sa.Config{SAKey: saKey})
	const service = "0000000000001234fe800000000000000000000000100001ffff00000000003c00000000000000000000000000000000" +
		"6578616d706c652e73657276696365" + "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" +
		"0102030405060708090a0b0c0d0e0f10"
	const inform = "00000000000000000000000000000000ffff000000000101000300400000001200000004"
	const leave = "00000000000000000000000000000000ffff000000000100000300400000011200000004"
	for _, c := range []struct {
		name   string
		method ib.Method
		attr   ib.AttrID
		mask   wire.CompMask
		data   string
		off    byte
		want   string
	}{
		{"register", ib.MethodSet, wire.AttrServiceRecord, 0x57, service, 22, service},
		{"get", ib.MethodGet, wire.AttrServiceRecord, 1, "0000000000001234", 22, service},
		{"delete", ib.MethodDelete, wire.AttrServiceRecord, 7, "0000000000001234fe800000000000000000000000100001ffff", 22, service},
		{"subscribe", ib.MethodSet, wire.AttrInformInfo, 0, inform, 4, inform},
		{
			"subscriptions", ib.MethodGet, wire.AttrInformInfoRecord, 0, "00", 8,
			"fe800000000000000000000000100001" + "0000000000000000" + inform,
		},
		{"unsubscribe", ib.MethodSet, wire.AttrInformInfo, 0, leave, 4, leave},
	} {
		var m ib.MAD
		wire.New(&m, c.method, c.attr, 0, c.mask)
		copy(wire.Data(&m), unhex(t, c.data))
		got := r.want(2, m[:], 0)
		want := make([]byte, wire.DataLen)
		copy(want, unhex(t, c.want))
		if got[45] != c.off || !bytes.Equal(got[wire.DataOffset:], want) {
			t.Errorf("%s: offset %d\n got %x\nwant %x", c.name, got[45], got[wire.DataOffset:], want)
		}
	}
	r.want(2, ask(ib.MethodGet, wire.AttrServiceRecord, 1, &wire.ServiceRecord{ServiceID: 0x1234}), 0x0300)
	r.want(2, del(wire.AttrServiceRecord, 7, &wire.ServiceRecord{ServiceID: 0x1234}), 0x0300)
}

func serviceOf(id uint64, host int, name string) *wire.ServiceRecord {
	r := &wire.ServiceRecord{ServiceID: id, ServiceGID: gidOf(host), ServicePKey: ib.PKeyDefaultFull, ServiceLease: wire.ServiceLeaseForever}
	copy(r.ServiceName[:], name)
	return r
}

// gidOf is the GID of host n of snapshot.
func gidOf(n int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x1001+16*n)) }

func TestServiceStatus(t *testing.T) {
	s := snapshot(3, 0)
	s.Ports[s.PortByLID(4)].PKeys = []ib.PKey{0x7FFF, 0x8005} // host 3
	s.Ports[s.PortByLID(3)].PKeys = []ib.PKey{0xFFFF}
	r := newFixture(t, s, sa.Config{SAKey: saKey})
	other := serviceOf(1, 1, "x")
	other.ServicePKey = 0x8005
	stranger := serviceOf(2, 9, "x")
	multi := serviceOf(3, 1, "x")
	multi.ServiceGID = ib.GID{0: 0xFF, 1: 0x12, 15: 1}
	swapped := serviceOf(7, 1, "x")
	copy(swapped.ServiceGID[:], []byte{0, 0, 0, 0, 0, 0, 0x80, 0xFE})
	noKey := *stranger
	noKey.ServicePKey = 0
	hers := serviceOf(4, 3, "x")
	hers.ServicePKey = 0x8005
	for _, c := range []struct {
		name string
		from ib.LID
		mask wire.CompMask
		r    *wire.ServiceRecord
		want ib.Status
	}{
		{"no ID in the mask", 2, compRID &^ wire.ServiceCompServiceID, serviceOf(1, 1, "x"), 0x0200},
		{"no GID in the mask", 2, compRID &^ wire.ServiceCompServiceGID, serviceOf(1, 1, "x"), 0x0200},
		{"a partition that the requester is not in", 2, compRID, other, 0x0200},
		{"the same without the P_Key in the mask", 2, compRID &^ wire.ServiceCompServicePKey, other, 0x0200},
		{"P_Key 0", 2, compRID, &noKey, 0x0200},
		{"a GID that nobody has", 2, compRID, stranger, 0x0200},
		{"the same without a P_Key", 2, compRID &^ wire.ServiceCompServicePKey, &noKey, 0},
		{"a port that is not in the partition", 4, compRID, other, 0x0200},
		{"one that is", 4, compRID, hers, 0},
		{"a limited member offers", 4, compRID, serviceOf(5, 3, "x"), 0},
		{"a multicast GID", 2, compRID, multi, 0},
		{"a prefix of swapped bytes, as osmtest sends", 2, compRID, swapped, 0},
		{"another port's service", 3, compRID, serviceOf(6, 1, "x"), 0},
	} {
		if got := status(r.ask(c.from, set(wire.AttrServiceRecord, c.mask, c.r))); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// Who is not in the partition neither sees nor deletes.
	all := ask(ib.MethodGetTable, wire.AttrServiceRecord, 0, nil)
	if a, b := len(records(t, r.ask(2, all))), len(records(t, r.ask(4, all))); a != 5 || b != 6 {
		t.Errorf("host 1 sees %d services, host 3 %d; want 5 and 6", a, b)
	}
	r.want(2, del(wire.AttrServiceRecord, compRID, hers), 0x0300)
	r.want(2, ask(ib.MethodGet, wire.AttrServiceRecord, wire.ServiceCompServiceName, serviceOf(0, 0, "x")), 0x0400)
	r.want(4, del(wire.AttrServiceRecord, 0, hers), 0) // the mask does not count
	r.want(4, del(wire.AttrServiceRecord, compRID, hers), 0x0300)
}

// TestServiceKey: a service with a key changes only for requesters that know the key,
// the ports that registered and offer it, and trusted ones; no other requester sees the
// key.
func TestServiceKey(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{SAKey: saKey})
	mine := serviceOf(1, 1, "mine")
	mine.ServiceKey = [16]byte{1, 2, 3}
	b := r.want(2, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceKey, mine), 0)
	get := func(q []byte, from ib.LID) (x wire.ServiceRecord) {
		t.Helper()
		if err := x.Decode(r.want(from, q, 0)[wire.DataOffset:]); err != nil {
			t.Fatal(err)
		}
		return x
	}
	var x wire.ServiceRecord
	if x.Decode(b[wire.DataOffset:]); x.ServiceKey != [16]byte{} {
		t.Error("the answer to an untrusted Set shows the key")
	}
	byID := func() []byte { return ask(ib.MethodGet, wire.AttrServiceRecord, 1, mine) }
	if get(byID(), 2).ServiceKey != [16]byte{} || get(trusted(byID(), saKey), 3).ServiceKey != mine.ServiceKey {
		t.Error("the key is for the trusted alone")
	}
	hidden := *mine
	hidden.ServiceKey = [16]byte{}
	r.want(3, set(wire.AttrServiceRecord, compRID, &hidden), 0x0200)
	r.want(3, del(wire.AttrServiceRecord, compRID, &hidden), 0x0200)
	r.want(3, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceKey, mine), 0)
	r.want(4, del(wire.AttrServiceRecord, compRID, &hidden), 0x0200) // host 2 registered it last
	r.want(3, del(wire.AttrServiceRecord, compRID, &hidden), 0)
	r.want(2, set(wire.AttrServiceRecord, compRID, mine), 0)
	r.want(4, trusted(del(wire.AttrServiceRecord, compRID, &hidden), saKey), 0)
	if len(r.stored) != 0 {
		t.Errorf("%d records are still stored", len(r.stored))
	}
}

func TestLease(t *testing.T) {
	r := newFixture(t, snapshot(2, 0), sa.Config{})
	lease := func(id uint64, seconds uint32) {
		x := serviceOf(id, 1, fmt.Sprint("s", id))
		x.ServiceLease = seconds
		r.want(2, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, x), 0)
	}
	has := func(want ...uint64) {
		t.Helper()
		var got []uint64
		for _, b := range records(t, r.ask(2, ask(ib.MethodGetTable, wire.AttrServiceRecord, 0, nil))) {
			var x wire.ServiceRecord
			if err := x.Decode(b); err != nil {
				t.Fatal(err)
			}
			got = append(got, x.ServiceID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("at %v: services %v, want %v", time.Duration(r.now), got, want)
		}
		if len(r.stored) != len(want) {
			t.Fatalf("at %v: %d stored, want %d", time.Duration(r.now), len(r.stored), len(want))
		}
	}
	sec := func(n int) mad.Time { return mad.Time(n) * mad.Time(time.Second) }
	lease(1, 4)
	lease(2, 10)
	lease(3, wire.ServiceLeaseForever)
	lease(4, 10)
	lease(6, 0) // over as soon as it is answered
	x := serviceOf(5, 1, "without a lease in the mask")
	x.ServiceLease = 1
	r.want(2, set(wire.AttrServiceRecord, compRID, x), 0)
	has(1, 2, 3, 4, 5)
	r.until(sec(4) - 1)
	has(1, 2, 3, 4, 5)
	r.until(sec(4))
	has(2, 3, 4, 5)
	lease(2, 20) // renewed: until 24
	var got wire.ServiceRecord
	got.Decode(r.want(2, ask(ib.MethodGet, wire.AttrServiceRecord, 1, serviceOf(4, 1, "")), 0)[wire.DataOffset:])
	if got.ServiceLease != 10 {
		t.Errorf("after 4 s the lease is shown as %d, want the original 10", got.ServiceLease)
	}
	r.until(sec(9))
	// The manager is down for 5 seconds: leases go on by wall time.
	r.wall += int64(5 * time.Second)
	s := r.snap
	r.restart()
	r.publish(s)
	has(2, 3, 5)
	r.until(sec(10) - 1)
	has(2, 3, 5)
	r.until(sec(10))
	has(3, 5)
}

// TestServicesAgainstModel holds random operations to a naive list, with
// restarts between.
func TestServicesAgainstModel(t *testing.T) {
	type entry struct {
		r     wire.ServiceRecord
		until int64
	}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := snapshot(4, 0)
		r := newFixture(t, s, sa.Config{SAKey: saKey})
		model := map[string]entry{}
		key := func(x *wire.ServiceRecord) string { return fmt.Sprint(x.ServiceID, x.ServiceGID, x.ServicePKey) }
		random := func() *wire.ServiceRecord {
			x := serviceOf(uint64(rng.IntN(4)), 1+rng.IntN(3), fmt.Sprint("n", rng.IntN(3)))
			x.Data8[rng.IntN(16)], x.Data16[rng.IntN(8)], x.Data32[rng.IntN(4)], x.Data64[rng.IntN(2)] = uint8(rng.IntN(2)), uint16(rng.IntN(2)), uint32(rng.IntN(2)), uint64(rng.IntN(2))
			x.ServiceLease = uint32(1 + rng.IntN(30))
			return x
		}
		for range 300 {
			for k, e := range model {
				if e.until <= r.wall {
					delete(model, k)
				}
			}
			switch rng.IntN(8) {
			case 0, 1, 2:
				x := random()
				mask := compRID
				until := int64(1<<63 - 1)
				if rng.IntN(3) > 0 {
					mask |= wire.ServiceCompServiceLease
					until = r.wall + int64(x.ServiceLease)*int64(time.Second)
				}
				r.want(2, set(wire.AttrServiceRecord, mask, x), 0)
				if mask&wire.ServiceCompServiceLease == 0 {
					x.ServiceLease = wire.ServiceLeaseForever
				}
				model[key(x)] = entry{*x, until}
			case 3:
				x := random()
				_, ok := model[key(x)]
				from := ib.LID(2 + rng.IntN(2)) // which registers all of them, or offers some
				switch {
				case !ok:
					r.want(from, del(wire.AttrServiceRecord, compRID, x), 0x0300)
				case from == 3 && x.ServiceGID != gidOf(2):
					r.want(from, del(wire.AttrServiceRecord, compRID, x), 0x0200)
				default:
					r.want(from, del(wire.AttrServiceRecord, compRID, x), 0)
					delete(model, key(x))
				}
			case 4:
				r.until(r.now.Add(time.Duration(rng.IntN(5000)) * time.Millisecond))
			case 5:
				if rng.IntN(5) == 0 {
					r.restart()
					r.publish(s)
				}
			default:
				x := random()
				mask := wire.CompMask(0)
				for _, b := range []int{0, 1, 2, 4, 6, 7 + rng.IntN(16), 23 + rng.IntN(8), 31 + rng.IntN(4), 35 + rng.IntN(2)} {
					if rng.IntN(4) == 0 {
						mask |= 1 << b
					}
				}
				var got, want []string
				for _, b := range records(t, r.ask(2, ask(ib.MethodGetTable, wire.AttrServiceRecord, mask, x))) {
					var y wire.ServiceRecord
					if err := y.Decode(b); err != nil {
						t.Fatal(err)
					}
					got = append(got, fmt.Sprint(y))
				}
				for _, e := range model {
					if e.until > r.wall && naiveMatch(mask, &e.r, x) {
						want = append(want, fmt.Sprint(e.r))
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: mask %#x: %d records, want %d\n%v\n%v", seed, uint64(mask), len(got), len(want), got, want)
				}
			}
		}
	}
}

// naiveMatch compares bytes of the wire form, by the offsets of the record.
func naiveMatch(mask wire.CompMask, a, b *wire.ServiceRecord) bool {
	var x, y [wire.ServiceRecordLen]byte
	a.Put(x[:])
	b.Put(y[:])
	at := func(bit int) (from, to int) {
		switch {
		case bit >= 35:
			return 160 + 8*(bit-35), 168 + 8*(bit-35)
		case bit >= 31:
			return 144 + 4*(bit-31), 148 + 4*(bit-31)
		case bit >= 23:
			return 128 + 2*(bit-23), 130 + 2*(bit-23)
		case bit >= 7:
			return 112 + bit - 7, 113 + bit - 7
		}
		p := [][2]int{{0, 8}, {8, 24}, {24, 26}, {26, 28}, {28, 32}, {32, 48}, {48, 112}}[bit]
		return p[0], p[1]
	}
	for bit := range 37 {
		if from, to := at(bit); mask&(1<<bit) != 0 && !bytes.Equal(x[from:to], y[from:to]) {
			return false
		}
	}
	return true
}

// TestServiceBounds: one port cannot use up all services, and can reuse those that it
// deletes.
func TestServiceBounds(t *testing.T) {
	r := newFixture(t, snapshot(2, 0), sa.Config{})
	n := uint64(0)
	for ; ; n++ {
		b := r.ask(2, set(wire.AttrServiceRecord, compRID, serviceOf(n, 1, "many")))
		if status(b) == 0x0100 {
			break
		}
		if status(b) != 0 || n > 10000 {
			t.Fatalf("service %d: %v", n, status(b))
		}
	}
	if n != 4096 {
		t.Errorf("one port may register %d services, want 4096", n)
	}
	r.want(2, set(wire.AttrServiceRecord, compRID, serviceOf(0, 1, "the same again")), 0)
	r.want(3, set(wire.AttrServiceRecord, compRID, serviceOf(n, 2, "of another port")), 0)
	r.want(2, del(wire.AttrServiceRecord, compRID, serviceOf(1, 1, "")), 0)
	r.want(2, set(wire.AttrServiceRecord, compRID, serviceOf(n+1, 1, "one more")), 0)
	r.want(2, set(wire.AttrServiceRecord, compRID, serviceOf(n+2, 1, "too many")), 0x0100)
}
