package fabric

import (
	"bytes"
	"strconv"
)

// The small scanners of the netlist reader. They take a line and a column
// from 0 and never go beyond the end of the line.

func hasPrefix(l []byte, s string) bool { return len(l) >= len(s) && string(l[:len(s)]) == s }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isWord(c byte) bool { return isDigit(c) || isAlpha(c) || c == '_' }

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func skipSpace(l []byte, at int) int {
	for at < len(l) && isSpace(l[at]) {
		at++
	}
	return at
}

// trimSpace returns the bounds of l[from:to] without blanks at both ends.
func trimSpace(l []byte, from, to int) (int, int) {
	for from < to && isSpace(l[from]) {
		from++
	}
	for from < to && isSpace(l[to-1]) {
		to--
	}
	return from, to
}

// parseUint reads a number in decimal, 0x… or 0… as C's strtoul does, and
// returns the column after it.
func parseUint(l []byte, at int) (v uint64, end int, ok bool) {
	end = at
	for end < len(l) && isWord(l[end]) && l[end] != '_' {
		end++
	}
	if end == at || !isDigit(l[at]) || end-at > 24 {
		return 0, end, false
	}
	v, err := strconv.ParseUint(string(l[at:end]), 0, 64)
	return v, end, err == nil
}

// parseDecimal reads decimal digits up to the first other character.
func parseDecimal(l []byte, at int) (v, end int, ok bool) {
	end = at
	for end < len(l) && isDigit(l[end]) && v < 1<<24 {
		v = v*10 + int(l[end]-'0')
		end++
	}
	return v, end, end > at
}

// parseHex reads hex digits with or without 0x.
func parseHex(l []byte, at int) (v uint64, end int, ok bool) {
	if at+1 < len(l) && l[at] == '0' && l[at+1]|0x20 == 'x' {
		at += 2
	}
	end = at
	for end < len(l) && end-at < 16 {
		c := l[end]
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return v, end, end > at
		}
		v = v<<4 | uint64(c)
		end++
	}
	return v, end, end > at
}

// quoted reads a "…" and returns the text between the quotes and the column
// after them.
func quoted(l []byte, at int) (s string, end int, ok bool) {
	if at >= len(l) || l[at] != '"' {
		return "", at, false
	}
	k := bytes.IndexByte(l[at+1:], '"')
	if k < 0 {
		return "", at, false
	}
	return string(l[at+1 : at+1+k]), at + k + 2, true
}

// word is l[at:end] for an error: something short and never empty.
func word(l []byte, at, end int) string {
	at = min(at, len(l))
	if end <= at {
		end = at
		for end < len(l) && !isSpace(l[end]) {
			end++
		}
	}
	return string(l[at:min(end, at+40)])
}

// firstWord is the keyword of a line.
func firstWord(l []byte) string {
	k := 0
	for k < len(l) && isWord(l[k]) {
		k++
	}
	return string(l[:k])
}

// keyValue finds `key <number>` in the words of l[from:to].
func keyValue(l []byte, from, to int, key string) (v uint64, col int, ok bool) {
	for at := from; at < to; {
		at = skipSpace(l[:to], at)
		start := at
		for at < to && !isSpace(l[at]) {
			at++
		}
		if string(l[start:at]) != key {
			continue
		}
		col = skipSpace(l[:to], at)
		if v, _, ok = parseUint(l[:to], col); ok {
			return v, col, true
		}
	}
	return 0, 0, false
}
