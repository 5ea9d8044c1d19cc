package daemon

import (
	"context"

	"heddle/api"
	"heddle/api/show"
	"heddle/sm"
	"heddle/vm"
)

// Kept implements api.Keeper, as do the methods below.
func (d *Daemon) Kept() []api.Kept { return show.Kept(d.Snapshot(), d.clock.started) }

func (d *Daemon) Adopt(ctx context.Context, ports []string) ([]api.Adopted, error) {
	list, _, err := show.KeptAt(d.Snapshot(), ports)
	if err != nil {
		return nil, err
	}
	ops := vm.Adopt(list)
	replies, err := d.Perform(ctx, ops)
	if err != nil {
		return nil, err
	}
	out := make([]api.Adopted, len(replies))
	for i := range replies {
		out[i].What = show.Adoption(ops[i])
		if err := replies[i].Err; err != nil {
			out[i].Error = err.Error()
		}
	}
	return out, nil
}

func (d *Daemon) DropKept(_ context.Context, ports []string) error {
	if err := d.master(); err != nil {
		return err
	}
	_, guids, err := show.KeptAt(d.Snapshot(), ports)
	if err != nil {
		return err
	}
	return d.command(sm.DropKept{Ports: guids})
}
