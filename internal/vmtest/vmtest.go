// Package vmtest makes Views for tests of the packages that read them.
package vmtest

import (
	"testing"

	"heddle/vm"
)

// View is the View of an address manager that has carried out operations. There is no subnet, so
// an interface that is attached waits for it.
func View(t testing.TB, ops ...vm.Op) *vm.View {
	t.Helper()
	c := vm.New(vm.Defaults())
	var view *vm.View
	step := func(ev vm.Event) {
		var out vm.Output
		for c.Step(0, ev, &out); ; c.Step(0, ev, &out) {
			if out.Publish != nil {
				view = out.Publish
			}
			for i := range out.Replies {
				if err := out.Replies[i].Err; err != nil {
					t.Fatalf("vmtest: %+v is refused: %v", ops[out.Replies[i].Tag], err)
				}
			}
			if len(out.Persist) == 0 {
				return
			}
			ev = vm.Persisted{Gen: out.PersistGen}
			out.Reset()
		}
	}
	step(vm.Start{})
	for i, op := range ops {
		step(vm.Requests{List: []vm.Request{{Tag: uint64(i), Op: op}}})
	}
	return view
}
