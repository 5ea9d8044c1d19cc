// Package need lets a test say what it needs of the machine: a tool, FUSE, a
// browser. Where the thing is missing the test is skipped with the reason;
// where HEDDLE_REQUIRE (a comma-separated list, set in CI) names it, the test
// fails instead, so that a skip cannot hide there.
package need

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Tool skips t unless the program is on PATH, and returns its path. The
// requirement's name is the program's.
func Tool(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		// Debian keeps daemons where an ordinary user's PATH does not look.
		if q, err2 := exec.LookPath("/usr/sbin/" + name); err2 == nil {
			return q
		}
		Missing(t, name, err.Error())
	}
	return p
}

// FUSE skips t unless /dev/fuse can be opened for reading and writing.
func FUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		Missing(t, "fuse", err.Error())
		return
	}
	f.Close()
}

// Missing skips t, or fails it if HEDDLE_REQUIRE names what.
func Missing(t testing.TB, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("HEDDLE_REQUIRE"), ","), what) {
		t.Fatalf("%s is required (HEDDLE_REQUIRE) but missing: %s", what, why)
	}
	t.Skipf("needs %s: %s", what, why)
}

// Long skips t unless HEDDLE_LONG is set: the full matrices, stress counts
// and campaigns of `make test-long`.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("long: runs in make test-long")
	}
}
