// Package need declares a test's requirements on the machine: a tool, FUSE, a
// browser. If one is missing, the test is skipped with the reason; if
// HEDDLE_REQUIRE (a comma-separated list, set in CI) names it, the test fails
// instead, so that CI does not hide skips.
package need

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Patience bounds the wait for an event that must happen. It is no measurement:
// it is longer than any machine starves a process, and shorter than go test's
// own limit, so that the test can still report the missing event.
const Patience = 3 * time.Minute

// Tool skips t unless the program is on PATH, and returns its path. The
// requirement's name is the program's.
func Tool(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		// Debian installs daemons outside an ordinary user's PATH.
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

// Seeds lists the seeds of a random test: HEDDLE_SEED alone if it is set;
// otherwise 0, 1, … up to HEDDLE_SEEDS if that is set, up to long with
// HEDDLE_LONG, otherwise up to quick.
func Seeds(quick, long int) []uint64 {
	if s, err := strconv.ParseUint(os.Getenv("HEDDLE_SEED"), 10, 64); err == nil {
		return []uint64{s}
	}
	n := quick
	if os.Getenv("HEDDLE_LONG") != "" {
		n = long
	}
	if k, err := strconv.Atoi(os.Getenv("HEDDLE_SEEDS")); err == nil && k > 0 {
		n = k
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i)
	}
	return all
}
