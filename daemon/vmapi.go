package daemon

import (
	"context"
	"fmt"

	"heddle/api"
	"heddle/api/show"
	"heddle/vm"
)

// Operate implements api.Machines.
func (d *Daemon) Operate(ctx context.Context, ops []api.VMOperation) ([]api.VMOutcome, error) {
	if err := d.master(); err != nil {
		return nil, err
	}
	out, todo := make([]api.VMOutcome, len(ops)), make([][]vm.Op, len(ops))
	s := d.Snapshot()
	for i := range ops {
		todo[i], out[i].Err = show.Steps(s, &ops[i])
	}
	for round := 0; ; round++ {
		var now []vm.Op
		var of []int
		for i := range ops {
			if out[i].Err == nil && round < len(todo[i]) && !out[i].VM.Waiting {
				now, of = append(now, todo[i][round]), append(of, i)
			}
		}
		if len(now) == 0 {
			return out, nil
		}
		replies, err := d.Perform(ctx, now)
		if err != nil {
			if round == 0 {
				return nil, err
			}
			for _, i := range of {
				out[i].Err = err
			}
			return out, nil
		}
		for k, i := range of {
			r := d.outlast(ctx, now[k], replies[k])
			out[i].VM = show.VM(d.Snapshot(), &r.Interface)
			out[i].VM.Waiting = r.Waiting
			switch out[i].Err = r.Err; {
			case r.Err == nil || round == 0:
			case ops[i].Op == "create":
				out[i].Err = fmt.Errorf("it is created, but not attached: %w", r.Err)
			}
		}
	}
}
