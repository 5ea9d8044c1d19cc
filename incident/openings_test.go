package incident

import (
	"fmt"
	"testing"
)

// TestOpenings: the newest openings are kept, each once.
func TestOpenings(t *testing.T) {
	var o Openings
	for range 2 {
		for i := range uint64(KeptOpenings) {
			o.Note(fmt.Sprint(i), Opening{Event: i + 1, Cause: 1})
		}
	}
	o.Note("0", Opening{Event: 9, Cause: 8})
	if o.Of("0") != (Opening{9, 8}) || len(o.numbers) != KeptOpenings || len(o.order) != KeptOpenings {
		t.Fatalf("%+v, %d and %d are kept", o.Of("0"), len(o.numbers), len(o.order))
	}
	o.Note("new", Opening{Event: 10})
	if o.Of("0") != (Opening{}) || o.Of("1").Event != 2 || o.Of("new").Event != 10 || len(o.numbers) != KeptOpenings || len(o.order) != KeptOpenings {
		t.Errorf("%+v, %+v, %+v, %d and %d are kept", o.Of("0"), o.Of("1"), o.Of("new"), len(o.numbers), len(o.order))
	}
}
