package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
	"heddle/store/journal"
)

// relayVersion is the first version of the stream that has relayed queries.
const relayVersion = 2

// Relays reports whether queries may be relayed on a stream.
func (a Agreed) Relays() bool { return a.Stream >= relayVersion }

// Relayed is a query to the SA that came to the port of a standby, or the active manager's answer to it.
// It is a message for Reader; nothing acknowledges it.
type Relayed struct {
	Answer bool
	// From is where the query came from, in an answer too. From.Relayed is false.
	From mad.Addr
	// SingleMAD is that of the query's packet.
	SingleMAD bool
	Data      []byte // sa.HeaderLen to MaxRelayed bytes
}

const (
	flagGRH = 1 << iota
	flagSingle
)

// put appends the encoding of m.
func (m *Relayed) put(b []byte, version uint8) ([]byte, error) {
	if version < relayVersion {
		return nil, fmt.Errorf("wire: version %d of the stream has no queries", version)
	}
	if err := checkRelayed(m.Data); err != nil {
		return nil, err
	}
	k, flags, be := kindQuery, byte(0), binary.BigEndian
	if m.Answer {
		k = kindAnswer
	}
	if m.SingleMAD {
		flags |= flagSingle
	}
	a := &m.From
	if a.HasGRH {
		flags |= flagGRH
	}
	b = append(b, byte(k), flags)
	b = be.AppendUint16(be.AppendUint16(b, uint16(a.LID)), a.PKeyIndex)
	b = be.AppendUint32(be.AppendUint32(b, a.QP), uint32(a.QKey))
	b = append(b, byte(a.SL), a.PathBits)
	if g := &a.GRH; a.HasGRH {
		b = append(append(b, g.GID[:]...), g.GIDIndex, g.HopLimit, g.TrafficClass)
		b = be.AppendUint32(b, g.FlowLabel)
	}
	return append(b, m.Data...), nil
}

func checkRelayed(data []byte) error {
	if n := len(data); n < sa.HeaderLen || n > MaxRelayed || ib.Class(data[1]) != ib.ClassSA {
		return fmt.Errorf("wire: %d bytes are no query and no answer of the SA", n)
	}
	return nil
}

// decodeRelayed reads what follows the kind. The result shares b's bytes.
func decodeRelayed(k kind, b []byte) (*Relayed, error) {
	d := journal.Reader{B: b}
	flags := d.Uint8()
	m := &Relayed{Answer: k == kindAnswer, SingleMAD: flags&flagSingle != 0, From: mad.Addr{
		LID: ib.LID(d.Uint16()), PKeyIndex: d.Uint16(), QP: d.Uint32(), QKey: ib.QKey(d.Uint32()),
		SL: ib.SL(d.Uint8()), PathBits: d.Uint8(), HasGRH: flags&flagGRH != 0,
	}}
	if g := &m.From.GRH; m.From.HasGRH {
		binary.BigEndian.PutUint64(g.GID[:8], d.Uint64())
		binary.BigEndian.PutUint64(g.GID[8:], d.Uint64())
		g.GIDIndex, g.HopLimit, g.TrafficClass, g.FlowLabel = d.Uint8(), d.Uint8(), d.Uint8(), d.Uint32()
	}
	switch {
	case d.Short:
		return nil, ErrShort
	case flags&^(flagGRH|flagSingle) != 0:
		return nil, errors.New("wire: a relayed query has unknown flags")
	}
	m.Data = d.Rest()
	return m, checkRelayed(m.Data)
}
