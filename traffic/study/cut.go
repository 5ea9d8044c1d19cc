package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/mcast"
)

// find is FindPort.
func (n *namer) find(text string) (fabric.Ref, error) {
	none := fabric.NoRef()
	at := strings.LastIndexByte(text, ':')
	if at < 1 {
		return none, wrong("cut", "%q: want NODE:PORT", text)
	}
	name := text[:at]
	port, err := strconv.ParseUint(text[at+1:], 10, 8)
	if err != nil || port == 0 {
		return none, wrong("cut", "%q: want NODE:PORT with a port from 1 to 254", text)
	}
	node := n.f.Find(name)
	if node < 0 {
		if g, err := ib.ParseGUID(name); err == nil {
			node = n.f.FindGUID(g)
		}
	}
	if node < 0 {
		return none, wrong("cut", "%q: no node has the name, ID or GUID %q; names are such as %q", text, name, n.node(0))
	}
	nd := &n.f.Nodes[node]
	if nd.ID != name && n.count[name] > 1 {
		return none, wrong("cut", "%q: %d nodes have the name %q; use an ID such as %q", text, n.count[name], name, nd.ID)
	}
	if int(port) > nd.NumPorts {
		return none, wrong("cut", "%q: %q has ports 1 to %d", text, name, nd.NumPorts)
	}
	r := fabric.Ref{Node: int32(node), Port: uint8(port)}
	if !n.f.Port(r).Cabled() {
		return none, wrong("cut", "%q: the port has no cable", text)
	}
	return r, nil
}

// without is a state after the loss of cables: its tables are those that the
// engine makes of the old ones, as the manager does.
func (q *Question) without(s *state, engines []route.Engine, cuts []fabric.Ref) (*state, string, error) {
	var loss fabric.Loss
	sw := q.Fabric.SwitchNodes()
	index := make(map[int32]int32, len(sw))
	for i, n := range sw {
		index[n] = int32(i)
	}
	for _, r := range cuts {
		for _, end := range []fabric.Ref{r, q.Fabric.Port(r).Peer} {
			if i, ok := index[end.Node]; ok {
				if c := s.g.PortChannel[i][end.Port]; c >= 0 {
					loss.Channels = append(loss.Channels, c)
				}
				continue
			}
			for _, h := range q.hosts {
				if h.Port == end {
					loss.EndPorts = append(loss.EndPorts, h.EndPort)
				}
			}
		}
	}
	g := s.g.Without(loss)
	t, how, err := q.repair(s, g, engines)
	if err != nil {
		return nil, "", err
	}
	out := &state{g: g, t: t, cuts: cuts}
	q.addGroups(out, s)
	return out, how, nil
}

// repair computes tables for g from those of s.
func (q *Question) repair(s *state, g *fabric.Graph, engines []route.Engine) (*route.Tables, string, error) {
	from := route.Solution{Graph: s.g, Tables: s.t}
	var failed []string
	for _, e := range engines {
		if e.Name() != s.t.Engine {
			continue
		}
		o := q.Options
		if u, ok := e.(route.Updater); ok {
			t, err := u.Update(from, g, fabric.Diff(s.g, g), o)
			if err == nil {
				return t, "repaired by " + e.Name(), nil
			}
			failed = append(failed, route.Refusal(e.Name(), err))
		}
	}
	for _, e := range engines {
		o := q.Options
		if e.Name() == s.t.Engine {
			o.Previous = s.t.Remap(s.g, g)
		}
		t, err := e.Compute(g, o)
		if err == nil {
			return t, "computed anew by " + e.Name(), nil
		}
		failed = append(failed, route.Refusal(e.Name(), err))
	}
	return nil, "", wrong("cut", "no engine has routes after the loss: %s", strings.Join(failed, "; "))
}

// firstGroup is the MLID of the first pattern, if it is a broadcast.
const firstGroup = ib.LID(0xC010)

// groupOf is the MLID of the group of a pattern.
func groupOf(spec int) ib.LID { return firstGroup + ib.LID(spec) }

// addGroups gives the tables trees for broadcasts.
func (q *Question) addGroups(s, before *state) {
	demands, err := q.demands(q.First)
	if err != nil {
		return // Check has reported it
	}
	var groups []route.Group
	for i, d := range demands {
		if d.Members == nil {
			continue
		}
		g := route.Group{MLID: groupOf(i), SL: ib.SL(max(d.Spec.SL, 0))}
		for _, m := range d.Members {
			if l := q.hosts[m].LID; int(l) < len(s.g.LIDOwner) && s.g.LIDOwner[l] != fabric.NoLID {
				g.Members = append(g.Members, s.g.LIDOwner[l])
			}
		}
		slices.Sort(g.Members)
		groups = append(groups, g)
	}
	if len(groups) == 0 {
		return
	}
	o := mcast.Options{Workers: q.Options.Workers}
	if before != nil {
		o.Previous, o.PreviousGraph = before.t.Multicast, before.g
	}
	s.t = mcast.Join(s.g, s.t, mcast.Build(s.g, s.t, groups, o))
}

// groups are the MLIDs of the patterns.
func (q *Question) groups() (out []ib.LID) {
	for i := range q.Specs {
		out = append(out, groupOf(i))
	}
	return out
}

// engines are those of the choice with a name.
func (q *Question) engines(name string) []route.Engine {
	for _, c := range q.Choices {
		if name == c.Name || strings.HasPrefix(name, c.Name+" (") {
			return c.Engines
		}
	}
	return nil
}

// cut answers for the loss of Cuts.
func (r *runner) cut(s *state, e *Engine) error {
	q := r.q
	if r.ctx.Err() != nil {
		return nil
	}
	x := &Cut{}
	for _, c := range q.Cuts {
		x.Cables = append(x.Cables, q.cableName(c))
	}
	e.Cut = x
	after, how, err := q.without(s, q.engines(e.Name), q.Cuts)
	if err != nil {
		x.Refused = strings.TrimPrefix(err.Error(), "study: ")
		return nil
	}
	x.How = how
	v := check.Verify(after.g, after.t, check.Options{Workers: q.Options.Workers})
	if err := v.Err(); err != nil {
		x.Problem = err.Error()
	}
	x.Disconnected = v.DisconnectedPairs
	for _, c := range q.Cuts {
		x.CutOff = append(x.CutOff, q.cutOff(after.g, c, q.Fabric.Port(c).Peer)...)
	}
	slices.Sort(x.CutOff)
	x.CutOff = slices.Compact(x.CutOff)
	if !q.Flow && q.Packets.CutAt > 0 {
		after = &state{g: s.g, t: s.t, later: after, choice: Choice{Name: e.Name, Engines: q.engines(e.Name)}}
		x.marks = []float64{micros(q.Packets.CutAt)}
		if q.Packets.Managed == nil {
			x.marks = append(x.marks, micros(q.Packets.CutAt+q.Packets.RepairTime))
		} else {
			x.How = "repaired by the simulated manager"
		}
	}
	sub := &Engine{Name: e.Name}
	r.what = e.Name + " after the cut"
	if err := r.points(after, sub); err != nil {
		return err
	}
	x.Points, x.Hottest, x.series = sub.Points, sub.Hottest, sub.series
	for _, p := range x.Points {
		if p.Packets != nil && p.Packets.Losses != nil && p.Packets.Losses.AtEnd && q.Packets.Managed != nil {
			x.How = "not yet repaired by the simulated manager when the run ended"
		}
	}
	return nil
}

// cableName names a cable by both ends.
func (q *Question) cableName(r fabric.Ref) string {
	return fmt.Sprintf("%s - %s", q.name.port(r), q.name.port(q.Fabric.Port(r).Peer))
}
