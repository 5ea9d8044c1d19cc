package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"heddle/internal/plural"
	"heddle/store"
	"heddle/store/backup"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

func newStore() *cobra.Command {
	c := &cobra.Command{
		Use:     "store",
		GroupID: "manage",
		Short:   "Check, export and import the stored state",
		Long: `Works on the state file of a manager that is not running. For a running manager use
'heddle ctl backup', which writes the same export.`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(storeCheck(), storeExport(), storeImport())
	return c
}

// stateFile is the state file that an argument names: the file itself or its directory. What
// does not exist is a directory, unless its name ends as that of the file does.
func stateFile(arg string) string {
	fi, err := os.Stat(arg)
	if err == nil && fi.IsDir() || errors.Is(err, fs.ErrNotExist) && filepath.Ext(arg) != filepath.Ext(boltdb.FileName) {
		return filepath.Join(arg, boltdb.FileName)
	}
	return arg
}

func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("want %s", what)
		}
		return nil
	}
}

func storeCheck() *cobra.Command {
	var shared storeEtcd
	c := &cobra.Command{
		Use:   "check STATE",
		Short: "Check each entry of a state file, and report damage",
		Long: `Reads every entry of a state file, its journal and the bookkeeping of its pages,
and changes nothing. STATE is the file or its directory, or a backup of it, or
etcd://HOST:PORT[,HOST:PORT...][/PREFIX] (docs/ha.md). Exits with 1 if something
is damaged, and names it.

If a manager converted the file from an older format, the copy of it as it was is
checked too, and the commands that go back to the older version are printed.`,
		Example: `  heddle store check /var/lib/heddle
  heddle store check backup.jsonl`,
		Args: oneArg("one state file, state directory or backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := args[0]
			if isEtcd(path) {
				s, at, err := shared.read(cmd, path)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is sound: %s, %v\n", path, contents(s), at)
				}
				return err
			}
			path = stateFile(path)
			b, err := readState(path)
			if err != nil {
				return err
			}
			if !isBackup(path) {
				if err := boltdb.Check(path); err != nil {
					return err
				}
			}
			sayWithheld(cmd.ErrOrStderr(), path, b.Without)
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is sound: %s, %v\n", path, contents(b.State), b.At); err != nil {
				return err
			}
			return checkCopies(cmd.OutOrStdout(), path)
		},
	}
	shared = newStoreEtcd(c)
	return c
}

// checkCopies reads the copies that were kept of a state file, and says how to go back to them. Those
// of newer formats are for newer programs.
func checkCopies(w io.Writer, path string) error {
	list, err := boltdb.Copies(path)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Format >= boltdb.Format {
			continue
		}
		b, err := readState(c.Path)
		if err == nil {
			err = boltdb.Check(c.Path)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s is sound: the file as it was on %s, before it was converted from format %d: %s\n", c.Path, c.Made.UTC().Format(time.RFC3339), c.Format, contents(b.State))
		version := olderForFormat(c.Format)
		fmt.Fprintf(w, "To go back to a version that reads format %d, stop the manager. With what changed since then:\n", c.Format)
		fmt.Fprintf(w, "  %s%s\n", boltdb.GoBack(path, path), version)
		if _, err := fmt.Fprintf(w, "or without it:\n  %s%s\n", boltdb.GoBack(c.Path, path), version); err != nil {
			return err
		}
	}
	return nil
}

// contents says in a few words what a state holds.
func contents(s *store.State) string {
	return fmt.Sprintf("%s, %s, %s, %s", plural.Of(len(s.LIDs), "LID"), plural.Of(len(s.MKeys), "M_Key"), plural.Of(len(s.Neighbors), "neighbor"), plural.Of(len(s.Records), "record"))
}

// isBackup reports whether a file begins as backups do.
func isBackup(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [1]byte
	_, err = io.ReadFull(f, b[:])
	return err == nil && b[0] == '{'
}

// readState reads a state file or a backup.
func readState(path string) (*backup.Backup, error) {
	if !isBackup(path) {
		s, at, err := boltdb.ReadContents(path)
		return &backup.Backup{State: s, At: at}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := backup.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// sayWithheld says what a backup was written without, and what that means for who uses it.
func sayWithheld(w io.Writer, name string, x backup.Withheld) {
	if x.MKeys > 0 {
		fmt.Fprintf(w, "%s is without %s: ports with other M_Keys than --m-key may refuse the manager\n", name, plural.Of(x.MKeys, "M_Key"))
	}
	if x.Tokens > 0 {
		fmt.Fprintf(w, "%s is without %s of the API: create new ones ('heddle ctl token create')\n", name, plural.Of(x.Tokens, "token"))
	}
	if x.Services > 0 {
		fmt.Fprintf(w, "%s is without %s that %s a ServiceKey: programs have to register them again\n",
			name, plural.Of(x.Services, "service"), plural.Verb(x.Services, "has", "have"))
	}
}

// readSource is readState with standard input as "-".
func readSource(in io.Reader, name string) (*backup.Backup, error) {
	if name != "-" {
		if fi, err := os.Stat(name); err == nil && fi.IsDir() {
			name = stateFile(name)
		}
		return readState(name)
	}
	b, err := backup.Read(in)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return b, nil
}

func storeExport() *cobra.Command {
	var shared storeEtcd
	var out string
	var secrets bool
	c := &cobra.Command{
		Use:   "export STATE",
		Short: "Write a state file as a backup, one line of JSON each entry",
		Long: `Writes the contents of a state file, one line of JSON each entry, with a checksum
at the end (docs/format/backup.md): to a file with mode 0600 (--out), or to standard
output. STATE may be etcd://HOST:PORT[,HOST:PORT...][/PREFIX], also while
managers run.

M_Keys, hashes of tokens, and services with a ServiceKey are left out and counted,
so that the file can be shown to others. With --secrets it has them too, and is a
complete backup: keep it as you keep keys. 'heddle ctl backup' makes a complete one
of a running manager.`,
		Example: `  heddle store export /var/lib/heddle --secrets --out backup.jsonl
  heddle store export /var/lib/heddle | grep '"lid"'`,
		Args: oneArg("one state file or state directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b := &backup.Backup{}
			var err error
			if isEtcd(args[0]) {
				b.State, b.At, err = shared.read(cmd, args[0])
			} else {
				b.State, b.At, err = boltdb.ReadContents(stateFile(args[0]))
			}
			if err != nil {
				return err
			}
			warn := cmd.ErrOrStderr()
			if !secrets {
				b = b.WithoutKeys()
				if b.Without != (backup.Withheld{}) {
					sayWithheld(warn, "the export", b.Without)
					fmt.Fprintln(warn, "--secrets writes them too")
				}
			}
			if out != "" {
				return writeWhole(out, b.Write)
			}
			if secrets && openToOthers(cmd.OutOrStdout()) {
				fmt.Fprintln(warn, "other users can read the file on standard output, which has keys: change its mode to 0600, or use --out FILE")
			}
			return b.Write(cmd.OutOrStdout())
		},
	}
	shared = newStoreEtcd(c)
	c.Flags().StringVar(&out, "out", "", "`FILE` to write, with mode 0600, in place of standard output")
	c.Flags().BoolVar(&secrets, "secrets", false, "write M_Keys, hashes of tokens and services with a ServiceKey too")
	return c
}

func storeImport() *cobra.Command {
	var over overwrite
	var shared storeEtcd
	var version string
	c := &cobra.Command{
		Use:   "import BACKUP STATE",
		Short: "Make a state file from a backup",
		Long: `Makes the state file of a manager that is not running from a backup ('-' is
standard input), or from a state file, such as the copy that is kept when one is
converted. It is checked completely first: an error in it changes nothing. If root
runs the command, the new file gets the owner of its directory. An existing state
file is not changed, unless --replace is given; it is then kept with the suffix
.before, in place of an earlier one. What is missing in a backup ('heddle store
export' without --secrets) is printed. The journal begins a new term, so that it is
not taken for that of the backup's manager. A backup without any entry replaces an
existing state only with --allow-empty.

STATE may be etcd://HOST:PORT[,HOST:PORT...][/PREFIX]: stop all its managers first.
The import is refused while one of them has the term and answers.

--for makes a file that an older version reads (docs/upgrade.md). It has no
tables that the version does not know, and no journal if the version has none.
Omitted records are printed.`,
		Example: `  heddle store import backup.jsonl /var/lib/heddle
  heddle store import backup.jsonl /var/lib/heddle --replace --for 0.1.0`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want a backup and a state file or state directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := readSource(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			sayWithheld(cmd.ErrOrStderr(), args[0], b.Without)
			// What the manager of the backup wrote since is another history.
			s, at := b.State, journal.Mark{Term: b.At.Term.After(0, time.Now().UnixNano()), Number: b.At.Number + 1}
			write := func(path string) error { return writeState(path, s, at) }
			if version != "" {
				old, err := olderNamed(version)
				if err != nil {
					return &usageError{err}
				}
				old.leaveOut(s, cmd.ErrOrStderr())
				if !old.journal() {
					at = journal.Mark{}
					write = func(path string) error { return boltdb.WriteOlder(path, s, old.format) }
				}
			}
			path := args[1]
			if isEtcd(path) {
				if version != "" {
					return usagef("--for makes state files only")
				}
				if err := shared.write(cmd, path, s, at, over); err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has %s\n", path, contents(s))
				return err
			}
			path = stateFile(path)
			if err := makeState(path, s, write, over); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has %s, %v\n", path, contents(s), at)
			return err
		},
	}
	shared = newStoreEtcd(c)
	c.Flags().BoolVar(&over.replace, "replace", false, "replace an existing state; a file is kept with the suffix .before")
	c.Flags().BoolVar(&over.empty, "allow-empty", false, "with --replace: also by a backup without any entry")
	c.Flags().StringVar(&version, "for", "", "make a file for an older `VERSION`: "+strings.Join(olderNames(), ", "))
	return c
}

// openToOthers reports whether w is a regular file that other users can read.
func openToOthers(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0
}

// overwrite says what an import may do to a state that exists.
type overwrite struct {
	replace bool
	empty   bool // a state without entries may replace it
}

// isEmpty reports whether a state has no entry.
func isEmpty(s *store.State) bool {
	return len(s.LIDs)+len(s.MKeys)+len(s.Neighbors)+len(s.Records) == 0
}

// check refuses to replace a state that has entries, or is damaged (nil), by one that has none.
func (o overwrite) check(name string, s, had *store.State) error {
	if o.empty || !isEmpty(s) || had != nil && isEmpty(had) {
		return nil
	}
	what := "cannot be read"
	if had != nil {
		what = "has " + contents(had)
	}
	return fmt.Errorf("%s %s, and the backup has no entry: nothing was changed; give --allow-empty to replace it by an empty state", name, what)
}

// makeState writes a new state file, of s, beside path and moves it there when it is complete.
func makeState(path string, s *store.State, write func(path string) error, over overwrite) (err error) {
	switch _, err := os.Stat(path); {
	case err == nil && !over.replace:
		return fmt.Errorf("%s exists; give --replace to put the backup in its place", path)
	case err == nil:
		var damaged *boltdb.CorruptError
		var newer *boltdb.FormatError
		// It fails if a manager uses it. A file of an older format stays as it is.
		had, _, err := boltdb.ReadContents(path)
		other := errors.As(err, &damaged) && damaged.Foreign && filepath.Base(path) != boltdb.FileName
		if err != nil && (other || !errors.As(err, &damaged)) && !errors.As(err, &newer) {
			return err
		}
		if err != nil {
			had = nil
		}
		if err := over.check(path, s, had); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := makeStateDir(filepath.Dir(path)); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer os.Remove(fresh)
	if err := write(fresh); err != nil {
		return err
	}
	if err := giveToOwner(fresh); err != nil {
		return err
	}
	if over.replace {
		// A link, so that there is a state file at any moment: a manager that starts without one
		// begins with nothing.
		before := path + ".before"
		if err := os.Remove(before); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Link(path, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// giveToOwner gives a file that root made in a directory to the owner of that: a service has to read
// its state. Of a link, which that owner may have put there, it is the link alone.
func giveToOwner(path string) error {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if st, ok := dir.Sys().(*syscall.Stat_t); ok {
		return os.Lchown(path, int(st.Uid), int(st.Gid))
	}
	return nil
}

// writeState makes a new state file.
func writeState(path string, s *store.State, at journal.Mark) error {
	db, err := boltdb.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(db.Replace(s, at), db.Close())
}
