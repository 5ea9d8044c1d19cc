package opensm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/store"
)

const twoLIDs = "0x0000000000000010 0x0001 0x0001\n\n0x0000000000000020 0x0004 0x0005\n\n"

// TestLIDs: what a guid2lid gives, and what is wrong with it.
func TestLIDs(t *testing.T) {
	for _, c := range []struct {
		name, text          string
		lmc                 uint8
		want, problem, note string
	}{
		{"two", twoLIDs, 1, "10:1/0 20:4/1", "", ""},
		{"no last empty line", strings.TrimSuffix(twoLIDs, "\n"), 1, "10:1/0 20:4/1", "", ""},
		{"no last line end", strings.TrimSuffix(twoLIDs, "\n\n"), 1, "10:1/0 20:4/1", "", ""},
		{"empty lines", "\n\n" + twoLIDs + "\n\n", 1, "10:1/0 20:4/1", "", ""},
		{"empty", "", 0, "", "", ""},
		{"tabs", "0x0000000000000010\t0x0001\t0x0001\n\n", 0, "10:1/0", "", ""},
		{"shortened", twoLIDs, 0, "10:1/0 20:4/0", "", "only the first 1 count"},
		{"twice", twoLIDs + "0x0000000000000030 0x0005 0x0005\n\n", 1, "10:1/0 20:4/1 30:5/0", "which port 0x0000000000000020 has in line 3", ""},
		{"multicast", "0x0000000000000010 0xc000 0xc000\n\n", 0, "", "no range", ""},
		{"up to multicast", "0x0000000000000010 0xbfff 0xbfff\n\n", 0, "10:49151/0", "", ""},
		{"zero", "0x0000000000000010 0x0000 0x0000\n\n", 0, "", "no range", ""},
		{"backward", "0x0000000000000010 0x0005 0x0004\n\n", 0, "", "no range", ""},
		{"not aligned", "0x0000000000000010 0x0005 0x0006\n\n", 1, "", "multiple of 2", ""},
		{"three", "0x0000000000000010 0x0004 0x0006\n\n", 2, "", "no LMC", ""},
		{"one", "0x0000000000000010 0x0004\n\n", 2, "", "first and the last", ""},
		{"text", "0x0000000000000010 one two\n\n", 2, "", "no range", ""},
		{"without empty line", "0x0000000000000010 0x0001 0x0001\n0x0000000000000020 0x0002 0x0002\n\n", 0, "10:1/0", "a part of line 1", ""},
		{"same key", twoLIDs + "0x0000000000000010 0x0007 0x0007\n\n", 1, "10:1/0 20:4/1", "", "leaves this one out"},
		{"short key", "0x10 0x0001 0x0001\n\n", 0, "", "", "OpenSM does not find 0x10"},
		{"large key", "0x00000000000000AB 0x0001 0x0001\n\n", 0, "", "", "does not find"},
		{"no key", "host 0x0001 0x0001\n\n", 0, "", "no GUID", ""},
		{"space", " 0x0000000000000010 0x0001 0x0001\n\n", 0, "", "does not start", ""},
		{"comment", "# by hand\n\n" + twoLIDs, 1, "10:1/0 20:4/1", "", "no comments"},
		{"comment above an entry", "# by hand\n" + twoLIDs, 1, "20:4/1", "a part of line 1", "no comments"},
		{"other line ends", strings.ReplaceAll(twoLIDs, "\n", "\r\n"), 1, "10:1/0", "another system", ""},
		{"long", "0x0000000000000010 " + strings.Repeat("1", 1100) + "\n\n", 0, "", "more than 1023 bytes", ""},
	} {
		var cache Cache
		if err := cache.ReadLIDs(strings.NewReader(c.text), "guid2lid", c.lmc); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range cache.LIDs {
			got = append(got, fmt.Sprintf("%x:%d/%d", uint64(e.GUID), e.LID, e.LMC))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %s, want %s", c.name, g, c.want)
		}
		for _, x := range []struct {
			what string
			list []Note
			want string
		}{{"problems", cache.Problems, c.problem}, {"notes", cache.Notes, c.note}} {
			if (x.want == "") != (len(x.list) == 0) || !strings.Contains(fmt.Sprint(x.list), x.want) {
				t.Errorf("%s: %s %v, want %q", c.name, x.what, x.list, x.want)
			}
		}
	}
}

// TestCacheRoundTrip: what is written can be read, and is the same.
func TestCacheRoundTrip(t *testing.T) {
	want := Cache{
		LIDs:      []store.LIDEntry{{GUID: 16, LID: 1}, {GUID: 32, LID: 8, LMC: 3}},
		MKeys:     []store.MKeyEntry{{GUID: 16, MKey: 0xFFFF_FFFF_FFFF_FFFF}, {GUID: 32, MKey: 1}},
		Neighbors: []store.NeighborEntry{{Node: 32, Port: 5, Peer: 16}, {Node: 16, Port: 1, Peer: 32}},
	}
	var lids, keys, cables bytes.Buffer
	lidErr := WriteLIDs(&lids, []store.LIDEntry{want.LIDs[1], want.LIDs[0]})
	keyErr := WriteMKeys(&keys, append([]store.MKeyEntry{{GUID: 0, MKey: 7}}, want.MKeys...))
	cableErr := WriteNeighbors(&cables, []Neighbor{{GUID: 32, Port: 5, Peer: 16, PeerPort: 1}, {GUID: 16, Port: 1, Peer: 32, PeerPort: 5}})
	if lidErr != nil || keyErr != nil || cableErr != nil {
		t.Fatal(lidErr, keyErr, cableErr)
	}
	var got Cache
	if err := got.ReadLIDs(&lids, "guid2lid", 3); err != nil {
		t.Fatal(err)
	}
	if err := got.ReadMKeys(&keys, "guid2mkey"); err != nil {
		t.Fatal(err)
	}
	if err := got.ReadNeighbors(&cables, "neighbors"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.LIDs, want.LIDs) || !slices.Equal(got.MKeys, want.MKeys) || !slices.Equal(got.Neighbors, want.Neighbors) || len(got.Problems)+len(got.Notes) > 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, op := range got.Ops() {
		if err := op.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestBadKeysAndNeighbors: what is wrong with these files.
func TestBadKeysAndNeighbors(t *testing.T) {
	for _, c := range []struct {
		text string
		read func(c *Cache, text string) error
	}{
		{"0x0000000000000010 key\n\n", readKeys},
		{"0x0000000000000010\n\n", readKeys},
		{"0x0000000000000010 0x10000000000000000\n\n", readKeys},
		{"0x0000000000000010:1\n\n", readCables},
		{"0x0000000000000010 0x0000000000000020\n\n", readCables},
		{"0x0000000000000010:255 0x0000000000000020:1\n\n", readCables},
		{"0x0000000000000010:1 0:1\n\n", readCables},
	} {
		var cache Cache
		if err := c.read(&cache, c.text); err != nil || len(cache.Problems) != 1 || len(cache.Ops()) != 0 {
			t.Errorf("%q: %+v, %v", c.text, cache, err)
		}
	}
}

func readKeys(c *Cache, text string) error { return c.ReadMKeys(strings.NewReader(text), "guid2mkey") }

func readCables(c *Cache, text string) error {
	return c.ReadNeighbors(strings.NewReader(text), "neighbors")
}

// TestConflicts: a store that has other LIDs.
func TestConflicts(t *testing.T) {
	have := &store.State{LIDs: []store.LIDEntry{{GUID: 16, LID: 1}, {GUID: 32, LID: 4, LMC: 2}}}
	for _, c := range []struct {
		entry store.LIDEntry
		want  string
	}{
		{store.LIDEntry{GUID: 16, LID: 1}, ""},
		{store.LIDEntry{GUID: 48, LID: 2}, ""},
		{store.LIDEntry{GUID: 16, LID: 2}, "has LID 1"},
		{store.LIDEntry{GUID: 32, LID: 4}, "LMC 2"},
		{store.LIDEntry{GUID: 48, LID: 7}, "LID 7 is that of port"},
		{store.LIDEntry{GUID: 48, LID: 0, LMC: 1}, "LID 1 is that of port"},
	} {
		list := (&Cache{LIDs: []store.LIDEntry{c.entry}}).Conflicts(have)
		if (c.want == "") != (len(list) == 0) || !strings.Contains(strings.Join(list, " "), c.want) {
			t.Errorf("%+v: %v, want %q", c.entry, list, c.want)
		}
	}
}

// TestNames: a node-name-map as OpenSM reads it.
func TestNames(t *testing.T) {
	for _, c := range []struct{ text, want, note, err string }{
		{"0x10 \"leaf 1\"\n# a comment\n\n  0x20 leaf2 # second\n0x30", `10="leaf 1" 20="leaf2"`, "", ""},
		{"0x10 a\n0x10 b\n", `10="a"`, "does not count", ""},
		{"0x10 # spare\n", "", "takes the comment", ""},
		{"0x10 \"\"\n", "", "", ""},
		{"0x10 a\nleaf2 0x20\n", "", "", `names:2: "leaf2 0x20" does not begin with a GUID`},
		{"0x10: a\n", "", "", "does not begin"},
		{"0x10 " + strings.Repeat("a", 260) + "\n0x20 b\n", "", "", "does not begin"}, // the rest is no GUID
		{"16 ten\n", `10="ten"`, "", ""},
	} {
		names, notes, err := Names(strings.NewReader(c.text), "names")
		if err != nil || c.err != "" {
			if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want %q", c.text, err, c.err)
			}
			continue
		}
		var got []string
		for g, n := range names {
			got = append(got, fmt.Sprintf("%x=%q", uint64(g), n))
		}
		slices.Sort(got)
		if g := strings.Join(got, " "); g != c.want || (c.note == "") != (len(notes) == 0) || !strings.Contains(fmt.Sprint(notes), c.note) {
			t.Errorf("%q: %s %v, want %s, %q", c.text, g, notes, c.want, c.note)
		}
	}
}

// FuzzCache: no file makes the readers fail, and without a problem they give what a store takes.
func FuzzCache(f *testing.F) {
	f.Add(twoLIDs, uint8(1))
	f.Add("0x0000000000000010 0x0000000000000001\n\n#\nx\n\n", uint8(0))
	f.Add("0x0000000000000010:1 0x0000000000000020:5\n\n\r\n", uint8(7))
	f.Fuzz(func(t *testing.T, text string, lmc uint8) {
		for _, read := range []func(c *Cache) error{
			func(c *Cache) error { return c.ReadLIDs(strings.NewReader(text), "guid2lid", lmc&7) },
			func(c *Cache) error { return readKeys(c, text) },
			func(c *Cache) error { return readCables(c, text) },
		} {
			var c Cache
			if err := read(&c); err != nil {
				t.Fatal(err)
			}
			for _, op := range c.Ops() {
				if err := op.Check(); err != nil {
					t.Error(err)
				}
			}
			if len(c.Problems) > 0 {
				continue
			}
			used := map[ib.LID]bool{}
			for _, e := range c.LIDs {
				for l := e.LID; l < e.LID+1<<e.LMC; l++ {
					if used[l] {
						t.Errorf("LID %d is used twice", l)
					}
					used[l] = true
				}
			}
		}
	})
}

// FuzzNames: no file makes the reader fail.
func FuzzNames(f *testing.F) {
	f.Add("0x10 \"leaf 1\"\n# c\n0x20 leaf2 # second\n")
	f.Fuzz(func(t *testing.T, text string) {
		names, _, err := Names(strings.NewReader(text), "names")
		for g, n := range names {
			if err != nil || n == "" || strings.ContainsAny(n, "\n\"#") {
				t.Errorf("%v: %q, %v", g, n, err)
			}
		}
	})
}
