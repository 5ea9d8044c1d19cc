package show

import (
	"slices"
	"strings"
	"testing"

	"heddle/api"
	"heddle/fabric/hosts"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/route/engine/minhop"
	"heddle/subnet"
)

func treeSnapshot(t testing.TB, size string) *subnet.Snapshot {
	t.Helper()
	f, err := fabrictest.Generate("fattree", []string{size}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return snaptest.New(t, f, minhop.Engine{}, 1)
}

// TestTablesAgainstLists: pages of nodes and cables are those of the whole lists, filtered and sorted
// naively, whatever the words, the column, the direction and the page.
func TestTablesAgainstLists(t *testing.T) {
	s := treeSnapshot(t, "324")
	s.Problems = []subnet.Problem{{GUID: s.Nodes[7].Info.NodeGUID, Text: "a cable is bad"}}
	var tables Tables
	nodes, links := Nodes(s), Links(s)
	columns := map[string]func(a, b api.Node) int{
		"name": func(a, b api.Node) int { return hosts.Natural(a.Description, b.Description) },
		"lid":  func(a, b api.Node) int { return a.LID - b.LID },
		"guid": func(a, b api.Node) int { return strings.Compare(a.GUID, b.GUID) },
	}
	for column, compare := range columns {
		for _, words := range []string{"", "host", "SW-1", "host-3 lid=1", "bad cable", "0x000000000010001", "no such thing"} {
			var want []api.Node
			for _, n := range nodes {
				text := strings.ToLower(strings.Join([]string{n.Description, n.GUID, n.Type, "lid=" + ib.LID(n.LID).String(), n.State}, " "))
				if !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(w string) bool { return !strings.Contains(text, w) }) {
					want = append(want, n)
				}
			}
			slices.SortStableFunc(want, compare)
			for _, desc := range []bool{false, true} {
				if desc {
					slices.Reverse(want)
				}
				var got []api.Node
				for offset := 0; ; offset += 7 {
					p, err := tables.Nodes(s, api.TableQuery{Q: words, Sort: column, Desc: desc, Offset: offset, Limit: 7})
					if err != nil || p.Total != len(nodes) || p.Matched != len(want) || p.Generation != s.Gen {
						t.Fatalf("%s %q: %d of %d, want %d of %d: %v", column, words, p.Matched, p.Total, len(want), len(nodes), err)
					}
					if len(p.Rows) == 0 {
						break
					}
					got = append(got, p.Rows...)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, desc %v, %q: other rows", column, desc, words)
				}
			}
		}
	}
	c, err := tables.Cables(s, api.TableQuery{Sort: "guid", Limit: len(links) + 1})
	if err != nil || !slices.Equal(c.Rows, links) {
		t.Errorf("%d cables, want %d: %v", len(c.Rows), len(links), err)
	}
	if _, err := tables.Ports(s, api.TableQuery{Sort: "color", Limit: 1}); err == nil || err.Error() != api.ErrColumn("color").Error() {
		t.Errorf("a column that does not exist: %v", err)
	}
}

// TestTableOfPorts: port 0 of switches and their external ports are in it, ports of hosts with a cable, and
// what is known of the cable's other end.
func TestTableOfPorts(t *testing.T) {
	s := treeSnapshot(t, "324")
	var tables Tables
	all, err := tables.Ports(s, api.TableQuery{Limit: 1})
	if want := 18*37 + 18*19 + 324; err != nil || all.Total != want {
		t.Errorf("%d ports, want %d: %v", all.Total, want, err)
	}
	p, err := tables.Ports(s, api.TableQuery{Q: "0x0000000000200002/5", Sort: "name", Limit: 9})
	if err != nil || len(p.Rows) == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	row := p.Rows[0]
	if row.Description != "sw-1-3" || row.Port != 5 || row.State != "Active" || row.Peer == nil || row.Speed == "" {
		t.Errorf("%+v", row)
	}
	d, ok := PortDetail(s, row.GUID, row.Port)
	if !ok || d.PortRow.Peer == nil || *d.PortRow.Peer != *row.Peer || len(d.PKeys) != 1 {
		t.Errorf("%+v, %v", d, ok)
	}
	if n, ok := tables.NodeDetail(s, row.Peer.GUID); !ok || len(n.PortRows) != 1 || n.PortRows[0].Peer.Description != "sw-1-3" {
		t.Errorf("%+v, %v", n.Node, ok)
	}
	for _, no := range []string{"", "0x17", "host-1", "0xfffffffffffffffff"} {
		if _, ok := tables.NodeDetail(s, no); ok {
			t.Errorf("%q is a node", no)
		}
	}
	if _, ok := PortDetail(s, row.GUID, 200); ok {
		t.Error("a switch with 36 ports has port 200")
	}
}

// TestTablesFollowStates: after a change the tables are of the new state, and those who still hold the old
// one get its rows.
func TestTablesFollowStates(t *testing.T) {
	a, b := treeSnapshot(t, "324"), treeSnapshot(t, "648")
	b.Gen = a.Gen // numbers of states begin anew in each process
	var tables Tables
	for _, s := range []*subnet.Snapshot{a, b, a} {
		p, err := tables.Nodes(s, api.TableQuery{Sort: "name", Limit: 1, Desc: true})
		if err != nil || p.Total != len(s.Nodes) {
			t.Errorf("%d nodes, want %d: %v", p.Total, len(s.Nodes), err)
		}
	}
}

// TestSearch: by name, part of the name, GUID of node and port, LID and GID.
func TestSearch(t *testing.T) {
	s := treeSnapshot(t, "324")
	h := s.Nodes[s.NodeByGUID(s.Nodes[0].Info.NodeGUID)]
	p := s.Ports[h.First+1]
	for text, want := range map[string]string{
		h.Desc:                        "name",
		strings.ToUpper(h.Desc):       "name",
		p.GUID.String():               "GUID",
		h.Info.NodeGUID.String():      "GUID",
		p.LID.String():                "LID",
		s.GID(h.First + 1).String():   "GID",
		" ":                           "",
		"0xffffffffffffff00":          "",
		"fe80::dead:beef:dead:beef":   "",
		strings.Repeat("host-1", 100): "",
	} {
		hits, _ := Search(s, strings.TrimSpace(text), 10)
		switch {
		case want == "" && len(hits) > 0:
			t.Errorf("%q finds %+v", text, hits)
		case want != "" && (len(hits) == 0 || hits[0].By != want || hits[0].GUID != h.Info.NodeGUID.String()):
			t.Errorf("%q: %+v, want %s by %s", text, hits, h.Desc, want)
		}
	}
	hits, more := Search(s, "host-1", 10)
	if len(hits) != 10 || !more || hits[0].Name != "host-1" || hits[1].By != "part of the name" {
		t.Errorf("%v, %+v", more, hits)
	}
	if hits, _ := Search(nil, "host-1", 10); hits != nil {
		t.Error("hits before the subnet was read")
	}
}

// TestPageAllocations: a page without words allocates what its rows need, whatever the table has: no copy
// of it.
func TestPageAllocations(t *testing.T) {
	for _, size := range []string{"324", "648"} {
		s := treeSnapshot(t, size)
		var tables Tables
		q := api.TableQuery{Sort: "name", Offset: 100, Limit: 50}
		got := testing.AllocsPerRun(10, func() {
			if _, err := tables.Ports(s, q); err != nil {
				t.Fatal(err)
			}
		})
		if got > 50*12 {
			t.Errorf("%s hosts: %.0f allocations for a page of 50", size, got)
		}
	}
}

// BenchmarkTables: a page at 11,664 hosts: without words, with words, and its first in a new state.
func BenchmarkTables(b *testing.B) {
	s := treeSnapshot(b, "11664")
	page := func(b *testing.B, tables *Tables, q api.TableQuery) {
		p, err := tables.Ports(s, q)
		if err != nil || len(p.Rows) != 50 {
			b.Fatal(len(p.Rows), err)
		}
	}
	b.Run("plain", func(b *testing.B) {
		var tables Tables
		b.ReportAllocs()
		for b.Loop() {
			page(b, &tables, api.TableQuery{Sort: "name", Offset: 30_000, Limit: 50})
		}
	})
	b.Run("words", func(b *testing.B) {
		var tables Tables
		b.ReportAllocs()
		for b.Loop() {
			page(b, &tables, api.TableQuery{Q: "host-9 active", Sort: "name", Limit: 50})
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			page(b, &Tables{}, api.TableQuery{Sort: "name", Limit: 50})
		}
	})
}
