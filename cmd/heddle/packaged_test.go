package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackagedConfig: the file that packages install is read, as it is and with all that it has as
// comments: then the port alone is missing.
func TestPackagedConfig(t *testing.T) {
	for _, name := range []string{"../../packaging/heddle.yaml", "../../contrib/kubernetes/base/heddle.yaml"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all := regexp.MustCompile(`(?m)^  #(\S+:.*)$`).ReplaceAll(b, []byte("  $1"))
		for _, text := range [][]byte{b, all} {
			file := filepath.Join(t.TempDir(), "heddle.yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if code := run(t.Context(), []string{"sm", "--config", file}, nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), "missing port") {
				t.Errorf("%s: status %d: %s\n%s", name, code, &errs, text)
			}
		}
		if strings.Contains(name, "packaging") && bytes.Equal(all, b) {
			t.Errorf("%s names no setting", name)
		}
	}
}
