package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"heddle/store/backup"
)

func ctlBackup() *cobra.Command {
	var o ctlOptions
	var out, dir string
	var keep int
	c := &cobra.Command{
		Use:   "backup {--out FILE | --dir DIR}",
		Short: "Write the stored state of the manager to a file",
		Long: `Writes the stored state of the manager to a file that only its owner can read, one
line of JSON each entry, with a checksum at the end (docs/format/backup.md). The
manager continues to run. The file appears only when it is complete and checked.
'heddle store import' makes a state file from it.

With --dir the file is named by the time (UTC): heddle-20261123T021500Z.jsonl.
Then the oldest files with such names are removed, except for the last --keep ones.
heddle-backup@.timer does this each night.`,
		Example: `  heddle ctl backup --out backup.jsonl
  heddle ctl backup --dir /var/backups/heddle --keep 30`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case (out == "") == (dir == ""):
				return usagef("name a file with --out ('-' is standard output), or a directory with --dir")
			case cmd.Flags().Changed("keep") && dir == "":
				return usagef("--keep requires --dir")
			case keep < 1:
				return usagef("--keep %d: want at least 1", keep)
			}
			return o.stream(cmd.Context(), "/v1/backup", func(r io.Reader) error {
				switch out {
				case "":
					return datedBackup(dir, keep, time.Now(), r, cmd.OutOrStdout())
				case "-":
					_, err := backup.Read(io.TeeReader(r, cmd.OutOrStdout()))
					return err
				}
				return saveBackup(out, r, cmd.OutOrStdout())
			})
		},
	}
	c.Flags().StringVar(&out, "out", "", "`FILE` to write; '-' is standard output")
	c.Flags().StringVar(&dir, "dir", "", "`DIR` for a file with the time in its name; it is made if it is not there")
	c.Flags().IntVar(&keep, "keep", 14, "with --dir, keep the last `N` files")
	o.registerPlace(c)
	return c
}

// backupName are the names of dated backups. By name is by age.
var backupName = regexp.MustCompile(`^heddle-\d{8}T\d{6}Z\.jsonl$`)

// datedBackup writes a backup to dir with the time in its name, and removes all dated backups but
// the last ones.
func datedBackup(dir string, keep int, now time.Time, r io.Reader, told io.Writer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := now.UTC().Format("heddle-20060102T150405Z.jsonl")
	if err := saveBackup(filepath.Join(dir, name), r, told); err != nil {
		return err
	}
	list, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e os.DirEntry) bool { return !e.Type().IsRegular() || !backupName.MatchString(e.Name()) })
	for _, e := range list[:max(0, len(list)-keep)] {
		if e.Name() == name { // the clock went back: this one counts
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
		fmt.Fprintf(told, "removed %s\n", e.Name())
	}
	return nil
}

// saveBackup writes a backup beside path and moves it there when it is complete and sound.
func saveBackup(path string, r io.Reader, told io.Writer) error {
	var b *backup.Backup
	if err := writeWhole(path, func(w io.Writer) (err error) {
		b, err = backup.Read(io.TeeReader(r, w))
		return err
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(told, "%s has %s, %v\n", path, contents(b.State), b.At)
	return err
}

// stream makes a request whose response may be long.
func (o *ctlOptions) stream(ctx context.Context, path string, read func(io.Reader) error) error {
	m, err := o.locate()
	if err != nil {
		return err
	}
	resp, err := m.request(ctx, http.MethodGet, path, nil, 5*time.Minute)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return read(resp.Body)
}
