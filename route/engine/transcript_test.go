package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/all"
)

// TestTranscripts runs the stories of testdata, one file for each family of
// engines. Commands:
//
//	fabric KIND PARAMETERS…                         a fabric as 'heddle topo gen' makes it; shows LIDs and cables
//	compute ENGINE [max-vls=N] [roots=NODE,NODE]    tables from scratch
//	cut NODE:PORT                                   a cable is pulled
//	update                                          the engine updates its last tables; shows changed entries
//
// A table has a row for each switch and a column for each LID: the port that a
// packet to the LID leaves by, 0 at the switch itself, - if it is dropped. Service
// levels are shown in the same form, by source switch.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			text, err := s.run(t, d)
			if err != nil {
				return text + "refused: " + err.Error() + "\n"
			}
			return text
		})
	})
}

// story is a fabric, an engine and its last tables.
type story struct {
	f      *fabric.Fabric
	down   []fabric.Ref // ends of cables that were pulled
	g      *fabric.Graph
	engine route.Engine
	o      route.Options
	last   route.Solution
}

func (s *story) run(t *testing.T, d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "fabric":
		var words []string
		for _, a := range d.CmdArgs {
			words = append(words, a.String())
		}
		f, err := fabrictest.Generate(words[0], words[1:], 1)
		if err == nil {
			err = fabric.AssignLIDs(f, 1)
		}
		if err != nil {
			return "", err
		}
		s.f, s.down = f, nil
		s.graph(t)
		return s.describe(), nil
	case "compute":
		i := slices.IndexFunc(all.Engines(), func(e route.Engine) bool { return e.Name() == d.CmdArgs[0].Key })
		s.engine, s.o = all.Engines()[i], route.Options{}
		d.MaybeScanArgs(t, "max-vls", &s.o.MaxVLs)
		if a, ok := d.Arg("roots"); ok {
			for _, name := range a.Vals {
				s.o.Roots = append(s.o.Roots, s.f.Nodes[s.f.Find(name)].GUID)
			}
		}
		tb, err := s.engine.Compute(s.g, s.o)
		if err != nil {
			return "", err
		}
		s.last = route.Solution{Graph: s.g, Tables: tb}
		return s.tables(tb) + s.verdict(tb), nil
	case "cut":
		node, port, _ := strings.Cut(d.CmdArgs[0].Key, ":")
		p, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		i := s.f.Find(node)
		far := s.f.Nodes[i].Ports[p].Peer
		s.down = append(s.down, fabric.Ref{Node: int32(i), Port: uint8(p)}, far)
		s.graph(t)
		return fmt.Sprintf("%s:%d and %s:%d have no cable\n", node, p, s.f.Nodes[far.Node].ID, far.Port), nil
	case "update":
		delta := fabric.Diff(s.last.Graph, s.g)
		tb, err := s.engine.(route.Updater).Update(s.last, s.g, delta, s.o)
		if err != nil {
			return "", err
		}
		text := s.changes(tb, delta) + s.verdict(tb)
		s.last = route.Solution{Graph: s.g, Tables: tb}
		return text, nil
	}
	t.Fatalf("what is %s?", d.Cmd)
	return "", nil
}

func (s *story) graph(t *testing.T) {
	t.Helper()
	g, err := s.f.Graph(fabric.GraphOptions{VLs: 8, Up: func(r fabric.Ref) bool { return !slices.Contains(s.down, r) }})
	if err != nil {
		t.Fatal(err)
	}
	s.g = g
}

func (s *story) name(g ib.GUID) string {
	return s.f.Nodes[slices.IndexFunc(s.f.Nodes, func(n fabric.Node) bool { return n.GUID == g })].ID
}

// describe lists LIDs, and the cables of each switch by port.
func (s *story) describe() string {
	var b strings.Builder
	var lids []string
	for l, e := range s.g.LIDOwner {
		if e != fabric.NoLID {
			lids = append(lids, fmt.Sprintf("%d %s", l, s.name(s.g.EndPorts[e].NodeGUID)))
		}
	}
	fmt.Fprintf(&b, "LIDs: %s\n", strings.Join(lids, ", "))
	for i := range s.f.Nodes {
		n := &s.f.Nodes[i]
		if !n.IsSwitch() {
			continue
		}
		var cables []string
		for p := 1; p < len(n.Ports); p++ {
			if peer := n.Ports[p].Peer; peer.Valid() {
				cables = append(cables, fmt.Sprintf("%d %s", p, s.f.Nodes[peer.Node].ID))
			}
		}
		fmt.Fprintf(&b, "%s: %s\n", n.ID, strings.Join(cables, ", "))
	}
	return b.String()
}

// matrix has a row for each switch and a column for each LID.
func (s *story) matrix(title string, cell func(sw int32, l ib.LID) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s", title)
	for l := ib.LID(1); l <= s.g.TopLID; l++ {
		fmt.Fprintf(&b, "%3d", l)
	}
	b.WriteByte('\n')
	for sw := range s.g.Switches {
		fmt.Fprintf(&b, "%-12s", s.name(s.g.Switches[sw].GUID))
		for l := ib.LID(1); l <= s.g.TopLID; l++ {
			fmt.Fprintf(&b, "%3s", cell(int32(sw), l))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func entry(e byte) string {
	if e == route.Drop {
		return "-"
	}
	return strconv.Itoa(int(e))
}

func (s *story) tables(tb *route.Tables) string {
	text := s.matrix("ports to", func(sw int32, l ib.LID) string { return entry(tb.Entry(sw, l)) })
	if tb.SL != nil {
		text += s.matrix("levels to", func(sw int32, l ib.LID) string { return strconv.Itoa(int(tb.PathSL(sw, l))) })
	}
	if tb.Note != "" {
		text += "note: " + tb.Note + "\n"
	}
	return text
}

// changes lists the entries and levels that differ from the last tables.
func (s *story) changes(tb *route.Tables, d *fabric.Delta) string {
	var b strings.Builder
	for sw := range int32(len(s.g.Switches)) {
		was := d.Switch[sw]
		for l := ib.LID(1); l <= s.g.TopLID; l++ {
			if o, n := s.last.Tables.Entry(was, l), tb.Entry(sw, l); o != n {
				fmt.Fprintf(&b, "%s to %d: port %s, was %s\n", s.name(s.g.Switches[sw].GUID), l, entry(n), entry(o))
			}
			if o, n := s.last.Tables.PathSL(was, l), tb.PathSL(sw, l); o != n {
				fmt.Fprintf(&b, "%s to %d: level %d, was %d\n", s.name(s.g.Switches[sw].GUID), l, n, o)
			}
		}
	}
	return b.String()
}

// verdict is what the verifier says, which knows no engine.
func (s *story) verdict(tb *route.Tables) string {
	r := check.Verify(s.g, tb, check.Options{})
	return fmt.Sprintf("verified: %d paths of hosts, mean %.2f links between switches, at most %d paths over one; ",
		r.Paths, r.AvgHops, r.MaxChannelLoad) +
		fmt.Sprintf("%d pairs broken, %d loops, %d credit cycles, %d lanes\n", r.UnreachablePairs, r.Loops, r.CreditCycles, tb.NumVLs)
}
