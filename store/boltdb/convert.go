package boltdb

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A file of an older format is converted when it is opened, in one transaction. Before that the file
// as it was is copied beside it, so that the program that wrote it can be installed again. The copy
// has its name and is on the disk before the file changes; until then the file is the older one.

// Options are for OpenWith.
type Options struct {
	// WithoutCopy converts a file of an older format even if no copy of it can be kept.
	WithoutCopy bool
}

// Conversion is what Open did to a file of an older format.
type Conversion struct {
	From, To uint8  // formats
	Copy     string // the file as it was; "": none could be kept
	NoCopy   error  // why
}

// Converted is the conversion that Open made; nil: the file had the present format, or is new.
func (b *DB) Converted() *Conversion { return b.converted }

// Copy is a file as it was before it was converted.
type Copy struct {
	Path   string
	Format uint8 // which it has
	Made   time.Time
}

// copySuffix is behind the name of a state file, before the number of its format.
const copySuffix = ".format"

func copyPath(path string, format uint8) string {
	return path + copySuffix + strconv.Itoa(int(format))
}

// Copies lists the copies of older formats that are kept beside the state file at path, the oldest
// format first. It looks at their names alone.
func Copies(path string) (list []Copy, err error) {
	dir, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	for _, e := range dir {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+copySuffix)
		format, err := strconv.ParseUint(digits, 10, 8)
		if !ok || err != nil || format == 0 || strconv.FormatUint(format, 10) != digits || !e.Type().IsRegular() {
			continue
		}
		i, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone
		} else if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		list = append(list, Copy{Path: filepath.Join(filepath.Dir(path), e.Name()), Format: uint8(format), Made: i.ModTime()})
	}
	slices.SortFunc(list, func(a, b Copy) int { return cmp.Compare(a.Format, b.Format) })
	return list, nil
}

// FormatError reports a file of a format that this program does not know. The file stays as it is.
type FormatError struct {
	Path   string
	Format uint8
	// Copy is the newest copy that this program reads; its Path is empty if there is none.
	Copy Copy
}

// Error implements error.
func (e *FormatError) Error() string {
	s := fmt.Sprintf("store: %s has format %d, this program writes format %d: use the version of heddle that wrote it, ", e.Path, e.Format, newestFormat)
	if e.Copy.Path == "" {
		return s + "or move the file away"
	}
	return s + fmt.Sprintf("or go back to the file as it was on %s, before it was converted, without what changed since: %s",
		e.Copy.Made.UTC().Format(time.RFC3339), GoBack(e.Copy.Path, e.Path))
}

// formatError is the error for a file of an unknown format.
func formatError(path string, format uint8) error {
	e := &FormatError{Path: path, Format: format}
	list, err := Copies(path)
	if err != nil {
		return e // what is wrong with the file matters more
	}
	for _, c := range list {
		if c.Format <= newestFormat {
			e.Copy = c
		}
	}
	return e
}

// GoBack is the command that has a state file hold what a copy or a backup holds, for a shell.
func GoBack(from, path string) string {
	return "heddle store import " + quoted(from) + " " + quoted(path) + " --replace"
}

// quoted is a path as one word of a shell.
func quoted(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._:@%+,-", r)
	}
	if path != "" && path[0] != '-' && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// copied copies the file, which has an older format and is locked, before it is converted.
func (b *DB) copied(format uint8, o Options) error {
	c := &Conversion{From: format, To: Format, Copy: copyPath(b.path, format)}
	if err := b.writeCopy(c.Copy); err != nil {
		if !o.WithoutCopy {
			return fmt.Errorf("store: %s has format %d, and no copy of it can be kept before it is converted to format %d: %w; the file was left as it is: make room for %s, or copy it elsewhere and start once with --convert-without-copy",
				b.path, format, Format, err, c.Copy)
		}
		c.Copy, c.NoCopy = "", err
	}
	b.converted = c
	return nil
}

// spare is the room in bytes that a copy must leave, for the conversion and the first changes.
const spare = 1 << 20

// writeCopy makes a copy of the file, with its mode and, for root, its owner. It gets its name when it
// is complete and synced.
func (b *DB) writeCopy(to string) (err error) {
	part := to + ".new"
	// One that a crash left. Nobody else makes one: the file is locked.
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	st, err := b.file.Stat()
	if err != nil {
		return err
	}
	if err := roomFor(filepath.Dir(to), st.Size()); err != nil {
		return err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	if err := errors.Join(fill(f, b.file, st), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// fill makes f the same as another file.
func fill(f, from *os.File, st fs.FileInfo) error {
	if x, ok := st.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := f.Chown(int(x.Uid), int(x.Gid)); err != nil {
			return err
		}
	}
	if err := f.Chmod(st.Mode().Perm()); err != nil {
		return err
	}
	n, err := io.Copy(f, io.NewSectionReader(from, 0, st.Size()))
	switch {
	case err != nil:
		return err
	case n != st.Size():
		return fmt.Errorf("%s ends after %d of %d bytes", from.Name(), n, st.Size())
	}
	return syncFile(f)
}

// roomFor returns an error if a directory has too little room for a file.
func roomFor(dir string, size int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return nil // not known: writing it shows
	}
	if free, want := st.Bavail*uint64(st.Bsize), uint64(size)+spare; free < want {
		return fmt.Errorf("it takes %d KiB, and %s has %d KiB free", want>>10, dir, free>>10)
	}
	return nil
}
