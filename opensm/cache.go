package opensm

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"heddle/ib"
	"heddle/store"
)

// Names of OpenSM's files in its cache directory (/var/cache/opensm).
const (
	FileLIDs      = "guid2lid"
	FileMKeys     = "guid2mkey"
	FileNeighbors = "neighbors"
	// FileDump is the SA dump in the directory dump_files_dir.
	FileDump = "opensm-sa.dump"
)

// Limits of a file of the cache directory.
const (
	maxCacheLine = 1023    // bytes that OpenSM reads at a time
	maxCache     = 1 << 25 // more than a full subnet has neighbors
)

// Cache is what OpenSM keeps in its cache directory.
type Cache struct {
	LIDs      []store.LIDEntry
	MKeys     []store.MKeyEntry
	Neighbors []store.NeighborEntry
	// Problems are entries that nobody can be sure of: a LID of two ports, a range that is none, a
	// line that OpenSM takes for another. With one of them nothing should be stored.
	Problems []Note
	// Notes are entries that OpenSM leaves out.
	Notes []Note
}

// Ops are the operations that store the cache.
func (c *Cache) Ops() []store.Op {
	s := store.State{LIDs: c.LIDs, MKeys: c.MKeys, Neighbors: c.Neighbors}
	return s.Ops()
}

// entry is one of a file: a key, and what follows it.
type entry struct {
	key, value string
	line       int
}

// entries reads a file of the cache directory: a key at the begin of a line, a value that goes on
// to the next empty line.
func (c *Cache) entries(r io.Reader, name string) (list []entry, err error) {
	seen := map[string]int{}
	var e entry
	open, commented := false, false
	problem := func(line int, format string, a ...any) {
		c.Problems = append(c.Problems, Note{name, line, fmt.Sprintf(format, a...)})
	}
	end := func() {
		open = false
		if first := seen[e.key]; first > 0 {
			c.Notes = append(c.Notes, Note{name, e.line, fmt.Sprintf("%s has line %d already: OpenSM leaves this one out", head(e.key), first)})
			return
		}
		seen[e.key] = e.line
		list = append(list, e)
	}
	err = pieces(r, maxCacheLine, maxCache, func(line int, text string, split bool) {
		switch {
		case split && text != "":
			problem(line, "more than %d bytes: no entry is that long", maxCacheLine)
		case text == "" && open:
			if commented {
				open, commented = false, false
				return
			}
			end()
		case text == "":
		case open:
			// OpenSM appends the line to the value.
			problem(line, "%q: an empty line must stand before it: OpenSM takes it for a part of line %d", head(text), e.line)
		case text[0] == '#':
			// OpenSM takes it for a key, and all lines to the next empty one for its value.
			open, commented, e = true, true, entry{line: line}
			c.Notes = append(c.Notes, Note{name, line, "OpenSM has no comments in this file; it skips to the next empty line"})
		case text[0] == ' ' || text[0] == '\t':
			problem(line, "a space before the entry: OpenSM does not start with such a file")
		default:
			key, value, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
			open, e = true, entry{key, strings.TrimSpace(value), line}
			if strings.HasSuffix(text, "\r") {
				problem(line, "the line end of another system: OpenSM takes the file for a single entry")
			}
		}
	})
	if open && !commented {
		end()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// guid reads a GUID at the begin of an entry, as OpenSM looks it up: with 16 small digits.
func (c *Cache) guid(s, name string, line int) (ib.GUID, bool) {
	n, neg, over, rest := cNumber(s)
	g := ib.GUID(n)
	switch {
	case neg || over || rest != "" || g == 0:
		c.Problems = append(c.Problems, Note{name, line, fmt.Sprintf("%q is no GUID", head(s))})
		return 0, false
	case s != key(g):
		c.Notes = append(c.Notes, Note{name, line, fmt.Sprintf("OpenSM does not find %s, as it looks for %s: it is left out", s, key(g))})
		return 0, false
	}
	return g, true
}

// key is a GUID as OpenSM writes it.
func key(g ib.GUID) string { return fmt.Sprintf("0x%016x", uint64(g)) }

// ReadLIDs reads guid2lid. lmc is that of opensm.conf: a longer range is shortened to it. An error
// is one of r; entries that are wrong are in Problems.
func (c *Cache) ReadLIDs(r io.Reader, name string, lmc uint8) error {
	list, err := c.entries(r, name)
	if err != nil {
		return err
	}
	problem := func(line int, format string, a ...any) {
		c.Problems = append(c.Problems, Note{name, line, fmt.Sprintf(format, a...)})
	}
	type user struct {
		guid ib.GUID
		line int
	}
	users := map[ib.LID]user{}
	for _, e := range list {
		g, ok := c.guid(e.key, name, e.line)
		if !ok {
			continue
		}
		f := strings.Fields(e.value)
		if len(f) != 2 {
			problem(e.line, "port %v: %q: want the first and the last LID", g, head(e.value))
			continue
		}
		first, ok1 := lidOf(f[0])
		last, ok2 := lidOf(f[1])
		width := int(last) - int(first) + 1
		if width > 1<<lmc && int(first)&(1<<lmc-1) == 0 {
			c.Notes = append(c.Notes, Note{name, e.line, fmt.Sprintf("port %v has the LIDs %d to %d, with LMC %d only the first %d count", g, first, last, lmc, 1<<lmc)})
			width = 1 << lmc
		}
		switch {
		case !ok1 || !ok2 || first > last:
			problem(e.line, "port %v: %s is no range of LIDs from 1 to %d", g, e.value, ib.LIDMaxUnicast)
			continue
		case width&(width-1) != 0 || width > 128:
			problem(e.line, "port %v: the LIDs %d to %d are %d: no LMC gives so many", g, first, last, width)
			continue
		case int(first)&(width-1) != 0:
			problem(e.line, "port %v: the LIDs %d to %d do not begin with a multiple of %d", g, first, last, width)
			continue
		}
		clash := false
		for l := first; l < first+ib.LID(width); l++ {
			if u, taken := users[l]; taken && !clash {
				clash = true
				problem(e.line, "port %v has LID %d, which port %v has in line %d", g, l, u.guid, u.line)
			}
			users[l] = user{g, e.line}
		}
		c.LIDs = append(c.LIDs, store.LIDEntry{GUID: g, LID: first, LMC: uint8(bits.Len(uint(width)) - 1)})
	}
	return nil
}

func lidOf(s string) (ib.LID, bool) {
	n, neg, over, rest := cNumber(s)
	ok := !neg && !over && rest == "" && n >= 1 && n <= uint64(ib.LIDMaxUnicast)
	if !ok {
		return 0, false
	}
	return ib.LID(n), true
}

// ReadMKeys reads guid2mkey.
func (c *Cache) ReadMKeys(r io.Reader, name string) error {
	list, err := c.entries(r, name)
	if err != nil {
		return err
	}
	for _, e := range list {
		g, ok := c.guid(e.key, name, e.line)
		if !ok {
			continue
		}
		n, neg, over, rest := cNumber(e.value)
		if neg || over || rest != "" || e.value == "" {
			c.Problems = append(c.Problems, Note{name, e.line, fmt.Sprintf("port %v: not an M_Key of 64 bits", g)})
			continue
		}
		if n != 0 { // 0: the port has none
			c.MKeys = append(c.MKeys, store.MKeyEntry{GUID: g, MKey: ib.MKey(n)})
		}
	}
	return nil
}

// ReadNeighbors reads neighbors. OpenSM names a switch by the port GUID of its port 0, and has a
// line for each direction.
func (c *Cache) ReadNeighbors(r io.Reader, name string) error {
	list, err := c.entries(r, name)
	if err != nil {
		return err
	}
	for _, e := range list {
		from, port, ok := c.end(e.key, name, e.line)
		if !ok {
			continue
		}
		peer, _, ok := c.end(e.value, name, e.line)
		if !ok {
			continue
		}
		c.Neighbors = append(c.Neighbors, store.NeighborEntry{Node: from, Port: port, Peer: peer})
	}
	return nil
}

// end reads GUID:PORT.
func (c *Cache) end(s, name string, line int) (ib.GUID, uint8, bool) {
	guid, port, ok := strings.Cut(s, ":")
	n, neg, over, rest := cNumber(port)
	if !ok || neg || over || rest != "" || n > 254 {
		c.Problems = append(c.Problems, Note{name, line, fmt.Sprintf("%q: want GUID:PORT", head(s))})
		return 0, 0, false
	}
	g, ok := c.guid(guid, name, line)
	return g, uint8(n), ok
}

// Conflicts are entries of c that contradict what a store has: another LID for a port, or a LID
// of another port.
func (c *Cache) Conflicts(have *store.State) (list []string) {
	byGUID, byLID := map[ib.GUID]store.LIDEntry{}, map[ib.LID]ib.GUID{}
	for _, e := range have.LIDs {
		byGUID[e.GUID] = e
		for l := e.LID; l < e.LID+1<<e.LMC; l++ {
			byLID[l] = e.GUID
		}
	}
	for _, e := range c.LIDs {
		if old, ok := byGUID[e.GUID]; ok && (old.LID != e.LID || old.LMC != e.LMC) {
			list = append(list, fmt.Sprintf("port %v has LID %d with LMC %d in the store, and LID %d with LMC %d in %s", e.GUID, old.LID, old.LMC, e.LID, e.LMC, FileLIDs))
			continue
		}
		for l := e.LID; l < e.LID+1<<e.LMC; l++ {
			if g, ok := byLID[l]; ok && g != e.GUID {
				list = append(list, fmt.Sprintf("LID %d is that of port %v in the store, and of port %v in %s", l, g, e.GUID, FileLIDs))
				break
			}
		}
	}
	return list
}

// WriteLIDs writes a guid2lid, in the order of the GUIDs.
func WriteLIDs(w io.Writer, list []store.LIDEntry) error {
	return write(w, sorted(list, func(a, b store.LIDEntry) int { return cmp.Compare(a.GUID, b.GUID) }), func(e store.LIDEntry) string {
		return fmt.Sprintf("%s 0x%04x 0x%04x", key(e.GUID), uint16(e.LID), uint16(e.LID)+1<<e.LMC-1)
	})
}

// WriteMKeys writes a guid2mkey. An entry of GUID 0, a key that is being introduced, is none of a
// port.
func WriteMKeys(w io.Writer, list []store.MKeyEntry) error {
	list = slices.DeleteFunc(slices.Clone(list), func(e store.MKeyEntry) bool { return e.GUID == 0 })
	return write(w, sorted(list, func(a, b store.MKeyEntry) int { return cmp.Compare(a.GUID, b.GUID) }), func(e store.MKeyEntry) string {
		return fmt.Sprintf("%s 0x%016x", key(e.GUID), uint64(e.MKey))
	})
}

// Neighbor is a line of neighbors: a cable in one direction.
type Neighbor struct {
	GUID, Peer     ib.GUID // port GUIDs, of a switch that of port 0
	Port, PeerPort uint8
}

// WriteNeighbors writes neighbors. OpenSM refuses a line whose other direction is missing.
func WriteNeighbors(w io.Writer, list []Neighbor) error {
	return write(w, list, func(n Neighbor) string {
		return fmt.Sprintf("%s:%d %s:%d", key(n.GUID), n.Port, key(n.Peer), n.PeerPort)
	})
}

func sorted[T any](list []T, order func(a, b T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, order)
	return list
}

// write writes entries with an empty line behind each.
func write[T any](w io.Writer, list []T, line func(T) string) error {
	b := bufio.NewWriter(w)
	var failed error
	for _, e := range list {
		if _, err := b.WriteString(line(e) + "\n\n"); err != nil {
			failed = err
			break
		}
	}
	return errors.Join(failed, b.Flush())
}
