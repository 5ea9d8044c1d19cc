package lid

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// TestSpace compares the bit set with a map, over random ranges.
func TestSpace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 50 {
		s := &Space{Limit: 2 + rng.IntN(300)}
		used := map[int]bool{}
		free := func(lid, lmc int) bool {
			n := 1 << lmc
			if lid == 0 || lid%n != 0 || lid+n > s.Limit {
				return false
			}
			for l := lid; l < lid+n; l++ {
				if used[l] {
					return false
				}
			}
			return true
		}
		var taken []Range
		for range 200 {
			lmc := rng.IntN(4)
			r := Range{ib.LID(rng.IntN(s.Limit + 2)), uint8(lmc)}
			if s.Free(r) != free(int(r.Base), lmc) {
				t.Fatalf("round %d: LID %d LMC %d of %d: free %v", round, r.Base, lmc, s.Limit, s.Free(r))
			}
			if rng.IntN(2) == 0 { // the lowest that fits
				r = s.Lowest(uint8(lmc))
				want := 0
				for l := 1 << lmc; l < s.Limit && want == 0; l += 1 << lmc {
					if free(l, lmc) {
						want = l
					}
				}
				if int(r.Base) != want {
					t.Fatalf("round %d: found LID %d LMC %d of %d, want %d", round, r.Base, lmc, s.Limit, want)
				}
			}
			if s.Free(r) {
				s.Take(r)
				taken = append(taken, r)
				for l := int(r.Base); l < int(r.Base)+1<<r.LMC; l++ {
					used[l] = true
				}
			} else if len(taken) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(taken))
				r := taken[i]
				taken = append(taken[:i], taken[i+1:]...)
				s.Release(r)
				for l := int(r.Base); l < int(r.Base)+1<<r.LMC; l++ {
					delete(used, l)
				}
			}
		}
	}
}

// TestClaimOfALIDThatIsGiven: placement 9 ended while no manager ran, so the store has its LID, which
// function 1/1 kept. Placement 10 gets it with the function. A new placement 9 gets another.
func TestClaimOfALIDThatIsGiven(t *testing.T) {
	x := New()
	x.Load([]store.LIDEntry{{GUID: 9, LID: 7}})
	x.SetFunction(subnet.Place{Port: 1, Function: 1}, 7)
	x.Give(10, 7)
	ok, ops := x.Claim(9)
	if ok || x.OfPlacement(9) != 0 || x.Placement(7) != 10 {
		t.Errorf("placement 9 has LID %v, LID 7 is that of placement %v", x.OfPlacement(9), x.Placement(7))
	}
	if _, stored := x.Stored(9); stored || len(ops) != 1 || ops[0].Kind != store.DeleteLID || ops[0].GUID != 9 {
		t.Errorf("the store has LID 7 for both: %v", ops)
	}
}

// TestTable: each owner has its LID, the store what was said of it, and nobody a LID twice.
func TestTable(t *testing.T) {
	x := New()
	x.Load([]store.LIDEntry{{GUID: 1, LID: 1}, {GUID: 2, LID: 2}, {GUID: 9, LID: 7}})
	x.SetLimit(9)
	if len(x.Assign(1, One(1))) != 0 || len(x.Assign(2, One(3))) != 1 {
		t.Error("what is stored is not what is news")
	}
	claim := func(g ib.GUID) bool {
		ok, ops := x.Claim(g)
		if len(ops) > 0 {
			t.Errorf("a claim of %v stores %v", g, ops)
		}
		return ok
	}
	if !claim(9) || x.OfPlacement(9) != 7 || x.Placement(7) != 9 || claim(9) || claim(10) {
		t.Errorf("placement 9 has LID %v", x.OfPlacement(9))
	}
	at := subnet.Place{Port: 1, Function: 2}
	x.SetFunction(at, 4)
	if n := x.Count(func(g ib.GUID) bool { return g == 9 }); n != (Count{Limit: 8, Ports: 2, Functions: 1, Placements: 1}) || n.Used() != 4 {
		t.Errorf("%+v", n)
	}
	nobody := func(ib.GUID) bool { return false }
	low, _ := x.Take(false, nobody, nil)
	x.Give(10, low)
	high, _ := x.Take(true, nobody, nil)
	x.Give(11, high)
	if low != 2 || high != 8 {
		t.Errorf("took LIDs %v and %v, want 2, which port 2 gave up, and 8", low, high)
	}
	x.SetFunction(at, 2) // the function has what the placement has
	if n := x.Count(func(g ib.GUID) bool { return g > 2 }); n.Placements != 2 || n.Functions != 1 {
		t.Errorf("%+v", n)
	}
	if p, ok := x.Function(2); !ok || p != at {
		t.Errorf("LID 2 is %v's", p)
	}
	if _, ok := x.Function(4); ok {
		t.Error("LID 4 was given up")
	}
	x.Recount()
	for _, l := range []ib.LID{4, 5, 6} {
		if got, _ := x.Take(false, nobody, nil); got != l {
			t.Errorf("took LID %v, want %v", got, l)
		}
	}
	// None is left: a port that is not there gives its LID up.
	if l, _ := x.Take(false, nobody, nil); l != 0 {
		t.Errorf("took LID %v", l)
	}
	l, ops := x.Take(false, func(g ib.GUID) bool { return g == 1 || g == 2 }, nil)
	if _, had := x.Assigned(2); l != 3 || len(ops) != 1 || ops[0].Kind != store.DeleteLID || ops[0].GUID != 2 || had {
		t.Errorf("took LID %v with %+v", l, ops)
	}
	if ops := x.Lose(10); len(ops) != 1 || ops[0].GUID != 10 || x.OfPlacement(10) != 0 || x.Placement(2) != 0 || len(x.Lose(10)) != 0 {
		t.Errorf("%+v", ops)
	}
	x.NewMastership()
	if _, ok := x.Assigned(1); ok {
		t.Error("what an earlier mastership assigned is assigned yet")
	}
	if r, ok := x.Stored(1); !ok || r != One(1) {
		t.Errorf("port 1 is stored with %v", r)
	}
}

// FuzzFunctionLID: what parses is what was written; nothing else does.
func FuzzFunctionLID(f *testing.F) {
	op := functionOp(subnet.Place{Port: 0x0002c90300a1b2c3, Function: 16}, 0xBFFF)
	f.Add(op.Record.Key, op.Record.Value)
	f.Add([]byte{}, []byte{0, 0})
	f.Add(make([]byte, 10), []byte{0xC0, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r := store.Record{Table: store.TableFunctionLIDs, Key: key, Value: value}
		p, l, err := parseFunction(&r)
		if err != nil {
			return
		}
		if op := functionOp(p, l); !bytes.Equal(op.Record.Key, key) || !bytes.Equal(op.Record.Value, value) {
			t.Fatalf("%x %x became %v LID %v", key, value, p, l)
		}
		x, bad := New(), 0
		ops := x.LoadFunctions([]store.Record{r, r}, true, func(error) { bad++ })
		if x.OfFunction(p) != l || x.NumFunctions() != 1 || bad != 1 || len(ops) != 0 {
			t.Fatalf("%v has LID %v, %d are bad, %v", p, x.OfFunction(p), bad, ops)
		}
		x = New()
		if ops := x.LoadFunctions([]store.Record{r}, false, func(error) { bad++ }); (x.NumFunctions() == 0) != (p.Function > 0) || len(ops) != 1-x.NumFunctions() {
			t.Fatalf("without prepopulation %v has LID %v, %v is stored", p, x.OfFunction(p), ops)
		}
	})
}
