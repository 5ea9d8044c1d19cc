package api

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// eventSets is for how many sets of words the events that have them are known.
const eventSets = 4

// eventTable makes pages of the table of all events that are stored. It keeps, for the words that were
// asked for last, the numbers of the events that have them, so that a page costs only what is new and
// its own rows. It is safe for concurrent use.
type eventTable struct {
	journal Journal

	mu   sync.Mutex
	sets []*eventSet // those asked for last at the end, without words at the beginning; guarded by mu
}

// eventSet is the answer to one search: the events that contain all of its words. One request at a time
// adds new events to a set. Requests for other words have other sets, and do not wait for it.
type eventSet struct {
	words []string

	mu sync.Mutex
	eventRows
	// The page that was made last, what of, and when that was the newest event; guarded by mu.
	query TableQuery
	page  Table[Event]
	as    uint64
}

// eventRows are the events of a set as of some time. Whoever holds the set's lock may append rows:
// those of a copy stay as they are.
type eventRows struct {
	rows []eventKey // ascending by number
	last uint64     // number of the newest event that was read
}

// eventKey is what an event is ordered by.
type eventKey struct {
	seq   uint64
	level int8
	kind  string
}

var eventColumns = map[string]func(a, b eventKey) int{
	"":      nil, // by number
	"time":  nil,
	"level": func(a, b eventKey) int { return cmp.Compare(a.level, b.level) },
	"kind":  func(a, b eventKey) int { return strings.Compare(a.kind, b.kind) },
}

// pageOf is a page of the table.
func (t *eventTable) pageOf(q TableQuery) (Table[Event], error) {
	order, ok := eventColumns[q.Sort]
	if !ok {
		return Table[Event]{}, ErrColumn(q.Sort)
	}
	all, err := t.set(nil).follow(t.journal)
	if err != nil {
		return Table[Event]{}, err
	}
	s := t.set(q.Words())
	now, err := s.follow(t.journal)
	if err != nil {
		return Table[Event]{}, err
	}
	if page, ok := s.made(q, now.last); ok {
		page.Total = len(all.rows)
		return page, nil
	}
	keys := now.rows
	if order != nil {
		keys = slices.Clone(keys)
		slices.SortStableFunc(keys, order)
	}
	out := Table[Event]{Total: len(all.rows), Matched: len(keys)}
	var numbers []uint64
	for k := q.Offset; k < min(q.Offset+q.Limit, len(keys)); k++ {
		if q.Desc {
			numbers = append(numbers, keys[len(keys)-1-k].seq)
		} else {
			numbers = append(numbers, keys[k].seq)
		}
	}
	if out.Rows, err = t.read(numbers); err != nil {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query, s.page, s.as = q, out, now.last
	return out, nil
}

// made returns a page if it is the one that was made last, and nothing is new since.
func (s *eventSet) made(q TableQuery, last uint64) (Table[Event], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.page, s.page.Rows != nil && s.query == q && s.as == last
}

// set returns the set of the events that have all words.
func (t *eventTable) set(words []string) *eventSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.sets, func(s *eventSet) bool { return slices.Equal(s.words, words) })
	if i < 0 {
		t.sets = append(t.sets, &eventSet{words: words})
		if i = len(t.sets) - 1; i >= eventSets {
			t.sets = slices.Delete(t.sets, 1, 2)
			i--
		}
	}
	s := t.sets[i]
	if i > 0 {
		t.sets = append(slices.Delete(t.sets, i, i+1), s)
	}
	return s
}

// follow reads the events that are new, forgets those that are no longer stored, and returns what there
// is then.
func (s *eventSet) follow(j Journal) (eventRows, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := map[string]string{} // one text for each
	changed := false
	for {
		list, _ := j.Events(s.last)
		if len(list) == 0 {
			break
		}
		if list[0].Seq <= s.last { // the journal is another one
			s.eventRows, s.page = eventRows{}, Table[Event]{}
		}
		for i := range list {
			e := &list[i]
			s.last = e.Seq
			if len(s.words) > 0 && !hasAll(strings.ToLower(eventText(e)), s.words) {
				continue
			}
			kind, ok := kinds[e.Kind]
			if !ok {
				kind = strings.Clone(e.Kind)
				kinds[kind] = kind
			}
			s.rows = append(s.rows, eventKey{e.Seq, int8(slices.Index(levels, e.Level)), kind})
		}
		changed = true
	}
	if !changed {
		return s.eventRows, nil
	}
	oldest, err := j.FindEvents(EventsQuery{Since: time.Unix(1, 0), Limit: 1})
	if err != nil || len(oldest) == 0 {
		return s.eventRows, err
	}
	first, _ := slices.BinarySearchFunc(s.rows, oldest[0].Seq, func(k eventKey, n uint64) int { return cmp.Compare(k.seq, n) })
	s.rows = s.rows[first:] // append frees what is before when the array is full
	return s.eventRows, nil
}

// read returns the events with some numbers, in their order; what is no longer stored is left out.
func (t *eventTable) read(numbers []uint64) ([]Event, error) {
	out := make([]Event, 0, len(numbers))
	if len(numbers) == 0 {
		return out, nil
	}
	found := make(map[uint64]*Event, len(numbers))
	want := make(map[uint64]bool, len(numbers))
	for _, n := range numbers {
		want[n] = true
	}
	low := slices.Min(numbers)
	for before := slices.Max(numbers) + 1; before > low; {
		list, err := t.journal.FindEvents(EventsQuery{After: low - 1, Before: before, Limit: max(EventsPage, len(numbers))})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			if want[list[i].Seq] {
				found[list[i].Seq] = &list[i]
			}
		}
		before = list[0].Seq
	}
	for _, n := range numbers {
		if e := found[n]; e != nil {
			out = append(out, *e)
		}
	}
	return out, nil
}
