package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/settings"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

//go:generate go test . -run TestReference -update

const cliDoc = "../../docs/cli.md"

// TestReference compares docs/cli.md with the commands' help. Regenerate it with: go
// test ./cmd/heddle -run TestReference -update
func TestReference(t *testing.T) {
	got := reference(newRoot())
	if *update {
		if err := os.WriteFile(cliDoc, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("docs/cli.md is not what the commands say (-file +commands); run go test ./cmd/heddle -run TestReference -update\n%s", d)
	}
}

// reference is the manual of every command, in the order of help.
func reference(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString("# The commands\n\nGenerated from the commands' own help; `heddle help COMMAND` shows the same.\n\n")
	var list []*cobra.Command
	for _, c := range allCommands(root) {
		if c.Hidden || c.Name() == "help" && c.Parent() == root {
			continue
		}
		list = append(list, c)
		line := fmt.Sprintf("- [`%s`](#%s):", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"))
		if len(line)+1+len(c.Short) > 100 {
			line += "\n "
		}
		fmt.Fprintf(&b, "%s %s\n", line, c.Short)
	}
	for _, c := range list {
		manual(&b, c)
	}
	settingsManual(&b)
	return b.Bytes()
}

func manual(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	if c.Runnable() {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.TrimSuffix(c.UseLine(), " [flags]"))
	}
	text := c.Long
	if text == "" {
		text = c.Short
	}
	fmt.Fprintf(b, "```text\n%s\n```\n", strings.TrimSpace(text))
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", unindent(c.Example))
	}
	var flags bytes.Buffer
	var fromTable []settings.Group
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if s := asSetting(f); s != nil {
			if !slices.Contains(fromTable, s.Group) {
				fromTable = append(fromTable, s.Group)
			}
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if arg != "" {
			name += " " + arg
		}
		if d := strings.Trim(f.DefValue, "[]"); d != "" && d != "false" && d != "0" && d != "0s" {
			usage += " (default " + d + ")"
		}
		fmt.Fprintf(&flags, "| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", "\\|"))
	})
	if flags.Len() > 0 {
		fmt.Fprintf(b, "\n| flag | |\n|---|---|\n%s", flags.Bytes())
	}
	switch len(fromTable) {
	case 0:
	case 1:
		fmt.Fprintf(b, "\nIt also takes the settings of [%s](#%s).\n", fromTable[0], anchor(fromTable[0]))
	default:
		b.WriteString("\nIt also takes the [settings](#settings).\n")
	}
}

func anchor(g settings.Group) string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(string(g), ",", "")), " ", "-")
}

// settingsManual is the part of the manual that the table of settings gives.
func settingsManual(b *bytes.Buffer) {
	b.WriteString(`
## Settings

These are the settings of ` + "`heddle sm`, `heddle up`" + ` and ` + "`heddle plan`" + `. ` + "`sweep-interval`" + ` is the
flag ` + "`--sweep-interval`" + `, the variable ` + "`HEDDLE_SWEEP_INTERVAL`" + ` and the key ` + "`sweep-interval`" + ` of the
configuration file (see [heddle config](#heddle-config)). *live* settings apply to a running manager
when it reads its settings again (SIGHUP, ` + "`heddle ctl reload`" + `); others need a restart. The column OpenSM has the option of
opensm.conf that means the same, though its values may be written in another way.
`)
	for _, g := range settings.Groups() {
		fmt.Fprintf(b, "\n### %s\n\n| setting | values | default | meaning | applies | OpenSM | since |\n|---|---|---|---|---|---|---|\n", g)
		for _, s := range settings.All(g) {
			meaning := s.Meaning
			if s.Commands != nil && !slices.Contains(s.Commands, "route") && len(s.Commands) < 3 {
				meaning += " (" + strings.Join(s.Commands, ", ") + ")"
			}
			name, def := s.Name, s.Default()
			if s.Arg != "" {
				name += " " + s.Arg
			}
			osm := s.OpenSM
			if osm != "" {
				osm = "`" + osm + "`"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", strings.ReplaceAll(name, "|", "\\|"), s.Brief(), def, strings.ReplaceAll(meaning, "|", "\\|"), s.Applies(), osm, s.Since)
		}
	}
}

func unindent(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

// TestDocumentedCommands: every heddle command in documents and help texts exists, with
// its flags.
func TestDocumentedCommands(t *testing.T) {
	texts := map[string]string{}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/traffic.md"} {
		b, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(b)
	}
	for _, c := range allCommands(newRoot()) {
		if c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			continue // cobra's own words
		}
		texts["help of "+c.CommandPath()] = c.Long + "\n" + c.Example
	}
	found := 0
	for where, text := range texts {
		for _, line := range commandLines(text) {
			found++
			if err := checkLine(line); err != nil {
				t.Errorf("%s: %q: %v", where, line, err)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found in the documents", found)
	}
}

var (
	wordOnly = regexp.MustCompile(`^[a-z]+$`)
	quoted   = regexp.MustCompile("[`']((?:bin/)?heddle [^`'\n]+)[`']")
	inLine   = regexp.MustCompile(`(?m)(?:^|[ |;])((?:bin/)?heddle (?:up|sm|plan|ctl|sim|attach|topo|route|traffic|version|help|completion)\b[^|;>\n]*)`)
)

// commandLines are the heddle commands in a text: in code quotes, and at the
// beginning of a line or of a part of a pipeline in an indented block.
func commandLines(text string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "heddle ") || strings.HasPrefix(line, "bin/heddle ") {
			for _, m := range inLine.FindAllStringSubmatch(line, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func checkLine(line string) error {
	words := strings.Fields(line)[1:]
	c := newRoot()
	c.InitDefaultCompletionCmd()
	if words[0] == "help" {
		words = words[1:]
	}
	for len(words) > 0 {
		// "ctl status | nodes" in prose names several; the first is enough.
		sub := child(c, strings.Trim(words[0], ",.`'"))
		if sub == nil {
			break
		}
		c, words = sub, words[1:]
	}
	if !c.HasParent() && len(words) > 0 && !strings.HasPrefix(words[0], "-") && !placeholder(words[0]) {
		return fmt.Errorf("there is no command %q", words[0])
	}
	if len(c.Commands()) > 0 && c.HasParent() && len(words) > 0 && wordOnly.MatchString(words[0]) && !placeholder(words[0]) {
		return fmt.Errorf("%s has no command %q", c.CommandPath(), words[0])
	}
	for _, w := range words {
		if w == "--" {
			break
		}
		name, ok := strings.CutPrefix(w, "--")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(strings.Trim(name, ",.`'()[]"), "=")
		c.InitDefaultHelpFlag()
		if c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
		}
	}
	return nil
}

// placeholder reports words such as COMMAND, which stand for others.
func placeholder(w string) bool { return strings.ToUpper(w) == w }
