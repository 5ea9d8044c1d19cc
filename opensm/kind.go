package opensm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// kind is how OpenSM reads and writes the values of an option.
type kind struct {
	is    valueKind
	max   uint64 // of a number
	width int    // hexadecimal digits that `opensm -c` writes; 0: decimal
}

type valueKind uint8

const (
	isNumber valueKind = iota
	isSigned
	isBool
	isText
	isMask  // of 256 bits
	isDelay // SHIFT:MULTIPLIER
	isTable // SHIFT:MULTIPLIER, separated by commas, or not set
	isLevel // "SL VALUE", a line for each service level
)

var (
	boolean  = kind{is: isBool}
	text     = kind{is: isText}
	number8  = kind{is: isNumber, max: math.MaxUint8}
	hex8     = kind{is: isNumber, max: math.MaxUint8, width: 2}
	number16 = kind{is: isNumber, max: math.MaxUint16}
	hex16    = kind{is: isNumber, max: math.MaxUint16, width: 4}
	number32 = kind{is: isNumber, max: math.MaxUint32}
	hex32    = kind{is: isNumber, max: math.MaxUint32, width: 1}
	signed32 = kind{is: isSigned}
	hex64    = kind{is: isNumber, max: math.MaxUint64, width: 16}
	mask256  = kind{is: isMask}
	delay    = kind{is: isDelay}
	delays   = kind{is: isTable}
	level8   = kind{is: isLevel, max: math.MaxUint8}
	level16  = kind{is: isLevel, max: math.MaxUint16}
)

// What a value that is no number, or not one of the option, has in common.
var (
	errNumber = errors.New("want a number")
	errRange  = errors.New("out of range")
)

// write is the text of a number as `opensm -c` writes it.
func (k kind) write(n uint64) string {
	if k.width > 0 {
		return fmt.Sprintf("0x%0*x", k.width, n)
	}
	return strconv.FormatUint(n, 10)
}

// parse reads a value as OpenSM does. before is the value so far. said is what may
// surprise the writer of the line. An error makes OpenSM keep the value so far.
func (k kind) parse(s string, before *Value) (v *Value, said string, err error) {
	switch k.is {
	case isBool:
		v = &Value{Text: "FALSE"}
		if s == "TRUE" {
			v.Text = s
		} else if s != "FALSE" {
			said = "OpenSM takes only the word TRUE for true, so this is FALSE"
		}
		return v, said, nil
	case isText:
		return &Value{Text: s}, "", nil
	case isTable:
		if strings.Trim(s, ",") == "" {
			s = Null
		}
		for item := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' }) {
			if s != Null && !strings.Contains(item, ":") {
				return nil, "", errors.New("want SHIFT:MULTIPLIER, separated by commas")
			}
		}
		return &Value{Text: s}, "", nil
	case isSigned:
		// strtol without a look at where it stopped.
		n, neg, over, _ := cNumber(s)
		if n > math.MaxInt64 || over {
			n = math.MaxInt64
		}
		if neg {
			n = -n
		}
		low := int32(uint32(n)) // C cuts it off
		v = &Value{Number: uint64(int64(low)), Text: strconv.Itoa(int(low))}
		return v, surprise(s, v.Text), nil
	case isMask:
		return parseMask(s)
	case isDelay:
		shift, mult, ok := strings.Cut(s, ":")
		if !ok {
			return nil, "", errors.New("want SHIFT:MULTIPLIER")
		}
		a, _, _, _ := cNumber(shift)
		b, _, _, _ := cNumber(mult)
		return &Value{Text: fmt.Sprintf("%d:%d", a, b)}, "", nil
	case isLevel:
		return k.parseLevel(s, before)
	}
	n, said, err := k.parseNumber(s)
	if err != nil {
		return nil, "", err
	}
	return &Value{Number: n, Text: k.write(n)}, said, nil
}

func (k kind) parseNumber(s string) (n uint64, said string, err error) {
	n, neg, over, rest := cNumber(s)
	switch {
	case s == "" || rest != "":
		return 0, "", errNumber
	case over:
		return 0, "", errRange
	case neg:
		n = -n
		said = fmt.Sprintf("OpenSM has no negative numbers: it reads %s", k.write(n))
	}
	if n > k.max {
		return 0, "", errRange
	}
	if said == "" {
		said = surprise(s, strconv.FormatUint(n, 10))
	}
	return n, said, nil
}

// surprise says if a number is read in base 8.
func surprise(s, as string) string {
	if t := strings.TrimLeft(s, "-+"); len(t) > 1 && t[0] == '0' && t[1] >= '0' && t[1] <= '7' {
		return fmt.Sprintf("a number with a leading 0 is octal: OpenSM reads %s", as)
	}
	return ""
}

// cNumber is C's strtoull with base 0: spaces, a sign, and digits of base 10, 8 after a 0, or
// 16 after 0x. rest is what is left; all of s if there are no digits. over says that the
// number has more than 64 bits.
func cNumber(s string) (n uint64, neg, over bool, rest string) {
	t := s
	for t != "" && isSpace(t[0]) {
		t = t[1:]
	}
	if t != "" && (t[0] == '-' || t[0] == '+') {
		neg = t[0] == '-'
		t = t[1:]
	}
	base := uint64(10)
	if len(t) > 2 && t[0] == '0' && t[1]|0x20 == 'x' && digit(t[2]) < 16 {
		base, t = 16, t[2:]
	} else if t != "" && t[0] == '0' {
		base = 8
	}
	i := 0
	for ; i < len(t) && digit(t[i]) < base; i++ {
		over = over || n > (math.MaxUint64-digit(t[i]))/base
		n = n*base + digit(t[i])
	}
	if i == 0 {
		return 0, false, false, s
	}
	return n, neg, over, t[i:]
}

// digit is the value of a digit of base 16; 255: none.
func digit(b byte) uint64 {
	switch {
	case b >= '0' && b <= '9':
		return uint64(b - '0')
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return uint64(b|0x20-'a') + 10
	}
	return 255
}

// parseMask reads a number of 256 bits. Of more digits OpenSM reads the first 64.
func parseMask(s string) (*Value, string, error) {
	digits := s
	if len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x' {
		digits = s[2:]
	}
	if digits == "" || strings.ContainsFunc(digits, func(r rune) bool { return r > 127 || digit(byte(r)) > 15 }) {
		return nil, "", errors.New("want a number in hexadecimal")
	}
	said := ""
	if len(digits) > 64 {
		digits = digits[:64]
		said = "more than 256 bits: OpenSM reads the first 64 digits"
	}
	return &Value{Text: "0x" + strings.Repeat("0", 64-len(digits)) + strings.ToLower(digits)}, said, nil
}

// parseLevel reads "SL VALUE" into the values of the service levels.
func (k kind) parseLevel(s string, before *Value) (*Value, string, error) {
	f := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(f) < 2 {
		return nil, "", errors.New("want a service level and a value")
	}
	sl, _, _, _ := cNumber(f[0])
	if sl&0xFF > 15 {
		return nil, "", errors.New("want a service level up to 15")
	}
	value := strings.TrimLeft(s, " \t")[len(f[0]):]
	n, said, err := k.parseNumber(strings.TrimLeft(value, " \t"))
	if err != nil {
		return nil, "", err
	}
	v := &Value{Levels: map[uint8]uint64{}}
	if before != nil {
		maps.Copy(v.Levels, before.Levels)
	}
	v.Levels[uint8(sl&0xFF)] = n
	var parts []string
	for l := range uint8(16) {
		if n, ok := v.Levels[l]; ok {
			parts = append(parts, fmt.Sprintf("%d %d", l, n))
		}
	}
	v.Text = strings.Join(parts, ", ")
	return v, said, nil
}
