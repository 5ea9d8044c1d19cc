package settings

import (
	"fmt"
	"strconv"
	"strings"

	"heddle/congestion"
	"heddle/ib/cc"
)

// byItself is the text of a value that is computed.
const byItself = "auto"

// given is a whole number, or auto.
type given[T ~uint8 | ~uint16 | ~uint32] struct {
	at  func(*Config) *congestion.Given[T]
	max T
}

func (g given[T]) kind() string { return "number" }

func (g given[T]) set(c *Config, s string) error {
	if s == byItself {
		*g.at(c) = congestion.Given[T]{}
		return nil
	}
	v, err := strconv.ParseUint(s, 0, 32)
	if err != nil || v > uint64(g.max) {
		return errRange
	}
	*g.at(c) = congestion.Give(T(v))
	return nil
}

func (g given[T]) text(c *Config) string {
	if v := g.at(c); v.Is {
		return strconv.FormatUint(uint64(v.Value), 10)
	}
	return byItself
}

func (g given[T]) wanted() string {
	return "a whole number from 0 to " + fmt.Sprint(g.max) + ", or auto"
}
func (g given[T]) brief(string) string { return fmt.Sprintf("0 to %d, auto", g.max) }
func (g given[T]) words() []string     { return []string{byItself} }

// levels are values by service level: one for all, or "SL:VALUE" for single ones, with commas.
type levels struct {
	get  func(c *Config, sl int) (v uint16, given bool)
	put  func(c *Config, sl int, v uint16, given bool)
	max  uint16
	auto bool // it may be auto
}

func (l levels) kind() string { return "text" }

func (l levels) set(c *Config, s string) error {
	type value struct {
		v     uint16
		given bool
	}
	var all [16]value
	for sl := range all {
		all[sl].v, all[sl].given = l.get(c, sl)
	}
	for item := range strings.SplitSeq(s, ",") {
		level, text, single := strings.Cut(strings.TrimSpace(item), ":")
		first, last := 0, 15
		if !single {
			text = level
		} else if n, err := strconv.ParseUint(level, 0, 8); err != nil || n > 15 {
			return fmt.Errorf("%q is not a service level", level)
		} else {
			first, last = int(n), int(n)
		}
		x := value{}
		if text != byItself || !l.auto {
			n, err := strconv.ParseUint(text, 0, 16)
			if err != nil || n > uint64(l.max) {
				return errRange
			}
			x = value{uint16(n), true}
		}
		for sl := first; sl <= last; sl++ {
			all[sl] = x
		}
	}
	for sl, x := range all {
		l.put(c, sl, x.v, x.given)
	}
	return nil
}

func (l levels) text(c *Config) string {
	one := func(sl int) string {
		v, given := l.get(c, sl)
		if !given {
			return byItself
		}
		return strconv.Itoa(int(v))
	}
	var out strings.Builder
	out.WriteString(one(0))
	for sl := 1; sl < 16; sl++ {
		if t := one(sl); t != one(0) {
			out.WriteString(fmt.Sprintf(",%d:%s", sl, t))
		}
	}
	return out.String()
}

func (l levels) wanted() string {
	text := fmt.Sprintf("a whole number from 0 to %d", l.max)
	if l.auto {
		text += ", or auto"
	}
	return text + ", for all service levels, or SL:VALUE for single ones, separated by commas"
}

func (l levels) brief(string) string {
	if l.auto {
		return fmt.Sprintf("0 to %d, auto, by SL", l.max)
	}
	return fmt.Sprintf("0 to %d, by SL", l.max)
}

func (l levels) words() []string { return nil }

// portMask reads a set of ports as OpenSM writes it: a number of 256 bits, bit n of which is port n.
func portMask(s string) (m cc.PortMask, err error) {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	if digits == "" || len(digits) > 64 || digits == s {
		return m, errRange
	}
	for i := range len(digits) {
		v, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 8)
		if err != nil {
			return m, errRange
		}
		m[31-i/2] |= uint8(v) << (4 * (i % 2))
	}
	return m, nil
}

func portMaskText(m cc.PortMask) string {
	t := strings.TrimLeft(fmt.Sprintf("%x", m[:]), "0")
	if t == "" {
		t = "0"
	}
	return "0x" + t
}

// delay reads SHIFT:MULTIPLIER.
func delay(s string) (cc.Delay, error) {
	shift, multiplier, ok := strings.Cut(strings.TrimSpace(s), ":")
	a, err1 := strconv.ParseUint(shift, 0, 8)
	b, err2 := strconv.ParseUint(multiplier, 0, 16)
	if !ok || err1 != nil || err2 != nil || a > 3 || b > 1<<14-1 {
		return 0, fmt.Errorf("%q is not SHIFT:MULTIPLIER, 0 to 3 and 0 to 16383", s)
	}
	return cc.NewDelay(uint8(a), uint16(b)), nil
}

func delayText(d cc.Delay) string { return fmt.Sprintf("%d:%d", d.Shift(), d.Multiplier()) }

// setTable reads a table: auto, none, or entries separated by commas.
func setTable(c *Config, s string) error {
	t := &c.Congestion.Policy.Table
	switch s {
	case byItself:
		*t = congestion.Given[[]cc.Delay]{}
		return nil
	case "none":
		*t = congestion.Given[[]cc.Delay]{Is: true}
		return nil
	}
	var table []cc.Delay
	for item := range strings.SplitSeq(s, ",") {
		d, err := delay(item)
		if err != nil {
			return err
		}
		table = append(table, d)
	}
	if len(table) > congestion.MaxTable {
		return fmt.Errorf("it has %d entries, at most %d are possible", len(table), congestion.MaxTable)
	}
	*t = congestion.Give(table)
	return nil
}

func tableText(c *Config) string {
	t := &c.Congestion.Policy.Table
	switch {
	case !t.Is:
		return byItself
	case len(t.Value) == 0:
		return "none"
	}
	var items []string
	for _, d := range t.Value {
		items = append(items, delayText(d))
	}
	return strings.Join(items, ",")
}
