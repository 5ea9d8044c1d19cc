// Package wiretest has the tests that every codec of a wire attribute must
// pass, and readers for files of recorded and of independently decoded bytes.
// Only tests use it.
package wiretest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"heddle/ib"
)

// Codec is implemented by every attribute.
type Codec interface {
	Decode(b []byte) error
	Put(b []byte)
}

// Bytes returns the n bytes that Put writes.
func Bytes(v interface{ Put(b []byte) }, n int) []byte {
	b := make([]byte, n)
	v.Put(b)
	return b
}

// Attr describes an attribute to Laws.
type Attr struct {
	Name string
	Len  int // length of Put's output
	// Also are the other lengths that Decode takes: the bare record, the data
	// area of the class.
	Also []int
	// Bits is how many bits of the attribute mean something: the sum of the
	// widths of the fields in the specification's table.
	Bits int
	// Fix makes random bytes acceptable, where not everything is.
	Fix func(b []byte)
	// Loose is set where two bits of the wire mean the same.
	Loose bool
}

// Laws checks a codec against its description: lengths, totality, reserved
// bits, round trips both ways, allocations.
func Laws[T any, P interface {
	*T
	Codec
}](t *testing.T, a Attr) {
	t.Run(a.Name, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, uint64(a.Len)))
		t.Run("lengths", func(t *testing.T) { lengths[T, P](t, a, rnd) })
		t.Run("bits", func(t *testing.T) { bits[T, P](t, a, rnd) })
		t.Run("allocations", func(t *testing.T) { allocations[T, P](t, a, rnd) })
	})
}

func random(a Attr, n int, rnd *rand.Rand) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	if a.Fix != nil && n >= a.Len {
		a.Fix(b)
	}
	return b
}

func lengths[T any, P interface {
	*T
	Codec
}](t *testing.T, a Attr, rnd *rand.Rand) {
	good := map[int]bool{a.Len: true}
	for _, n := range a.Also {
		good[n] = true
	}
	var full T
	base := random(a, a.Len, rnd)
	if err := P(&full).Decode(base); err != nil {
		t.Fatal(err)
	}
	for n := range 300 {
		b := random(a, n, rnd)
		if good[n] && n < a.Len { // a bare record
			copy(b, base)
		}
		v := full
		err := P(&v).Decode(b)
		if good[n] {
			if err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		var de *ib.DecodeError
		if !errors.As(err, &de) {
			t.Fatalf("%d bytes: error %v, want a DecodeError", n, err)
		}
		want := ib.ErrShort
		if n > a.Len {
			want = ib.ErrLong
		}
		if !errors.Is(err, want) || de.Got != n {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
		if !reflect.DeepEqual(v, full) {
			t.Errorf("%d bytes: a failed Decode changed the value", n)
		}
	}
	// The tail of a data area is ignored.
	for _, n := range a.Also {
		if n <= a.Len {
			continue
		}
		b := append(bytes.Clone(base), random(Attr{}, n-a.Len, rnd)...)
		var v T
		if err := P(&v).Decode(b); err != nil || !reflect.DeepEqual(v, full) {
			t.Errorf("in an area of %d bytes: %v, %+v, want %+v", n, err, v, full)
		}
	}
}

// bits flips every bit of the attribute. Either the value notices, and then
// Put brings exactly that bit back, or the bit is reserved, and then Put
// writes 0.
func bits[T any, P interface {
	*T
	Codec
}](t *testing.T, a Attr, rnd *rand.Rand) {
	var significant map[int]bool
	for range 8 {
		base := random(a, a.Len, rnd)
		var v T
		if err := P(&v).Decode(base); err != nil {
			t.Fatal(err)
		}
		out := bytes.Repeat([]byte{0xFF}, a.Len+1)
		P(&v).Put(out)
		if out[a.Len] != 0xFF {
			t.Fatal("Put wrote beyond its end")
		}
		var back T
		if err := P(&back).Decode(out[:a.Len]); err != nil || !reflect.DeepEqual(back, v) {
			t.Fatalf("decode of encode: %v\n got %+v\nwant %+v", err, back, v)
		}
		sig := map[int]bool{}
		for i := range 8 * a.Len {
			b := bytes.Clone(base)
			b[i/8] ^= 0x80 >> (i % 8)
			var w T
			err := P(&w).Decode(b)
			if err == nil && reflect.DeepEqual(v, w) {
				if !a.Loose && out[i/8]&(0x80>>(i%8)) != 0 {
					t.Errorf("bit %d is ignored by Decode but written as 1", i)
				}
				continue
			}
			sig[i] = true
			if err == nil {
				if a.Loose {
					continue
				}
				o := bytes.Repeat([]byte{0xFF}, a.Len)
				P(&w).Put(o)
				o[i/8] ^= 0x80 >> (i % 8)
				if !bytes.Equal(o, out[:a.Len]) {
					t.Errorf("bit %d is not decoded and encoded at its position", i)
				}
			}
		}
		if significant == nil {
			significant = sig
		}
		for i := range sig {
			significant[i] = true
		}
	}
	if a.Bits != 0 && len(significant) != a.Bits {
		t.Errorf("%d bits are significant, want %d", len(significant), a.Bits)
	}
}

func allocations[T any, P interface {
	*T
	Codec
}](t *testing.T, a Attr, rnd *rand.Rand) {
	b := random(a, a.Len, rnd)
	v := P(new(T))
	if n := testing.AllocsPerRun(100, func() {
		if err := v.Decode(b); err != nil {
			t.Fatal(err)
		}
		v.Put(b)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Fuzz is the property of every decoder: it accepts any bytes without a panic,
// an error leaves the value unchanged, and decode, encode, decode is a fixed
// point. The largest size exceeds Put's output.
func Fuzz[T any, P interface {
	*T
	Codec
}](f *testing.F, sizes ...int) {
	for _, n := range sizes {
		f.Add(make([]byte, n))
		f.Add(bytes.Repeat([]byte{0xFF}, n))
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*37 + 1)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, c, zero T
		if P(&a).Decode(b) != nil {
			if !reflect.DeepEqual(a, zero) {
				t.Fatalf("an error left %+v", a)
			}
			return
		}
		w := Bytes(P(&a), slices.Max(sizes))
		if err := P(&c).Decode(w); err != nil || !reflect.DeepEqual(a, c) {
			t.Fatalf("%+v != %+v: %v", a, c, err)
		}
	})
}

// Entry is one "@ name" block of a test file.
type Entry struct {
	Name   string
	Line   int
	Bytes  []byte
	Fields [][2]string // name=value, in order
}

// MAD is the entry's bytes at the head of a MAD.
func (e *Entry) MAD() *ib.MAD {
	var m ib.MAD
	copy(m[:], e.Bytes)
	return &m
}

// Read reads a file of entries: "@ name", hex lines, name=value lines;
// comment lines begin with #.
func Read(t testing.TB, path string) []Entry {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []Entry
	for i, l := range strings.Split(string(text), "\n") {
		l = strings.TrimSpace(l)
		switch {
		case l == "" || l[0] == '#':
			continue
		case l[0] == '@':
			out = append(out, Entry{Name: strings.TrimSpace(l[1:]), Line: i + 1})
			continue
		}
		e := &out[len(out)-1]
		if strings.Contains(l, "=") {
			for f := range strings.FieldsSeq(l) {
				k, v, _ := strings.Cut(f, "=")
				e.Fields = append(e.Fields, [2]string{k, v})
			}
			continue
		}
		b, err := hex.DecodeString(l)
		if err != nil {
			t.Fatalf("%s:%d: %v", path, i+1, err)
		}
		e.Bytes = append(e.Bytes, b...)
	}
	return out
}

// Find is the entry of that name.
func Find(t testing.TB, es []Entry, name string) *Entry {
	t.Helper()
	for i := range es {
		if es[i].Name == name {
			return &es[i]
		}
	}
	t.Fatalf("no entry %q", name)
	return nil
}

// Foreign compares the struct v with another decoder's result for the bytes of
// an entry. names maps the foreign field names that differ from ours; a name
// mapped to "" is not compared. A path is "Field", "Field.Field" or "Field[3]".
func Foreign(t *testing.T, e *Entry, v any, names map[string]string) {
	t.Helper()
	for _, f := range e.Fields {
		path, ok := names[f[0]]
		if !ok {
			path = f[0]
		}
		if path == "" {
			continue
		}
		got, err := lookup(reflect.ValueOf(v), path)
		if err != nil {
			t.Fatalf("%s (line %d): %s: %v", e.Name, e.Line, f[0], err)
		}
		if g := format(got); g != f[1] {
			t.Errorf("%s (line %d): %s = %s, another decoder says %s", e.Name, e.Line, path, g, f[1])
		}
	}
}

func lookup(v reflect.Value, path string) (reflect.Value, error) {
	v = reflect.Indirect(v)
	for p := range strings.SplitSeq(path, ".") {
		name, idx, hasIdx := strings.Cut(p, "[")
		if name != "" {
			v = v.FieldByName(name)
			if !v.IsValid() {
				return v, fmt.Errorf("no field %q", name)
			}
		}
		if hasIdx {
			i, err := strconv.Atoi(strings.TrimSuffix(idx, "]"))
			if err != nil {
				return v, err
			}
			v = v.Index(i)
		}
	}
	return v, nil
}

func format(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return "1"
		}
		return "0"
	case reflect.Array:
		b := make([]byte, v.Len())
		for i := range b {
			b[i] = byte(v.Index(i).Uint())
		}
		return hex.EncodeToString(b)
	default:
		return strconv.FormatUint(v.Uint(), 16)
	}
}
