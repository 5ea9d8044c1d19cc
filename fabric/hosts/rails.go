package hosts

import (
	"cmp"
	"fmt"
	"slices"
)

// Misplaced is a host that breaks the rail rule: the k-th adapter of every host of a unit is on the same
// switch, so that jobs whose adapters talk within their rail stay below one switch.
type Misplaced struct {
	Host string
	// Wrong are the rails that are on another switch than in most hosts of the unit, by number from 0.
	Wrong []int
	// On and Should are the switches (node indices) of each wrong rail, Should is -1 for a rail that the
	// other hosts do not have.
	On, Should []int32
	// Missing is how many rails the host has less than the others of its unit.
	Missing int
	// Swapped are two rails that are each on the other one's switch, {0, 0} if there are none.
	Swapped [2]int
}

// Units says how the hosts of a fabric stand to the rail rule.
type Units struct {
	Units     int // groups of hosts that have, rail by rail, the same switches
	Rails     int // of most hosts
	Misplaced []Misplaced
}

// CheckRails finds the hosts that break the rail rule. What most hosts on the same switches have counts as
// meant. Hosts of a fabric where most have one rail cannot break the rule: then there are no units.
func CheckRails(hosts []Host) Units {
	var u Units
	counts := map[int]int{}
	for _, h := range hosts {
		counts[len(h.Rails)]++
	}
	for n, c := range counts {
		if c > counts[u.Rails] || c == counts[u.Rails] && n > u.Rails {
			u.Rails = n
		}
	}
	if u.Rails < 2 {
		return u
	}

	// Hosts with the same switches rail by rail are a pattern. The hosts of a pattern are misplaced if
	// another one with some of its switches has more than twice as many hosts; otherwise it is a unit.
	type pattern struct {
		on    []int32
		hosts []int
	}
	var patterns []*pattern
	byOn := map[string]*pattern{}
	for i, h := range hosts {
		on := make([]int32, len(h.Rails))
		for k, r := range h.Rails {
			on[k] = r.Switch
		}
		key := fmt.Sprint(on)
		p := byOn[key]
		if p == nil {
			p = &pattern{on: on}
			byOn[key], patterns = p, append(patterns, p)
		}
		p.hosts = append(p.hosts, i)
	}
	slices.SortStableFunc(patterns, func(a, b *pattern) int { return cmp.Compare(len(b.hosts), len(a.hosts)) })
	var units []*pattern
	for _, p := range patterns {
		var of *pattern
		best := 0
		for _, q := range units {
			if s := shared(p.on, q.on); s > best {
				of, best = q, s
			}
		}
		if of == nil || 2*len(p.hosts) >= len(of.hosts) {
			units = append(units, p)
			continue
		}
		for _, i := range p.hosts {
			u.Misplaced = append(u.Misplaced, compare(hosts[i].Name, p.on, of.on))
		}
	}
	u.Units = len(units)
	slices.SortFunc(u.Misplaced, func(a, b Misplaced) int { return Natural(a.Host, b.Host) })
	return u
}

// shared counts the switches of a that b has, on any rail.
func shared(a, b []int32) int {
	n := 0
	for _, s := range a {
		if slices.Contains(b, s) {
			n++
		}
	}
	return n
}

func compare(host string, is, should []int32) Misplaced {
	m := Misplaced{Host: host, Missing: max(0, len(should)-len(is))}
	if m.Missing > 0 {
		// Which adapter is missing is not known: rails are matched by their switches.
		for k, s := range is {
			if !slices.Contains(should, s) {
				m.Wrong, m.On, m.Should = append(m.Wrong, k), append(m.On, s), append(m.Should, -1)
			}
		}
		return m
	}
	for k, s := range is {
		want := int32(-1)
		if k < len(should) {
			want = should[k]
		}
		if s != want {
			m.Wrong, m.On, m.Should = append(m.Wrong, k), append(m.On, s), append(m.Should, want)
		}
	}
	if len(m.Wrong) == 2 && m.On[0] == m.Should[1] && m.On[1] == m.Should[0] {
		m.Swapped = [2]int{m.Wrong[0], m.Wrong[1]}
	}
	return m
}
