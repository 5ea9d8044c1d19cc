package transition

import (
	"fmt"
	"strings"
)

// repairRisk is what may happen because nothing waits, nil if nothing can.
func (b *builder) repairRisk(r *Fitted, late, trees bool) *Risk {
	risk := &Risk{Worst: b.drain(1)}
	switch {
	case late:
		risk.Cycle, risk.Why = r.Cycle, lateRisk(r)
	case r.Stale:
		risk.Why = "hosts may use service levels that they learned earlier, which are not proved on the installed entries"
	case r.Past:
		risk.Cycle, risk.Why = r.circle, "packets in flight may follow recent tables"
	case trees:
		risk.Why = "multicast packets in flight may meet new trees"
	default:
		return nil
	}
	return risk
}

// lateRisk is the risk of a second step that does not wait.
func lateRisk(r *Fitted) string {
	switch {
	case r.Tables == nil && r.Left == 0:
		return "the installed tables can deadlock, and do not mix with those that replace them"
	case r.Tables == nil:
		return "the tables that connect the rest do not mix with those installed"
	case r.Guarded:
		return fmt.Sprintf("packets that switches are to discard may wait for their output already (destinations with new service levels: %d)", r.NewLevels)
	case r.NewLevels > 0:
		return fmt.Sprintf("hosts have yet to learn new service levels (destinations: %d), and packets in flight to %d broken pairs may meet new entries",
			r.NewLevels, r.Late)
	case r.Late == 0:
		return "packets in flight to switches that cannot be reached may meet new entries"
	}
	return fmt.Sprintf("packets in flight to %d broken pairs may meet new entries", r.Late)
}

func (b *builder) repairReason(r *Fitted, strict bool) string {
	p := b.p
	n := r.Broken - r.Late - r.Left
	var parts []string
	switch {
	case r.Lanes:
		parts = append(parts, "SL-to-VL tables change first, which the installed entries work on too")
	case r.Lifted:
		parts = append(parts, fmt.Sprintf("%d of %d destinations that wait move to other lanes, where their entries can change", r.Levels, r.Waiting))
	case r.Balanced:
		parts = append(parts, fmt.Sprintf("%d entries lead around the busiest channels now", r.Entries))
	case len(r.LIDs) == 0 && r.Tables != nil:
		parts = append(parts, fmt.Sprintf("%d destinations take their wanted entries, %d keep others until packets have left", r.Moved, r.Waiting))
	case n > 0:
		parts = append(parts, fmt.Sprintf("%d broken pairs are connected by entries that mix with all others", n))
	}
	switch {
	case r.Tables == nil && r.Left > 0:
		parts = append(parts, fmt.Sprintf("%d broken pairs need tables that do not mix with those installed, which follow immediately", r.Left))
	case r.Tables == nil:
		parts = append(parts, "the installed tables can deadlock, so the wanted ones follow immediately")
	case r.NewLevels > 0 && r.Guarded:
		parts = append(parts, fmt.Sprintf("%d by new entries, on new service levels where none in use will do (destinations: %d); until hosts use those, switches discard what could close a cycle (SL-to-VL tables: %d)",
			r.Late, r.NewLevels, r.Guards))
	case r.NewLevels > 0:
		parts = append(parts, fmt.Sprintf("%d by entries that do not mix with packets in flight, on new service levels where none in use will do (destinations: %d)", r.Late, r.NewLevels))
	case r.Late > 0 && strict:
		parts = append(parts, fmt.Sprintf("%d when packets have left that their entries do not mix with", r.Late))
	case r.Late > 0:
		parts = append(parts, fmt.Sprintf("%d by entries that do not mix with packets in flight", r.Late))
	}
	if len(p.Groups) > 0 {
		parts = append(parts, fmt.Sprintf("%d multicast trees are cut to their unchanged part, then completed", len(p.Groups)))
	}
	if len(parts) == 0 {
		return "paths to switches are repaired"
	}
	return strings.Join(parts, "; ")
}
