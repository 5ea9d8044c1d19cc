package traffic

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// TraceError says what is wrong with a trace.
type TraceError struct {
	Line    int
	Problem string
}

func (e *TraceError) Error() string { return fmt.Sprintf("traffic: line %d: %s", e.Line, e.Problem) }

// maxMessages bounds a trace: 16 million messages are half a gigabyte.
const maxMessages = 1 << 24

// ReadTrace reads messages, one on each line: TIME SRC DST BYTES, for example
//
//	12.5us host-3 host-17 64KiB
//
// Hosts are names, IDs or LIDs; # begins a comment. Lines may be in any order;
// the result is in that of time. Errors are *TraceError or those of r.
func ReadTrace(r io.Reader, hosts []Host) ([]Message, error) {
	var out []Message
	known := map[string]int32{}
	find := func(name string) int32 {
		h, ok := known[name]
		if !ok {
			h = Find(hosts, name)
			known[name] = h
		}
		return h
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<10)
	n := 0
	for sc.Scan() {
		n++
		text, _, _ := strings.Cut(sc.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if len(f) != 4 {
			return nil, &TraceError{n, fmt.Sprintf("%d words, want TIME SRC DST BYTES", len(f))}
		}
		at, err := time.ParseDuration(f[0])
		if err != nil || at < 0 || at > maxTime {
			return nil, &TraceError{n, fmt.Sprintf("%q: want a time up to 24h with its unit, such as 12.5us", f[0])}
		}
		m := Message{At: at, Src: find(f[1]), Dst: find(f[2])}
		for i, h := range []int32{m.Src, m.Dst} {
			if h < 0 {
				return nil, &TraceError{n, fmt.Sprintf("no host has the name or LID %q", f[1+i])}
			}
		}
		if m.Src == m.Dst {
			return nil, &TraceError{n, fmt.Sprintf("%q sends to itself", f[1])}
		}
		var ok bool
		if m.Bytes, ok = parseSize(f[3]); !ok {
			return nil, &TraceError{n, fmt.Sprintf("%q: want a size above 0 and at most 1 TiB, such as 65536 or 64KiB", f[3])}
		}
		if len(out) == maxMessages {
			return nil, &TraceError{n, fmt.Sprintf("more than %d messages", maxMessages)}
		}
		out = append(out, m)
	}
	if err := sc.Err(); err != nil {
		return nil, &TraceError{n + 1, err.Error()}
	}
	slices.SortStableFunc(out, func(a, b Message) int { return int(a.At - b.At) })
	return out, nil
}
