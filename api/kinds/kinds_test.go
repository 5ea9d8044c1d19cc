package kinds

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kindSources are how the sources below a directory name kinds of events. The first part of a pattern
// is the kind.
var kindSources = []struct {
	dir     string
	pattern string
}{
	{".", `"kind", "([a-z_]+)"`},
	{"daemon", `note\([^"\n]*, "([a-z_]+)"`},
	{"daemon", `note\("[a-z]+", "([a-z_]+)"`},
	{"daemon", `\b[kK]ind\w*\s*=\s*"([a-z_]+)"`},
	{"daemon/process/pair.go", `"(ha_[a-z_]+)"`},
	{"daemon/process/differ.go", `"(ha_[a-z_]+)"`},
	{"logs", `\bkind\w*\s*=\s*"([a-z_]+)"`},
	{"sm/notice/notice.go", `Kind\w+:\s*"([a-z_]+)"`},
	{"sa", `c\.notice\("([a-z_]+)"`},
	{"sa", `\bKind:\s*"([a-z_]+)"`},
	{"sa", `"((?:service|subscription|group|unsaved|record)_[a-z]+)"`},
	{"sa", `x\.remove\(c, i, "([a-z_]+)"`},
	{"vm", `c\.tell\("([a-z_]+)"`},
	{"perf", `\bKind\w+\s*=\s*"([a-z_]+)"`},
	{"congestion", `\bKind\w+\s*=\s*"([a-z_]+)"`},
}

// TestEventKinds: the list has the kinds that the sources name, and no others.
func TestEventKinds(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	found := map[string]string{}
	patterns := make([]*regexp.Regexp, len(kindSources))
	used := make([]bool, len(kindSources))
	for i, s := range kindSources {
		patterns[i] = regexp.MustCompile(s.pattern)
	}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "agent" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			if err != nil {
				return err
			}
			return fs.SkipDir // hosts' agents have no events
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || name == "api/kinds/kinds.go" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for i, s := range kindSources {
			if s.dir != "." && name != s.dir && !strings.HasPrefix(name, s.dir+"/") {
				continue
			}
			for _, m := range patterns[i].FindAllSubmatch(text, -1) {
				used[i] = true
				found[string(m[1])] = name
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range kindSources {
		if !used[i] {
			t.Errorf("%s: nothing matches %s any more", s.dir, s.pattern)
		}
	}
	for k, at := range found {
		if !slices.Contains(all, k) {
			t.Errorf("%s has events of kind %q, and all has not", at, k)
		}
	}
	for _, k := range all {
		if found[k] == "" {
			t.Errorf("all has %q, which no source has", k)
		}
	}
	if !slices.IsSorted(all) {
		t.Error("all is not sorted")
	}
}
