package takeover

import (
	"fmt"
	"slices"
	"time"

	"heddle/internal/bench/pair"
	"heddle/internal/bench/testbed"
)

// A taken is one takeover.
type taken struct {
	first, told, answered, changed time.Duration
	gap                            time.Duration // the longest one without an answer to a path query
	passedOn, unanswered           int           // queries: answered with the address of the manager that failed; never
	end                            time.Duration // of the process, if it was planned
	probes, lost                   int
	lft, mft                       uint64
	lids, mlids, pkeys, again      int
	cold                           bool
}

// results are those of part takeover.
type results struct {
	rows []row
	kept []kept
	idle []standby
}

func printTakeovers(b *testbed.Testbed, x *results) error {
	t := testbed.NewTable("Takeovers", "hosts", "managers", "event", "times", "first answer, p50", "p99", "most", "no answer, p50", "most", "queries lost, p50", "most", "answered at the old address, p50", "all hosts told, p50", "p99",
		"all joins answered, p50", "p99", "changes wait, p50", "p99", "process ended, p50", "most")
	for i := range x.rows {
		x.rows[i].print(t)
	}
	t = testbed.NewTable("What takeovers change", "hosts", "managers", "event", "times", "probes of flows", "lost", "Sets of LFTs", "of MFTs",
		"LIDs changed", "MLIDs changed", "P_Keys changed", "joins written again", "cold")
	for i := range x.rows {
		x.rows[i].printChanges(t)
	}
	t = testbed.NewTable("What the next manager knows", "hosts", "managers", "services of hosts that say nothing, of 8", "LIDs of hosts that were off, of 8")
	for _, k := range x.kept {
		t.Row("%d|%s|%d|%d", k.hosts, k.who, k.services, k.lids)
	}
	return printStandbys(b, x.idle)
}

type row struct {
	hosts    int
	who, how string
	list     []taken
}

// times are two quantiles and the most of a duration; a missing one is 0.
func (r *row) times(of func(*taken) time.Duration) (p50, p99, most string) {
	var v []time.Duration
	for i := range r.list {
		if d := of(&r.list[i]); d > 0 {
			v = append(v, d)
		}
	}
	if len(v) == 0 {
		return "-", "-", "-"
	}
	slices.Sort(v)
	show := func(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
	return show(v[len(v)/2]), show(v[len(v)*99/100]), show(v[len(v)-1])
}

func (r *row) print(t testbed.Table) {
	first, late, most := r.times(func(x *taken) time.Duration { return x.first })
	gap, _, gapMost := r.times(func(x *taken) time.Duration { return x.gap })
	var lost, old []int
	for i := range r.list {
		lost, old = append(lost, r.list[i].unanswered), append(old, r.list[i].passedOn)
	}
	slices.Sort(lost)
	slices.Sort(old)
	told, told99, _ := r.times(func(x *taken) time.Duration { return x.told })
	answered, answered99, _ := r.times(func(x *taken) time.Duration { return x.answered })
	changed, changed99, _ := r.times(func(x *taken) time.Duration { return x.changed })
	end, _, endMost := r.times(func(x *taken) time.Duration { return x.end })
	t.Row("%d|%s|%s|%d|%s|%s|%s|%s|%s|%d|%d|%d|%s|%s|%s|%s|%s|%s|%s|%s", r.hosts, r.who, r.how, len(r.list), first, late, most, gap, gapMost, lost[len(lost)/2], lost[len(lost)-1], old[len(old)/2], told, told99, answered, answered99, changed, changed99, end, endMost)
}

func (r *row) printChanges(t testbed.Table) {
	var x taken
	cold := 0
	for i := range r.list {
		o := &r.list[i]
		x.probes, x.lost, x.lft, x.mft = x.probes+o.probes, x.lost+o.lost, x.lft+o.lft, x.mft+o.mft
		x.lids, x.mlids, x.pkeys = x.lids+o.lids, x.mlids+o.mlids, x.pkeys+o.pkeys
		x.again += o.again
		if o.cold {
			cold++
		}
	}
	again, colds := fmt.Sprint(x.again), fmt.Sprint(cold)
	if r.who != pair.Name {
		again, colds = "-", "-"
	}
	t.Row("%d|%s|%s|%d|%d|%d|%d|%d|%d|%d|%d|%s|%s", r.hosts, r.who, r.how, len(r.list), x.probes, x.lost, x.lft, x.mft, x.lids, x.mlids, x.pkeys, again, colds)
}
