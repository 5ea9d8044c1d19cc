package live

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"heddle/store/journal"
)

// What is kept of fork files when a new one is written: the newest ones, within both bounds, and the new
// one in any case. A partner that leaves again and again would fill the disk otherwise.
const (
	keptForks     = 20
	keptForkBytes = 256 << 20
)

// Fork is a file with entries that a copy of the peer's journal replaced.
type Fork struct {
	File    string       // path
	At      time.Time    // when it was written
	First   journal.Mark // of the entries in it
	Last    journal.Mark
	Entries int
	Size    int64  // bytes
	Damage  string // "" if all of it can be read
}

// Forks lists the fork files in ForkDir, oldest first.
func (p *Pair) Forks() ([]Fork, error) { return ReadForks(p.cfg.ForkDir) }

// ReadForks lists the fork files in a directory, oldest first.
func ReadForks(dir string) ([]Fork, error) {
	names, err := filepath.Glob(filepath.Join(dir, "fork-*-*.journal"))
	if err != nil {
		return nil, err
	}
	var list []Fork
	for _, name := range names {
		f, err := readFork(name)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Fork) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Last.Number, b.Last.Number)) })
	return list, nil
}

func readFork(name string) (Fork, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Fork{}, err
	}
	f := Fork{File: name, At: fi.ModTime(), Size: fi.Size()}
	b, err := os.ReadFile(name)
	if err != nil {
		return Fork{}, err
	}
	for len(b) > 0 {
		e, n, err := journal.Decode(b)
		if err != nil {
			f.Damage = err.Error()
			break
		}
		if f.Entries++; f.Entries == 1 {
			f.First = e.Mark
		}
		f.Last = e.Mark
		b = b[n:]
	}
	return f, nil
}

// surplus are the files of a list, oldest first, that are not to be kept. Fork file saved is new.
func surplus(list []Fork, saved string) (gone []Fork) {
	files, bytes := 0, int64(0)
	for i := range slices.Backward(list) {
		if list[i].File == saved {
			files++
			bytes += list[i].Size
		}
	}
	for _, f := range slices.Backward(list) {
		if f.File == saved {
			continue
		}
		if files, bytes = files+1, bytes+f.Size; files > keptForks || bytes > keptForkBytes {
			gone = append(gone, f)
		}
	}
	slices.Reverse(gone)
	return gone
}

// forkSaved deletes the oldest fork files after a new one was written, if there are too many. They may
// have changes that nobody has any more, so each is reported.
func (p *Pair) forkSaved(name string) {
	list, err := p.Forks()
	if err != nil {
		p.log.Error("the fork files cannot be listed: none is deleted, however many there are", "err", err)
		return
	}
	if i := slices.IndexFunc(list, func(f Fork) bool { return f.File == name }); i >= 0 {
		p.onFork(&list[i], false)
	}
	left, deleted := len(list), 0
	for _, f := range surplus(list, name) {
		if err := os.Remove(f.File); err != nil {
			p.log.Error("an old fork file cannot be deleted", "file", f.File, "err", err)
			continue
		}
		left--
		deleted++
		p.log.Warn("an old fork file is deleted: the newest ones are kept. What it had is nowhere else, unless both managers had it",
			"file", f.File, "entries", f.Entries, "first", f.First.String(), "last", f.Last.String(), "kept", keptForks)
		p.onFork(&f, true)
	}
	p.set(func(st *Status) { st.Forks, st.ForksDeleted = left, st.ForksDeleted+deleted })
}

func (p *Pair) onFork(f *Fork, deleted bool) {
	if p.cfg.OnFork != nil {
		p.cfg.OnFork(*f, deleted)
	}
}
