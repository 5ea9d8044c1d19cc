// Package joins measures how many joins an SA answers, from the requests of many hosts, which join the
// same multicast groups, to their answers.
package joins

import (
	"fmt"

	"heddle/internal/bench/testbed"
)

// Measure measures new joins, and those of members that join again.
func Measure(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable(fmt.Sprintf("Joins: %d hosts at most join the same %d groups, each with %d requests in flight", most, groups, window),
		"hosts", "SA", "joins", "joins/s", "lowest", "highest", "median", "99 %", "busy", "sent again")
	for _, n := range sizes {
		netlist, err := b.Netlist(n)
		if err != nil {
			return err
		}
		for _, start := range []func(*testbed.Testbed, string) (*served, error){openSM, heddle, heddlePair, heddleEtcd} {
			if err := measure(b, t, n, netlist, start); err != nil {
				return fmt.Errorf("%d hosts: %w", n, err)
			}
		}
	}
	return nil
}

// measure measures one SA.
func measure(b *testbed.Testbed, t testbed.Table, hosts int, netlist string, start func(*testbed.Testbed, string) (*served, error)) error {
	s, err := start(b, netlist)
	if s != nil {
		defer s.end()
	}
	if err != nil {
		return err
	}
	list, err := attach(s.sock, hosts)
	defer func() { closeAll(list) }()
	if err != nil {
		return err
	}
	var runs [2][]result
	for i := range b.Runs {
		for k := range runs { // new ones, then the same again
			r, err := joinAll(list, i*groups)
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", s.who, err, testbed.Tail(s.procs...))
			}
			runs[k] = append(runs[k], r)
		}
	}
	for k, what := range []string{"new", "again"} {
		t.Row("%d|%s|%s|%s", hosts, s.who, what, medians(runs[k]))
	}
	return nil
}
