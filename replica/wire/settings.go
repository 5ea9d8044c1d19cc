package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// settingsVersion is the first version of the stream on which managers compare their settings.
const settingsVersion = 4

// Sizes of Digests.
const (
	// MaxDigests is how many settings a message may have.
	MaxDigests = 1000

	saltLen = 16
	sumLen  = 16
)

// Compares reports whether settings are compared on a stream.
func (a Agreed) Compares() bool { return a.Stream >= settingsVersion }

// Setting is one that the managers of a subnet should have alike. Its value may be a secret.
type Setting struct {
	Name  string // 1 to 255 bytes
	Value string
}

// Digests are what the sender's settings are, without their values. It is a message for Reader; nothing
// acknowledges it.
type Digests struct {
	// Salt is a random number of the message: nobody can tell from two messages that a value stayed.
	Salt [saltLen]byte
	List []Digest // at most MaxDigests
}

// Digest is the first half of the HMAC-SHA256 of a setting's name, a byte 0 and its value. The key is the
// salt and, of a pair, its secret.
type Digest struct {
	Name string // 1 to 255 bytes
	Sum  [sumLen]byte
}

// NewDigests makes a message of settings. secret is that of a pair; managers with etcd have none.
func NewDigests(list []Setting, secret []byte) *Digests {
	m := new(Digests)
	_, _ = rand.Read(m.Salt[:]) // it never fails
	for _, s := range list {
		m.List = append(m.List, Digest{s.Name, m.sum(s, secret)})
	}
	return m
}

func (m *Digests) sum(s Setting, secret []byte) (sum [sumLen]byte) {
	h := hmac.New(sha256.New, slices.Concat(m.Salt[:], secret))
	h.Write([]byte(s.Name + "\x00" + s.Value))
	copy(sum[:], h.Sum(nil))
	return sum
}

// Differ returns the names of the receiver's own settings whose values the sender has otherwise, in the order of own.
// Settings that only one of the two knows, whose version is another, are not among them.
func (m *Digests) Differ(own []Setting, secret []byte) (names []string) {
	theirs := make(map[string][sumLen]byte, len(m.List))
	for _, d := range m.List {
		theirs[d.Name] = d.Sum
	}
	for _, s := range own {
		if sum, ok := theirs[s.Name]; ok && sum != m.sum(s, secret) {
			names = append(names, s.Name)
		}
	}
	return names
}

// put appends the encoding of m.
func (m *Digests) put(b []byte, version uint8) ([]byte, error) {
	if version < settingsVersion {
		return nil, fmt.Errorf("wire: version %d of the stream has no settings", version)
	}
	if len(m.List) > MaxDigests {
		return nil, fmt.Errorf("wire: %d settings: want at most %d", len(m.List), MaxDigests)
	}
	b = append(append(b, byte(kindSettings)), m.Salt[:]...)
	for i := range m.List {
		d := &m.List[i]
		if n := len(d.Name); n == 0 || n > 255 {
			return nil, fmt.Errorf("wire: the name of a setting has %d bytes: want 1 to 255", n)
		}
		b = append(append(append(b, byte(len(d.Name))), d.Name...), d.Sum[:]...)
	}
	return b, nil
}

// decodeDigests reads what follows the kind.
func decodeDigests(b []byte) (*Digests, error) {
	m := new(Digests)
	if len(b) < saltLen {
		return nil, ErrShort
	}
	b = b[copy(m.Salt[:], b):]
	for len(b) > 0 {
		n := int(b[0])
		switch {
		case n == 0:
			return nil, errors.New("wire: a setting has no name")
		case len(b) < 1+n+sumLen:
			return nil, ErrShort
		case len(m.List) == MaxDigests:
			return nil, fmt.Errorf("wire: more than %d settings", MaxDigests)
		}
		d := Digest{Name: string(b[1 : 1+n])}
		copy(d.Sum[:], b[1+n:])
		m.List = append(m.List, d)
		b = b[1+n+sumLen:]
	}
	return m, nil
}
