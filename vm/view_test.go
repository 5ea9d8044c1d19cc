package vm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTable: a table agrees with a map, and its frozen copies do not change.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var tab table
	twin := map[string]*entry{}
	type copied struct {
		tab  table
		want []string
	}
	var copies []copied
	names := func(t *table) []string {
		var list []string
		for e := range t.all() {
			list = append(list, fmt.Sprintf("%s=%d", e.Name, e.LID))
		}
		return list
	}
	for i := range 30000 {
		name := fmt.Sprintf("vm%04d", rng.IntN(2000))
		if i < 1500 {
			name = fmt.Sprintf("vm%04d", i) // in order, as a script makes them
		}
		if i >= 20000 && rng.IntN(3) > 0 || rng.IntN(4) == 0 {
			tab.drop(name)
			delete(twin, name)
		} else {
			e := &entry{Interface: Interface{Name: name, LID: 1}}
			if old := tab.get(name); old != nil {
				e.LID = old.LID + 1
			}
			tab.put(e)
			twin[name] = e
		}
		if tab.n != len(twin) || tab.get(name) != twin[name] {
			t.Fatalf("after %d: %d, want %d", i, tab.n, len(twin))
		}
		if i%500 == 0 {
			f := tab.freeze()
			copies = append(copies, copied{f, names(&f)})
		}
	}
	want := slices.Sorted(maps.Keys(twin))
	i := 0
	for e := range tab.all() {
		if e != twin[want[i]] {
			t.Fatalf("%d: %q, want %q", i, e.Name, want[i])
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("%d of %d", i, len(want))
	}
	for i, c := range copies {
		if !slices.Equal(names(&c.tab), c.want) {
			t.Fatalf("copy %d changed", i)
		}
	}
	for _, c := range tab.chunks {
		if len(c.list) == 0 || len(c.list) > maxChunk {
			t.Fatalf("a chunk of %d", len(c.list))
		}
	}
}

// TestViewFrom: an iteration can continue from a name.
func TestViewFrom(t *testing.T) {
	var list []Interface
	for i := range 1000 {
		list = append(list, Interface{Name: fmt.Sprintf("%04d", 2*i)})
	}
	v := &View{}
	for i := range list {
		v.list.put(&entry{Interface: list[i]})
	}
	if v.Len() != 1000 || v.Interface("0002") == nil || v.Interface("0001") != nil || (&View{}).Interface("a") != nil {
		t.Fatal(v.Len())
	}
	for from, want := range map[string]string{"": "0000", "0000": "0000", "0001": "0002", "0511": "0512", "1998": "1998", "1999": "", "z": ""} {
		got := ""
		for i := range v.From(from) {
			got = i.Name
			break
		}
		if got != want {
			t.Errorf("from %q: %q, want %q", from, got, want)
		}
	}
}
