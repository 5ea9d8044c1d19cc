package vm

import (
	"iter"
	"slices"
	"strings"
)

// View is the published state of a Core. It is immutable and shares unchanged parts with the
// View before it, so that a new one costs the same with ten interfaces as with ten thousand.
type View struct {
	Gen        uint64
	Partitions []Members         // partitions of AddMembers, by P_Key
	Functions  []FunctionAddress // functions that have GUIDs of their own, by place
	Journal    int               // operations that are stored and not finished
	Pools      Pools

	list table
}

// Len is how many interfaces there are.
func (v *View) Len() int { return v.list.n }

// Interface returns the interface of that name, nil if there is none. It must not be changed.
func (v *View) Interface(name string) *Interface {
	if e := v.list.get(name); e != nil {
		return &e.Interface
	}
	return nil
}

// All yields the interfaces by name. They must not be changed.
func (v *View) All() iter.Seq[*Interface] { return v.From("") }

// From yields the interfaces in the order of their names, beginning with name.
func (v *View) From(name string) iter.Seq[*Interface] {
	return func(yield func(*Interface) bool) {
		i, j, _ := v.list.find(name)
		for ; i < len(v.list.chunks); i, j = i+1, 0 {
			for _, e := range v.list.chunks[i].list[j:] {
				if !yield(&e.Interface) {
					return
				}
			}
		}
	}
}

// maxChunk is how many interfaces of a table are copied at most to change one.
const maxChunk = 256

// table is a list of interfaces by name that is copied in constant time: freeze returns a copy,
// and chunks that a copy may share are copied before they change. No chunk is empty.
type table struct {
	chunks []*chunk
	n      int
	gen    uint64
	owned  bool // the slice chunks is not shared
}

type chunk struct {
	gen  uint64 // that of the table when it was made; if equal, it is not shared
	list []*entry
}

// freeze returns an immutable copy of t.
func (t *table) freeze() table {
	t.gen++
	t.owned = false
	return table{chunks: t.chunks, n: t.n}
}

// all yields the entries of t, which must not change during the iteration.
func (t *table) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, c := range t.chunks {
			for _, e := range c.list {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// find returns where name is, or would be.
func (t *table) find(name string) (i, j int, ok bool) {
	// The last chunk that does not begin behind name.
	i, ok = slices.BinarySearchFunc(t.chunks, name, func(c *chunk, name string) int { return strings.Compare(c.list[0].Name, name) })
	if ok {
		return i, 0, true
	}
	if i == 0 {
		return 0, 0, false
	}
	i--
	j, ok = slices.BinarySearchFunc(t.chunks[i].list, name, func(e *entry, name string) int { return strings.Compare(e.Name, name) })
	return i, j, ok
}

func (t *table) get(name string) *entry {
	if i, j, ok := t.find(name); ok {
		return t.chunks[i].list[j]
	}
	return nil
}

// own copies the slice of chunks, and with i ≥ 0 chunk i, if they are shared. Both get room for
// one more.
func (t *table) own(i int) {
	if !t.owned {
		t.chunks = append(make([]*chunk, 0, len(t.chunks)+8), t.chunks...)
		t.owned = true
	}
	if i >= 0 && t.chunks[i].gen != t.gen {
		old := t.chunks[i].list
		t.chunks[i] = &chunk{t.gen, append(make([]*entry, 0, len(old)+8), old...)}
	}
}

// put inserts e, or replaces the entry of the same name.
func (t *table) put(e *entry) {
	i, j, ok := t.find(e.Name)
	if len(t.chunks) == 0 {
		t.own(-1)
		t.chunks = append(t.chunks, &chunk{t.gen, []*entry{e}})
		t.n = 1
		return
	}
	t.own(i)
	c := t.chunks[i]
	if ok {
		c.list[j] = e
		return
	}
	c.list = slices.Insert(c.list, j, e)
	t.n++
	if len(c.list) > maxChunk {
		half := len(c.list) / 2
		if j == len(c.list)-1 {
			half = len(c.list) - 1 // names that come in order fill their chunks
		}
		right := &chunk{t.gen, slices.Clone(c.list[half:])}
		clear(c.list[half:])
		c.list = c.list[:half]
		t.chunks = slices.Insert(t.chunks, i+1, right)
	}
}

// drop removes the interface of that name.
func (t *table) drop(name string) {
	i, j, ok := t.find(name)
	if !ok {
		return
	}
	t.own(i)
	c := t.chunks[i]
	c.list = slices.Delete(c.list, j, j+1)
	t.n--
	if len(c.list) == 0 {
		t.chunks = slices.Delete(t.chunks, i, i+1)
	}
}
