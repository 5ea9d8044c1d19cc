// Package heap is a priority queue of values with numeric keys.
//
// It is a 4-ary heap: items of one parent share a cache line or two, and the tree is half
// as deep as a binary one. Keys are compared without a call. If no two items have equal
// keys and ties, the order in which they leave depends only on these.
package heap

import "slices"

// Key is the type of keys.
type Key interface{ ~int32 | ~int64 | ~uint64 }

// Item is a value with its two keys.
type Item[K Key, V any] struct {
	Value V
	Key   K
	Tie   uint64 // orders items of one Key
}

func (a *Item[K, V]) before(b *Item[K, V]) bool {
	return a.Key < b.Key || a.Key == b.Key && a.Tie < b.Tie
}

// Heap holds items, the smallest one first. The zero value is an empty heap.
type Heap[K Key, V any] struct {
	// Moved, if set, gets the place of every item that is moved, and -1 for one that
	// leaves. Remove takes a place.
	Moved func(v V, place int)

	items []Item[K, V]
}

// Len is the number of items.
func (h *Heap[K, V]) Len() int { return len(h.items) }

// Min returns the smallest item, which stays; it is valid until the heap is changed. The heap must not be empty.
func (h *Heap[K, V]) Min() *Item[K, V] { return &h.items[0] }

// Clone returns a copy with the same items, which shares nothing with h but Moved.
func (h *Heap[K, V]) Clone() Heap[K, V] {
	return Heap[K, V]{Moved: h.Moved, items: slices.Clone(h.items)}
}

// All calls yield for every item, in no particular order.
func (h *Heap[K, V]) All(yield func(Item[K, V]) bool) {
	for _, x := range h.items {
		if !yield(x) {
			return
		}
	}
}

// Reset removes all items and keeps their memory, without calling Moved.
func (h *Heap[K, V]) Reset() {
	clear(h.items)
	h.items = h.items[:0]
}

// Push inserts a value. Complexity O(log n).
func (h *Heap[K, V]) Push(key K, tie uint64, v V) {
	e := Item[K, V]{v, key, tie}
	h.items = append(h.items, e)
	h.up(len(h.items)-1, e)
}

// Pop removes the smallest item. The heap must not be empty. Complexity O(log n).
func (h *Heap[K, V]) Pop() Item[K, V] {
	top := h.items[0]
	h.Remove(0)
	return top
}

// Remove removes the item at a place reported by Moved. Complexity O(log n).
func (h *Heap[K, V]) Remove(place int) {
	s := h.items
	n := len(s) - 1
	if h.Moved != nil {
		h.Moved(s[place].Value, -1)
	}
	last := s[n]
	s[n] = Item[K, V]{}
	h.items = s[:n]
	switch {
	case place == n:
	case place > 0 && last.before(&s[(place-1)/4]):
		h.up(place, last)
	default:
		h.down(place, last)
	}
}

// up moves e from i toward the root, to its place.
func (h *Heap[K, V]) up(i int, e Item[K, V]) {
	s, moved := h.items, h.Moved
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(&s[p]) {
			break
		}
		s[i] = s[p]
		if moved != nil {
			moved(s[i].Value, i)
		}
		i = p
	}
	s[i] = e
	if moved != nil {
		moved(e.Value, i)
	}
}

// down moves e from i toward the leaves, to its place.
func (h *Heap[K, V]) down(i int, e Item[K, V]) {
	s, moved := h.items, h.Moved
	for {
		c := 4*i + 1
		if c >= len(s) {
			break
		}
		m := c
		for j := c + 1; j < min(c+4, len(s)); j++ {
			if s[j].before(&s[m]) {
				m = j
			}
		}
		if !s[m].before(&e) {
			break
		}
		s[i] = s[m]
		if moved != nil {
			moved(s[i].Value, i)
		}
		i = m
	}
	s[i] = e
	if moved != nil {
		moved(e.Value, i)
	}
}
