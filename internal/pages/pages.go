// Package pages has ordered lists that share most of their memory with the lists they were made
// from: a change of a few values of very many copies the pages that have them, and a word or three
// for each page.
package pages

import "sort"

// pageLen is how many values a page has at first. A page that grows is split when it has twice as
// many.
const pageLen = 128

// List is an immutable list of values in the order of a function that the caller gives, the same
// for all calls. The zero List is empty. Values that the function finds equal may be there several
// times.
type List[T any] struct {
	pages [][]T // none is empty
	n     int
}

// Of returns the list of values that are in order. It keeps the slice.
func Of[T any](values []T) List[T] {
	return List[T]{split(nil, values), len(values)}
}

// split appends values as pages.
func split[T any](list [][]T, values []T) [][]T {
	for len(values) > 2*pageLen {
		list, values = append(list, values[:pageLen:pageLen]), values[pageLen:]
	}
	if len(values) > 0 {
		list = append(list, values)
	}
	return list
}

// Len is the number of values.
func (l List[T]) Len() int { return l.n }

// Same reports whether two lists are one, made by the same call. All empty lists are.
func (l List[T]) Same(m List[T]) bool {
	return l.n == m.n && (l.n == 0 || &l.pages[0] == &m.pages[0])
}

// Values returns a copy of the values in their order.
func (l List[T]) Values() []T {
	list := make([]T, 0, l.n)
	for _, p := range l.pages {
		list = append(list, p...)
	}
	return list
}

// Find returns the first value that is not before what is looked for, if there is one: before must be
// true for all values up to it and false from it on. It takes logarithmic time.
func (l List[T]) Find(before func(T) bool) (v T, ok bool) {
	k, end := 0, len(l.pages)
	for k < end {
		m := (k + end) / 2
		if p := l.pages[m]; before(p[len(p)-1]) {
			k = m + 1
		} else {
			end = m
		}
	}
	if k == len(l.pages) {
		return v, false
	}
	p := l.pages[k]
	i, end := 0, len(p)-1 // the last one is not before it
	for i < end {
		if m := (i + end) / 2; before(p[m]) {
			i = m + 1
		} else {
			end = m
		}
	}
	return p[i], true
}

// Replaced returns the list without the values of gone, all of which it must have, and with those
// of added. Both are in order. Without any it is l; otherwise it is another list even if the values
// are the same.
func (l List[T]) Replaced(gone, added []T, compare func(a, b T) int) List[T] {
	switch {
	case len(gone)+len(added) == 0:
		return l
	case l.n == 0:
		return Of(append([]T(nil), added...))
	}
	m := List[T]{make([][]T, 0, len(l.pages)+1), l.n - len(gone) + len(added)}
	for k, p := range l.pages {
		last := k == len(l.pages)-1
		mine := len(added) // how many are to be in this page
		if !last {
			next := l.pages[k+1][0]
			mine = sort.Search(len(added), func(i int) bool { return compare(added[i], next) >= 0 })
		}
		if mine == 0 && (len(gone) == 0 || compare(gone[0], p[len(p)-1]) > 0) {
			m.pages = append(m.pages, p)
			continue
		}
		out := make([]T, 0, len(p)+mine)
		for _, v := range p {
			for ; mine > 0 && compare(added[0], v) <= 0; mine-- {
				out, added = append(out, added[0]), added[1:]
			}
			if len(gone) > 0 && compare(gone[0], v) == 0 {
				gone = gone[1:]
				continue
			}
			out = append(out, v)
		}
		out, added = append(out, added[:mine]...), added[mine:]
		m.pages = split(m.pages, out)
	}
	return m
}
