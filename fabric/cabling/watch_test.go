package cabling

import (
	"slices"
	"testing"
	"time"

	"heddle/fabric"
)

// A difference opens once, stays the same finding while others come and go and while its node gets
// another description, and closes when it is gone. Numbers are never used again.
func TestWatch(t *testing.T) {
	f := tree(t, 324)
	all := links(f)
	plan := FromFabric(f, true)
	swapped := recable(f, [2]fabric.Ref{all[3][0], all[4][1]}, [2]fabric.Ref{all[4][0], all[3][1]})
	both := recable(swapped, [2]fabric.Ref{all[9][0], fabric.NoRef()})
	renamed := both.Clone()
	renamed.Nodes[all[3][1].Node].Desc = "another name"
	n := uint64(40)
	w := NewWatch(func() uint64 { n++; return n })
	now := time.Unix(1000, 0)
	var st *Status
	step := func(f *fabric.Fabric, p *Plan, o Options, opened, closed []Kind) (was []Entry) {
		t.Helper()
		now = now.Add(time.Minute)
		var up, down []Entry
		st, up, down = w.Step(now, "plan", p, f, o)
		kinds := func(list []Entry) (out []Kind) {
			for _, e := range list {
				out = append(out, e.Finding.Kind)
			}
			return out
		}
		if !slices.Equal(kinds(up), opened) || !slices.Equal(kinds(down), closed) {
			t.Fatalf("opened %v and closed %v, want %v and %v", kinds(up), kinds(down), opened, closed)
		}
		for _, e := range down {
			if e.Closed != now {
				t.Errorf("closed at %v", e.Closed)
			}
		}
		return up
	}
	step(f, plan, Options{}, nil, nil)
	if st.Right != len(all) || len(st.Open) != 0 || st.Name != "plan" || st.At != now {
		t.Errorf("all is right: %+v", st)
	}
	swap := step(swapped, plan, Options{}, []Kind{Swapped}, nil)[0]
	step(swapped, plan, Options{}, nil, nil)
	before := st
	step(both, plan, Options{}, []Kind{Missing}, nil)
	step(renamed, plan, Options{}, nil, nil)
	if len(st.Open) != 2 || st.Open[0].ID != swap.ID || st.Open[0].Opened != swap.Opened || st.Count[Swapped] != 1 || st.Count[Missing] != 1 {
		t.Errorf("%+v", st)
	}
	if len(before.Open) != 1 || before.Count[Missing] != 0 {
		t.Error("an earlier status changed")
	}
	// A disabled port hides its cable; a kind that is ignored ends.
	off := Options{Off: func(r fabric.Ref) bool { return r == all[9][1] }}
	step(renamed, plan, off, nil, []Kind{Missing})
	if st.Off != 1 {
		t.Errorf("%d cables at disabled ports", st.Off)
	}
	ignore := Options{}
	ignore.Ignore[Swapped] = true
	again := step(renamed, plan, ignore, []Kind{Missing}, []Kind{Swapped})
	if again[0].ID <= swap.ID+1 {
		t.Errorf("number %d is used again", again[0].ID)
	}
	step(f, plan, Options{}, nil, []Kind{Missing})
	step(swapped, plan, Options{}, []Kind{Swapped}, nil)
	step(nil, nil, Options{}, nil, []Kind{Swapped})
	if len(st.Closed) != 4 || st.Opened[Swapped] != 2 || st.Ended[Swapped] != 2 || st.Opened[Missing] != 2 || st.Ended[Missing] != 2 {
		t.Errorf("counts at the end: %+v", st)
	}
}

// A host whose only cable ends in a disabled port is not missing. The plan of another subnet has no more
// open findings than there is room for, and says how many there are.
func TestWatchBounds(t *testing.T) {
	f := tree(t, 324)
	plan := FromFabric(f, true)
	var host fabric.Ref
	g := f.Clone()
	for a, b := range f.Links {
		if !f.Nodes[a.Node].IsSwitch() {
			host = b
			g.Port(a).Peer, g.Port(b).Peer = fabric.NoRef(), fabric.NoRef()
			g.Nodes[a.Node].GUID, g.Nodes[a.Node].Desc, g.Nodes[a.Node].ID = 0xabcdef, "another", "another"
			break
		}
	}
	if r := Check(plan, g, Options{}); len(r.Findings) == 0 || r.Findings[0].Kind != MissingNode {
		t.Fatalf("%+v", r.Findings)
	}
	if r := Check(plan, g, Options{Off: func(r fabric.Ref) bool { return r == host }}); len(r.Findings) != 0 || r.Off != 1 {
		t.Errorf("%d off, findings %+v", r.Off, r.Findings)
	}
	big := tree(t, 648)
	lost := big.Clone()
	gone := 0
	for _, l := range links(big) {
		if gone++; gone > MaxOpen+20 {
			break
		}
		lost.Port(l[0]).Peer, lost.Port(l[1]).Peer = fabric.NoRef(), fabric.NoRef()
	}
	n := uint64(0)
	w := NewWatch(func() uint64 { n++; return n })
	st, opened, _ := w.Step(time.Unix(1, 0), "", FromFabric(big, true), lost, Options{})
	if len(links(big)) > MaxOpen+20 && (len(opened) != MaxOpen || len(st.Open) != MaxOpen || st.Missed != 20 || st.Count[Missing] != MaxOpen+20) {
		t.Errorf("%d opened, %d open, %d missed, %d found", len(opened), len(st.Open), st.Missed, st.Count[Missing])
	}
	if len(links(big)) <= MaxOpen+20 {
		t.Errorf("the tree has %d cables only", len(links(big)))
	}
}
