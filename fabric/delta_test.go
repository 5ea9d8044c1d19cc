package fabric_test

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
)

// graphWithout is the graph of a tree without the cables for which cut says so.
func graphWithout(t *testing.T, f *fabric.Fabric, down func(fabric.Ref) bool) *fabric.Graph {
	t.Helper()
	g, err := f.Graph(fabric.GraphOptions{Up: func(r fabric.Ref) bool { return !down(r) }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDiff(t *testing.T) {
	f, err := fabrictest.Generate("fattree", []string{"324"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	whole := graphWithout(t, f, func(fabric.Ref) bool { return false })
	d := fabric.Diff(whole, whole)
	if !d.SameSwitches || !d.SameChannels || len(d.LIDs) != 0 {
		t.Errorf("a graph differs from itself: %v %v %v", d.SameSwitches, d.SameChannels, d.LIDs)
	}

	// One cable between two switches.
	c := whole.Channels[len(whole.Channels)/2]
	order := f.SwitchNodes()
	cable := fabric.Ref{Node: order[c.From], Port: c.OutPort}
	cut := graphWithout(t, f, func(r fabric.Ref) bool { return r == cable })
	d = fabric.Diff(whole, cut)
	if !d.SameSwitches || d.SameChannels || len(d.LIDs) != 0 {
		t.Errorf("one cable less: %v %v %v", d.SameSwitches, d.SameChannels, d.LIDs)
	}
	var gone []fabric.Channel
	for i, j := range d.OldChannel {
		if j < 0 {
			gone = append(gone, whole.Channels[i])
		} else if d.Channel[j] != int32(i) {
			t.Fatalf("channel %d of the old graph is %d, which is %d", i, j, d.Channel[j])
		}
	}
	if len(gone) != 2 || gone[0].From != gone[1].To || gone[0].To != gone[1].From {
		t.Errorf("channels gone: %+v", gone)
	}
	if slices.Contains(d.Channel, -1) {
		t.Error("a cable less brings a new channel")
	}

	// A host, and the other way round.
	var host fabric.EndPort
	for _, e := range whole.EndPorts {
		if e.Type == ib.NodeCA {
			host = e
		}
	}
	at := fabric.Ref{Node: order[host.Switch], Port: host.Port}
	less := graphWithout(t, f, func(r fabric.Ref) bool { return r == at })
	for _, d := range []*fabric.Delta{fabric.Diff(whole, less), fabric.Diff(less, whole)} {
		if !d.SameSwitches || !d.SameChannels || !slices.Equal(d.LIDs, []ib.LID{host.LID}) {
			t.Errorf("a host less: %v %v %v, want LID %d alone", d.SameSwitches, d.SameChannels, d.LIDs, host.LID)
		}
	}

	// Nothing in common.
	other, err := fabrictest.Generate("torus", []string{"4", "4"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	empty := &fabric.Graph{Off: []int32{0}}
	og := graphWithout(t, other, func(fabric.Ref) bool { return false })
	d = fabric.Diff(og, empty)
	if len(d.Switch) != 0 || slices.ContainsFunc(d.OldSwitch, func(s int32) bool { return s >= 0 }) {
		t.Errorf("switches of an empty graph: %v %v", d.Switch, d.OldSwitch)
	}
}
