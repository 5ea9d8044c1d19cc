// Package settingstest chooses values for tests of settings.
package settingstest

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Other is a value of a setting that is not its default. typ, words and def are its type, words and
// default; takes reports whether a text is valid and changes something.
func Other(t testing.TB, name, typ string, words []string, def string, takes func(text string) bool) string {
	t.Helper()
	var list []string
	switch typ {
	case "bool":
		list = []string{"true", "false"}
	case "number":
		n, _ := strconv.ParseUint(def, 0, 64)
		list = []string{strconv.FormatUint(n+1, 10), strconv.FormatUint(n-1, 10)}
	case "time":
		d, _ := time.ParseDuration(def)
		list = []string{(d + 3*time.Second).String()}
	case "words":
		list = append(slices.Clone(words), "x,y")
	default:
		list = append(slices.Clone(words), def+"x", "7", "0x77", "2:9", "0x0200000000000011-0x0200000000000fff")
	}
	i := slices.IndexFunc(list, takes)
	if i < 0 {
		t.Fatalf("setting %s takes none of %q", name, list)
	}
	return list[i]
}
