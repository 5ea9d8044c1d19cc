package congestion

import (
	"fmt"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim/dataplane"
)

// A sweep over the fields: one at a time, then a small grid.

// variant is a set of settings with the value of the field that differs.
type variant struct {
	value any // number, or name of a table
	set   settings
}

// field is one that the sweep changes.
type field struct {
	name     string
	variants []variant
}

// fields are those of a sweep from base on.
func fields(base settings, n int) []field {
	var list []field
	add := func(name string, values []int, set func(s *settings, v int)) {
		f := field{name: name}
		for _, v := range values {
			s := base
			set(&s, v)
			f.variants = append(f.variants, variant{v, s})
		}
		list = append(list, f)
	}
	t := int(base.timer)
	add("Threshold", []int{0, 1, 2, 4, 8, 12, 14, 15}, func(s *settings, v int) { s.threshold = uint8(v) })
	add("Marking_Rate", []int{0, 1, 3, 10, 30, 100}, func(s *settings, v int) { s.rate = uint16(v) })
	add("CCTI_Increase", []int{1, 2, 4, 8, 16, 32}, func(s *settings, v int) { s.increase = uint8(v) })
	add("CCTI_Timer", []int{t / 8, t / 4, t / 2, t, 2 * t, 4 * t, 16 * t}, func(s *settings, v int) { s.timer = uint16(v) })
	f := field{name: "Congestion control table"}
	for _, x := range []table{simula(), mellanox(), straight(n), crowd(n), base.table.cut(31), base.table.cut(63)} {
		s := base
		s.table = x
		f.variants = append(f.variants, variant{x.name, s})
	}
	s := base
	s.bySL = true
	f.variants = append(f.variants, variant{base.table.name + ", by SL", s})
	all := field{"All fields", []variant{{"as in the parameters", base}, {"computed by the manager", settings{computed: true}}}}
	return append(list, f, all)
}

// pairBase is the base of the sweep on the test bed: the parameters of Gran et al. with
// a threshold at half of the buffer.
func pairBase() settings {
	s := gran()
	s.threshold = 8
	return s
}

// sweepRow is what a variant gave: at VoQ inputs, and at FIFO inputs.
type sweepRow struct {
	value any
	by    [2]swept
}

// swept are the figures of one run: Gb/s on the test bed, shares of a crowd.
type swept struct{ victim, hot, fair, settled float64 } // settled in ms, < 0: never

// inputs are the kinds of inputs, by sweepRow.by.
func inputs() []dataplane.Queueing { return []dataplane.Queueing{dataplane.VOQ, dataplane.FIFO} }

// sweepPairs runs variants on the test bed.
func sweepPairs(seed uint64, list []variant, span time.Duration) ([]sweepRow, error) {
	return sweep(list, func(set *settings, in dataplane.Queueing) (swept, error) {
		p := pairRun{1, set, in, span}
		o, err := p.run(seed)
		if err != nil {
			return swept{}, err
		}
		return swept{o.victim(), o.hot(), o.fair, o.settled.Seconds() * 1000}, nil
	})
}

// sweepCrowd runs variants on a crowd.
func sweepCrowd(seed uint64, t *bed.Tree, list []variant) ([]sweepRow, error) {
	return sweep(list, func(set *settings, in dataplane.Queueing) (swept, error) {
		c := crowdRun{tree: *t, scheme: scheme{1, false, false}, set: set, input: in}
		r, err := c.run(seed)
		if err != nil {
			return swept{}, err
		}
		return swept{r.victim, r.hot, r.fair, r.settled}, nil
	})
}

func sweep(list []variant, run func(set *settings, in dataplane.Queueing) (swept, error)) ([]sweepRow, error) {
	rows := make([]sweepRow, len(list))
	kinds := inputs()
	for i := range rows {
		rows[i].value = list[i].value
	}
	err := bed.Each(len(list)*len(kinds), func(i int) (err error) {
		k := i % len(kinds)
		rows[i/len(kinds)].by[k], err = run(&list[i/len(kinds)].set, kinds[k])
		return err
	}, nil)
	return rows, err
}

// sweepSection is a field as a table with a plot.
func sweepSection(title, unit, name string, rows []sweepRow) report.Section {
	s := report.Section{
		Title: fmt.Sprintf("%s: %s", title, name),
		Table: report.Table{Columns: []string{name}},
	}
	for _, in := range inputs() {
		for _, c := range []string{"victim, " + unit, "hot spot, " + unit, "fairness", "settled, ms"} {
			s.Table.Columns = append(s.Table.Columns, fmt.Sprintf("%v: %s", in, c))
		}
	}
	for _, r := range rows {
		row := []any{r.value}
		for _, x := range r.by {
			var settled any
			if x.settled >= 0 {
				settled = x.settled
			}
			row = append(row, x.victim, x.hot, x.fair, settled)
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	if _, number := rows[0].value.(int); number {
		s.Plots = []report.Plot{{
			Title: "Victim and hot spot by " + name, X: name, Y: unit, Columns: []int{1, 2, 5, 6},
		}}
	}
	return s
}

// grid crosses threshold, increase and timer.
func grid(base settings) (list []variant) {
	for _, th := range []uint8{2, 8, 14} {
		for _, inc := range []uint8{1, 4} {
			for _, t := range []uint16{base.timer / 4, base.timer, 4 * base.timer} {
				s := base
				s.threshold, s.increase, s.timer = th, inc, t
				list = append(list, variant{fmt.Sprintf("threshold %d, increase %d, timer %d", th, inc, t), s})
			}
		}
	}
	return list
}
