package partition

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
)

// randomPolicy has few keys, ports and classes, so that two are often alike.
func randomPolicy(rng *rand.Rand) *Policy {
	p := &Policy{}
	for k := ib.PKey(1); k <= 3; k++ {
		if rng.IntN(4) == 0 {
			continue
		}
		p.Partitions = append(p.Partitions, Partition{PKey: k, Members: randomMembers(rng, nil), Index0: rng.IntN(8) == 0})
	}
	p.Partitions = append(p.Partitions, Partition{PKey: DefaultKey, Members: randomMembers(rng, []Member{{Kind: All, As: Limited}})})
	return p
}

func randomMembers(rng *rand.Rand, list []Member) []Member {
	for range rng.IntN(5) {
		m := Member{GUID: ib.GUID(1 + rng.IntN(4)), As: Limited + Membership(rng.IntN(3)), AnyIndex: rng.IntN(4) == 0}
		if rng.IntN(5) == 0 {
			m.Kind, m.GUID = All+Kind(rng.IntN(int(Self))), 0
		}
		list = append(list, m)
	}
	return list
}

// changedRight compares what Changed says with what ports are given: a port that
// is not named by it has the same.
func changedRight(t *testing.T, a, b *Policy) (named int) {
	t.Helper()
	guids, all := Changed(a, b)
	if all {
		return 0
	}
	g, h := Resolve(a), Resolve(b)
	for guid := range ib.GUID(6) {
		if slices.Contains(guids, guid) {
			named++
			continue
		}
		for class := CA; class <= Router; class++ {
			for _, self := range []bool{false, true} {
				if x, y := g.Of(class, guid, nil, self), h.Of(class, guid, nil, self); !slices.Equal(x, y) {
					t.Fatalf("port %v, class %d: %v and %v, and nobody says so: %v\n%+v\n%+v", guid, class, x, y, guids, a, b)
				}
				if x, y := g.Index0(class, guid, nil, self), h.Index0(class, guid, nil, self); x != y {
					t.Fatalf("port %v, class %d: %v and %v at index 0, and nobody says so: %v\n%+v\n%+v", guid, class, x, y, guids, a, b)
				}
			}
		}
	}
	return named
}

// TestChanged: over many pairs of policies, ports that are not named have unchanged
// keys; one additional line names one port.
func TestChanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	few := 0
	for range 20_000 {
		a := randomPolicy(rng)
		b := randomPolicy(rng)
		if rng.IntN(2) == 0 { // one that is near
			b = &Policy{Partitions: slices.Clone(a.Partitions)}
			q := &b.Partitions[rng.IntN(len(b.Partitions))]
			at := 0
			if q.PKey == DefaultKey {
				at = 1
			}
			if at += rng.IntN(len(q.Members) + 1 - at); rng.IntN(2) == 0 && at < len(q.Members) {
				q.Members = slices.Delete(slices.Clone(q.Members), at, at+1)
			} else {
				q.Members = slices.Insert(slices.Clone(q.Members), at, Member{GUID: 5, As: Full})
			}
		}
		if changedRight(t, a, b) > 0 {
			few++
		}
		if guids, all := Changed(a, a); all || len(guids) > 0 {
			t.Fatalf("the same policy: %v %v", guids, all)
		}
	}
	if few < 1000 {
		t.Errorf("only %d of the changes were of single ports", few)
	}
	base, more := manyMembers(1000)
	p, err := base.With(more)
	if err != nil {
		t.Fatal(err)
	}
	more[0].Members = append(more[0].Members, Member{GUID: 77, As: Full})
	q, err := base.With(more)
	if err != nil {
		t.Fatal(err)
	}
	if guids, all := Changed(p, q); all || !slices.Equal(guids, []ib.GUID{77}) {
		t.Errorf("%v %v", guids, all)
	}
	if guids, all := Changed(p, base); all || len(guids) != 1000 {
		t.Errorf("%d %v", len(guids), all)
	}
}

func FuzzChanged(f *testing.F) {
	f.Add([]byte("a=5:1=full,2,3;"), []byte("a=5:1=full,3;b=6:4;"))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, _, err := Parse(bytes.NewReader(x), "a")
		if err != nil {
			return
		}
		b, _, err := Parse(bytes.NewReader(y), "b")
		if err != nil {
			return
		}
		changedRight(t, a, b)
	})
}
