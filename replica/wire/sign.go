package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/replica"
	"heddle/store/journal"
)

// SignClass is the class of signs in band: datagrams of a vendor class of range 2 (IBA §16.5),
// method Send.
const SignClass ib.Class = 0x3C

const (
	// SignVersion is the version of the class.
	SignVersion = 1
	// SignOUI is locally administered: no vendor has it.
	SignOUI = 0x024864

	attrSign = ib.AttrID(0x0010)

	offOUI  = 37 // 3 bytes
	offData = 40 // after the RMPP header and the OUI

	// Signs have one layout in all versions, because a manager must hear another one with which it
	// cannot be a pair: later versions may use more flags, the 2 bytes after these, and what follows.
	signVersion = 1
	signLen     = 100
	datagramLen = 32 + signLen // before the authentication code
)

// MinSecret is the shortest secret for NewKey, in bytes.
const MinSecret = 16

const (
	flagActive = 1 << iota
	flagAlone
	flagWas
	flagPaired
	flagYield
	flagPortOK
)

func appendSign(b []byte, s *replica.Sign) []byte {
	be := binary.BigEndian
	var flags byte
	for i, v := range []bool{s.Active, s.Alone, s.Was, s.Paired, s.Yield, s.PortOK} {
		if v {
			flags |= 1 << i
		}
	}
	b = append(b, signVersion, flags, s.Rank, 0)
	for _, v := range []uint64{s.Boot, s.Seq, s.EchoBoot, s.Echo} {
		b = be.AppendUint64(b, v)
	}
	b = journal.AppendMark(appendTerm(b, s.Term), s.Last)
	return be.AppendUint64(be.AppendUint64(be.AppendUint64(b, s.Pair), s.Left), uint64(s.Wall))
}

func decodeSign(b []byte) (replica.Sign, error) {
	switch {
	case len(b) < signLen:
		return replica.Sign{}, fmt.Errorf("wire: a sign has %d bytes, not %d", signLen, len(b))
	case b[0] < signVersion:
		return replica.Sign{}, errors.New("wire: a sign has no version")
	}
	f := b[1]
	d := journal.Reader{B: b[4:]}
	return replica.Sign{
		Boot: d.Uint64(), Seq: d.Uint64(), EchoBoot: d.Uint64(), Echo: d.Uint64(),
		Term: d.Term(), Last: d.Mark(), Pair: d.Uint64(), Left: d.Uint64(), Wall: int64(d.Uint64()),
		Active: f&flagActive != 0, Alone: f&flagAlone != 0, Was: f&flagWas != 0,
		Paired: f&flagPaired != 0, Yield: f&flagYield != 0, PortOK: f&flagPortOK != 0, Rank: b[2],
	}, nil
}

// Key authenticates signs in band: any host can send a datagram to the port of a manager.
type Key [sha256.Size]byte

// NewKey derives the key from a secret that both managers have. It fails if the secret has less
// than MinSecret bytes.
func NewKey(secret []byte) (Key, error) {
	if len(secret) < MinSecret {
		return Key{}, fmt.Errorf("wire: a secret of %d bytes is too short: at least %d", len(secret), MinSecret)
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("heddle pair, signs in band, version 1"))
	return Key(h.Sum(nil)), nil
}

// Datagram is a sign in band.
type Datagram struct {
	From, To ib.GUID // of the managers' ports
	// Nonce is one of the sender's start. Echo is that of the receiver, as the sender last heard
	// it; a datagram without the receiver's own nonce may be an old one that was recorded.
	Nonce, Echo uint64
	Sign        replica.Sign
}

// Errors of Datagram.Decode.
var (
	// ErrNoSign: the MAD is something else.
	ErrNoSign = errors.New("wire: the datagram is no sign")
	// ErrForged: it was not made with this key.
	ErrForged = errors.New("wire: the sign in band is not authentic")
)

// IsSign reports whether a packet's data has the class of signs in band.
func IsSign(b []byte) bool {
	return len(b) >= ib.MADLen && ib.Class(b[1]) == SignClass && b[offOUI] == SignOUI>>16 && b[offOUI+1] == SignOUI>>8&0xFF && b[offOUI+2] == SignOUI&0xFF
}

// Put makes m the datagram. The transaction ID is the number of the sign: it needs no response.
func (d *Datagram) Put(m *ib.MAD, key *Key) {
	clear(m[:])
	m.SetHeader(SignClass, SignVersion, ib.MethodSend, attrSign, 0)
	m.SetTID(d.Sign.Seq & 0xFFFFFFFF)
	m[offOUI], m[offOUI+1], m[offOUI+2] = SignOUI>>16, SignOUI>>8&0xFF, SignOUI&0xFF
	b := m[offData:offData:ib.MADLen]
	be := binary.BigEndian
	for _, v := range []uint64{uint64(d.From), uint64(d.To), d.Nonce, d.Echo} {
		b = be.AppendUint64(b, v)
	}
	_ = appendSign(b, &d.Sign) // into m
	copy(m[offData+datagramLen:], key.code(m[offData:offData+datagramLen]))
}

// Decode reads a datagram. It fails with ErrNoSign, ErrForged or an error of the sign itself.
func (d *Datagram) Decode(m *ib.MAD, key *Key) error {
	if !IsSign(m[:]) || m.BaseVersion() != 1 || m.ClassVersion() != SignVersion || m.Method() != ib.MethodSend || m.AttrID() != attrSign {
		return ErrNoSign
	}
	b := m[offData : offData+datagramLen]
	if !hmac.Equal(key.code(b), m[offData+datagramLen:offData+datagramLen+sha256.Size]) {
		return ErrForged
	}
	f := journal.Reader{B: b}
	got := Datagram{From: ib.GUID(f.Uint64()), To: ib.GUID(f.Uint64()), Nonce: f.Uint64(), Echo: f.Uint64()}
	var err error
	if got.Sign, err = decodeSign(f.B); err != nil {
		return err
	}
	*d = got
	return nil
}

func (k *Key) code(b []byte) []byte {
	h := hmac.New(sha256.New, k[:])
	h.Write(b)
	return h.Sum(nil)
}
