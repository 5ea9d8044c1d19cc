package show

import (
	"cmp"
	"slices"

	"heddle/api"
	"heddle/perf"
)

// ranking is a list of ports, the highest value first, of which at most most are kept; 0: all.
type ranking struct {
	most int
	list []ranked
}

type ranked struct {
	i int32
	v float64
}

func compareRanked(a, b ranked) int { return cmp.Or(cmp.Compare(b.v, a.v), cmp.Compare(a.i, b.i)) }

// add adds a port. Twice as many as are kept wait to be sorted, so that a port costs little.
func (x *ranking) add(i int32, v float64) {
	x.list = append(x.list, ranked{i, v})
	if x.most > 0 && len(x.list)/2 >= x.most {
		x.cut()
	}
}

func (x *ranking) cut() {
	slices.SortFunc(x.list, compareRanked)
	if x.most > 0 && len(x.list) > x.most {
		x.list = x.list[:x.most]
	}
}

// uses are the rows.
func (x *ranking) uses(r *perf.Round) []api.PortUse {
	x.cut()
	rows := make([]api.PortUse, 0, len(x.list))
	for _, p := range x.list {
		rows = append(rows, portUse(r, p.i))
	}
	return rows
}

// Worst is /v1/worst: the limit worst ports in each order.
func Worst(r *perf.Round, limit int) api.Worst {
	out := api.Worst{Use: []api.PortUse{}, Wait: []api.PortUse{}, Discards: []api.PortUse{}, Errors: []api.PortUse{}}
	if r == nil {
		return out
	}
	st := &r.Status
	out.Round, out.Period, out.Polled, out.Agents, out.Silent = r.Number, r.Period.Seconds(), st.Ports, st.Agents, st.Silent
	for _, t := range []struct {
		by  string
		to  *[]api.PortUse
		any float64 // from which on a port is shown
	}{
		{"use", &out.Use, 0}, {"wait", &out.Wait, shownWait}, {"discards", &out.Discards, 0}, {"errors", &out.Errors, 0},
	} {
		by, list := orders[t.by], ranking{most: limit}
		for i := range int32(r.Len()) {
			if r.At(i) == 0 {
				continue
			}
			// Most ports are idle, or worse ones are known: they are passed over.
			if v := by(r, i); v > t.any {
				list.add(i, v)
			}
		}
		*t.to = list.uses(r)
	}
	return out
}

// shownWait is the least share of time for which a port is said to wait: below it is what a few
// packets that meet at a port make.
const shownWait = 1e-4
