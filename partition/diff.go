package partition

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
)

// Diff lists what differs between two policies, ascending by P_Key: "- " before lines of old that p
// does not have, "+ " before lines of p that old does not have. Each line names its partition. An
// order of members that alone differs has one line.
func Diff(old, p *Policy) (list []string) {
	a, b := old.Partitions, p.Partitions
	for len(a) > 0 || len(b) > 0 {
		var before, after []string
		var x, y *Partition
		first := len(b) == 0 || len(a) > 0 && a[0].PKey <= b[0].PKey
		second := len(a) == 0 || len(b) > 0 && b[0].PKey <= a[0].PKey
		if first {
			x, a = &a[0], a[1:]
		}
		if second {
			y, b = &b[0], b[1:]
		}
		if x != nil && y != nil && EqualPartitions([]Partition{*x}, []Partition{*y}) {
			continue
		}
		before, after = x.lines(), y.lines()
		gone, come := missing(before, after), missing(after, before)
		for _, l := range gone {
			list = append(list, "- "+l)
		}
		for _, l := range come {
			list = append(list, "+ "+l)
		}
		if len(gone)+len(come) == 0 {
			list = append(list, fmt.Sprintf("+ %s: its members in another order", y.title()))
		}
	}
	return list
}

// title names a partition in a line.
func (q *Partition) title() string { return fmt.Sprintf("%s=%v", q.Name, q.PKey) }

// lines is a partition in lines of its own; none if q is nil.
func (q *Partition) lines() (list []string) {
	if q == nil {
		return nil
	}
	head := q.title()
	if q.HasSL {
		head += fmt.Sprintf(", sl=%d", q.SL)
	}
	list = append(list, head)
	for i := range q.Groups {
		g := &q.Groups[i]
		var s strings.Builder
		b := bufio.NewWriter(&s)
		g.format(b, ", ", &Group{MTU: 4, Rate: ib.Rate10})
		_ = b.Flush() // a Builder takes everything
		sl := ""
		if g.SL != 0 {
			sl = fmt.Sprintf(", sl=%d", g.SL)
		}
		list = append(list, fmt.Sprintf("%s: mgid=%v%s%s", q.title(), g.MGID, s.String(), sl))
	}
	for _, m := range q.Members {
		l := fmt.Sprintf("%s: %v=%v", q.title(), m, m.As)
		if q.Index0 && !m.AnyIndex {
			l += ", indx0"
		}
		list = append(list, l)
	}
	return list
}

// missing are the lines of a that b does not have, in their order.
func missing(a, b []string) (list []string) {
	has := make(map[string]int, len(b))
	for _, l := range b {
		has[l]++
	}
	for _, l := range a {
		if has[l]--; has[l] < 0 {
			list = append(list, l)
		}
	}
	return slices.Clip(list)
}
