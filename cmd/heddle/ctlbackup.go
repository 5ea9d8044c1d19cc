package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"heddle/store/backup"
)

func ctlBackup() *cobra.Command {
	var o ctlOptions
	var out string
	c := &cobra.Command{
		Use:   "backup --out FILE",
		Short: "Write the stored state of the manager to a file",
		Long: `Writes what the manager has stored to a file that only its owner can read, one
line of JSON each entry, with a checksum at the end (docs/format/backup.md). The
manager goes on meanwhile. The file is complete and checked, or it is not there.
'heddle store import' makes a state file from it.`,
		Example: `  heddle ctl backup --out backup.jsonl`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usagef("ctl backup: name a file with --out ('-' is standard output)")
			}
			return o.stream(cmd.Context(), "/v1/backup", func(r io.Reader) error {
				if out == "-" {
					_, _, err := backup.Read(io.TeeReader(r, cmd.OutOrStdout()))
					return err
				}
				return saveBackup(out, r, cmd.OutOrStdout())
			})
		},
	}
	c.Flags().StringVar(&out, "out", "", "`FILE` to write; '-' is standard output")
	c.Flags().StringVar(&o.addr, "api", "", "`ADDR` of the manager's API: HOST:PORT, or unix:PATH (default: that of this user's last started daemon, otherwise "+defaultAPI+")")
	c.Flags().StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token (default: that of this user's daemon)")
	return c
}

// saveBackup writes a backup beside path and moves it there when it is complete and sound.
func saveBackup(path string, r io.Reader, told io.Writer) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".backup-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	s, at, err := backup.Read(io.TeeReader(r, f))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(told, "%s has %s, %v\n", path, contents(s), at)
	return err
}

// stream makes a request whose response may be long.
func (o *ctlOptions) stream(ctx context.Context, path string, read func(io.Reader) error) error {
	m, err := locate(o.addr, o.tokenFile)
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
