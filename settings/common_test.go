package settings

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestCommon: the settings that must be alike are those of the subnet, not those of a machine. Each exception is one.
func TestCommon(t *testing.T) {
	for _, name := range slices.Concat(ownSettings, commonSettings) {
		if Find(name) == nil {
			t.Errorf("there is no setting %q", name)
		}
	}
	for _, s := range All() {
		if s.Common() && (strings.HasSuffix(s.Name, "-key-file") || strings.Contains(s.Name, "listen") || s.Arg == "DIR" || strings.HasPrefix(s.Name, "api")) {
			t.Errorf("%s must be alike, and is of a machine", s.Name)
		}
	}
	for _, name := range []string{"engine", "hoq-life", "max-vls", "qos", "sm-key", "m-key", "sa-key", "qos-policy", "partitions", "roots", "sm-lid", "perf", "cc-key", "rejoin-time"} {
		if s := Find(name); s == nil || !s.Common() {
			t.Errorf("%s may differ", name)
		}
	}
}

// TestCommonValue: of a file its contents count, not its name; without a name nothing is read.
func TestCommonValue(t *testing.T) {
	v, files := New(), map[string]string{"a": "0x1\n", "b": "0x1\n", "c": "0x2\n"}
	missing := errors.New("no such file")
	of := func(file string) string {
		t.Helper()
		if err := v.Set("roots", file, "here"); err != nil {
			t.Fatal(err)
		}
		text, err := v.CommonValue(Find("roots"), func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, missing
		})
		if err != nil {
			if !errors.Is(err, missing) || !strings.HasPrefix(err.Error(), "here: ") {
				t.Error(err)
			}
			return "missing"
		}
		return text
	}
	if a, b, c := of("a"), of("b"), of("c"); a != b || a == c || a == "" {
		t.Errorf("%q, %q, %q", a, b, c)
	}
	if got := of(""); got != "" {
		t.Errorf("no file: %q", got)
	}
	if got := of("d"); got != "missing" {
		t.Errorf("a file that is missing: %q", got)
	}
	if err := v.Set("hoq-life", "17", "here"); err != nil {
		t.Fatal(err)
	}
	if text, err := v.CommonValue(Find("hoq-life"), nil); text != "17" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
