package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/internal/need"
	"heddle/settings"
)

const manDay = "2026-11-23"

// TestManPages: each command that help lists has a page with all its flags, and each setting is in
// heddle.yaml(5).
func TestManPages(t *testing.T) {
	pages := manPages(newRoot(), manDay)
	plain := func(page []byte) string {
		return strings.NewReplacer(`\-`, "-", `\fB`, "", `\fI`, "", `\fR`, "").Replace(string(page))
	}
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.IsAvailableCommand() || c.Name() == "help" || !c.HasParent() {
			name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".8"
			page := plain(pages[name])
			delete(pages, name)
			if page == "" {
				t.Errorf("%s has no page", c.CommandPath())
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !strings.Contains(page, "\n--"+f.Name) && !strings.Contains(page, ", --"+f.Name) {
					t.Errorf("%s lacks --%s", name, f.Name)
				}
			})
			if !strings.Contains(page, `.SH "NAME"`) || !strings.Contains(page, c.Short) {
				t.Errorf("%s does not say what it is", name)
			}
		}
		for _, s := range c.Commands() {
			walk(s)
		}
	}
	walk(root)
	page := plain(pages["heddle.yaml.5"])
	for _, s := range settings.All() {
		if !strings.Contains(page, "\n.TP\n"+s.Name) {
			t.Errorf("heddle.yaml(5) lacks %s", s.Name)
		}
	}
	delete(pages, "heddle.yaml.5")
	if len(pages) > 0 {
		t.Errorf("pages of no command: %v", slices.Sorted(maps.Keys(pages)))
	}
}

// requests are those that the pages may use.
var requests = []string{".TH", ".SH", ".SS", ".TP", ".PP", ".BR", ".B", ".I", ".nf", ".fi", ".ad", ".nh"}

// TestManRequests: a line of text that begins with a period or an apostrophe is no request, and a
// backslash in a text is one on paper.
func TestManRequests(t *testing.T) {
	for name, page := range manPages(newRoot(), manDay) {
		for line := range strings.Lines(string(page)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains(requests, word) {
				t.Errorf("%s: %q is taken for a request", name, line)
			}
		}
	}
	r := &roff{}
	r.text(".profile has 'a\\b' and --state-dir\n'quoted' sub-net\n\n  kept  as is -x\n.too")
	want := "\\&.profile has 'a\\eb' and \\-\\-state\\-dir\n\\&'quoted' sub-net\n.PP\n.nf\n  kept  as is \\-x\n.fi\n\\&.too\n"
	if got := r.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// writeManPages runs heddle man, and returns the files.
func writeManPages(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"man", "--date", manDay, dir}, nil, &errs, &errs); code != 0 {
		t.Fatalf("status %d: %s", code, &errs)
	}
	list, err := filepath.Glob(filepath.Join(dir, "man[58]", "*.[58]"))
	if err != nil || len(list) < 50 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	return list
}

// TestManLint: mandoc finds nothing to say about the pages.
func TestManLint(t *testing.T) {
	mandoc := need.Tool(t, "mandoc")
	out, err := exec.Command(mandoc, append([]string{"-Tlint", "-Wwarning"}, writeManPages(t)...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestManGroff: neither does groff, which Debian's man uses, with all warnings.
func TestManGroff(t *testing.T) {
	groff := need.Tool(t, "groff")
	// All pages in one run: one for each takes ten times as long.
	out, err := exec.Command(groff, append([]string{"-man", "-ww", "-K", "utf8", "-Tutf8", "-z", "-rLL=80n"}, writeManPages(t)...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCompletionScripts: the scripts are ones that the shells read.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			var script, errs bytes.Buffer
			if code := run(t.Context(), []string{"completion", shell}, nil, &script, &errs); code != 0 {
				t.Fatalf("status %d: %s", code, &errs)
			}
			file := filepath.Join(t.TempDir(), shell)
			if err := os.WriteFile(file, script.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(need.Tool(t, shell), "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
			if !regexp.MustCompile(`\b__complete\b`).Match(script.Bytes()) {
				t.Error("it does not ask heddle")
			}
		})
	}
}
