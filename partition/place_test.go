package partition

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"heddle/ib"
)

func keys(k ...ib.PKey) []ib.PKey { return k }

func TestPlace(t *testing.T) {
	const index0 = 0x22
	for _, c := range []struct {
		name string
		p    Placing
		want []ib.PKey
		left []ib.PKey
	}{
		{"an empty table", Placing{Cap: 4, Want: keys(0x8005, 0x7FFF)}, keys(0x7FFF, 0x8005), nil},
		{"nothing changes", Placing{Table: keys(0xFFFF, 0, 5), Cap: 4, Want: keys(5, 0xFFFF)}, keys(0xFFFF, 0, 5), nil},
		{"membership changes in place", Placing{Table: keys(0xFFFF, 0, 5), Cap: 4, Want: keys(0x8005, 0x7FFF)}, keys(0x7FFF, 0, 0x8005), nil},
		{"both beside the one there", Placing{Table: keys(0xFFFF, 0, 0x8005), Cap: 4, Want: keys(5, 0x8005, 0xFFFF)}, keys(0xFFFF, 5, 0x8005), nil},
		{"no longer both", Placing{Table: keys(0xFFFF, 5, 0x8005), Cap: 4, Want: keys(0x8005, 0xFFFF)}, keys(0xFFFF, 0, 0x8005), nil},
		{"twice there", Placing{Table: keys(0xFFFF, 5, 5), Cap: 4, Want: keys(5, 0xFFFF)}, keys(0xFFFF, 5), nil},
		{"revoked and granted", Placing{Table: keys(0xFFFF, 5, 6), Cap: 4, Want: keys(6, 7, 8, 0xFFFF)}, keys(0xFFFF, 7, 6, 8), nil},
		{"overflow", Placing{Table: keys(0xFFFF, 9), Cap: 3, Want: keys(6, 7, 8, 9, 0xFFFF)}, keys(0xFFFF, 9, 6), keys(7, 8)},
		{"no room for what is new", Placing{Table: keys(5, 6), Cap: 2, Want: keys(5, 6, 0x7FFF)}, keys(5, 6), keys(0x7FFF)},
		{"no table", Placing{Cap: 0, Want: keys(0x7FFF)}, nil, keys(0x7FFF)},
		{"index 0 is taken", Placing{Table: keys(0xFFFF), Cap: 4, Want: keys(0x22, 0xFFFF), Index0: index0}, keys(0xFFFF, 0x22), nil},
		{"index 0 is free", Placing{Table: keys(0, 0xFFFF), Cap: 4, Want: keys(0x22, 0xFFFF), Index0: index0}, keys(0x22, 0xFFFF), nil},
		{"index 0 becomes free", Placing{Table: keys(9, 0xFFFF), Cap: 4, Want: keys(0x22, 0xFFFF), Index0: index0}, keys(0x22, 0xFFFF), nil},
		{"nobody uses it yet", Placing{Table: keys(0xFFFF), Cap: 4, Want: keys(0x22, 0xFFFF), Index0: index0, Fresh: true}, keys(0x22, 0xFFFF), nil},
		{"others go between", Placing{Table: keys(0xFFFF), Cap: 4, Want: keys(6, 0x22, 0xFFFF), Index0: index0, Fresh: true}, keys(0x22, 6, 0xFFFF), nil},
		{"full and limited", Placing{Table: keys(0xFFFF), Cap: 4, Want: keys(0x22, 0x8022, 0xFFFF), Index0: index0, Fresh: true}, keys(0x8022, 0x22, 0xFFFF), nil},
		{"the default has room first", Placing{Table: keys(0xFFFF), Cap: 2, Want: keys(6, 0x22, 0xFFFF), Index0: index0, Fresh: true}, keys(0x22, 0xFFFF), keys(6)},
		{"OpenSM's order", Placing{Table: keys(0xFFFF), Cap: 8, Want: keys(5, 0x8005, 0x10, 0x101, 0x300, 0x7FFF)}, keys(0x7FFF, 0x300, 0x101, 5, 0x8005, 0x10), nil},
		{"there, but not at 0", Placing{Table: keys(0xFFFF, 0x22), Cap: 4, Want: keys(0x22, 0xFFFF), Index0: index0}, keys(0xFFFF, 0x22), nil},
		{"beyond the table", Placing{Table: keys(0xFFFF, 5, 6, 7), Cap: 2, Want: keys(5, 7, 0xFFFF)}, keys(0xFFFF, 5), keys(7)},
	} {
		got, err := Place(c.p)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		var o *OverflowError
		if errors.As(err, &o); (o != nil) != (c.left != nil) || o != nil && !slices.Equal(o.Left, c.left) {
			t.Errorf("%s: %v, want %v left", c.name, err, c.left)
		}
	}
}

// TestPlaceLaws: on random tables and requests, remaining entries do not move, no
// unwanted entry exists, Only followed by Place gives the same table as Place, and Only
// grants nothing.
func TestPlaceLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := func() ib.PKey { return ib.PKey(rng.IntN(6)) | ib.PKey(rng.IntN(2))<<15 }
	for range 20_000 {
		p := Placing{Cap: rng.IntN(10)}
		for range rng.IntN(p.Cap + 1) {
			p.Table = append(p.Table, key())
		}
		for range rng.IntN(8) {
			if k := key(); !k.IsEmpty() && !slices.Contains(p.Want, k) {
				p.Want = append(p.Want, k)
			}
		}
		slices.SortFunc(p.Want, func(a, b ib.PKey) int { return int(a.Base())<<1 - int(b.Base())<<1 + int(a>>15) - int(b>>15) })
		got, err := Place(p)
		if len(got) > p.Cap || !slices.Equal(got, Trim(got)) {
			t.Fatalf("%+v: %v", p, got)
		}
		for i, k := range got {
			if !k.IsEmpty() && (!slices.Contains(p.Want, k) || slices.Contains(got[:i], k)) {
				t.Fatalf("%+v: %v has %v", p, got, k)
			}
		}
		for i, k := range p.Table {
			if i < p.Cap && slices.Contains(p.Want, k) && !slices.Contains(p.Table[:i], k) && (i >= len(got) || got[i] != k) {
				t.Fatalf("%+v: %v moves %v", p, got, k)
			}
		}
		var o *OverflowError
		if left := len(p.Want); errors.As(err, &o) != (left > p.Cap) {
			t.Fatalf("%+v: %v", p, err)
		}
		only := Only(p.Table, p.Want)
		for i, k := range only {
			if !k.IsEmpty() && k != p.Table[i] && !(p.Table[i] == k|0x8000 && slices.Contains(p.Want, k)) {
				t.Fatalf("%+v: only %v", p, only)
			}
			if !k.IsEmpty() && !slices.Contains(p.Want, k) && !slices.Contains(p.Want, k|0x8000) {
				t.Fatalf("%+v: only %v keeps %v", p, only, k)
			}
		}
		was := p.Table
		p.Table = only
		if again, err2 := Place(p); !slices.Equal(again, got) || !reflect.DeepEqual(err, err2) {
			t.Fatalf("%v %+v: %v, but at once %v", was, p, again, got)
		}
	}
}

func TestGrantsOf(t *testing.T) {
	p, _ := parse(t, `Default=0x7fff : ALL=limited, SELF=full, 9=full ;
		cas=1 : ALL_CAS=full, 2=limited ;
		late=2 : 2=full, ALL_CAS ;
		sw=3,indx0 : ALL_SWITCHES=both ;
		vm=4 : 0x100=full, 2 ;
		rt=5 : ALL_ROUTERS, SELF ;
		self=6 : SELF=full, 1=limited ;`)
	g := Resolve(p)
	for _, c := range []struct {
		name    string
		class   Class
		guid    ib.GUID
		aliases []ib.GUID
		self    bool
		want    []ib.PKey
	}{
		{"a host", CA, 7, nil, false, keys(0x8001, 2, 0x7FFF)},
		{"a host by GUID", CA, 2, nil, false, keys(1, 2, 4, 0x7FFF)},
		{"full of the default", CA, 9, nil, false, keys(0x8001, 2, 0xFFFF)},
		{"with an alias", CA, 7, []ib.GUID{0, 0x100}, false, keys(0x8001, 2, 0x8004, 0x7FFF)},
		{"alias and own GUID", CA, 2, []ib.GUID{0, 0x100}, false, keys(1, 2, 0x8004, 0x7FFF)},
		{"the manager's", CA, 1, nil, true, keys(0x8001, 2, 5, 6, 0xFFFF)},
		{"another manager's", CA, 8, nil, true, keys(0x8001, 2, 5, 0x8006, 0xFFFF)},
		{"a switch", Switch, 7, nil, false, keys(3, 0x8003, 0x7FFF)},
		{"a router", Router, 7, nil, false, keys(5, 0x7FFF)},
	} {
		if got := g.Of(c.class, c.guid, c.aliases, c.self); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if g.Index0(Switch, 7, nil, false) != 3 || g.Index0(CA, 7, nil, false) != 0 {
		t.Error("index 0")
	}
	if got := Resolve(&Policy{}).Of(CA, 1, nil, false); !slices.Equal(got, keys(0x7FFF)) {
		t.Errorf("of no policy at all: %v", got)
	}
}
