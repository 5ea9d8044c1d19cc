package fabric_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
)

func twoLevel(t *testing.T, o fabric.GraphOptions) (*fabric.Fabric, *fabric.Graph, error) {
	t.Helper()
	f, err := fabrictest.Generate("xgft", []string{"2", "2,2", "1,2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(o)
	return f, g, err
}

// hosts are the CA ports of a graph.
func hosts(g *fabric.Graph) (out []int32) {
	for e := range g.EndPorts {
		if g.EndPorts[e].Type == ib.NodeCA {
			out = append(out, int32(e))
		}
	}
	return out
}

// TestWithLIDs: a port may own any LIDs; the graph they are added to stays as it
// is, and Diff names them alone when they come, move and go.
func TestWithLIDs(t *testing.T) {
	_, g, err := twoLevel(t, fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	top, owners := g.TopLID, slices.Clone(g.LIDOwner)
	a, b := hosts(g)[0], hosts(g)[3]
	x, y := top+40, top+7
	h, err := g.WithLIDs([]fabric.LIDGrant{{LID: x, EndPort: a}, {LID: y, EndPort: b}})
	if err != nil {
		t.Fatal(err)
	}
	if g.TopLID != top || !slices.Equal(g.LIDOwner, owners) {
		t.Error("the first graph has changed")
	}
	if h.TopLID != x || len(h.LIDOwner) != int(x)+1 || h.LIDOwner[x] != a || h.LIDOwner[y] != b || h.LIDOwner[x-1] != fabric.NoLID {
		t.Errorf("top %d, owners %v", h.TopLID, h.LIDOwner)
	}
	if lid := g.EndPorts[a].LID; h.LIDOwner[lid] != a {
		t.Errorf("LID %v belongs to %d, want %d", lid, h.LIDOwner[lid], a)
	}
	moved, err := g.WithLIDs([]fabric.LIDGrant{{LID: x, EndPort: b}, {LID: y, EndPort: b}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		old, now *fabric.Graph
		want     []ib.LID
	}{{g, h, []ib.LID{y, x}}, {h, moved, []ib.LID{x}}, {moved, g, []ib.LID{y, x}}, {h, h, nil}} {
		if d := fabric.Diff(c.old, c.now); !slices.Equal(d.LIDs, c.want) || !d.SameChannels {
			t.Errorf("LIDs %v differ, want %v", d.LIDs, c.want)
		}
	}
}

// TestMoreLIDs: Fabric.Graph takes them as well.
func TestMoreLIDs(t *testing.T) {
	f, g, err := twoLevel(t, fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := hosts(g)[1]
	ref := f.EndPortRefs(fabric.GraphOptions{})[e]
	more := func(r fabric.Ref) []ib.LID {
		if r == ref {
			return []ib.LID{900, 33}
		}
		return nil
	}
	got, err := f.Graph(fabric.GraphOptions{MoreLIDs: more})
	if err != nil {
		t.Fatal(err)
	}
	want, err := g.WithLIDs([]fabric.LIDGrant{{LID: 33, EndPort: e}, {LID: 900, EndPort: e}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	taken := func(fabric.Ref) []ib.LID { return []ib.LID{g.EndPorts[e].LID} }
	if _, err := f.Graph(fabric.GraphOptions{MoreLIDs: taken}); err == nil {
		t.Error("a LID was given twice")
	}
}

// TestWithLIDsRefuses: who cannot have a LID, and which, in words.
func TestWithLIDsRefuses(t *testing.T) {
	_, g, err := twoLevel(t, fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := hosts(g)[0], hosts(g)[1]
	bare := *g
	bare.EndPorts = slices.Clone(g.EndPorts)
	bare.EndPorts[b].LID = 0
	for _, c := range []struct {
		g    *fabric.Graph
		more []fabric.LIDGrant
		want string
	}{
		{g, []fabric.LIDGrant{{LID: g.EndPorts[b].LID, EndPort: a}}, "two ports cannot have one LID"},
		{g, []fabric.LIDGrant{{LID: 500, EndPort: a}, {LID: 500, EndPort: b}}, "two ports cannot have one LID"},
		{g, []fabric.LIDGrant{{LID: 500, EndPort: g.Switches[0].EndPort}}, "port 0 of a switch"},
		{&bare, []fabric.LIDGrant{{LID: 500, EndPort: b}}, "no base LID"},
		{g, []fabric.LIDGrant{{LID: 0, EndPort: a}}, "unicast range"},
		{g, []fabric.LIDGrant{{LID: 0xC000, EndPort: a}}, "unicast range"},
		{g, []fabric.LIDGrant{{LID: 500, EndPort: -1}}, "end ports"},
		{g, []fabric.LIDGrant{{LID: 500, EndPort: int32(len(g.EndPorts))}}, "end ports"},
	} {
		h, err := c.g.WithLIDs(c.more)
		var e *fabric.LIDError
		if h != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.more, err, c.want)
		}
	}
}
