package fabric

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/ib"
)

// LIDError reports that the LIDs of a fabric are invalid.
type LIDError struct {
	LID    ib.LID // 0 if it does not concern one LID
	A, B   string // the ports, B only for a duplicate
	Reason string
}

// Error names the LID, the ports and the remedy.
func (e *LIDError) Error() string {
	s := "fabric: "
	if e.LID != 0 {
		s += fmt.Sprintf("LID %d ", e.LID)
	}
	if e.A != "" {
		s += "of " + e.A
	}
	if e.B != "" {
		s += " and of " + e.B
	}
	return s + ": " + e.Reason
}

// LIDGrant gives a LID to an end port of a Graph, by its index.
type LIDGrant struct {
	LID     ib.LID
	EndPort int32
}

// WithLIDs is the graph with additional LIDs: those of virtual functions or
// virtual ports, each at the CA port that they share. LIDs may have any order
// and values. Adding or removing them changes nothing else, so Diff names only
// them, and unchanged parts are shared with g. It fails with a *LIDError if a
// LID is in use or not unicast, or if the port cannot have more: a switch's, or
// one without a LID of its own.
func (g *Graph) WithLIDs(more []LIDGrant) (*Graph, error) {
	h := *g
	h.LIDOwner = slices.Clone(g.LIDOwner)
	err := h.grant(more, func(e int32) string {
		return fmt.Sprintf("port %v of node %v", h.EndPorts[e].GUID, h.EndPorts[e].NodeGUID)
	})
	if err != nil {
		return nil, err
	}
	return &h, nil
}

// SwitchByGUID returns the index of the switch with a node GUID, and whether it
// exists.
func (g *Graph) SwitchByGUID(guid ib.GUID) (int32, bool) {
	i, ok := slices.BinarySearchFunc(g.Switches, guid, func(s SwitchNode, guid ib.GUID) int { return cmp.Compare(s.GUID, guid) })
	return int32(i), ok
}

// grant is own for LIDs outside a port's range.
func (g *Graph) grant(more []LIDGrant, name func(e int32) string) error {
	for _, m := range more {
		if m.EndPort < 0 || int(m.EndPort) >= len(g.EndPorts) {
			return &LIDError{LID: m.LID, A: fmt.Sprintf("end port %d", m.EndPort), Reason: fmt.Sprintf("there are %d end ports", len(g.EndPorts))}
		}
		switch e := &g.EndPorts[m.EndPort]; {
		case e.Type == ib.NodeSwitch:
			return &LIDError{LID: m.LID, A: name(m.EndPort), Reason: "port 0 of a switch has its base LID and no other"}
		case e.LID == 0:
			return &LIDError{LID: m.LID, A: name(m.EndPort), Reason: "the port has no base LID; give it one first"}
		case !m.LID.IsUnicast():
			return &LIDError{LID: m.LID, A: name(m.EndPort), Reason: fmt.Sprintf("it is not in the unicast range 1–%d", ib.LIDMaxUnicast)}
		}
	}
	return g.own(more, name)
}

// own enters the owners of LIDs, all unicast. g.LIDOwner must be g's alone.
func (g *Graph) own(grants []LIDGrant, name func(e int32) string) error {
	for _, l := range grants {
		g.TopLID = max(g.TopLID, l.LID)
	}
	for len(g.LIDOwner) <= int(g.TopLID) {
		g.LIDOwner = append(g.LIDOwner, NoLID)
	}
	for _, l := range grants {
		if was := g.LIDOwner[l.LID]; was != NoLID {
			return &LIDError{LID: l.LID, A: name(was), B: name(l.EndPort), Reason: "two ports cannot have one LID; change one of them"}
		}
		g.LIDOwner[l.LID] = l.EndPort
	}
	return nil
}

// AssignLIDs assigns LIDs to every end port of a fabric in ascending order of
// port GUID, from 1 up: one to port 0 of a switch and perPort to every
// connected port of a CA or router. If perPort is a power of two up to 128 the
// port has an LMC and its base LID is aligned, as IBA §4.1.3 requires;
// otherwise the LIDs are consecutive, like those of a vSwitch HCA's virtual
// functions. If the LIDs run out it returns an error and does not change f.
func AssignLIDs(f *Fabric, perPort int) error {
	if perPort < 1 || perPort > int(ib.LIDMaxUnicast) {
		return &LIDError{Reason: fmt.Sprintf("%d LIDs a port were asked for; use 1 to %d", perPort, ib.LIDMaxUnicast)}
	}
	lmc := uint8(0)
	for 1<<lmc < perPort && lmc < 7 {
		lmc++
	}
	count := uint16(0)
	if 1<<lmc != perPort {
		lmc, count = 0, uint16(perPort)
	}
	ends := endPorts(f)
	type grant struct {
		lid ib.LID
		n   uint16
		lmc uint8
	}
	grants := make([]grant, len(ends))
	next := 1
	for i, e := range ends {
		g, size := grant{}, 1
		if !f.Nodes[e.Node].IsSwitch() {
			g.lmc, g.n, size = lmc, count, perPort
			next = (next + 1<<lmc - 1) &^ (1<<lmc - 1)
		}
		if next+size-1 > int(ib.LIDMaxUnicast) {
			return &LIDError{A: f.PortName(e), Reason: fmt.Sprintf("no LID is left: %d of %d end ports have LIDs, %d for each CA port; use fewer a port or a smaller fabric", i, len(ends), perPort)}
		}
		g.lid = ib.LID(next)
		next += size
		grants[i] = g
	}
	for i, e := range ends {
		p := &f.Nodes[e.Node].Ports[e.Port]
		p.LID, p.LMC, p.NumLIDs = grants[i].lid, grants[i].lmc, grants[i].n
	}
	return nil
}

// endPorts lists the ports that can have LIDs by ascending GUID.
func endPorts(f *Fabric) []Ref {
	ends := make([]Ref, 0, len(f.Nodes)+16)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.IsSwitch() {
			ends = append(ends, Ref{int32(i), 0})
			continue
		}
		for p := 1; p < len(n.Ports); p++ {
			if n.Ports[p].Cabled() {
				ends = append(ends, Ref{int32(i), uint8(p)})
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b Ref) int { return cmp.Compare(f.Port(a).GUID, f.Port(b).GUID) })
	return ends
}
