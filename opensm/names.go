package opensm

import (
	"fmt"
	"io"
	"strings"

	"heddle/ib"
)

// Limits of a node-name-map.
const (
	maxNameLine = 255 // bytes that OpenSM reads at a time
	maxNames    = 1 << 24
)

// Names reads a node-name-map: a node GUID and a name a line, where the name is in quotes or goes
// on to the end or to a #. A line without a GUID makes OpenSM leave out the whole file, so it is
// an error here. Of two names of a node the first counts.
func Names(r io.Reader, name string) (map[ib.GUID]string, []Note, error) {
	names := map[ib.GUID]string{}
	var notes []Note
	var failed error
	note := func(line int, format string, a ...any) {
		notes = append(notes, Note{name, line, fmt.Sprintf(format, a...)})
	}
	err := pieces(r, maxNameLine, maxNames, func(line int, text string, split bool) {
		if split && text != "" {
			note(line, "more than %d bytes: OpenSM takes the rest for a line of its own", maxNameLine)
		}
		text = strings.TrimLeft(text, " \t\r\v\f")
		if text == "" || text[0] == '#' || failed != nil {
			return
		}
		n, neg, over, rest := cNumber(text)
		if rest == text || neg || over || rest != "" && rest[0] != '#' && !isSpace(rest[0]) {
			failed = fmt.Errorf("%s:%d: %q does not begin with a GUID", name, line, head(text))
			return
		}
		rest = strings.TrimLeft(rest, " \t\r\v\f")
		if strings.HasPrefix(rest, "#") {
			note(line, "no name stands before the #: OpenSM takes the comment for the name, and Heddle leaves the line out")
			return
		}
		as := strings.TrimLeft(rest, `"#`)
		if i := strings.IndexAny(as, `"#`); i >= 0 {
			as = as[:i]
		}
		if as = strings.TrimSpace(as); as == "" {
			return
		}
		if old, twice := names[ib.GUID(n)]; twice {
			if old != as {
				note(line, "node %v has the name %q already: this one does not count", ib.GUID(n), old)
			}
			return
		}
		names[ib.GUID(n)] = as
	})
	switch {
	case failed != nil:
		return nil, nil, failed
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return names, notes, nil
}
