package lab

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestMain writes a line for each cluster that the tests make to the file HEDDLE_RECORD, if that
// is set: test, number within the test, and the hashes of what its managers did. `make same`
// compares two commits by it.
func TestMain(m *testing.M) {
	path := os.Getenv("HEDDLE_RECORD")
	if path == "" {
		os.Exit(m.Run())
	}
	type line struct {
		test string
		n    int
		*recording
	}
	var lines []line
	count := map[string]int{}
	observe = func(c *Cluster) {
		c.record = newRecording()
		test := caller()
		count[test]++
		lines = append(lines, line{test, count[test], c.record})
	}
	code := m.Run()
	f, err := os.Create(path)
	if err == nil {
		w := bufio.NewWriter(f)
		for _, l := range lines {
			fmt.Fprintln(w, l.test, l.n, l.recording)
		}
		err = w.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// caller is the test that runs.
func caller() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	for {
		f, more := frames.Next()
		if _, name, ok := strings.Cut(f.Function, "lab.Test"); ok && !strings.HasPrefix(name, "Main.") {
			name, _, _ = strings.Cut(name, ".")
			return "Test" + name
		}
		if !more {
			return "?"
		}
	}
}

func newRecording() *recording {
	return &recording{wire: fnv.New64a(), store: fnv.New64a(), notices: fnv.New64a()}
}

// String is one line: how much there was of each, and its hash.
func (r *recording) String() string {
	return fmt.Sprintf("wire %d %016x store %d %016x notices %d %016x", r.packets, r.wire.Sum64(), r.ops, r.store.Sum64(), r.told, r.notices.Sum64())
}
