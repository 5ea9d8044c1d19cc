package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/ib"
)

// value is how text becomes a field of Config, and back.
type value interface {
	kind() string
	// set puts text into c. The error gives the reason if wanted does not; it may
	// be empty.
	set(c *Config, text string) error
	text(c *Config) string
	wanted() string           // the range, for messages: "a whole number from 0 to 15"
	brief(unit string) string // the range, for help: "0 to 15"
	words() []string
}

// errRange is a value outside the range that wanted gives.
var errRange = errors.New("")

// number is a whole number from min to max.
type number[T ~int | ~uint8 | ~uint16 | ~uint64] struct {
	at       func(*Config) *T
	min, max T
	zero     string // what 0 means, if it is special
}

func (n number[T]) kind() string { return "number" }

func (n number[T]) set(c *Config, text string) error {
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil || v < uint64(n.min) || v > uint64(n.max) {
		return errRange
	}
	*n.at(c) = T(v)
	return nil
}

func (n number[T]) text(c *Config) string { return strconv.FormatUint(uint64(*n.at(c)), 10) }
func (n number[T]) wanted() string        { return "a whole number from " + n.brief("") }
func (n number[T]) words() []string       { return nil }

func (n number[T]) brief(unit string) string {
	text := fmt.Sprintf("%d to %d", n.min, n.max)
	if unit != "" {
		text += " " + unit
	}
	if n.zero != "" {
		text += ", 0 = " + n.zero
	}
	return text
}

// longest bounds every time, so that sums and multiples fit.
const longest = 365 * 24 * time.Hour

// span is a time. It must be above 0 unless zero says what 0 means.
type span struct {
	at    func(*Config) *time.Duration
	zero  string
	least time.Duration // that is not 0
}

func (d span) kind() string { return "time" }

func (d span) set(c *Config, text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errRange
	case v < 0 || v == 0 && d.zero == "" || v > 0 && v < d.least || v > longest:
		return fmt.Errorf("it must be %s, and at most %v", d.from(), Time(longest))
	}
	*d.at(c) = v
	return nil
}

func (d span) from() string {
	switch {
	case d.least > 0 && d.zero != "":
		return fmt.Sprintf("0, or %v or more", Time(d.least))
	case d.least > 0:
		return fmt.Sprintf("%v or more", Time(d.least))
	case d.zero == "":
		return "above 0"
	}
	return "0 or more"
}

func (d span) text(c *Config) string { return Time(*d.at(c)) }
func (d span) words() []string       { return nil }

func (d span) wanted() string {
	text := "a time with its unit, such as 10s or 200ms"
	if d.zero != "" {
		text += ", or 0 for " + d.zero
	}
	return text
}

func (d span) brief(string) string {
	if d.zero == "" {
		return ""
	}
	return "0 = " + d.zero
}

// Time formats a time without the trailing zeros of time.Duration.String.
func Time(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	if s == "0s" {
		return "0"
	}
	return s
}

// managerLevel is the service level of datagrams to the manager, or auto.
type managerLevel struct{}

func (managerLevel) kind() string { return "number" }

func (managerLevel) set(c *Config, text string) error {
	if text == "auto" {
		c.SM.SMSLAuto, c.SM.MasterSMSL = true, 0
		return nil
	}
	n := number[ib.SL]{at: func(c *Config) *ib.SL { return &c.SM.MasterSMSL }, max: 15}
	if err := n.set(c, text); err != nil {
		return err
	}
	c.SM.SMSLAuto = false
	return nil
}

func (managerLevel) text(c *Config) string {
	if c.SM.SMSLAuto {
		return "auto"
	}
	return strconv.Itoa(int(c.SM.MasterSMSL))
}

func (managerLevel) wanted() string      { return "a whole number from 0 to 15, or auto" }
func (managerLevel) brief(string) string { return "0 to 15, auto" }
func (managerLevel) words() []string     { return []string{"auto"} }

// boolean is true or false.
type boolean struct{ at func(*Config) *bool }

func (b boolean) kind() string { return "bool" }

func (b boolean) set(c *Config, text string) error {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return errRange
	}
	*b.at(c) = v
	return nil
}

func (b boolean) text(c *Config) string { return strconv.FormatBool(*b.at(c)) }
func (b boolean) wanted() string        { return "true or false" }
func (b boolean) brief(string) string   { return "true or false" }
func (b boolean) words() []string       { return nil }

// text is any text, as a file's name.
type text struct{ at func(*Config) *string }

func (t text) kind() string                  { return "text" }
func (t text) set(c *Config, s string) error { *t.at(c) = s; return nil }
func (t text) text(c *Config) string         { return *t.at(c) }
func (t text) wanted() string                { return "a text" }
func (t text) brief(string) string           { return "" }
func (t text) words() []string               { return nil }

// list is words separated by commas. The caller checks them, because it knows,
// for example, the engines.
type list struct {
	at    func(*Config) *[]string
	known []string // for completion; nil: any
	only  bool     // others are refused
}

func (l list) kind() string { return "words" }

func (l list) set(c *Config, s string) error {
	var words []string
	for w := range strings.SplitSeq(s, ",") {
		if w = strings.TrimSpace(w); w != "" {
			if l.only && !slices.Contains(l.known, w) {
				return errRange
			}
			words = append(words, w)
		}
	}
	*l.at(c) = words
	return nil
}

func (l list) text(c *Config) string { return strings.Join(*l.at(c), ",") }

func (l list) wanted() string {
	if l.only {
		return "words separated by commas, of " + strings.Join(l.known, ", ")
	}
	return "words separated by commas"
}
func (l list) brief(string) string { return "" }
func (l list) words() []string     { return l.known }

// choice is one of a set of words.
type choice[T comparable] struct {
	at  func(*Config) *T
	all []word[T]
}

type word[T comparable] struct {
	name string
	v    T
}

func (x choice[T]) kind() string { return "word" }

func (x choice[T]) set(c *Config, s string) error {
	i := slices.IndexFunc(x.all, func(w word[T]) bool { return strings.EqualFold(w.name, s) })
	if i < 0 {
		return errRange
	}
	*x.at(c) = x.all[i].v
	return nil
}

func (x choice[T]) text(c *Config) string {
	for _, w := range x.all {
		if w.v == *x.at(c) {
			return w.name
		}
	}
	return ""
}

func (x choice[T]) wanted() string { return orList(x.words()) }

func (x choice[T]) brief(unit string) string {
	return strings.TrimSuffix(orList(x.words())+" "+unit, " ")
}

func (x choice[T]) words() (names []string) {
	for _, w := range x.all {
		names = append(names, w.name)
	}
	return names
}

// orList is "a, b or c".
func orList(words []string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

// mask is a set of named bits, or a number; all bits are also "all", none is
// "keep": the port's value stays.
type mask[T ~uint8] struct {
	at    func(*Config) *T
	bits  []word[T]
	all   T         // the value of "all"
	whole []word[T] // whole values with names of their own
}

func (m mask[T]) kind() string { return "words" }

func (m mask[T]) set(c *Config, s string) error {
	if v, err := strconv.ParseUint(s, 0, 8); err == nil {
		if v > uint64(m.all) {
			return errRange
		}
		*m.at(c) = T(v)
		return nil
	}
	var v T
	for w := range strings.SplitSeq(s, ",") {
		if i := slices.IndexFunc(m.whole, func(b word[T]) bool { return strings.EqualFold(b.name, s) }); i >= 0 {
			v = m.whole[i].v
			break
		}
		i := slices.IndexFunc(m.bits, func(b word[T]) bool { return strings.EqualFold(b.name, w) })
		switch {
		case i >= 0:
			v |= m.bits[i].v
		case w == "all":
			v = m.all
		case w != "keep":
			return fmt.Errorf("%q is not one of these values", w)
		}
	}
	*m.at(c) = v
	return nil
}

func (m mask[T]) text(c *Config) string {
	v := *m.at(c)
	switch v {
	case 0:
		return "keep"
	case m.all:
		return "all"
	}
	for _, w := range m.whole {
		if w.v == v {
			return w.name
		}
	}
	var names []string
	for _, b := range m.bits {
		if v&b.v != 0 {
			names, v = append(names, b.name), v&^b.v
		}
	}
	if v != 0 {
		return fmt.Sprintf("%#x", uint8(*m.at(c)))
	}
	return strings.Join(names, ",")
}

func (m mask[T]) words() []string {
	names := []string{"keep", "all"}
	for _, b := range slices.Concat(m.bits, m.whole) {
		names = append(names, b.name)
	}
	return names
}

func (m mask[T]) wanted() string {
	return fmt.Sprintf("%s separated by commas, all, keep or a mask up to %#x", strings.Join(m.words()[2:], ", "), uint8(m.all))
}

func (m mask[T]) brief(string) string {
	return strings.Join(m.words()[2:], ",") + ", all, or keep to leave ports unchanged"
}

// key is a 64-bit number.
type key[T ~uint64] struct{ at func(*Config) *T }

func (k key[T]) kind() string { return "number" }

func (k key[T]) set(c *Config, s string) error {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return errRange
	}
	*k.at(c) = T(v)
	return nil
}

func (k key[T]) text(c *Config) string {
	if v := uint64(*k.at(c)); v > 9 {
		return fmt.Sprintf("%#x", v)
	}
	return strconv.FormatUint(uint64(*k.at(c)), 10)
}

func (k key[T]) wanted() string      { return "a 64-bit number" }
func (k key[T]) brief(string) string { return "64 bits" }
func (k key[T]) words() []string     { return nil }

// special is a value with a form of its own.
type special struct {
	parse func(c *Config, s string) error
	show  func(c *Config) string
	want  string
}

func (x special) kind() string                  { return "text" }
func (x special) set(c *Config, s string) error { return x.parse(c, s) }
func (x special) text(c *Config) string         { return x.show(c) }
func (x special) wanted() string                { return x.want }
func (x special) brief(string) string           { return "" }
func (x special) words() []string               { return nil }
