// Package joins measures how many joins an SA answers, from the requests of many hosts, which join the
// same multicast groups, to their answers.
package joins

import (
	"fmt"

	"heddle/internal/bench/testbed"
)

// Measure measures new joins, and those of members that join again.
func Measure(b *testbed.Testbed, sizes []int) error {
	t := testbed.NewTable(fmt.Sprintf("Joins: all hosts join the same %d groups, each with %d requests in flight", groups, window),
		"hosts", "SA", "joins", "joins/s", "lowest", "highest", "median", "99 %", "busy", "sent again", "SA's processor time a join")
	for _, n := range sizes {
		for _, start := range []func(*testbed.Testbed, int) (*served, error){openSM, heddle, heddlePair, heddleEtcd} {
			if err := measure(b, t, n, start); err != nil {
				return fmt.Errorf("%d hosts: %w", n, err)
			}
		}
	}
	return nil
}

// measure measures one SA.
func measure(b *testbed.Testbed, t testbed.Table, hosts int, start func(*testbed.Testbed, int) (*served, error)) error {
	s, err := start(b, hosts)
	if s != nil {
		defer s.end()
	}
	if err != nil {
		return err
	}
	var runs [2][]result
	for i := range b.Runs {
		for k := range runs { // new ones, then the same again
			before := s.cpuTime()
			r, err := s.net.join(i * groups)
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", s.who, err, testbed.Tail(s.procs...))
			}
			r.cpu = float64((s.cpuTime() - before).Microseconds()) / float64(len(s.net.hosts)*groups)
			runs[k] = append(runs[k], r)
		}
	}
	for k, what := range []string{"new", "again"} {
		t.Row("%d|%s|%s|%s", hosts, s.who, what, medians(runs[k]))
	}
	return nil
}
