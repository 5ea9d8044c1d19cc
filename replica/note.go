package replica

import (
	"encoding/binary"
	"fmt"

	"heddle/ib"
	"heddle/store/journal"
)

// note is what a manager must remember about the pair.
type note struct {
	boot  uint64 // number of the last start
	pair  uint64 // number of the last pairing
	alone bool   // entries counted here without the peer
	// solo: the peer may lack entries that counted here.
	solo bool
	// common is the last entry that is known to be on both.
	common uint64
	term   journal.Term // newest one heard of
	began  journal.Term // the last one of its own that began
	had    journal.Mark // what this manager had before the last term that it took
}

const noteLen = 1 + 1 + 8*10

// Bits of a note's second byte.
const (
	noteAlone = 1 << iota
	noteSolo
)

func (n *note) encode() []byte {
	b := []byte{1, 0}
	if n.alone {
		b[1] |= noteAlone
	}
	if n.solo {
		b[1] |= noteSolo
	}
	for _, v := range []uint64{n.boot, n.pair, n.common, n.term.Number, uint64(n.term.Owner), n.began.Number, uint64(n.began.Owner), n.had.Term.Number, uint64(n.had.Term.Owner), n.had.Number} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// CheckNote returns an error if b is no note that a Core wrote, nor empty.
func CheckNote(b []byte) error {
	_, err := decodeNote(b)
	return err
}

func decodeNote(b []byte) (note, error) {
	switch {
	case len(b) == 0:
		return note{}, nil
	case b[0] != 1:
		return note{}, fmt.Errorf("replica: the note has version %d, this program knows version 1: use the version of heddle that wrote it", b[0])
	case len(b) != noteLen || b[1] > noteAlone|noteSolo:
		return note{}, fmt.Errorf("replica: the note %x is damaged", b)
	}
	v := func(i int) uint64 { return binary.BigEndian.Uint64(b[2+8*i:]) }
	// Programs before noteSolo wrote noteAlone by itself. Of what counted there the peer may lack all.
	return note{
		boot: v(0), pair: v(1), alone: b[1]&noteAlone != 0, solo: b[1]&(noteSolo|noteAlone) != 0, common: v(2),
		term:  journal.Term{Number: v(3), Owner: ib.GUID(v(4))},
		began: journal.Term{Number: v(5), Owner: ib.GUID(v(6))},
		had:   journal.Mark{Term: journal.Term{Number: v(7), Owner: ib.GUID(v(8))}, Number: v(9)},
	}, nil
}
