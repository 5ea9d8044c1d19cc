package backup

import (
	"slices"

	"heddle/ib/sa"
	"heddle/store"
)

// Withheld counts the entries with keys that a backup was written without. The zero value is that of
// a complete backup.
type Withheld struct {
	MKeys    int `json:"m_keys,omitempty"`
	Tokens   int `json:"tokens,omitempty"`   // hashes of tokens of the API
	Services int `json:"services,omitempty"` // registered services that have a ServiceKey
}

// serviceAt is where a record of table services has its ServiceRecord (docs/format/store.md).
const serviceAt = 17

// WithoutKeys returns a copy of b without the entries that hold keys or hashes of keys, and counts
// them. All others are as in b.
func (b *Backup) WithoutKeys() *Backup {
	s := *b.State
	out := &Backup{State: &s, At: b.At, Without: b.Without}
	out.Without.MKeys += len(s.MKeys)
	s.MKeys = nil
	s.Records = slices.DeleteFunc(slices.Clone(s.Records), func(r store.Record) bool {
		switch {
		case r.Table == store.TableTokens:
			out.Without.Tokens++
		case r.Table == store.TableServices && hasKey(r.Value):
			out.Without.Services++
		default:
			return false
		}
		return true
	})
	return out
}

// hasKey reports whether a service may have a ServiceKey. One with an unknown layout may.
func hasKey(value []byte) bool {
	var r sa.ServiceRecord
	return len(value) != serviceAt+sa.ServiceRecordLen || r.Decode(value[serviceAt:]) != nil || r.ServiceKey != [16]byte{}
}
