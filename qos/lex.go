package qos

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is a mistake that makes a file unusable.
type Error struct {
	File string
	Line int // from 1
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Warning is a statement that has no effect, or perhaps not the intended one.
type Warning struct {
	File string
	Line int // from 1
	Msg  string
}

func (w Warning) String() string { return fmt.Sprintf("%s:%d: %s", w.File, w.Line, w.Msg) }

// lexer scans a file. Blanks, line ends and comments separate words; line ends
// are significant only in text, which extends to the end of its line.
type lexer struct {
	file string
	b    string
	pos  int
	line int
}

func (l *lexer) errorf(format string, a ...any) error {
	return &Error{l.file, l.line, fmt.Sprintf(format, a...)}
}

// peek is the next byte, 0 at the end.
func (l *lexer) peek() byte {
	if l.pos < len(l.b) {
		return l.b[l.pos]
	}
	return 0
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// skip passes over blanks, line ends and comments.
func (l *lexer) skip() {
	for l.pos < len(l.b) {
		switch c := l.b[l.pos]; {
		case c == '\n':
			l.line++
			l.pos++
		case isBlank(c):
			l.pos++
		case c == '#':
			l.comment()
		default:
			return
		}
	}
}

// comment passes over the rest of the line, without its end.
func (l *lexer) comment() {
	if n := strings.IndexByte(l.b[l.pos:], '\n'); n >= 0 {
		l.pos += n
	} else {
		l.pos = len(l.b)
	}
}

// wordAt is the word that begins at i, and the next non-blank character after
// it.
func (l *lexer) wordAt(i int) (word string, next byte) {
	k := i
	for k < len(l.b) && isWord(l.b[k]) {
		k++
	}
	word = l.b[i:k]
	for k < len(l.b) && isBlank(l.b[k]) {
		k++
	}
	if k < len(l.b) {
		next = l.b[k]
	}
	return word, next
}

// word takes a word, "" at the end of the file.
func (l *lexer) word() (string, error) {
	l.skip()
	w, _ := l.wordAt(l.pos)
	if w == "" && l.pos < len(l.b) {
		return "", l.errorf("unexpected %q: want a key or the name of a block", l.b[l.pos])
	}
	l.pos += len(w)
	return w, nil
}

// punct takes the character c, on the same line.
func (l *lexer) punct(c byte) bool {
	i := l.pos
	for i < len(l.b) && isBlank(l.b[i]) {
		i++
	}
	if i >= len(l.b) || l.b[i] != c {
		return false
	}
	l.pos = i + 1
	return true
}

// follows consumes the character c if it comes next, on this line or a later
// one.
func (l *lexer) follows(c byte) bool {
	old := *l
	if l.skip(); l.peek() == c {
		l.pos++
		return true
	}
	*l = old
	return false
}

// number reads a number in C notation: 0x hexadecimal, 0 octal, otherwise
// decimal.
func (l *lexer) number() (uint64, error) {
	l.skip()
	w, _ := l.wordAt(l.pos)
	w, _, _ = strings.Cut(w, "-")
	v, err := strconv.ParseUint(w, 0, 64)
	switch {
	case w == "" && l.pos >= len(l.b):
		return 0, l.errorf("the file ends where a number is wanted")
	case w == "":
		return 0, l.errorf("unexpected %q: want a number", l.b[l.pos])
	case err != nil || strings.ContainsAny(w, "_oObB") && !isHex(w):
		return 0, l.errorf("%q is no number (decimal or 0x hexadecimal, at most 64 bits)", w)
	}
	l.pos += len(w)
	return v, nil
}

func isHex(w string) bool {
	return len(w) > 2 && (w[:2] == "0x" || w[:2] == "0X") && !strings.ContainsRune(w, '_')
}

// ranges reads numbers and ranges a-b, separated by commas. The ends of a range
// may be in either order.
func (l *lexer) ranges() ([]span, error) {
	var list []span
	for {
		lo, err := l.number()
		if err != nil {
			return nil, err
		}
		hi := lo
		if l.follows('-') {
			if hi, err = l.number(); err != nil {
				return nil, err
			}
		}
		list = append(list, span{min(lo, hi), max(lo, hi)})
		if !l.follows(',') {
			return list, nil
		}
	}
}

// rest takes the rest of the line as it is, without a comment.
func (l *lexer) rest() string {
	i := l.pos
	for l.pos < len(l.b) && l.b[l.pos] != '\n' && l.b[l.pos] != '#' {
		l.pos++
	}
	return strings.TrimSpace(l.b[i:l.pos])
}

// texts reads texts separated by commas. They extend to the end of the line, or to
// the next one after a comma; quotes protect commas and #. A block or key on the
// same line ends the last text.
func (l *lexer) texts() ([]string, error) {
	var list []string
	var t strings.Builder
	first, quoted := true, false // nothing of the value yet; something in quotes
	end := func() error {
		s := strings.TrimSpace(t.String())
		if s == "" && !quoted {
			return l.errorf("a name is missing")
		}
		t.Reset()
		quoted = false
		list = append(list, s)
		return nil
	}
	for ; ; l.pos++ {
		switch c := l.peek(); {
		case l.pos >= len(l.b):
			return list, end()
		case c == '#':
			l.comment()
			l.pos--
		case c == '\n':
			if strings.TrimSpace(t.String()) != "" || quoted {
				return list, end()
			}
			l.line++
			first = false
		case c == ',':
			if err := end(); err != nil {
				return nil, err
			}
		case c == '"':
			n := strings.IndexAny(l.b[l.pos+1:], "\"\n")
			if n < 0 || l.b[l.pos+1+n] == '\n' {
				return nil, l.errorf("a quote is not closed on its line")
			}
			t.WriteString(l.b[l.pos+1 : l.pos+1+n])
			quoted, first = true, false
			l.pos += n + 1
		default:
			if prev := l.b[l.pos-1]; !first && isWord(c) && (isBlank(prev) || prev == '\n') {
				if w, next := l.wordAt(l.pos); blocks[w] || keys[w] && next == ':' {
					return list, end()
				}
			}
			first = first && isBlank(c)
			t.WriteByte(c)
		}
	}
}

// blocks are the words that open and close blocks.
var blocks = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range []string{
		"qos-ulps", "port-groups", "port-group", "qos-setup", "vlarb-tables", "vlarb-scope", "sl2vl-tables", "sl2vl-scope",
		"qos-levels", "qos-level", "qos-match-rules", "qos-match-rule",
	} {
		m[w], m["end-"+w] = true, true
	}
	return m
}()

// keys are the words that stand before a colon, in any block.
var keys = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range []string{
		"name", "use", "port-guid", "port-name", "pkey", "partition", "node-type", "group", "across", "across-to", "across-from", "from", "to",
		"vlarb-high", "vlarb-low", "vl-high-limit", "sl2vl-table", "sl", "mtu-limit", "rate-limit", "packet-life", "path-bits",
		"qos-class", "source", "destination", "service-id", "qos-level-name",
	} {
		m[w] = true
	}
	return m
}()
