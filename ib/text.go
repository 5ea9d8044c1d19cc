package ib

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParseError is the error of every Parse function and UnmarshalText of this
// package.
type ParseError struct {
	What string // "GUID"
	Text string
}

// Error says what was expected and quotes the text.
func (e *ParseError) Error() string { return fmt.Sprintf("ib: %q is not a valid %s", e.Text, e.What) }

func parseError(what, text string) error { return &ParseError{What: what, Text: text} }

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

// ParseGUID reads 16 hex digits or fewer with or without 0x, or the forms
// with separators that the field uses: 0002:c903:0000:1234 and
// 00:02:c9:03:00:00:12:34 (or with dashes), each group complete.
func ParseGUID(s string) (GUID, error) {
	t := s
	if sep := strings.IndexAny(t, ":-"); sep == 2 || sep == 4 {
		parts := strings.FieldsFunc(t, func(r rune) bool { return r == ':' || r == '-' })
		if len(parts) != 16/sep || len(t) != 16+len(parts)-1 {
			return 0, parseError("GUID", s)
		}
		for _, p := range parts {
			if len(p) != sep {
				return 0, parseError("GUID", s)
			}
		}
		t = strings.Join(parts, "")
	} else {
		t = trim0x(t)
	}
	v, err := parseHex(t, 64)
	if err != nil {
		return 0, parseError("GUID", s)
	}
	return GUID(v), nil
}

func trim0x(s string) string {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return s[2:]
	}
	return s
}

func parseHex(s string, bits int) (uint64, error) {
	if strings.ContainsAny(s, "+-_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 16, bits)
}

// parseNum reads decimal, or hex with 0x.
func parseNum(s string, bits int) (uint64, error) {
	if t := trim0x(s); t != s {
		return parseHex(t, bits)
	}
	if strings.ContainsAny(s, "+-_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 10, bits)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *GUID) UnmarshalText(b []byte) error {
	v, err := ParseGUID(string(b))
	if err == nil {
		*g = v
	}
	return err
}

// ParseGID reads the IPv6 form, or prefix:guid as 0x… pairs
// ("0xfe80000000000000:0x0002c90300001234").
func ParseGID(s string) (GID, error) {
	if p, g, ok := strings.Cut(s, ":"); ok && strings.HasPrefix(p, "0x") && strings.HasPrefix(g, "0x") {
		a, err1 := parseHex(trim0x(p), 64)
		b, err2 := parseHex(trim0x(g), 64)
		if err1 != nil || err2 != nil {
			return GID{}, parseError("GID", s)
		}
		return MakeGID(SubnetPrefix(a), GUID(b)), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return GID{}, parseError("GID", s)
	}
	return a.As16(), nil
}

// AppendText appends the IPv6 form.
func (g GID) AppendText(b []byte) ([]byte, error) { return netip.AddrFrom16(g).AppendTo(b), nil }

// MarshalText implements encoding.TextMarshaler.
func (g GID) MarshalText() ([]byte, error) { return g.AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *GID) UnmarshalText(b []byte) error {
	v, err := ParseGID(string(b))
	if err == nil {
		*g = v
	}
	return err
}

// IsZero reports whether the GID is all zeroes, "not given".
func (g GID) IsZero() bool { return g == GID{} }

// ParsePKey reads a P_Key, hex with 0x or decimal.
func ParsePKey(s string) (PKey, error) {
	v, err := parseNum(s, 16)
	if err != nil {
		return 0, parseError("P_Key", s)
	}
	return PKey(v), nil
}

// IsFull reports full membership (bit 15).
func (p PKey) IsFull() bool { return p&0x8000 != 0 }

// Base is the key without the membership bit.
func (p PKey) Base() PKey { return p & 0x7FFF }

// IsEmpty reports an empty slot of a P_Key table: a base of 0.
func (p PKey) IsEmpty() bool { return p.Base() == 0 }

// Matches reports whether two keys let packets pass (IBA §10.9.3): the same
// base, not empty, and at least one full member.
func (p PKey) Matches(q PKey) bool {
	return p.Base() == q.Base() && !p.IsEmpty() && (p | q).IsFull()
}

// AppendText appends 0x and 4 hex digits.
func (p PKey) AppendText(b []byte) ([]byte, error) { return append(b, hex(uint64(p), 4)...), nil }

// MarshalText implements encoding.TextMarshaler.
func (p PKey) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *PKey) UnmarshalText(b []byte) error {
	v, err := ParsePKey(string(b))
	if err == nil {
		*p = v
	}
	return err
}

// String prints 0x and 4 hex digits.
func (p PKey) String() string { return hex(uint64(p), 4) }

// String prints 0x and 16 hex digits.
func (p SubnetPrefix) String() string { return GUID(p).String() }

// MarshalText implements encoding.TextMarshaler.
func (p SubnetPrefix) MarshalText() ([]byte, error) { return GUID(p).AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler; the text is as of a GUID.
func (p *SubnetPrefix) UnmarshalText(b []byte) error {
	v, err := ParseGUID(string(b))
	if err == nil {
		*p = SubnetPrefix(v)
	}
	return err
}

// String tells only whether there is a key, so that no log or API shows one
// by accident.
func (k MKey) String() string {
	if k == 0 {
		return "none"
	}
	return "hidden"
}

// String prints 0x and 8 hex digits.
func (k QKey) String() string { return hex(uint64(k), 8) }
