package daemon

import (
	"errors"
	"sync/atomic"
	"time"

	"heddle/api/metrics"
	"heddle/vm"
)

// Operations and their results, for the counters.
const (
	vmOps     = 11
	vmResults = 8
)

var (
	vmOpNames     = [vmOps]string{"create", "attach", "migrate", "finish", "rollback", "detach", "delete", "keys", "add_members", "remove_members", "move"}
	vmResultNames = [vmResults]string{"done", "waiting", "not_found", "conflict", "invalid", "no_room", "store", "refused"}
)

func vmOpSlot(op vm.Op) int {
	switch op.(type) {
	case vm.Create:
		return 0
	case vm.Attach:
		return 1
	case vm.Migrate:
		return 2
	case vm.Finish:
		return 3
	case vm.RollBack:
		return 4
	case vm.Detach:
		return 5
	case vm.Delete:
		return 6
	case vm.SetKeys:
		return 7
	case vm.AddMembers:
		return 8
	case vm.RemoveMembers:
		return 9
	}
	return 10
}

func vmResultSlot(r *vm.Reply) int {
	for i, err := range [...]error{vm.ErrNotFound, vm.ErrConflict, vm.ErrInvalid, vm.ErrNoRoom, vm.ErrStore} {
		if errors.Is(r.Err, err) {
			return 2 + i
		}
	}
	switch {
	case r.Err != nil:
		return vmResults - 1
	case r.Waiting:
		return 1
	}
	return 0
}

// vmStats are the address manager's counters. Its loop is the only writer.
type vmStats struct {
	ops        [vmOps][vmResults]atomic.Uint64
	took       [vmOps]histogram // from the core's step to the reply, waiting ones not counted
	placed     atomic.Uint64    // placements
	refused    atomic.Uint64    // placements
	blocks     atomic.Uint64    // LFT blocks written for completed placements
	noticesCut atomic.Uint64
}

func (s *vmStats) add(op vm.Op, r *vm.Reply, took time.Duration) {
	o := vmOpSlot(op)
	bump(&s.ops[o][vmResultSlot(r)])
	if r.Err == nil && !r.Waiting {
		s.took[o].addTime(took)
	}
}

// values are the counts.
func (s *vmStats) values() metrics.VM {
	out := metrics.VM{Placed: s.placed.Load(), Refused: s.refused.Load(), Blocks: s.blocks.Load(), NoticesCut: s.noticesCut.Load()}
	for o := range s.ops {
		for r := range s.ops[o] {
			if n := s.ops[o][r].Load(); n > 0 || r == 0 {
				out.Ops = append(out.Ops, metrics.Count{Labels: []string{vmOpNames[o], vmResultNames[r]}, N: n})
			}
		}
		if took := s.took[o].values(vmOpNames[o]); took.Any() {
			out.Took = append(out.Took, took)
		}
	}
	return out
}
