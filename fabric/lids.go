package fabric

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/ib"
)

// LIDError says that the LIDs of a fabric cannot be used.
type LIDError struct {
	LID    ib.LID // 0 if it is not about one LID
	A, B   string // the ports, B only for a duplicate
	Reason string
}

// Error names the LID, the ports and what to do.
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

// AssignLIDs gives LIDs to every end port of a fabric in ascending order of
// port GUID, from 1 upwards, one to port 0 of a switch and perPort to every
// cabled port of a CA or router. If perPort is a power of two up to 128 the
// port has an LMC and its base LID is aligned, as IBA §4.1.3 wants it;
// otherwise the LIDs follow one another as those of a vSwitch HCA's virtual
// functions do. Where the LIDs run out an error is returned and f is left as
// it was.
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
