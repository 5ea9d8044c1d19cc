package show

import (
	"strconv"
	"strings"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/perf/findings"
	"heddle/subnet"
	"heddle/subnet/atlas"
	"heddle/subnet/past"
	"heddle/subnet/wiring"
)

// MapNode finds the node that a user names, by GUID or description; 0: there is none.
func MapNode(w *wiring.Wiring, name string) ib.GUID {
	if v, err := strconv.ParseUint(name, 0, 64); err == nil && strings.HasPrefix(name, "0x") {
		if w.Find(ib.GUID(v)) >= 0 {
			return ib.GUID(v)
		}
	}
	for i := range w.Nodes {
		if w.Nodes[i].Name == name {
			return w.Nodes[i].GUID
		}
	}
	return 0
}

// Marks are the ends of open findings; r may be nil.
func Marks(r *findings.Report) (list []atlas.Mark) {
	if r == nil {
		return nil
	}
	for i := range r.Open {
		f := &r.Open[i]
		for k, e := range f.Ends {
			if k > 0 && f.Ends[0].Port != 0 && len(f.Ends) == 2 {
				break // the other end of the cable
			}
			list = append(list, atlas.Mark{End: wiring.End{GUID: e.GUID, Port: e.Port}, State: f.Severity.String(), Text: f.Title})
		}
	}
	return list
}

// PortMarks are the links that are drained, isolated or being restored.
func PortMarks(list []subnet.PortAction) (out []atlas.Mark) {
	for i := range list {
		a := &list[i]
		state := map[subnet.PortActionKind]string{subnet.Drain: "drained", subnet.Isolate: "isolated", subnet.Restore: "restored"}[a.Kind]
		text := state
		if a.By != "" {
			text += " by " + a.By
		}
		if a.Why != "" {
			text += " (" + a.Why + ")"
		}
		if !a.Until.IsZero() {
			text += " until " + a.Until.UTC().Format(time.RFC3339)
		}
		out = append(out, atlas.Mark{End: wiring.End{GUID: a.Node, Port: a.Port}, State: state, Text: text, Since: a.Since.Unix(), Instead: true})
	}
	return out
}

// Places says where nodes are.
func Places(a *atlas.Atlas, w *wiring.Wiring, nodes []string) (list []api.Place) {
	for _, name := range nodes {
		if p, ok := a.Find(MapNode(w, name)); ok {
			list = append(list, api.Place{GUID: p.GUID.String(), Name: p.Name, Unit: p.Group.String(), X: p.X, Y: p.Y})
		}
	}
	return list
}

// History lists moments.
func History(list []past.Moment, more bool) api.History {
	out := api.History{Moments: []api.Moment{}, More: more}
	for i := range list {
		m := &list[i]
		out.Moments = append(out.Moments, api.Moment{
			Number: m.Number, Time: m.Time.UTC(), Generation: m.Gen, Whole: m.Whole, Gone: m.Gone, New: m.New, Other: m.Other, Text: m.Text,
		})
	}
	return out
}
