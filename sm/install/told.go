package install

import (
	"bytes"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Told are the tables that hosts are told of. While new service levels could meet entries that
// they are not proved on, these are the tables before. A LID that moved since these were made
// leads nowhere in them: its path is broken until it is written, and does not end at another port.
func (x *Installer) Told() *route.Tables {
	d, t := &x.change, x.wanted
	if r := d.result; r != nil && !d.told && r.Plan != nil && r.Plan.NeedsRepath && r.Installed != nil {
		t = r.Installed
	}
	if s := x.served; s != nil && s.Tables == t && s.Graph == x.Fabric.Graph {
		return t
	}
	return x.fitted.fit(t, x.Fabric.Graph)
}

// fitted are tables and what of them fits a graph: the last that Told made.
type fitted struct {
	graph    *fabric.Graph
	of, fits *route.Tables
}

// fit withholds the LIDs that tables send to others than their owners in a graph.
func (f *fitted) fit(t *route.Tables, g *fabric.Graph) *route.Tables {
	if t == nil || g == nil || t.Switches() != len(g.Switches) {
		return t
	}
	if f.of == t && f.graph == g {
		return f.fits
	}
	*f = fitted{graph: g, of: t, fits: t}
	var cols []route.Column
	for l, e := range g.LIDOwner {
		if e == fabric.NoLID {
			continue
		}
		at := &g.EndPorts[e]
		if at.Switch < 0 {
			continue
		}
		if p := t.Entry(at.Switch, ib.LID(l)); p != at.Port && p != route.Drop {
			cols = append(cols, route.Column{LID: ib.LID(l), Entries: bytes.Repeat([]byte{route.Drop}, len(g.Switches))})
		}
	}
	if len(cols) > 0 {
		f.fits = t.WithColumns(0, cols)
	}
	return f.fits
}
