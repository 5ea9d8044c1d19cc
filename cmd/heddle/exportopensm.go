package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/internal/plural"
	"heddle/opensm"
	"heddle/sa/osmsa"
	"heddle/settings"
	"heddle/store"
)

func newExport() *cobra.Command {
	c := &cobra.Command{
		Use:     "export",
		GroupID: "manage",
		Short:   "Write the state of a manager for another subnet manager",
		Args:    subcommandOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(exportOpenSM())
	return c
}

func exportOpenSM() *cobra.Command {
	var state, out string
	var replace bool
	c := &cobra.Command{
		Use:   "opensm --state STATE --out DIR",
		Short: "Write OpenSM's files from the state of a manager",
		Long: `Writes guid2lid, guid2mkey, neighbors and opensm-sa.dump from the state of a
manager that is not running, or from a backup of a running one ('heddle ctl
backup'), so that no LID moves when OpenSM takes the subnet over. With --config
FILE it also writes an opensm.conf with the options that correspond to the settings
of 'heddle sm'. docs/opensm.md has the steps.`,
		Example: `  heddle export opensm --state /var/lib/heddle --out /var/cache/opensm --config /etc/heddle/heddle.yaml
  heddle export opensm --state backup.jsonl --out files`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := settingsOf(child(cmd.Root(), "sm"))
			if state == "" {
				state = v.Files.State
			}
			if state == "" || out == "" {
				return usagef("missing state or directory; give --state STATE and --out DIR")
			}
			b, err := readState(stateFile(state))
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("config") {
				v = nil
			} else if err := (smFlags{v}).readSecrets("sm"); err != nil {
				return err
			}
			sayWithheld(cmd.ErrOrStderr(), state, b.Without)
			return exportFiles(cmd.OutOrStdout(), cmd.ErrOrStderr(), b.State, v, out, replace)
		},
	}
	f := c.Flags()
	f.StringVar(&state, "state", "", "state file or its directory, or a backup: `STATE`; default: that of the configuration file")
	f.StringVar(&out, "out", "", "`DIR` for the files, such as OpenSM's cache directory")
	f.BoolVar(&replace, "replace", false, "replace existing files")
	return c
}

// settingsOf are the settings of a command that takes them: those of the configuration file.
func settingsOf(c *cobra.Command) (v *settings.Values) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if x, ok := f.Value.(*settingFlag); ok {
			v = x.v
		}
	})
	return v
}

// exportFiles writes the files into a directory; v may be nil.
func exportFiles(out, warn io.Writer, s *store.State, v *settings.Values, dir string, replace bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	dump, err := filepath.Abs(filepath.Join(dir, opensm.FileDump))
	if err != nil {
		return err
	}
	files := []struct {
		name  string
		what  string
		write func(io.Writer) error
	}{
		{opensm.FileLIDs, plural.Of(len(s.LIDs), "port"), func(w io.Writer) error { return opensm.WriteLIDs(w, s.LIDs) }},
		{opensm.FileMKeys, plural.Of(len(s.MKeys), "M_Key"), func(w io.Writer) error { return opensm.WriteMKeys(w, s.MKeys) }},
		{opensm.FileNeighbors, plural.Of(len(s.Neighbors), "port"), func(w io.Writer) error { return opensm.WriteNeighbors(w, opensm.BothEnds(s.Neighbors)) }},
		{opensm.FileDump, "groups, services, subscriptions and alias GUIDs", func(w io.Writer) error {
			left, err := osmsa.Write(w, s.Records, s.LIDs, time.Now().UnixNano())
			for _, text := range left {
				fmt.Fprintf(warn, "left out: %s\n", plain(text))
			}
			return err
		}},
		{"opensm.conf", "the options", func(w io.Writer) error { return opensm.WriteConf(w, v, dump) }},
	}
	if v == nil {
		files = files[:len(files)-1]
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(dir, f.name)); err == nil && !replace {
			return fmt.Errorf("%s exists; give --replace", filepath.Join(dir, f.name))
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := writeWhole(path, f.write); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", path, f.what)
	}
	return nil
}

// writeWhole writes a file for this user alone, and gives it its name when it is complete.
func writeWhole(path string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".heddle-*")
	if err != nil {
		var named *fs.PathError
		if errors.As(err, &named) { // nobody knows the temporary name
			err = named.Err
		}
		return fmt.Errorf("%s: writing to its directory: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	b := bufio.NewWriter(tmp)
	if err := errors.Join(write(b), b.Flush(), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
