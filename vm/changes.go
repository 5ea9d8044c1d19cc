package vm

import "strings"

// Change names an interface that differs between two views.
type Change struct {
	Name string
	Gone bool // it is in the old view alone
}

// Changes lists the interfaces of v that old, an earlier view of the same Core or nil,
// does not have or has otherwise, and those that only old has, by name. Parts that both
// share cost nothing.
func (v *View) Changes(old *View) (list []Change) {
	a, b := cursor{}, cursor{chunks: v.list.chunks}
	if old != nil {
		a.chunks = old.list.chunks
	}
	for {
		if a.j == 0 && b.j == 0 && len(a.chunks) > 0 && len(b.chunks) > 0 && a.chunks[0] == b.chunks[0] {
			a.chunks, b.chunks = a.chunks[1:], b.chunks[1:]
			continue
		}
		x, y := a.entry(), b.entry()
		c := 0
		switch {
		case x == nil && y == nil:
			return list
		case x == nil:
			c = 1
		case y == nil:
			c = -1
		default:
			c = strings.Compare(x.Name, y.Name)
		}
		switch {
		case c < 0:
			list = append(list, Change{x.Name, true})
		case c > 0:
			list = append(list, Change{y.Name, false})
		case x != y:
			list = append(list, Change{y.Name, false})
		}
		if c <= 0 {
			a.next()
		}
		if c >= 0 {
			b.next()
		}
	}
}

// cursor is a place in a table.
type cursor struct {
	chunks []*chunk // the first is the current one
	j      int
}

// entry is the current entry, nil at the end.
func (c *cursor) entry() *entry {
	if len(c.chunks) == 0 {
		return nil
	}
	return c.chunks[0].list[c.j]
}

func (c *cursor) next() {
	if c.j++; c.j == len(c.chunks[0].list) {
		c.chunks, c.j = c.chunks[1:], 0
	}
}
