package layer

import "fmt"

// Audit counts all dependencies again and reports how the layers deviate; nil
// if they do not. It is for tests.
func (l *Layers) Audit() error {
	if len(l.cdg) != l.Used {
		return fmt.Errorf("%d layers are recorded as %d", len(l.cdg), l.Used)
	}
	n := &Layers{p: l.p, SL: l.SL, w: &search{}}
	for range l.cdg {
		n.grow()
	}
	n.eachUnit(func(src, class int32) {
		n.unit(src, class)
		n.addUnit(n.cdg[n.SL[n.at(src, class)]])
	})
	for k, d := range n.cdg {
		was := l.cdg[k]
		for c1 := range int32(l.p.Graph.Channels()) {
			v := l.p.Graph.To[c1]
			for c2 := l.p.Graph.Off[v]; c2 < l.p.Graph.Off[v+1]; c2++ {
				e := l.p.Graph.edge(c1, c2)
				switch {
				case d.count[e] != was.count[e]:
					return fmt.Errorf("layer %d: %d paths from channel %d to %d, counted %d", k, d.count[e], c1, c2, was.count[e])
				case d.count[e] > 0 && was.ord[c1] >= was.ord[c2]:
					return fmt.Errorf("layer %d: channel %d at place %d waits for %d at place %d", k, c1, was.ord[c1], c2, was.ord[c2])
				}
			}
		}
		for i := range d.succ {
			if d.succ[i] != was.succ[i] {
				return fmt.Errorf("layer %d: followers differ", k)
			}
		}
		for i := range d.pred {
			if d.pred[i] != was.pred[i] {
				return fmt.Errorf("layer %d: predecessors differ", k)
			}
		}
	}
	return nil
}
