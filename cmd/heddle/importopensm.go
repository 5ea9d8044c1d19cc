package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/internal/plural"
	"heddle/opensm"
	"heddle/partition"
	"heddle/sa/osmsa"
	"heddle/store"
	"heddle/store/boltdb"
)

// Where OpenSM of the distributions has its files.
const (
	opensmConf  = "/etc/opensm/opensm.conf"
	opensmCache = "/var/cache/opensm"
)

// exitIncomplete is the exit status of an import that left something out.
const exitIncomplete = 4

func newImport() *cobra.Command {
	c := &cobra.Command{
		Use:     "import",
		GroupID: "manage",
		Short:   "Take over from another subnet manager",
		Args:    subcommandOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(importOpenSM())
	return c
}

// opensmImport is an import from OpenSM, and its flags.
type opensmImport struct {
	conf, cacheDir, dump, out, state, port, instance string
	dryRun, force, replace, noLIDs                   bool

	im       *opensm.Import
	cache    opensm.Cache
	records  []store.Record
	read     []string // what was read, a line for each file
	misread  []opensm.Note
	problems []string
	own      []opensm.Assignment
}

func importOpenSM() *cobra.Command {
	var x opensmImport
	c := &cobra.Command{
		Use:   "opensm --state DIR",
		Short: "Take over options, LIDs, M_Keys and groups from OpenSM",
		Long: `Reads OpenSM's options and stored state, and makes a configuration file and the
state of 'heddle sm' from them, so that no LID moves when it takes the subnet over.
docs/opensm.md has the steps, and the equivalent of each option.

It reads opensm.conf, the files that it names, guid2lid, guid2mkey and neighbors
of the cache directory, and the SA dump: that of --sa-db, or opensm-sa.dump of
dump_files_dir if sa_db_dump is TRUE, or that of sa_db_file. It reads them as
OpenSM does, and reports lines whose apparent meaning differs from that. OpenSM may
continue to run. Options of OpenSM's command line are not in opensm.conf: 'opensm
OPTIONS -c FILE' makes a file that has them.

If a file has an error, two ports have one LID, or LIDs differ from those of the
state, all errors are listed and nothing is written. LIDs, M_Keys, neighbors and
records are stored in one transaction.

With --port it also shows what Heddle would change, as 'heddle plan' does.

Without guid2lid, hosts that are off lose their LIDs; --no-lids says that this is
meant. A directory given with --cache must exist.

It exits with 0 if nothing is lost, with 4 if an option that is set was left out or
no LID was found, and with 1 if the import was refused.`,
		Example: `  heddle import opensm --state /var/lib/heddle --dry-run
  heddle import opensm --state /var/lib/heddle --out /etc/heddle/heddle.yaml --port umad:mlx5_0/1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return x.run(cmd) },
	}
	f := c.Flags()
	f.StringVar(&x.conf, "conf", opensmConf, "OpenSM's `FILE` of options")
	f.StringVar(&x.cacheDir, "cache", opensmCache, "OpenSM's cache `DIR` (OSM_CACHE_DIR)")
	f.BoolVar(&x.noLIDs, "no-lids", false, "take no LIDs over: do not read guid2lid")
	f.StringVar(&x.dump, "sa-db", "", "OpenSM's SA dump, in place of the one that its options name: `FILE`")
	f.StringVar(&x.out, "out", "heddle.yaml", "configuration `FILE` to write, with mode 0600, as it has the keys, or that of the file which it replaces")
	f.StringVar(&x.state, "state", "", "`DIR` for the state of the manager, which must not run")
	f.StringVar(&x.instance, "instance", "", "`PORT` of the service heddle@PORT: state in /var/lib/heddle/PORT, settings in /etc/heddle/PORT.yaml, which PORT.env beside it names")
	f.StringVar(&x.port, "port", "", "`PORT` through which to compare with the subnet, and to manage it")
	f.BoolVar(&x.dryRun, "dry-run", false, "write nothing")
	f.BoolVar(&x.force, "force", false, "leave out options that are refused")
	f.BoolVar(&x.replace, "replace", false, "replace an existing configuration file")
	return c
}

func (x *opensmImport) run(cmd *cobra.Command) error {
	if err := x.forInstance(cmd); err != nil {
		return err
	}
	if x.state == "" {
		return usagef("missing state; give --state DIR, such as /var/lib/heddle, or --instance PORT")
	}
	if _, err := os.Stat(x.out); err == nil && !x.replace && !x.dryRun {
		return fmt.Errorf("%s exists; give --replace, or another --out", x.out)
	}
	if err := x.readOptions(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("cache") { // otherwise OpenSM may never have run on this host
		if st, err := os.Stat(x.cacheDir); err != nil {
			return fmt.Errorf("--cache: %w; give OpenSM's cache directory, such as %s", err, opensmCache)
		} else if !st.IsDir() {
			return fmt.Errorf("--cache: %s is not a directory; give OpenSM's cache directory, such as %s", x.cacheDir, opensmCache)
		}
	}
	if err := x.readStored(); err != nil {
		return err
	}
	f := smFlags{x.im.Values}
	x.checkFiles(f)
	have, err := x.compare()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	x.report(out)
	if n := len(x.problems); n > 0 {
		return fmt.Errorf("refused for %s: nothing was written", plural.Of(n, "reason"))
	}
	if x.port != "" {
		if err := x.showPlan(cmd, f, have); err != nil {
			return err
		}
	}
	if x.dryRun {
		if x.port == "" { // the plan says so too
			fmt.Fprintln(out, "nothing was written")
		}
	} else if err := x.write(out); err != nil {
		return err
	}
	var lost []string
	if x.lacksLIDs() {
		lost = append(lost, "all LIDs")
	}
	if !x.im.Complete() {
		lost = append(lost, plural.Of(x.im.Count(opensm.LeftOut)+len(x.im.Conf.Unknown), "option"))
	}
	if len(lost) > 0 {
		return &exitError{exitIncomplete, fmt.Errorf("%s left out", strings.Join(lost, " and "))}
	}
	return nil
}

// lacksLIDs reports whether no LID was found although some were looked for.
func (x *opensmImport) lacksLIDs() bool { return !x.noLIDs && len(x.cache.LIDs) == 0 }

// readOptions reads opensm.conf. Without one OpenSM has its defaults.
func (x *opensmImport) readOptions(cmd *cobra.Command) error {
	in, err := os.Open(x.conf)
	var conf *opensm.Conf
	switch {
	case errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed("conf"):
		if conf, err = opensm.Read(strings.NewReader(""), x.conf); err != nil {
			return err
		}
		x.read = append(x.read, x.conf+": there is none, so OpenSM has its defaults")
	case err != nil:
		return err
	default:
		defer in.Close()
		if conf, err = opensm.Read(in, x.conf); err != nil {
			return err
		}
		n := 0
		for _, o := range opensm.Options() {
			if conf.Given(o.Name) {
				n++
			}
		}
		x.read = append(x.read, fmt.Sprintf("%s: %s", x.conf, plural.Of(n, "option")))
	}
	x.im = opensm.Convert(conf, readable)
	if x.force {
		x.im.Force()
	}
	x.misread = append(slices.Clone(conf.Notes), x.im.Notes...)
	for i := range x.im.Results {
		if r := &x.im.Results[i]; r.Outcome == opensm.Refused {
			x.problems = append(x.problems, fmt.Sprintf("%s:%d: %s %s: %s", x.conf, r.Value.Line, r.Option.Name, r.Shown(), r.Why))
		}
	}
	if x.instance != "" {
		return nil // its unit has state and port
	}
	state, err := filepath.Abs(x.state)
	if err != nil {
		return err
	}
	x.own = append(x.own, opensm.Assignment{Name: "state", Text: state})
	if x.port != "" {
		x.own = append(x.own, opensm.Assignment{Name: "port", Text: x.port})
	}
	for _, a := range x.own {
		if err := x.im.Values.Set(a.Name, a.Text, "--"+a.Name); err != nil {
			return err
		}
	}
	return nil
}

func readable(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// readStored reads what OpenSM stored.
func (x *opensmImport) readStored() error {
	lmc := x.im.Values.SM.LMC
	for _, f := range []struct {
		name string
		read func(io.Reader, string) error
		n    func() int
	}{
		{opensm.FileLIDs, func(r io.Reader, name string) error { return x.cache.ReadLIDs(r, name, lmc) }, func() int { return len(x.cache.LIDs) }},
		{opensm.FileMKeys, x.cache.ReadMKeys, func() int { return len(x.cache.MKeys) }},
		{opensm.FileNeighbors, x.cache.ReadNeighbors, func() int { return len(x.cache.Neighbors) }},
	} {
		path := filepath.Join(x.cacheDir, f.name)
		if x.noLIDs && f.name == opensm.FileLIDs {
			x.read = append(x.read, path+": not read (--no-lids)")
			continue
		}
		in, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			x.read = append(x.read, path+": there is none")
			continue
		} else if err != nil {
			return err
		}
		err = f.read(in, path)
		in.Close()
		if err != nil {
			return err
		}
		x.read = append(x.read, fmt.Sprintf("%s: %s", path, plural.Of(f.n(), "port")))
	}
	x.misread = append(x.misread, x.cache.Notes...)
	for _, p := range x.cache.Problems {
		x.problems = append(x.problems, p.String())
	}
	return x.readDump()
}

// dumpFile is the SA dump that OpenSM would read or has written last; empty: none.
func (x *opensmImport) dumpFile() string {
	if x.dump != "" {
		return x.dump
	}
	written := filepath.Join(x.im.Conf.Get("dump_files_dir").Text, opensm.FileDump)
	if x.im.Conf.Get("sa_db_dump").True() && readable(written) {
		return written
	}
	if v := x.im.Conf.Get("sa_db_file"); v.IsSet() && readable(v.Text) {
		return v.Text
	}
	return ""
}

func (x *opensmImport) readDump() error {
	path := x.dumpFile()
	if path == "" {
		x.read = append(x.read, "no SA dump: hosts are asked to register and to join their groups again")
		return nil
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	recs, warnings, err := osmsa.Read(in, path, time.Now().UnixNano())
	if err != nil {
		x.problems = append(x.problems, err.Error())
		return nil
	}
	for _, w := range warnings {
		x.misread = append(x.misread, opensm.Note{File: path, Line: w.Line, Text: w.Text})
	}
	x.records = recs
	n := map[store.Table]int{}
	for i := range recs {
		n[recs[i].Table]++
	}
	x.read = append(x.read, fmt.Sprintf("%s: %s, %s, %s, %s, %s", path, plural.Of(n[store.TableGroups], "group"), plural.Of(n[store.TableMembers], "member"),
		plural.Of(n[store.TableServices], "service"), plural.Of(n[store.TableSubscriptions], "subscription"), plural.Of(n[store.TableAliases], "alias GUID")))
	return nil
}

// checkFiles reads the files that the settings name, as the manager will.
func (x *opensmImport) checkFiles(f smFlags) {
	warnings := slog.New(&noteHandler{notes: &x.misread})
	if _, err := f.config("sm"); err != nil {
		x.problems = append(x.problems, err.Error())
	}
	if in, err := os.Open(f.Files.NodeNames); err == nil {
		_, notes, _ := opensm.Names(in, f.Files.NodeNames) // config has had its error
		x.misread = append(x.misread, notes...)
		in.Close()
	}
	parts, err := f.readPartitions(warnings)
	switch {
	case errors.Is(err, partition.ErrNothing):
		x.misread = append(x.misread, opensm.Note{File: f.Files.Partitions, Text: "no partition: every port is a full member of the default partition, as with OpenSM"})
	case err != nil:
		// OpenSM opens the whole subnet instead.
		x.problems = append(x.problems, err.Error()+" (with such a file OpenSM makes every port a full member of the default partition)")
	}
	if _, err := f.readOptions(parts, warnings); err != nil {
		x.problems = append(x.problems, err.Error())
	}
}

// noteHandler collects what would be logged.
type noteHandler struct{ notes *[]opensm.Note }

func (h *noteHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *noteHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *noteHandler) WithGroup(string) slog.Handler            { return h }

func (h *noteHandler) Handle(_ context.Context, r slog.Record) error {
	file, text, ok := strings.Cut(r.Message, ": ")
	if !ok {
		file, text = "warning", r.Message
	}
	*h.notes = append(*h.notes, opensm.Note{File: file, Text: text})
	return nil
}

// compare looks for conflicts with the state that is there already.
func (x *opensmImport) compare() (*store.State, error) {
	path := filepath.Join(x.state, boltdb.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &store.State{}, nil
	}
	have, _, err := boltdb.ReadContents(path)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	x.problems = append(x.problems, x.cache.Conflicts(have)...)
	if len(x.records) > 0 && slices.ContainsFunc(have.Records, func(r store.Record) bool { return r.Table != store.TablePartitions }) {
		x.records = nil
		x.misread = append(x.misread, opensm.Note{File: path, Text: "the state has groups, services or subscriptions: those of OpenSM are left out"})
	}
	return have, nil
}

// ops are the operations of the import.
func (x *opensmImport) ops() []store.Op {
	s := store.State{LIDs: x.cache.LIDs, MKeys: x.cache.MKeys, Neighbors: x.cache.Neighbors, Records: x.records}
	return s.Ops()
}

// report lists what was read, what differs, and what is wrong.
func (x *opensmImport) report(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, format string, a ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, plain(fmt.Sprintf(format, a...)))
	}
	for _, r := range x.read {
		row("read", "%s", r)
	}
	for i := range x.im.Results {
		r := &x.im.Results[i]
		if r.Value.Text == r.Option.Default && len(r.Settings) == 0 {
			continue
		}
		what := r.Option.Name + " " + r.Shown()
		switch r.Outcome {
		case opensm.Set:
			var names []string
			for _, a := range r.Settings {
				name := "--" + a.Name
				if r.Shown() == r.Value.Text {
					name += " " + a.Text
				}
				names = append(names, name)
			}
			row("taken over", "%s as %s%s", what, strings.Join(names, " "), why(r.Why))
		case opensm.Unneeded:
			row("not needed", "%s%s", what, why(r.Why))
		case opensm.LeftOut:
			row("LEFT OUT", "%s%s", what, why(r.Why))
		case opensm.Same, opensm.Refused:
		}
	}
	if x.lacksLIDs() {
		row("LEFT OUT", "%s: no LIDs: hosts that are off lose theirs; give OpenSM's --cache DIR, or --no-lids if this is meant", filepath.Join(x.cacheDir, opensm.FileLIDs))
	}
	for _, u := range x.im.Conf.Unknown {
		row("LEFT OUT", "%s:%d: %s: neither OpenSM nor Heddle knows it", x.conf, u.Line, u.Name)
	}
	for _, n := range x.misread {
		row("note", "%s", n)
	}
	for _, p := range x.problems {
		row("REFUSED", "%s", p)
	}
	w.Flush()
}

func why(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// showPlan compares with the subnet.
func (x *opensmImport) showPlan(cmd *cobra.Command, f smFlags, have *store.State) error {
	cfg, err := f.config("sm")
	if err != nil {
		return err
	}
	st := store.NewMemory()
	if err := st.Apply(append(have.Ops(), x.ops()...)); err != nil {
		return err
	}
	quiet := *f.Values
	quiet.Log.Level = int(slog.LevelWarn) // the output is the plan
	plan, err := smFlags{&quiet}.plan(cmd, cfg, st, x.port)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	v := planJSON(plan)
	fmt.Fprintf(out, "taking over this subnet moves %s, writes %s, and leaves %s out:\n",
		plural.Of(len(v.LIDs), "LID"), plural.Of(v.Blocks, "LFT block"), plural.Of(x.im.Count(opensm.LeftOut)+len(x.im.Conf.Unknown), "option"))
	return printPlan(out, plan, nil)
}

// write writes the configuration and the state. The configuration gets its name last, so that
// without it nothing was taken over.
func (x *opensmImport) write(out io.Writer) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(x.out), ".heddle-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	keepReaders(tmp, x.out)
	if err := errors.Join(x.im.WriteYAML(tmp, x.own), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := makeStateDir(x.state); err != nil {
		return err
	}
	if x.instance != "" {
		if err := ownState(x.state); err != nil {
			return err
		}
	}
	db, err := boltdb.Open(filepath.Join(x.state, boltdb.FileName))
	if err != nil {
		return err
	}
	if err := errors.Join(db.Apply(x.ops()), db.Close()); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(tmp.Name(), x.out), x.nameConfig(), x.giveToService()); err != nil {
		return err
	}
	start := "heddle sm --config " + x.out
	if x.instance != "" {
		start = "systemctl start heddle@" + x.instance
	}
	_, err = fmt.Fprintf(out, "%s has %s, %s, %s and %s of the SA\n%s has the settings: %s\n", x.state, plural.Of(len(x.cache.LIDs), "LID"),
		plural.Of(len(x.cache.MKeys), "M_Key"), plural.Of(len(x.cache.Neighbors), "neighbor"), plural.Of(len(x.records), "record"), x.out, start)
	return err
}

// makeStateDir makes the directory of a state for its owner alone. Services run as another user, who has
// to come to it: directories above it that are not there yet are for all.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// keepReaders gives a new file the owner, the group and the mode of the one that it will replace, if
// other users can do nothing with that: the service reads its configuration by its group. Otherwise, or
// without the right to do so, the new one stays its owner's alone.
func keepReaders(tmp *os.File, old string) {
	st, err := os.Stat(old)
	if err != nil || st.Mode().Perm()&0o007 != 0 {
		return
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if ok && tmp.Chown(int(sys.Uid), int(sys.Gid)) == nil {
		_ = tmp.Chmod(st.Mode().Perm() | 0o600) // an error leaves it to the owner
	}
}
