package live

import (
	"testing"

	"heddle/internal/need"
	"heddle/replica"
)

// TestEnded: a standby whose peer's process ended learns that from the peer's port, takes over and
// goes alone, although no span has passed in which the peer could have answered.
func TestEnded(t *testing.T) {
	b := newTestbed(t, 1)
	r := &b.rules
	r.Take, r.Fence, r.Lease, r.Alone = need.Patience*10, need.Patience*10, need.Patience*18, need.Patience*20
	for _, x := range b.site {
		x.start()
	}
	b.put("first")
	b.putLIDs()
	a := b.paired()
	o := a.other()
	a.kill()
	b.eventually("the other one is active", func() bool { return o.active.Load() })
	if by := b.put("after"); by != o {
		t.Fatal("a manager that ended took a change")
	}
	b.eventually("it shows that it is alone", func() bool { return o.pair().Status().State == Alone })
	if st := o.pair().Status(); st.Why != replica.WhySilence {
		t.Errorf("it is active: %v", st.Why)
	}
}
