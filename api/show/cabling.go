package show

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/fabric/cabling"
	"heddle/ib"
	"heddle/mad"
	"heddle/perf/findings"
	"heddle/subnet"
)

// CheckCabling compares a plan with a snapshot. names are those of the node-name map.
func CheckCabling(p *cabling.Plan, s *subnet.Snapshot, names map[ib.GUID]string, partial bool) (api.Cabling, error) {
	if s == nil || s.Self == subnet.NoRef() {
		return api.Cabling{}, errUnread
	}
	o := CablingOptions(s)
	o.Names, o.Partial = names, partial
	r := cabling.Check(p, s.Fabric(), o)
	out := Cabling(r)
	out.Generation = s.Gen
	return out, nil
}

// CablingOptions are those of a comparison with s.Fabric().
func CablingOptions(s *subnet.Snapshot) cabling.Options {
	return cabling.Options{
		Able: func(at fabric.Ref) (ib.LinkWidth, ib.LinkSpeed) {
			return s.Able(subnet.Ref{Node: at.Node, Port: at.Port})
		},
		Off: func(at fabric.Ref) bool {
			p := s.Port(subnet.Ref{Node: at.Node, Port: at.Port})
			return p != nil && p.Known && p.Info.PortPhysicalState == ib.PhysDisabled
		},
	}
}

// Cabling is a result as the API has it.
func Cabling(r *cabling.Result) api.Cabling {
	out := api.Cabling{Planned: r.Planned, Found: r.Found, Right: r.Right, Off: r.Off, Findings: []api.CablingFault{}}
	for i := range r.Findings {
		out.Findings = append(out.Findings, cablingFault(&r.Findings[i]))
	}
	return out
}

func cablingFault(x *cabling.Finding) api.CablingFault {
	f := api.CablingFault{Kind: x.Kind.String(), Text: x.Text, Do: x.Do, Planned: cables(x.Planned), Found: cables(x.Found)}
	if x.Node != (cabling.End{}) {
		e := cablingEnd(x.Node)
		f.Node = &e
	}
	return f
}

// CablingState is the body of /v1/cabling. A nil status: nothing was compared.
func CablingState(st *cabling.Status) api.CablingState {
	out := api.CablingState{Counts: map[string]int{}, Open: []api.CablingEntry{}, Closed: []api.CablingEntry{}}
	for k := range cabling.NumKinds {
		out.Counts[k.String()] = 0
	}
	if st == nil {
		return out
	}
	at := st.At.UTC()
	out.Plan, out.Compared, out.Planned, out.Found, out.Right, out.Off, out.Missed = st.Name, &at, st.Planned, st.Found, st.Right, st.Off, st.Missed
	for k, n := range st.Count {
		out.Counts[cabling.Kind(k).String()] = n
	}
	for i := range st.Open {
		out.Open = append(out.Open, cablingEntry(&st.Open[i]))
	}
	for i := range st.Closed {
		out.Closed = append(out.Closed, cablingEntry(&st.Closed[i]))
	}
	return out
}

func cablingEntry(e *cabling.Entry) api.CablingEntry {
	x := api.CablingEntry{CablingFault: cablingFault(&e.Finding), ID: e.ID, Opened: e.Opened.UTC()}
	if !e.Closed.IsZero() {
		t := e.Closed.UTC()
		x.Closed = &t
	}
	return x
}

// cablingRule is before the kind of a difference in the name of the rule of its finding.
const cablingRule = "cabling_"

// most ends of a finding.
const most = 16

// CablingFinding is a difference as a finding. began is when the manager's time was 0.
func CablingFinding(e *cabling.Entry, began time.Time) findings.Finding {
	x := &e.Finding
	at := func(t time.Time) mad.Time { return mad.Time(t.Sub(began)) }
	f := findings.Finding{
		ID: e.ID, Rule: cablingRule + x.Kind.String(), Severity: findings.Warning, Title: x.Text, Do: x.Do, Since: at(e.Opened), Opened: at(e.Opened),
	}
	if x.Kind == cabling.ExtraNode || x.Kind == cabling.Unclear {
		f.Severity = findings.Info
	}
	if !e.Closed.IsZero() {
		f.Closed, f.Why = at(e.Closed), findings.Healed
	}
	for _, end := range x.Ends() {
		if len(f.Ends) == most {
			f.More++
			continue
		}
		f.Ends = append(f.Ends, findings.End{GUID: end.GUID, Port: end.Port, Desc: end.Name})
	}
	return f
}

// WithCables adds what differs from a plan to a report. Both may be nil.
func WithCables(r *findings.Report, st *cabling.Status, began time.Time) *findings.Report {
	if st == nil {
		return r
	}
	out := findings.Report{}
	if r != nil {
		out = *r
	}
	out.Missed += st.Missed
	join := func(list []findings.Finding, more []cabling.Entry) []findings.Finding {
		list = slices.Clone(list)
		for i := range more {
			list = append(list, CablingFinding(&more[i], began))
		}
		return list
	}
	out.Open, out.Closed = join(out.Open, st.Open), join(out.Closed, st.Closed)
	slices.SortFunc(out.Open, func(a, b findings.Finding) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(out.Closed, func(a, b findings.Finding) int { return cmp.Compare(a.Closed, b.Closed) })
	return &out
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

// CablingText is a difference in a line, as events tell it.
func CablingText(f *findings.Finding) string {
	text := fmt.Sprintf("finding %d, %s: %s", f.ID, f.Rule, f.Title)
	if f.Closed != 0 {
		text += "; ended"
	}
	return text
}
