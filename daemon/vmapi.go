package daemon

import (
	"context"
	"slices"

	"heddle/api"
	"heddle/api/show"
	"heddle/vm"
)

// permitted leaves out what tenants may not do any more: the partition of a P_Key may have been deleted
// since they were permitted to, and the P_Key given to another tenant.
func (d *Daemon) permitted(ops []api.VMOperation, out []api.VMOutcome, todo []vm.Op, of []int) (still []vm.Op, at []int) {
	if !slices.ContainsFunc(ops, func(op api.VMOperation) bool { return op.Scope != nil && len(op.Keys) > 0 }) {
		return todo, of
	}
	st, _ := d.policies()
	for k, i := range of {
		if out[i].Err = show.MayHave(&ops[i], st.Base); out[i].Err == nil {
			still, at = append(still, todo[k]), append(at, i)
		}
	}
	return still, at
}

// Operate implements api.Machines.
func (d *Daemon) Operate(ctx context.Context, ops []api.VMOperation) ([]api.VMOutcome, error) {
	if err := d.master(); err != nil {
		return nil, err
	}
	out := make([]api.VMOutcome, len(ops))
	s := d.Snapshot()
	var todo []vm.Op
	var of []int
	for i := range ops {
		op, err := show.Operation(s, &ops[i])
		if out[i].Err = err; err == nil {
			todo, of = append(todo, op), append(of, i)
		}
	}
	release := d.vm.asked.hold(keysOf(todo))
	todo, of = d.permitted(ops, out, todo, of)
	if len(todo) == 0 {
		release()
		return out, nil
	}
	replies, err := d.perform(ctx, todo, release)
	if err != nil {
		return nil, err
	}
	for k, i := range of {
		r := d.outlast(ctx, todo[k], replies[k])
		out[i].VM, out[i].Err = show.VM(d.Snapshot(), &r.Interface), r.Err
		out[i].VM.Waiting = r.Waiting
	}
	return out, nil
}
