package sa

import "slices"

// shared is a sorted list that Views hold. It is copied before the first change
// after a View took it, so unchanged lists are shared.
type shared[T any] struct {
	list []T
	held bool // a View has it
}

// view returns the list; the returned slice no longer changes.
func (s *shared[T]) view() []T {
	s.held = true
	return s.list
}

func (s *shared[T]) own() {
	if s.held {
		n := len(s.list)
		s.list = append(make([]T, 0, n+n/8+4), s.list...)
		s.held = false
	}
}

func (s *shared[T]) insert(i int, v T) {
	s.own()
	s.list = slices.Insert(s.list, i, v)
}

func (s *shared[T]) set(i int, v T) {
	s.own()
	s.list[i] = v
}

func (s *shared[T]) remove(i int) {
	s.own()
	s.list = slices.Delete(s.list, i, i+1)
}
