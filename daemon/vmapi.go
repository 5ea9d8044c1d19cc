package daemon

import (
	"context"

	"heddle/api"
	"heddle/api/show"
	"heddle/vm"
)

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
	if len(todo) == 0 {
		return out, nil
	}
	replies, err := d.Perform(ctx, todo)
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
