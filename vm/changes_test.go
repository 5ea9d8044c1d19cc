package vm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestChanges: the difference of any two views is that of their contents.
func TestChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var tab table
	twin := map[string]*entry{}
	type copied struct {
		view *View
		twin map[string]*entry
	}
	copies := []copied{{nil, nil}, {&View{}, nil}}
	for i := range 20000 {
		name := fmt.Sprintf("vm%04d", rng.IntN(1500))
		if rng.IntN(3) == 0 || i > 15000 {
			tab.drop(name)
			delete(twin, name)
		} else {
			e := &entry{Interface: Interface{Name: name}}
			tab.put(e)
			twin[name] = e
		}
		if i%997 > 2 {
			continue
		}
		now := copied{&View{list: tab.freeze()}, maps.Clone(twin)}
		for range 4 {
			old := copies[max(0, len(copies)-1-rng.IntN(6))]
			var want []Change
			for name, e := range twin {
				if old.twin[name] != e {
					want = append(want, Change{name, false})
				}
			}
			for name := range old.twin {
				if twin[name] == nil {
					want = append(want, Change{name, true})
				}
			}
			slices.SortFunc(want, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
			if got := now.view.Changes(old.view); !slices.Equal(got, want) {
				t.Fatalf("after %d: %v\nwant %v", i, got, want)
			}
		}
		copies = append(copies, now)
	}
}
