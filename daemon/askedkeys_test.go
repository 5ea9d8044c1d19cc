package daemon

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"heddle/access"
	"heddle/api"
	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// TestAskedKeys: a request holds the P_Keys that it asks for before it is checked whether they are its
// tenant's, and until the address manager has decided, even if who asked has given up.
func TestAskedKeys(t *testing.T) {
	policy := partition.Default()
	for _, q := range []partition.Partition{{Name: "acme-net", PKey: 5}, {Name: "evil-net", PKey: 6}} {
		var err error
		if policy, err = policy.WithPartition(q); err != nil {
			t.Fatal(err)
		}
	}
	op := func(name, pkey string) api.VMOperation {
		return api.VMOperation{
			Op: "create", Name: name, VMAddress: api.VMAddress{Keys: []api.VMKey{{PKey: pkey}}},
			Scope: &access.Scope{Prefix: "acme-", PKeys: []ib.PKey{7}},
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d, l, _ := managed(t, subnet.Master, func(ev vm.Event, out *vm.Output) {
			if ev, ok := ev.(vm.Requests); ok {
				for _, r := range ev.List {
					out.Replies = append(out.Replies, vm.Reply{Tag: r.Tag})
				}
			}
		})
		held := func(when string, want ...ib.PKey) {
			t.Helper()
			if got := slices.Sorted(slices.Values(d.vm.asked.list())); !slices.Equal(got, want) {
				t.Errorf("%s: %v are held, want %v", when, got, want)
			}
		}
		var out []api.VMOutcome
		var err error
		ask := func(ops ...api.VMOperation) (done chan struct{}) {
			done = make(chan struct{})
			go func() {
				out, err = d.Operate(t.Context(), ops)
				close(done)
			}()
			reply := <-d.ask
			held("while it is checked", 5, 6, 7, 0x7FFF)
			reply <- sm.Status{State: subnet.Master, Partitions: sm.PartitionStatus{Base: policy, InForce: policy}}
			synctest.Wait()
			return done
		}
		ops := []api.VMOperation{op("acme-1", "0x6"), op("acme-2", "0x5"), op("acme-3", "0x7"), op("acme-4", "0x7fff")}
		<-ask(ops...) // nobody takes it in time
		if !errors.Is(err, api.ErrBusy) {
			t.Errorf("a manager that hangs: %v", err)
		}
		held("after who asked gave up", 5, 6, 7, 0x7FFF)
		l.shell.Mail()
		held("after it was taken")
		done := ask(ops...)
		l.shell.Mail()
		<-done
		for i, want := range []error{api.ErrForbidden, nil, nil, api.ErrForbidden} {
			if err != nil || !errors.Is(out[i].Err, want) {
				t.Errorf("%s: %v, %v, want %v", ops[i].Name, out[i].Err, err, want)
			}
		}
		held("after the answer")
		l.alarm.timer.Stop()
	})
}

// TestChangeIsPublished: who asked for a change of partitions hears of it when readers that do not wait for
// the loop see it too.
func TestChangeIsPublished(t *testing.T) {
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	l := newLoop(t.Context(), d)
	told := make(chan error, 1)
	l.changes[1] = told
	l.changed(&sm.Notice{Tag: 1})
	if err := <-told; err != nil || d.status.Load() == nil {
		t.Errorf("%v, status %+v", err, d.status.Load())
	}
}
