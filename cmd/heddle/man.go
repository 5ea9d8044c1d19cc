package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/internal/version"
	"heddle/settings"
)

// newMan writes the man pages, from the same tables as --help.
func newMan() *cobra.Command {
	var date string
	c := &cobra.Command{
		Use:    "man DIR",
		Hidden: true,
		Short:  "Write the man pages of all commands and of heddle.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name a directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := time.Parse(time.DateOnly, date); err != nil {
				return usagef("--date %q: want a day such as 2026-11-23", date)
			}
			for name, page := range manPages(newRoot(), date) {
				path := filepath.Join(args[0], "man"+name[len(name)-1:], name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, page, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&date, "date", time.Now().UTC().Format(time.DateOnly), "`DAY` of the pages")
	return c
}

// manPages are the pages by file: one for each command in help, and heddle.yaml(5).
func manPages(root *cobra.Command, date string) map[string][]byte {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	pages := map[string][]byte{}
	for _, c := range allCommands(root) {
		if hasPage(c) {
			pages[manName(c)+".8"] = commandPage(c, date)
		}
	}
	pages["heddle.yaml.5"] = settingsPage(root, date)
	return pages
}

// hasPage reports whether c has a man page of its own: what 'heddle help config' says is in
// heddle.yaml(5).
func hasPage(c *cobra.Command) bool {
	for p := c; p != nil; p = p.Parent() {
		if p.Hidden {
			return false
		}
	}
	return c.Runnable() || c.HasAvailableSubCommands()
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff is a man page under construction.
type roff struct{ bytes.Buffer }

func (r *roff) title(name, section, date string) {
	fmt.Fprintf(r, ".TH %s %s %s \"heddle %s\" \"Heddle\"\n.ad l\n.nh\n", roffWord(strings.ToUpper(name)), section, date, roffWord(version.Version))
}

func (r *roff) section(name string) { fmt.Fprintf(r, ".SH \"%s\"\n", name) }

// item begins a paragraph with a tag, which may have requests for fonts.
func (r *roff) item(tag string) { fmt.Fprintf(r, ".TP\n%s\n", tag) }

// text writes paragraphs. Blocks that are indented or have columns stay as they are.
func (r *roff) text(s string) {
	between := false
	for block := range strings.SplitSeq(strings.Trim(s, "\n"), "\n\n") {
		if between {
			r.WriteString(".PP\n")
		}
		between = true
		literal, filled := []string{}, true
		flush := func() {
			if len(literal) > 0 {
				r.literal(strings.Join(literal, "\n"))
			}
			literal = literal[:0]
		}
		for line := range strings.Lines(block) {
			line = strings.TrimRight(line, "\n ")
			if columns.MatchString(line) {
				if filled && r.hasText() {
					r.WriteString(".PP\n")
				}
				literal, filled = append(literal, line), false
				continue
			}
			flush()
			filled = true
			r.WriteString(roffLine(line) + "\n")
		}
		flush()
	}
}

// columns are lines that are no running text.
var columns = regexp.MustCompile(`^\s|\S {2,}\S`)

// hasText reports whether the last line is text, and no request.
func (r *roff) hasText() bool {
	lines := strings.Split(strings.TrimSuffix(r.String(), "\n"), "\n")
	return !strings.HasPrefix(lines[len(lines)-1], ".")
}

// literal writes lines as they are.
func (r *roff) literal(s string) {
	r.WriteString(".nf\n")
	for line := range strings.Lines(s) {
		r.WriteString(roffLine(strings.TrimRight(line, "\n ")) + "\n")
	}
	r.WriteString(".fi\n")
}

// roffText is running text, in which the hyphens of options can be copied.
func roffText(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	return options.ReplaceAllStringFunc(s, func(o string) string { return strings.ReplaceAll(o, "-", `\-`) })
}

var options = regexp.MustCompile(`\B--?[a-z0-9][a-z0-9-]*`)

// roffLine is a line of text, which is no request whatever it begins with.
func roffLine(s string) string {
	s = roffText(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// roffWord is a name whose hyphens are not for line breaks.
func roffWord(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\e`), "-", `\-`)
}

func bold(s string) string   { return `\fB` + roffWord(s) + `\fR` }
func italic(s string) string { return `\fI` + roffWord(s) + `\fR` }

func commandPage(c *cobra.Command, date string) []byte {
	r := &roff{}
	r.title(manName(c), "8", date)
	r.section("NAME")
	fmt.Fprintf(r, "%s \\- %s\n", roffWord(manName(c)), roffText(c.Short))
	r.section("SYNOPSIS")
	synopsis := bold(c.CommandPath())
	rest := strings.TrimPrefix(strings.TrimSuffix(c.UseLine(), " [flags]"), c.CommandPath())
	if c.HasAvailableSubCommands() && rest == "" {
		rest = " COMMAND"
	}
	fmt.Fprintf(r, "%s%s [\\fIoptions\\fR]\n", synopsis, roffText(rest))
	r.section("DESCRIPTION")
	if c.Long != "" {
		r.text(c.Long)
	} else {
		r.text(strings.TrimSuffix(c.Short, ".") + ".")
	}
	if c.HasAvailableSubCommands() {
		r.section("COMMANDS")
		for _, s := range c.Commands() {
			if hasPage(s) {
				r.item(fmt.Sprintf(".BR %s (8)", roffWord(manName(s))))
				r.text(s.Short)
			}
		}
	}
	r.options(c)
	if c.Example != "" {
		r.section("EXAMPLES")
		r.literal(strings.Trim(c.Example, "\n"))
	}
	if !c.HasParent() {
		r.section("EXIT STATUS")
		for _, s := range [][2]string{
			{"0", "Success."},
			{"1", "Failure."},
			{"2", "Wrong command line, setting or input."},
			{"3", "With heddle sm --once: another manager is master."},
		} {
			r.item(".B " + s[0])
			r.text(s[1])
		}
		r.section("FILES")
		for _, f := range packagedFiles {
			r.item(".I " + roffWord(f[0]))
			r.text(f[1])
		}
	}
	r.section("SEE ALSO")
	r.WriteString(seeAlso(c))
	return r.Bytes()
}

// packagedFiles are files of an installed package.
var packagedFiles = [][2]string{
	{"/etc/heddle/heddle.yaml", "Settings of the managers on this host; see heddle.yaml(5)."},
	{"/etc/heddle/INSTANCE.env", "HEDDLE_* variables for heddle@INSTANCE.service alone."},
	{"/var/lib/heddle/INSTANCE", "Its state: LIDs, keys, partitions, groups."},
	{"/run/heddle/INSTANCE/api.sock", "Its API for root and the user heddle."},
	{"/var/backups/heddle/INSTANCE", "Backups of its state by heddle-backup@INSTANCE.timer."},
}

// options writes the flags of a command: its own, then its settings by group.
func (r *roff) options(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	r.section("OPTIONS")
	groups := map[settings.Group][]*pflag.Flag{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch s := asSetting(f); {
		case f.Hidden:
		case s != nil:
			groups[s.Group] = append(groups[s.Group], f)
		default:
			r.flag(f)
		}
	})
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			r.flag(f)
		}
	})
	for _, g := range settings.Groups() {
		if groups[g] == nil {
			continue
		}
		fmt.Fprintf(r, ".SS \"%s\"\n", g)
		for _, s := range settings.All(g) { // in the order of the table
			if i := slices.IndexFunc(groups[g], func(f *pflag.Flag) bool { return f.Name == s.Name }); i >= 0 {
				r.flag(groups[g][i])
			}
		}
	}
}

func (r *roff) flag(f *pflag.Flag) {
	arg, usage := pflag.UnquoteUsage(f)
	tag := bold("--" + f.Name)
	if f.Shorthand != "" {
		tag = bold("-"+f.Shorthand) + ", " + tag
	}
	if arg != "" {
		tag += " " + italic(arg)
	}
	if s := asSetting(f); s == nil {
		if d := strings.Trim(f.DefValue, "[]"); d != "" && d != "false" && d != "0" && d != "0s" && f.Name != "help" {
			usage += " (default " + d + ")"
		}
	}
	r.item(tag)
	r.WriteString(roffLine(usage) + "\n")
}

// seeAlso are the pages around that of c.
func seeAlso(c *cobra.Command) string {
	var pages []string
	for p := c.Parent(); p != nil; p = p.Parent() {
		pages = append(pages, manName(p)+" (8)")
	}
	slices.Reverse(pages)
	pages = append(pages, "heddle.yaml (5)")
	for i, p := range pages {
		pages[i] = ".BR " + roffWord(p)
		if i < len(pages)-1 {
			pages[i] += " ,"
		}
	}
	return strings.Join(pages, "\n") + "\n"
}

// settingsPage is heddle.yaml(5).
func settingsPage(root *cobra.Command, date string) []byte {
	r := &roff{}
	r.title("heddle.yaml", "5", date)
	r.section("NAME")
	r.WriteString("heddle.yaml \\- settings of the InfiniBand subnet manager Heddle\n")
	r.section("SYNOPSIS")
	r.WriteString(".I /etc/heddle/heddle.yaml\n")
	r.section("DESCRIPTION")
	r.text(child(root, "config").Long)
	r.section("SETTINGS")
	r.text("These are the settings of the sections sm, up and plan. The flags of other commands are on the\npages of these commands; heddle(8) lists them.")
	for _, g := range settings.Groups() {
		fmt.Fprintf(r, ".SS \"%s\"\n", g)
		for _, s := range settings.All(g) {
			tag := bold(s.Name)
			if s.Arg != "" {
				tag += " " + italic(s.Arg)
			}
			r.item(tag)
			r.WriteString(roffLine(strings.ToUpper(s.Meaning[:1])+s.Meaning[1:]) + ".\n")
			for _, x := range [][2]string{{"Values", s.Brief()}, {"Default", s.Default()}, {"Applies", s.Applies()}, {"Option of OpenSM", s.OpenSM}, {"Since", s.Since}} {
				if x[1] != "" {
					r.WriteString(roffLine(x[0]+": "+x[1]) + ".\n")
				}
			}
		}
	}
	r.section("FILES")
	for _, f := range packagedFiles[:2] {
		r.item(".I " + roffWord(f[0]))
		r.text(f[1])
	}
	r.section("SEE ALSO")
	r.WriteString(".BR heddle (8),\n.BR heddle\\-sm (8)\n")
	return r.Bytes()
}
