package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"heddle/store"
)

// Token is a named token without its secret.
type Token struct {
	Name  string
	Role  Role
	Scope Scope
	// Hash is the SHA-256 of the whole text of the token.
	Hash    [sha256.Size]byte
	Created time.Time
	Expires time.Time // zero: never
	Used    time.Time // when it was used last, as far as it was stored; zero: never
	By      string    // who created it
}

// Expired reports whether the token has expired.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// The text of a token is heddle.NAME.SECRET: scanners of repositories find it by its beginning, and
// the name says which hash to compare with, in constant time.
const (
	tokenMark   = "heddle."
	secretBytes = 32
)

var secretLen = base64.RawURLEncoding.EncodedLen(secretBytes)

// maxName bounds the name of a token.
const maxName = 64

func checkName(s string) error {
	ok := s != "" && len(s) <= maxName
	for _, c := range s {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if !ok {
		return fmt.Errorf("%w: name %q: want 1 to %d letters, digits, - and _", ErrInvalid, s, maxName)
	}
	return nil
}

// mint makes the text of a token from 256 bits of random.
func mint(name string, random io.Reader) (string, error) {
	var b [secretBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return tokenMark + name + "." + base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// nameOf is the name in the text of a token; false: it is no named token.
func nameOf(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, tokenMark)
	name, secret, cut := strings.Cut(rest, ".")
	return name, ok && cut && len(secret) == secretLen && checkName(name) == nil
}

// IsNamed reports whether a text has the form of a named token.
func IsNamed(text string) bool {
	_, ok := nameOf(text)
	return ok
}

// tokenVersion is that of the record. A record of another version gives nobody access.
const tokenVersion = 1

// tokenRecord is the value of a record (docs/format/store.md). Times are seconds since 1970.
type tokenRecord struct {
	Version int
	Hash    string
	Role    string
	Scope   Scope
	Created int64
	Expires int64  `json:",omitempty"`
	Used    int64  `json:",omitempty"`
	By      string `json:",omitempty"`
}

// op is the operation that stores the token.
func (t *Token) op() store.Op {
	v, err := json.Marshal(tokenRecord{
		Version: tokenVersion, Hash: hex.EncodeToString(t.Hash[:]), Role: t.Role.String(), Scope: t.Scope,
		Created: seconds(t.Created), Expires: seconds(t.Expires), Used: seconds(t.Used), By: t.By,
	})
	if err != nil {
		panic("access: " + err.Error()) // strings and numbers
	}
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableTokens, Key: []byte(t.Name), Value: v}}
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func fromSeconds(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// decodeToken reads a record. An error means that it gives nobody access.
func decodeToken(key, value []byte) (t Token, err error) {
	var r tokenRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return Token{}, fmt.Errorf("token %q: %w", key, err)
	}
	if r.Version != tokenVersion {
		return Token{}, fmt.Errorf("token %q has version %d, this program knows version %d", key, r.Version, tokenVersion)
	}
	t = Token{Name: string(key), Scope: r.Scope, Created: fromSeconds(r.Created), Expires: fromSeconds(r.Expires), Used: fromSeconds(r.Used), By: r.By}
	if err := checkName(t.Name); err != nil {
		return Token{}, err
	}
	if t.Role, err = ParseRole(r.Role); err != nil {
		return Token{}, err
	}
	if err := t.Scope.check(t.Role); err != nil {
		return Token{}, err
	}
	h, err := hex.DecodeString(r.Hash)
	if err != nil || len(h) != len(t.Hash) {
		return Token{}, fmt.Errorf("token %q has no SHA-256", key)
	}
	copy(t.Hash[:], h)
	return t, nil
}
