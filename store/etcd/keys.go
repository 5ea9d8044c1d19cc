package etcd

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/store/journal"
)

// pieceLen is the longest value. etcd refuses requests of more than 1.5 MiB.
const pieceLen = 1 << 20

// keys are the keys of one subnet (docs/format/etcd.md).
type keys struct{ prefix string }

func (k keys) term() string { return k.prefix + "/term" }
func (k keys) note() string { return k.prefix + "/note" }

// question asks the owner of the term whether it lives.
func (k keys) question() string { return k.prefix + "/question" }
func (k keys) head() string     { return k.prefix + "/snapshot" }

// journal is before all keys of entries, and journalEnd after them.
func (k keys) journal() string    { return k.prefix + "/journal/" }
func (k keys) journalEnd() string { return k.prefix + "/journal0" }

// entry is the key of an entry, or of its first piece.
func (k keys) entry(n uint64) string { return fmt.Sprintf("%s/journal/%016x", k.prefix, n) }

// piece is the key of piece p of an entry, 1 and more. It sorts between those of n and n+1.
func (k keys) piece(n uint64, p int) string { return fmt.Sprintf("%s.%08x", k.entry(n), p) }

// pieces is after all pieces of n and before the entry n+1.
func (k keys) pieces(n uint64) string { return k.entry(n) + "/" }

// parseEntry is the inverse of entry and piece (0 for entry).
func (k keys) parseEntry(key string) (n uint64, p int, ok bool) {
	rest, ok := strings.CutPrefix(key, k.journal())
	number, piece, cut := strings.Cut(rest, ".")
	if !ok || len(number) != 16 || cut && len(piece) != 8 {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(number, 16, 64)
	if err != nil || number != strings.ToLower(number) {
		return 0, 0, false
	}
	if cut {
		q, err := strconv.ParseUint(piece, 16, 31)
		if err != nil || q == 0 || piece != strings.ToLower(piece) {
			return 0, 0, false
		}
		p = int(q)
	}
	return n, p, true
}

// snapshots is before all keys of pieces of snapshots, and snapshotsEnd after them.
func (k keys) snapshots() string    { return k.prefix + "/snapshot/" }
func (k keys) snapshotsEnd() string { return k.prefix + "/snapshot0" }

// snapshot begins the keys of the pieces of one snapshot, and snapshotEnd is after them.
func (k keys) snapshot(id string) string    { return k.snapshots() + id + "/" }
func (k keys) snapshotEnd(id string) string { return k.snapshots() + id + "0" }

func (k keys) snapshotPiece(id string, p int) string {
	return fmt.Sprintf("%s%08x", k.snapshot(id), p)
}

// formatVersion is that of the values of term and snapshot.
const formatVersion = 1

// termValue is the value of the key "term": who may write. People read it too.
type termValue struct {
	Version int `json:"version"`
	// Claim is random, so that no two claims have the same value.
	Claim string `json:"claim"`
	// Name and GUID are those of the manager.
	Name string  `json:"name,omitempty"`
	GUID ib.GUID `json:"guid,omitempty"`
	// Released: the manager is no longer master.
	Released bool `json:"released,omitempty"`
}

func (t termValue) String() string {
	who := "the manager"
	if t.GUID == 0 {
		who = "'heddle store import'"
	}
	if t.Name != "" {
		who += fmt.Sprintf(" on %q", t.Name)
	}
	if t.GUID != 0 {
		who += fmt.Sprintf(" (port GUID %v)", t.GUID)
	}
	return who
}

// decodeTerm refuses what this program did not write.
func decodeTerm(b []byte) (t termValue, err error) {
	if err := json.Unmarshal(b, &t); err != nil {
		return termValue{}, fmt.Errorf("etcd: key term: %w", err)
	}
	if t.Version != formatVersion {
		return termValue{}, fmt.Errorf("etcd: key term has version %d, this program knows version %d: use the version of heddle that wrote it", t.Version, formatVersion)
	}
	return t, nil
}

// snapshotHead is the value of the key "snapshot": the newest one that is complete.
type snapshotHead struct {
	Version int `json:"version"`
	// ID is random: it begins the keys of the pieces. Empty: there is no snapshot.
	ID     string  `json:"id"`
	Term   uint64  `json:"term"`
	Owner  ib.GUID `json:"owner"`
	Number uint64  `json:"number"`
	// Length is that of all pieces together.
	Length int `json:"length"`

	rev int64 // that wrote the key
}

func (h *snapshotHead) mark() journal.Mark {
	return journal.Mark{Term: journal.Term{Number: h.Term, Owner: h.Owner}, Number: h.Number}
}

func (h *snapshotHead) pieces() int { return (h.Length + pieceLen - 1) / pieceLen }

// decodeHead refuses what this program did not write.
func decodeHead(b []byte) (h snapshotHead, err error) {
	if err := json.Unmarshal(b, &h); err != nil {
		return snapshotHead{}, fmt.Errorf("etcd: key snapshot: %w", err)
	}
	switch _, err := hex.DecodeString(h.ID); {
	case h.Version != formatVersion:
		return snapshotHead{}, fmt.Errorf("etcd: key snapshot has version %d, this program knows version %d: use the version of heddle that wrote it", h.Version, formatVersion)
	case err != nil || len(h.ID) == 0:
		return snapshotHead{}, fmt.Errorf("etcd: key snapshot: %q is no identifier", h.ID)
	case h.Length <= 0 || h.Length > journal.MaxEntry:
		return snapshotHead{}, fmt.Errorf("etcd: key snapshot: a snapshot cannot have %d bytes", h.Length)
	}
	return h, nil
}

// encode returns the value of a key. Its types have no value that JSON lacks.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("etcd: " + err.Error())
	}
	return string(b)
}
