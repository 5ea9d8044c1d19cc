package boltdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"heddle/store"
)

// bbolt writes a transaction's pages, syncs, writes the header (one of two in turn), and syncs. It
// takes the newer header that it reads, whether that is on the disk or not. What follows from this
// for disks that lose or refuse writes is done here:
//
//   - a file appears under its name when it is complete, so that none is cut off in its making;
//   - what is read at the start is made durable before anything is written. A process that was
//     killed before the second sync leaves a header that is read but may be lost. The next
//     transaction would overwrite pages of the state before it, and the end of the power then leave
//     neither state;
//   - after a failed commit the former header is written back. bbolt would show and keep a
//     transaction that it reported as failed, and go on with its list of free pages.

// headers is the number of header pages, at the beginning of the file.
const headers = 2

// syncFile is replaced in tests that open thousands of files.
var syncFile = (*os.File).Sync

// undo is what a commit that failed may have changed.
type undo struct {
	page   int64  // the header that it wrote
	before []byte // what it was
	wrote  bool   // the header differs, or did
}

// create makes a new file at path, or leaves the one that another process made meanwhile.
func create(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new") // mode 0600
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer os.Remove(tmp.Name())
	tmp.Close()
	b, err := open(tmp.Name(), false, Options{})
	if err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	// A link, as it does not replace what another process made.
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := os.Rename(tmp.Name(), path); err != nil { // file systems without links
			return fmt.Errorf("store: %w", err)
		}
	}
	dir := filepath.Dir(path)
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	// The directory may be new as well. One that may not be read is not ours.
	if err := syncDir(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// bolt opens the file with bbolt.
func (b *DB) bolt(fresh, readOnly bool) error {
	db, err := bolt.Open(b.path, 0o600, &bolt.Options{Timeout: time.Second, ReadOnly: readOnly, PreLoadFreelist: true})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("store: %s is in use by another process; stop the other manager, or give this one its own state directory; 'heddle ctl backup' reads the state of a manager that runs", b.path)
	case err != nil && !fresh && !os.IsPermission(err):
		return &CorruptError{Path: b.path, What: "not a readable bbolt file", Err: err}
	case err != nil:
		return fmt.Errorf("store: %w", err)
	}
	b.db = db
	return nil
}

// settle makes what is read durable, by writing both headers again: a sync that failed in an
// earlier process may have marked them as written.
func (b *DB) settle() error {
	f, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	b.file = f
	both := make([]byte, headers*b.db.Info().PageSize)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, int64(len(both))), both); err != nil {
		return fmt.Errorf("store: reading %s: %w", b.path, err)
	}
	if _, err := f.WriteAt(both, 0); err != nil {
		return fmt.Errorf("store: writing %s: %w", b.path, err)
	}
	if err := syncFile(f); err != nil {
		return fmt.Errorf("store: writing %s: %w", b.path, err)
	}
	return nil
}

// update runs one transaction that writes. If it returns an error the file holds what it held
// before, or, where the disk refuses that too, is neither read nor written until it does.
func (b *DB) update(f func(tx *bolt.Tx) error) error {
	b.write.Lock()
	defer b.write.Unlock()
	if b.closed.Load() {
		return store.ErrClosed
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err := b.change(f)
	if err == nil {
		b.log.committed()
		return nil
	}
	b.log.known = false
	if errors.Is(err, store.ErrClosed) {
		return store.ErrClosed
	}
	return fmt.Errorf("store: writing %s: %w", b.path, err)
}

func (b *DB) change(f func(tx *bolt.Tx) error) error {
	if err := b.restored(); err != nil {
		return err
	}
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	if err := b.guard(func() error { return f(tx) }); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	size := b.db.Info().PageSize
	u := &undo{page: int64(tx.ID()) % headers * int64(size), before: make([]byte, size)}
	if _, err := b.file.ReadAt(u.before, u.page); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	// Nobody reads a transaction before it is durable.
	b.reads.Lock()
	defer b.reads.Unlock()
	err = b.guard(tx.Commit)
	if err == nil {
		return nil
	}
	_ = b.guard(tx.Rollback) // of a commit that panicked; another one has closed it
	b.undo = u
	if rerr := b.restore(); rerr != nil {
		return fmt.Errorf("%w; and the file cannot be used until this is undone: %w", err, rerr)
	}
	return err
}

// guard returns an error where bbolt panics, as it does on some kinds of damage, and on memory that
// cannot be read.
func (b *DB) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{Path: b.path, What: fmt.Sprint(r)}
		}
	}()
	return f()
}

// restored returns nil if no failed commit is left to be undone.
func (b *DB) restored() error {
	b.reads.RLock()
	well := b.undo == nil
	b.reads.RUnlock()
	if well {
		return nil
	}
	b.reads.Lock()
	defer b.reads.Unlock()
	return b.restore()
}

// restore undoes a failed commit. reads is locked.
func (b *DB) restore() error {
	if b.closed.Load() {
		return store.ErrClosed
	}
	if b.undo == nil {
		return nil // another goroutine did
	}
	if b.db != nil {
		now := make([]byte, len(b.undo.before))
		if _, err := b.file.ReadAt(now, b.undo.page); err != nil {
			return err
		}
		// Without a change it did not come to the header. A full disk need not be written then.
		if b.undo.wrote = b.undo.wrote || !bytes.Equal(now, b.undo.before); b.undo.wrote {
			if _, err := b.file.WriteAt(b.undo.before, b.undo.page); err != nil {
				return err
			}
			if err := b.file.Sync(); err != nil {
				return err
			}
		}
		if err := b.db.Close(); err != nil {
			return err
		}
		b.db = nil
	}
	// bbolt has the free pages of the failed transaction in its memory.
	if err := b.bolt(false, false); err != nil {
		return err
	}
	b.undo = nil
	return nil
}

// reading begins a transaction that reads.
func (b *DB) reading() (*bolt.Tx, error) {
	if err := b.restored(); err != nil {
		return nil, fmt.Errorf("store: %s cannot be used until a failed change is undone: %w", b.path, err)
	}
	b.reads.RLock()
	defer b.reads.RUnlock()
	if b.undo != nil { // it failed since
		return nil, fmt.Errorf("store: %s cannot be used until a failed change is undone", b.path)
	}
	tx, err := b.db.Begin(false)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return nil, store.ErrClosed
	}
	return tx, err
}

// Close implements Store.
func (b *DB) Close() error {
	b.write.Lock()
	defer b.write.Unlock()
	b.reads.Lock()
	defer b.reads.Unlock()
	var err error
	if b.undo != nil && !b.closed.Load() {
		err = b.restore()
	}
	if b.closed.Swap(true) {
		return nil
	}
	if b.db != nil {
		err = errors.Join(err, b.db.Close())
	}
	if b.file != nil {
		err = errors.Join(err, b.file.Close())
	}
	return err
}
