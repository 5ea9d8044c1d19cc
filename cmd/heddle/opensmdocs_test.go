package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heddle/opensm"
)

const (
	opensmDoc   = "../../docs/opensm.md"
	optionsFrom = "<!-- the options -->\n"
	optionsTo   = "<!-- end of the options -->\n"
)

// TestOpenSMOptions compares the table of options in docs/opensm.md with that of package opensm. It is
// renewed with -update, as docs/cli.md.
func TestOpenSMOptions(t *testing.T) {
	b, err := os.ReadFile(opensmDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), optionsFrom)
	_, after, ok2 := strings.Cut(rest, optionsTo)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the options", opensmDoc)
	}
	var rows strings.Builder
	rows.WriteString("\n| option | result | setting | remarks |\n|---|---|---|---|\n")
	for _, o := range opensm.Options() {
		what, setting := o.Verdict.String(), ""
		if o.Setting != "" {
			setting = "`" + o.Setting + "`"
		}
		if o.Vendor {
			what += " from NVIDIA's manager"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", o.Name, what, setting, o.Means)
	}
	got := before + optionsFrom + rows.String() + "\n" + optionsTo + after
	if *update {
		if err := os.WriteFile(opensmDoc, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(b), got); d != "" {
		t.Errorf("the options of docs/opensm.md are not those of package opensm (-file +package); run go test ./cmd/heddle -run TestOpenSMOptions -update\n%s", d)
	}
}
