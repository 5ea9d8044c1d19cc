package osmsa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/sa"
	"heddle/subnet"
)

var be = binary.BigEndian

func (d *dump) guids(p *fields) error {
	base := ib.GUID(p.number("base_guid=", 64))
	p.number("lid=", 16)
	block := p.number("block_num=", 8)
	var list [8]ib.GUID
	for i := range list {
		list[i] = ib.GUID(p.number("guid"+strconv.Itoa(i)+"=", 64))
	}
	if err := p.end(); err != nil {
		return err
	}
	if block > 31 {
		return fmt.Errorf("port %v: block %d, want at most 31", base, block)
	}
	for i, g := range list {
		index := uint8(block)*8 + uint8(i)
		if g == 0 || index == 0 {
			continue
		}
		d.aliases[g] = base
		d.records = append(d.records, sa.AliasRecord(subnet.Alias{Port: base, Index: index, GUID: g, Carries: true}))
	}
	return nil
}

// fields takes a line apart from the left. The first error stays; after it
// everything reads as 0.
type fields struct {
	rest string
	err  error
}

func (p *fields) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// prefix takes s off if it is next.
func (p *fields) prefix(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok {
		p.rest = rest
	}
	return ok
}

// literal takes s off, which must be next.
func (p *fields) literal(s string) {
	if p.err == nil && !p.prefix(s) {
		p.fail("want %q at %q", s, head(p.rest))
	}
}

// number takes a name off and a hexadecimal number of at most so many bits,
// with what separates it from the next field.
func (p *fields) number(name string, bits int) uint64 {
	p.literal(name)
	if p.err != nil {
		return 0
	}
	n := 0
	for n < len(p.rest) && p.rest[n] != ' ' && p.rest[n] != ':' { // the MLID of a group may end so
		n++
	}
	v := p.hex(name, p.rest[:n], bits)
	p.rest = p.rest[n:]
	p.blanks()
	return v
}

func (p *fields) blanks() { p.rest = strings.TrimLeft(p.rest, " ") }

func (p *fields) hex(name, s string, bits int) uint64 {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		p.fail("%s%q: want a number in hexadecimal with 0x", name, head(s))
		return 0
	}
	v, err := strconv.ParseUint(digits, 16, bits)
	if err != nil {
		var num *strconv.NumError
		if errors.As(err, &num) {
			err = num.Err
		}
		p.fail("%s%q: %v, want at most %d bits in hexadecimal", name, head(s), err, bits)
	}
	return v
}

// gid takes a name off and 16 bytes, a GID or not, as two numbers of 64 bits with a colon
// between.
func (p *fields) gid(name string) (g ib.GID) {
	p.literal(name)
	if p.err != nil {
		return g
	}
	word, rest, _ := strings.Cut(p.rest, " ")
	hi, lo, ok := strings.Cut(word, ":")
	if !ok {
		p.fail("%s%q: want two numbers with a colon between", name, head(word))
		return g
	}
	be.PutUint64(g[:8], p.hex(name, hi, 64))
	be.PutUint64(g[8:], p.hex(name, lo, 64))
	p.rest = rest
	p.blanks()
	return g
}

// quoted takes a name off and a string in single quotes. It may have quotes in
// it: what ends it is the field that follows.
func (p *fields) quoted(name string) string {
	p.literal(name + "'")
	if p.err != nil {
		return ""
	}
	i := strings.LastIndex(p.rest, "' data8=")
	if i < 0 {
		p.fail("%s'%s: the string does not end", name, head(p.rest))
		return ""
	}
	s := p.rest[:i]
	p.rest = p.rest[i+2:]
	return s
}

// end is the first error, or that something is left.
func (p *fields) end() error {
	if rest := strings.TrimSpace(p.rest); p.err == nil && rest != "" {
		p.fail("%q is left behind the last field", head(rest))
	}
	return p.err
}
