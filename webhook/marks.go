package webhook

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileMarks keeps marks in a file, which is written at most a second after a change. A process that
// is killed sends the events of that second again.
type FileMarks struct {
	path string // empty: in memory
	id   string

	mu    sync.Mutex
	marks map[string]uint64 // guarded by mu
	timer *time.Timer       // guarded by mu; nil: nothing is to be written
}

const saveTime = time.Second

type marksFile struct {
	Events string            `json:"events"` // Source.ID
	Marks  map[string]uint64 `json:"marks"`
}

// OpenMarks reads the marks of a file. Marks of other events, or of a damaged file, are dropped.
func OpenMarks(path, id string) *FileMarks {
	m := &FileMarks{path: path, id: id, marks: map[string]uint64{}}
	b, err := os.ReadFile(path)
	var f marksFile
	if err == nil && json.Unmarshal(b, &f) == nil && f.Events == id && f.Marks != nil {
		m.marks = f.Marks
	}
	return m
}

// Mark implements Marks.
func (m *FileMarks) Mark(target string) (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.marks[target]
	return n, ok
}

// SetMark implements Marks.
func (m *FileMarks) SetMark(target string, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.marks[target]; ok && was == n {
		return
	}
	m.marks[target] = n
	if m.timer == nil && m.path != "" {
		m.timer = time.AfterFunc(saveTime, func() { _ = m.Save() }) // it is tried again with the next change
	}
}

// Save writes the marks now.
func (m *FileMarks) Save() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer == nil {
		return nil
	}
	m.timer.Stop()
	m.timer = nil
	b, err := json.Marshal(marksFile{m.id, m.marks})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(m.path), ".marks-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}
