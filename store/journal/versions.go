package journal

import (
	"fmt"
	"strconv"
	"strings"
)

// Range are the versions of a format that a program reads and writes, from 1 on.
type Range struct{ Oldest, Newest uint8 }

// Common is the newest version that is in both ranges; false: none is.
func (r Range) Common(o Range) (v uint8, ok bool) {
	v = min(r.Newest, o.Newest)
	return v, v >= max(r.Oldest, o.Oldest)
}

// Has reports whether v is in the range.
func (r Range) Has(v uint8) bool { return v >= r.Oldest && v <= r.Newest }

// String implements fmt.Stringer: "1", or "1 to 3".
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return strconv.Itoa(int(r.Newest))
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}

// Linked is own, unless the linker has put another range into text, as "1-2": tests build programs
// of another version that way. It panics if the text is none.
func Linked(text string, own Range) Range {
	if text == "" {
		return own
	}
	from, to, _ := strings.Cut(text, "-")
	a, err := strconv.ParseUint(from, 10, 8)
	b, err2 := strconv.ParseUint(to, 10, 8)
	if err != nil || err2 != nil || a < 1 || b < a {
		panic("journal: the linker's range " + strconv.Quote(text) + " is none")
	}
	return Range{uint8(a), uint8(b)}
}
