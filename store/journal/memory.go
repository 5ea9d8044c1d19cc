package journal

import (
	"bytes"
	"slices"
	"sync"

	"heddle/store"
)

// Memory is a Store without a file, for tests and simulated managers. The zero value is not
// usable; see NewMemory.
type Memory struct {
	mu      sync.Mutex // guards everything below
	state   *store.Memory
	entries []Entry
	begin   Mark // the entry before entries[0]
	note    []byte
	keep    int
}

// NewMemory returns an empty store that keeps the last keep entries; keep is at least 1.
func NewMemory(keep int) *Memory { return &Memory{state: store.NewMemory(), keep: max(keep, 1)} }

// Load implements store.Store.
func (m *Memory) Load() (*store.State, error) { return m.state.Load() }

// Close implements store.Store.
func (m *Memory) Close() error { return m.state.Close() }

// Reopen makes a closed store usable again with its contents, like a file.
func (m *Memory) Reopen() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{state: m.state.Reopen(), entries: slices.Clone(m.entries), begin: m.begin, note: m.note, keep: m.keep}
}

// Last implements Store.
func (m *Memory) Last() (Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last(), nil
}

func (m *Memory) last() Mark {
	if n := len(m.entries); n > 0 {
		return m.entries[n-1].Mark
	}
	return m.begin
}

// Contents implements Store.
func (m *Memory) Contents() (*store.State, Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st, err := m.state.Load()
	return st, m.last(), err
}

// Apply implements store.Store.
func (m *Memory) Apply(ops []store.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(ops) == 0 {
		return m.state.Apply(ops)
	}
	last := m.last()
	return m.append(&Entry{Mark: Mark{last.Term, last.Number + 1}, Ops: ops})
}

// Append implements Store.
func (m *Memory) Append(e *Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.append(e)
}

func (m *Memory) append(e *Entry) error {
	if err := Follows(m.last(), e.Mark); err != nil {
		return err
	}
	b, err := Append(nil, e) // a copy, as a file keeps one
	if err != nil {
		return err
	}
	if err := m.state.Apply(e.Ops); err != nil {
		return err
	}
	kept, _, err := Decode(b)
	if err != nil {
		return err
	}
	m.entries = append(m.entries, kept)
	if n := len(m.entries) - m.keep; n > 0 {
		m.begin = m.entries[n-1].Mark
		clear(m.entries[:n])
		m.entries = m.entries[n:]
	}
	return nil
}

// Entries implements Store.
func (m *Memory) Entries(from uint64, size int) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from <= m.begin.Number {
		return nil, ErrTrimmed
	}
	var out []Entry
	for i := from - m.begin.Number - 1; i < uint64(len(m.entries)); i++ {
		b, err := Append(nil, &m.entries[i])
		if err != nil {
			return nil, err
		}
		if size -= len(b); size < 0 && len(out) > 0 {
			break
		}
		out = append(out, m.entries[i])
	}
	return out, nil
}

// Replace implements Store.
func (m *Memory) Replace(s *store.State, at Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := store.NewMemory()
	if err := state.Apply(s.Ops()); err != nil {
		return err
	}
	if _, err := m.state.Load(); err != nil {
		return err // closed
	}
	m.state, m.entries, m.begin = state, nil, at
	return nil
}

// Note implements Store.
func (m *Memory) Note() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.note), nil
}

// SetNote implements Store.
func (m *Memory) SetNote(b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note = bytes.Clone(b)
	return nil
}
