package pair

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"heddle/store/boltdb"
	"heddle/store/journal"
)

// Entries returns the entries with numbers above after that manager i has on its disk.
//
// Nobody else may open the file of a manager that runs. So the process is stopped while the file is
// copied: what it has written so far is a file that it could go on with after a crash.
func (p *Pair) Entries(i int, after uint64) (list []journal.Entry, err error) {
	dir, err := os.MkdirTemp(p.dir, "journal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, boltdb.FileName)
	if err := p.copyStopped(i, name); err != nil {
		return nil, err
	}
	db, err := boltdb.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	last, err := db.Last()
	for err == nil && after < last.Number {
		var some []journal.Entry
		if some, err = db.Entries(after+1, 1<<20); err == nil {
			list = append(list, some...)
			after = list[len(list)-1].Number
		}
	}
	return list, err
}

// copyStopped copies the store of manager i while its process is stopped.
func (p *Pair) copyStopped(i int, to string) error {
	prog := p.Programs[i]
	prog.Signal(syscall.SIGSTOP)
	defer prog.Signal(syscall.SIGCONT)
	if err := stopped(prog.Pid()); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(p.State(i), boltdb.FileName))
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// stopped waits until all threads of a process have stopped, which takes less time than a partner
// takes for dead.
func stopped(pid int) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		running := len(tasks) == 0
		for _, t := range tasks {
			text, err := os.ReadFile(t)
			state := bytes.LastIndexByte(text, ')') + 2 // its name may have any letters
			running = running || err != nil || state >= len(text) || text[state] != 'T'
		}
		if !running {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", pid)
}
