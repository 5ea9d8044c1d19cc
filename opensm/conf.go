// Package opensm reads what OpenSM leaves behind: its options (opensm.conf), its
// files of LIDs, M_Keys and neighbors (guid2lid, guid2mkey, neighbors), and its names
// of nodes. It says what each option means to Heddle, and writes the same files for the
// way back.
//
// Files are read as OpenSM reads them, quirks included, because what counts is what the
// subnet has now and not what a file was meant to say. Where the two differ there is a
// Note. Sources: osm_subnet.c, osm_db_files.c, osm_db_pack.c and cl_nodenamemap.c of
// OpenSM 3.3.24, and runs of OpenSM 3.3.23.
//
// The package is pure: the caller opens files, and says which exist.
package opensm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"heddle/settings"
)

// Note is what OpenSM makes of a line without telling anybody but its log.
type Note struct {
	File string
	Line int // from 1; 0: the whole file
	Text string
}

// String implements fmt.Stringer: FILE:LINE: TEXT.
func (n Note) String() string {
	if n.Line == 0 {
		return n.File + ": " + n.Text
	}
	return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
}

// Limits of an opensm.conf. The template has 600 lines.
const (
	maxConfLine = 1022 // bytes that OpenSM reads at a time
	maxConf     = 1 << 20
)

// errLong is a file above maxConf.
var errLong = errors.New("the file is too long to be OpenSM's")

// Conf is an opensm.conf as OpenSM understands it.
type Conf struct {
	Name  string
	Notes []Note
	// Unknown are the names that OpenSM does not know, in order.
	Unknown []Unknown

	given map[string]*Value
}

// Unknown is a line with a name that OpenSM does not know.
type Unknown struct {
	Name, Text string
	Line       int
}

// Value is the value of an option.
type Value struct {
	// Text is the value as OpenSM understands it: TRUE or FALSE, a number as `opensm -c`
	// writes it, a text; (null) is a text that is not set.
	Text string
	// Number is that of an option with a number; a negative one wraps.
	Number uint64
	Line   int // of the last line that set it; 0: OpenSM's default
	// Levels are the values by service level, where lines give them so.
	Levels map[uint8]uint64
}

// Null is how opensm.conf writes a text that is not set.
const Null = "(null)"

// IsSet reports whether a text is set and not empty.
func (v *Value) IsSet() bool { return v.Text != "" && v.Text != Null }

// True reports whether a boolean is true.
func (v *Value) True() bool { return v.Text == "TRUE" }

// Get returns the value of an option, OpenSM's default if no line gives it. It panics
// for a name that OpenSM does not have.
func (c *Conf) Get(name string) *Value {
	if v := c.given[name]; v != nil {
		return v
	}
	o := Find(name)
	if o == nil {
		panic("opensm: there is no option " + name)
	}
	v, _, err := o.kind.parse(o.Default, nil)
	if err != nil {
		panic("opensm: the default of " + name + ": " + err.Error())
	}
	return v
}

// Given reports whether a line of the file sets the option.
func (c *Conf) Given(name string) bool { return c.given[name] != nil }

// note adds a note about a line.
func (c *Conf) note(line int, format string, a ...any) {
	c.Notes = append(c.Notes, Note{c.Name, line, fmt.Sprintf(format, a...)})
}

// Read reads an opensm.conf. A line that is wrong changes nothing with OpenSM, so it gives
// a Note and no error; errors are those of r, and a file above 1 MiB.
func Read(r io.Reader, name string) (*Conf, error) {
	c := &Conf{Name: name, given: map[string]*Value{}}
	err := pieces(r, maxConfLine, maxConf, func(line int, text string, split bool) {
		if split && text != "" {
			c.note(line, "more than %d bytes: OpenSM takes the rest for a line of its own, which begins %q", maxConfLine, head(text))
		}
		c.line(line, text)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.verify()
	return c, nil
}

// pieces calls fn with what C's fgets returns, with at most most bytes, without the line's
// end. split says that the piece continues a line that was too long. A file of more than
// limit bytes is an error.
func pieces(r io.Reader, most, limit int, fn func(line int, text string, split bool)) error {
	in := bufio.NewReader(r)
	line, total := 1, 0
	var b []byte
	split := false
	for {
		x, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			if len(b) > 0 {
				fn(line, cString(b), split)
			}
			return nil
		case err != nil:
			return err
		}
		if total++; total > limit {
			return errLong
		}
		if x != '\n' {
			b = append(b, x)
		}
		if x == '\n' || len(b) == most {
			fn(line, cString(b), split)
			b, split = b[:0], true
		}
		if x == '\n' {
			line++
			split = false
		}
	}
}

// cString ends at the first zero byte, as in C.
func cString(b []byte) string {
	s := string(b)
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}

// line takes one piece of the file.
func (c *Conf) line(n int, text string) {
	rest, comment, commented := strings.Cut(text, "#")
	rest = strings.TrimLeft(rest, " \t")
	key, val := rest, ""
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		key, val = rest[:i], clean(rest[i+1:])
	}
	if strings.Trim(key, "\r\v\f") == "" { // a line end of another system
		return
	}
	o := Find(key)
	if o == nil {
		c.Unknown = append(c.Unknown, Unknown{key, val, n})
		return
	}
	if commented && val != "" && !strings.HasSuffix(rest, " ") && !strings.HasSuffix(rest, "\t") {
		c.note(n, "%s: the value ends before the #: OpenSM reads %q and not %q", key, o.show(val), o.show(val+"#"+strings.TrimSpace(comment)))
	}
	v, said, err := o.kind.parse(val, c.given[key])
	if err != nil {
		c.note(n, "%s %q: %v: OpenSM ignores the line", key, o.show(val), err)
		return
	}
	if said != "" {
		if o.secret() {
			said = "OpenSM reads another number: one with a leading 0 is octal, a negative one wraps"
		}
		c.note(n, "%s %s: %s", key, o.show(val), said)
	}
	if old := c.given[key]; old != nil && old.Text != v.Text && v.Levels == nil {
		c.note(n, "%s is given in line %d too: the last line counts, %s and not %s", key, old.Line, o.show(v.Text), o.show(old.Text))
	}
	v.Line = n
	c.given[key] = v
	if key == oldPortOrder {
		c.given[portOrder] = v
	}
}

// secret reports whether the value is a key.
func (o *Option) secret() bool {
	s := settings.Find(o.Setting)
	return s != nil && s.Secret
}

// show is a value as notes have it.
func (o *Option) show(value string) string {
	if o.secret() {
		return "(secret)"
	}
	return value
}

// An option with two names.
const (
	portOrder    = "port_search_ordering_file"
	oldPortOrder = "dimn_ports_file"
)

// head is what a message shows of a long text.
func head(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// isSpace is C's isspace.
func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

// clean removes spaces at both ends, then one pair of quotes.
func clean(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 1 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if s == "" {
		return s
	}
	if f, l := s[0], s[len(s)-1]; f == l && (f == '"' || f == '\'') {
		if len(s) == 1 {
			return ""
		}
		s = s[1 : len(s)-1]
	}
	return s
}

// replaced are values that OpenSM replaces once it has read the file: those above the first
// number and not in the range of the next two, with what it takes in their place and why.
var replaced = []struct {
	name              string
	above, from, upTo uint64
	by                uint64
	why               string
}{
	{"lmc", 7, 0, 0, 0, "above 7"},
	{"sm_priority", 15, 0, 0, 0, "above 15"},
	{"force_link_speed", 7, 15, 15, 15, "no set of speeds"},
	{"force_link_speed_ext", 15, 30, 31, 31, "no set of speeds"},
	{"force_link_width", 31, 255, 255, 255, "no set of widths"},
	{"fdr10", 2, 0, 0, 1, "above 2"},
	{"max_wire_smps", 1<<31 - 1, 0, 0, 4, "out of range"},
	{"m_key_protection_level", 3, 0, 0, 2, "above 3"},
}

// verify changes values as OpenSM does once it has read the file.
func (c *Conf) verify() {
	num := func(name string) uint64 { return c.Get(name).Number }
	for _, r := range replaced {
		if n := num(r.name); n > r.above && (n < r.from || n > r.upTo) {
			c.replace(r.name, r.by, r.why)
		}
	}
	if num("max_wire_smps") == 0 {
		c.replace("max_wire_smps", 1<<31-1, "no limit")
	}
	if num("max_wire_smps2") > 1<<31-1 {
		c.replace("max_wire_smps2", num("max_wire_smps"), "out of range")
	}
	if n := num("transaction_timeout"); num("long_transaction_timeout") < n {
		c.replace("long_transaction_timeout", n, "shorter than transaction_timeout")
	}
	if num("perfmgr_sweep_time_s") < 1 {
		c.replace("perfmgr_sweep_time_s", 180, "no time")
	}
	if num("perfmgr_max_outstanding_queries") < 1 {
		c.replace("perfmgr_max_outstanding_queries", 500, "none")
	}
	c.verifyLease()
	c.verifyEnforcement()
	c.verifyLanes()
}

// replace gives an option another value than its line.
func (c *Conf) replace(name string, by uint64, why string) {
	v := *c.Get(name)
	as := Find(name).kind.write(by)
	c.note(v.Line, "%s %s: %s: OpenSM uses %s", name, v.Text, why, as)
	v.Number, v.Text = by, as
	c.given[name] = &v
}

// verifyLease has OpenSM sweep more often than leases of M_Keys end.
func (c *Conf) verifyLease() {
	lease := c.Get("m_key_lease_period").Number
	if c.Get("m_key_protection_level").Number == 0 || lease == 0 {
		return
	}
	if c.Get("sweep_interval").Number == 0 {
		c.replace("sweep_interval", lease-1, "with an M_Key lease OpenSM must sweep")
	}
	if s := c.Get("sweep_interval").Number; s >= lease {
		c.replace("m_key_lease_period", uint64(uint16(s+1)), "not longer than the sweep interval")
	}
}

// verifyLanes settles the options of lanes, which count only with QoS.
func (c *Conf) verifyLanes() {
	if !c.Get("qos").True() {
		return
	}
	for _, class := range qosClasses {
		if name := "qos_" + class + "max_vls"; c.Get(name).Number > 15 {
			c.replace(name, 0, "above 15")
		}
		name := "qos_" + class + "high_limit"
		if v := *c.Get(name); v.Number > 255 && v.Text != "-1" { // or negative
			c.note(v.Line, "%s %s: not 0 to 255: OpenSM uses its default", name, v.Text)
			v.Text, v.Number = "-1", 1<<64-1
			c.given[name] = &v
		}
	}
}

// verifyEnforcement settles the two options about partition enforcement.
func (c *Conf) verifyEnforcement() {
	v := *c.Get("part_enforce")
	switch {
	case c.Get("no_partition_enforcement").True():
		if v.Text != "off" && c.Given("part_enforce") {
			c.note(v.Line, "part_enforce %s does not count: no_partition_enforcement is TRUE, so OpenSM uses off", v.Text)
		}
		v.Text = "off"
	case v.Text == "both" || v.Text == "in" || v.Text == "out" || v.Text == "off":
		return
	default:
		c.note(v.Line, "part_enforce %q is none of both, in, out and off: OpenSM uses both", v.Text)
		v.Text = "both"
	}
	c.given["part_enforce"] = &v
}
