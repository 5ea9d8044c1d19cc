// Package wire encodes what the two managers of a pair send each other: the messages of package
// replica for a stream (Writer, Reader), and their signs of life for a stream and in band
// (Datagram). docs/format/pair.md has the bytes.
//
// Encoding and decoding are pure. Whatever is decoded is checked: input that no correct manager
// sends is an error, and none makes a decoder allocate much more than the input has bytes.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

// kind is the first byte of a message.
type kind uint8

const (
	kindHello kind = 1 + iota
	kindRefused
	kindEntries
	kindSnapshot
	kindAck
	kindPair
	kindOver
	kindSign
	kindShown
	kindQuery
	kindAnswer
	kindTold
	kindSettings
)

// Sizes in bytes.
const (
	// MaxMessage is the largest message: a state of some twenty times the largest subnet.
	MaxMessage = 1 << 30
	// MaxRelayed is the longest query or answer that is relayed.
	MaxRelayed = 1 << 20
	// pieceSize is the size of a piece of a state, unless one record is larger.
	pieceSize = 1 << 20
)

// ErrShort is returned for a message that is cut off.
var ErrShort = errors.New("wire: the message is cut off")

// Sign is a sign of life on a stream. It is a message for Reader.
type Sign struct{ replica.Sign }

// Shown is a piece of a message with what the active manager publishes (package subnet/mirror). It is a
// message for Reader; nothing acknowledges it.
type Shown struct {
	Last  bool // the message ends with this piece
	Piece []byte
}

// Append appends the encoding of m, which is one of the messages of package replica, a *Sign, a *Shown,
// a *Relayed, a *Told or a *Digests, in the versions that both managers have. It fails if m has what
// that version cannot have, or is larger than MaxMessage.
func Append(b []byte, m any, as Agreed) ([]byte, error) {
	be := binary.BigEndian
	start := len(b)
	var err error
	switch m := m.(type) {
	case replica.Hello:
		b = appendTerm(append(b, byte(kindHello)), m.Term)
		b = be.AppendUint64(be.AppendUint64(b, m.Boot), m.Conn)
		b = journal.AppendMark(b, m.Last)
	case replica.Refused:
		b = appendTerm(append(b, byte(kindRefused)), m.Term)
	case replica.Entries:
		b = appendTerm(append(b, byte(kindEntries)), m.Term)
		for i := range m.List {
			if b, err = journal.AppendAs(b, &m.List[i], as.Journal); err != nil {
				return nil, err
			}
		}
	case replica.Snapshot:
		b = appendTerm(append(b, byte(kindSnapshot)), m.Term)
		b = journal.AppendMark(b, m.At)
		if b, err = appendState(b, m.At, m.State, as.Journal); err != nil {
			return nil, err
		}
	case replica.Ack:
		b = be.AppendUint64(appendTerm(append(b, byte(kindAck)), m.Term), m.Number)
	case replica.Pair:
		b = appendTerm(append(b, byte(kindPair)), m.Term)
		b = be.AppendUint64(be.AppendUint64(b, m.ID), m.Mark)
	case replica.Over:
		b = be.AppendUint64(appendTerm(append(b, byte(kindOver)), m.Term), m.ID)
	case *Sign:
		b = appendSign(append(b, byte(kindSign)), &m.Sign)
	case *Shown:
		last := byte(0)
		if m.Last {
			last = 1
		}
		b = append(append(b, byte(kindShown), last), m.Piece...)
	case *Relayed:
		if b, err = m.put(b, as.Stream); err != nil {
			return nil, err
		}
	case *Told:
		if b, err = m.put(b, as.Stream); err != nil {
			return nil, err
		}
	case *Digests:
		if b, err = m.put(b, as.Stream); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("wire: %T is no message", m)
	}
	if len(b)-start > MaxMessage {
		return nil, fmt.Errorf("wire: a message of %d bytes is larger than %d", len(b)-start, MaxMessage)
	}
	return b, nil
}

// appendState appends a state as entries, which have a checksum each.
func appendState(b []byte, at journal.Mark, s *store.State, version uint8) ([]byte, error) {
	ops := s.Ops()
	for len(ops) > 0 {
		n, size := 0, 0
		for n < len(ops) && (n == 0 || size+opSize(&ops[n]) <= pieceSize) {
			size += opSize(&ops[n])
			n++
		}
		var err error
		if b, err = journal.AppendAs(b, &journal.Entry{Mark: at, Ops: ops[:n]}, version); err != nil {
			return nil, err
		}
		ops = ops[n:]
	}
	return b, nil
}

// opSize is at least what an operation takes in an entry.
func opSize(o *store.Op) int { return 32 + len(o.Record.Key) + len(o.Record.Value) }

// Decode reads a message: one of package replica, a *Sign, a *Shown, a *Relayed, a *Told or a *Digests. It
// shares b's bytes.
func Decode(b []byte) (any, error) {
	if len(b) == 0 {
		return nil, ErrShort
	}
	k, d := kind(b[0]), journal.Reader{B: b[1:]}
	if k == kindSign {
		s, err := decodeSign(d.B)
		if err != nil {
			return nil, err
		}
		return &Sign{s}, nil
	}
	if k == kindShown {
		if len(d.B) < 2 {
			return nil, ErrShort
		}
		if d.B[0] > 1 {
			return nil, errors.New("wire: a piece of what is shown has unknown flags")
		}
		return &Shown{Last: d.B[0] == 1, Piece: d.B[1:]}, nil
	}
	if k == kindQuery || k == kindAnswer {
		return decodeRelayed(k, d.B)
	}
	if k == kindTold {
		return decodeTold(d.B)
	}
	if k == kindSettings {
		return decodeDigests(d.B)
	}
	term := d.Term()
	var m any
	switch k {
	case kindHello:
		m = replica.Hello{Term: term, Boot: d.Uint64(), Conn: d.Uint64(), Last: d.Mark()}
	case kindRefused:
		m = replica.Refused{Term: term}
	case kindEntries:
		list, err := decodeEntries(d.Rest())
		if err != nil {
			return nil, err
		}
		m = replica.Entries{Term: term, List: list}
	case kindSnapshot:
		at := d.Mark()
		s, err := decodeState(at, d.Rest())
		if err != nil {
			return nil, err
		}
		m = replica.Snapshot{Term: term, At: at, State: s}
	case kindAck:
		m = replica.Ack{Term: term, Number: d.Uint64()}
	case kindPair:
		m = replica.Pair{Term: term, ID: d.Uint64(), Mark: d.Uint64()}
	case kindOver:
		m = replica.Over{Term: term, ID: d.Uint64()}
	default:
		return nil, fmt.Errorf("wire: message of the unknown kind %d", k)
	}
	switch {
	case d.Short:
		return nil, ErrShort
	case len(d.B) > 0:
		return nil, fmt.Errorf("wire: %d bytes after the end of a message", len(d.B))
	}
	return m, nil
}

func decodeEntries(b []byte) ([]journal.Entry, error) {
	var list []journal.Entry
	for len(b) > 0 {
		e, n, err := journal.Decode(b)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		b = b[n:]
	}
	if len(list) == 0 {
		return nil, errors.New("wire: a message has no entries")
	}
	return list, nil
}

func decodeState(at journal.Mark, b []byte) (*store.State, error) {
	m := store.NewMemory()
	for len(b) > 0 {
		e, n, err := journal.Decode(b)
		if err != nil {
			return nil, err
		}
		if e.Mark != at || e.Begin != nil || e.Wall != 0 {
			return nil, fmt.Errorf("wire: a piece of the state of %v is of %v", at, e.Mark)
		}
		for i := range e.Ops {
			switch e.Ops[i].Kind {
			case store.PutLID, store.PutMKey, store.PutNeighbor, store.PutRecord:
			default:
				return nil, fmt.Errorf("wire: a state has an operation of kind %d", e.Ops[i].Kind)
			}
		}
		if err := m.Apply(e.Ops); err != nil {
			return nil, err
		}
		b = b[n:]
	}
	return m.Load()
}

func appendTerm(b []byte, t journal.Term) []byte {
	b = binary.BigEndian.AppendUint64(b, t.Number)
	return binary.BigEndian.AppendUint64(b, uint64(t.Owner))
}
