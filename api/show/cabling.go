package show

import (
	"heddle/api"
	"heddle/fabric"
	"heddle/fabric/cabling"
	"heddle/ib"
	"heddle/subnet"
)

// CheckCabling compares a plan with a snapshot. names are those of the node-name map.
func CheckCabling(p *cabling.Plan, s *subnet.Snapshot, names map[ib.GUID]string, partial bool) (api.Cabling, error) {
	if s == nil || s.Self == subnet.NoRef() {
		return api.Cabling{}, errUnread
	}
	r := cabling.Check(p, s.Fabric(), cabling.Options{Names: names, Partial: partial, Able: func(at fabric.Ref) (ib.LinkWidth, ib.LinkSpeed) {
		return s.Able(subnet.Ref{Node: at.Node, Port: at.Port})
	}})
	out := Cabling(r)
	out.Generation = s.Gen
	return out, nil
}

// Cabling is a result as the API has it.
func Cabling(r *cabling.Result) api.Cabling {
	out := api.Cabling{Planned: r.Planned, Found: r.Found, Right: r.Right, Findings: []api.CablingFault{}}
	for i := range r.Findings {
		x := &r.Findings[i]
		f := api.CablingFault{Kind: x.Kind.String(), Text: x.Text, Do: x.Do, Planned: cables(x.Planned), Found: cables(x.Found)}
		if x.Node != (cabling.End{}) {
			e := cablingEnd(x.Node)
			f.Node = &e
		}
		out.Findings = append(out.Findings, f)
	}
	return out
}

func cables(list []cabling.Pair) (out []api.CablingCable) {
	for _, x := range list {
		out = append(out, api.CablingCable{A: cablingEnd(x.A), B: cablingEnd(x.B)})
	}
	return out
}

func cablingEnd(e cabling.End) api.CablingEnd {
	x := api.CablingEnd{Name: e.Name, Port: int(e.Port)}
	if e.GUID != 0 {
		x.GUID = e.GUID.String()
	}
	return x
}
