package experiment

import (
	"slices"
	"testing"
)

// TestTakes: experiments take flags that exist, once each and in the order of help.
func TestTakes(t *testing.T) {
	all := Flags()
	for _, e := range All() {
		last := -1
		for _, name := range e.Takes {
			at := slices.Index(all, name)
			if at <= last {
				t.Errorf("%s takes %v, of %v", e.Name, e.Takes, all)
			}
			last = at
		}
	}
	for _, name := range all {
		if !slices.ContainsFunc(All(), func(e Experiment) bool { return slices.Contains(e.Takes, name) }) {
			t.Errorf("no experiment takes --%s", name)
		}
	}
}
