package check

import (
	"fmt"

	"heddle/fabric"
	"heddle/route"
)

// malformed says why tables cannot be read at all: too few rows, numbers out of
// range; "" if they can.
func malformed(g *fabric.Graph, t *route.Tables) string {
	n := len(g.Switches)
	if t.Switches() != n {
		return fmt.Sprintf("%d rows for %d switches", t.Switches(), n)
	}
	if t.SL != nil {
		if m := badLevels(n, t); m != "" {
			return m
		}
	}
	if t.Lanes != nil {
		if m := badLanes(g, t.Lanes); m != "" {
			return m
		}
	}
	if t.Multicast != nil {
		return badTrees(n, t.Multicast)
	}
	return ""
}

func badLevels(n int, t *route.Tables) string {
	if t.NumClasses < 0 || len(t.SL) != n*t.NumClasses {
		return fmt.Sprintf("%d service levels for %d switches and %d classes of LIDs", len(t.SL), n, t.NumClasses)
	}
	if len(t.Class) <= int(t.TopLID) {
		return fmt.Sprintf("classes for %d LIDs, with LID %d the highest", len(t.Class), t.TopLID)
	}
	for l, c := range t.Class {
		if c < -1 || int(c) >= t.NumClasses {
			return fmt.Sprintf("LID %d is of class %d of %d", l, c, t.NumClasses)
		}
	}
	for i, sl := range t.SL {
		if sl > 15 {
			return fmt.Sprintf("service level %d from switch %d to class %d", sl, i/t.NumClasses, i%t.NumClasses)
		}
	}
	return ""
}

func badLanes(g *fabric.Graph, l *route.Lanes) string {
	n := len(g.Switches)
	if len(l.Index) != n || len(l.Stride) != n {
		return fmt.Sprintf("SL-to-VL tables of %d switches with %d strides for %d switches", len(l.Index), len(l.Stride), n)
	}
	most := make([]int, n) // highest port
	for s := range most {
		most[s] = int(g.Switches[s].NumPorts)
	}
	for c := range g.Channels {
		k := &g.Channels[c]
		most[k.From] = max(most[k.From], int(k.OutPort))
		most[k.To] = max(most[k.To], int(k.InPort))
	}
	for e := range g.EndPorts {
		if p := &g.EndPorts[e]; p.Switch >= 0 {
			most[p.Switch] = max(most[p.Switch], int(p.Port))
		}
	}
	for s := range n {
		k := int(l.Stride[s])
		if k == 0 && len(l.Index[s]) == 0 {
			continue // a switch without any
		}
		if k <= most[s] || len(l.Index[s]) < k*k {
			return fmt.Sprintf("SL-to-VL tables of switch %d: %d entries with stride %d for %d ports", s, len(l.Index[s]), k, most[s])
		}
		for i, x := range l.Index[s] {
			if int(x) >= len(l.Rows) && x != route.Modulo {
				return fmt.Sprintf("SL-to-VL table of switch %d from port %d to port %d is number %d of %d", s, i/k, i%k, x, len(l.Rows))
			}
		}
	}
	for i := range l.Rows {
		for sl, v := range l.Rows[i] {
			if v > 15 {
				return fmt.Sprintf("SL-to-VL table %d gives SL %d lane %d", i, sl, v)
			}
		}
	}
	return ""
}
