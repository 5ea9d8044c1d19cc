// Package logs sends the log to the journal of systemd, with a field for each attribute, and to syslog
// servers; and it bounds how often the same kind of line is logged.
package logs

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// identifier names this program in both logs.
const identifier = "heddle"

// priorities of syslog (RFC 5424, section 6.2.1), which the journal uses too.
const (
	prioError   = 3
	prioWarning = 4
	prioInfo    = 6
	prioDebug   = 7
)

// line is a record with its attributes in one list.
type line struct {
	time   time.Time
	level  slog.Level
	text   string
	fields []field
}

type field struct{ key, value string }

func (l *line) priority() int {
	switch {
	case l.level >= slog.LevelError:
		return prioError
	case l.level >= slog.LevelWarn:
		return prioWarning
	case l.level >= slog.LevelInfo:
		return prioInfo
	}
	return prioDebug
}

// value is that of a field; empty if there is none.
func (l *line) value(key string) string {
	if i := slices.IndexFunc(l.fields, func(f field) bool { return f.key == key }); i >= 0 {
		return l.fields[i].value
	}
	return ""
}

// String is the message with its fields, as people read it: those of slog's text form.
func (l *line) String() string {
	var b strings.Builder
	b.WriteString(l.text)
	for _, f := range l.fields {
		b.WriteByte(' ')
		b.WriteString(f.key)
		b.WriteByte('=')
		if quoted(f.value) {
			b.WriteString(strconv.Quote(f.value))
		} else {
			b.WriteString(f.value)
		}
	}
	return b.String()
}

// quoted reports whether a value needs quotes to be told from what is around it.
func quoted(s string) bool {
	return s == "" || strings.ContainsFunc(s, func(r rune) bool {
		return r == ' ' || r == '"' || r == '=' || r == utf8.RuneError || !unicode.IsPrint(r)
	})
}

// handler is a slog.Handler that calls write with each line at or above a level.
type handler struct {
	level slog.Leveler
	write func(*line) error
	with  []field
	group string // prefix of keys
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	l := line{time: r.Time, level: r.Level, text: r.Message, fields: slices.Clone(h.with)}
	r.Attrs(func(a slog.Attr) bool {
		l.fields = appendAttr(l.fields, h.group, a)
		return true
	})
	return h.write(&l)
}

func (h *handler) WithAttrs(list []slog.Attr) slog.Handler {
	x := *h
	x.with = slices.Clone(h.with)
	for _, a := range list {
		x.with = appendAttr(x.with, h.group, a)
	}
	return &x
}

func (h *handler) WithGroup(name string) slog.Handler {
	x := *h
	if name != "" {
		x.group += name + "."
	}
	return &x
}

func appendAttr(list []field, group string, a slog.Attr) []field {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, m := range v.Group() {
			list = appendAttr(list, group, m)
		}
		return list
	}
	if a.Key == "" {
		return list
	}
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339Nano)
	}
	return append(list, field{group + a.Key, text})
}

// cut shortens text to at most n bytes, between two characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
