// Package backup writes the contents of a store as text and reads them again: one line of JSON
// each entry, so that people can look at a backup, compare two, and keep them in what they have
// (docs/format/backup.md).
//
// A complete backup holds M_Keys. Who can read it can take over ports.
package backup

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

// version is that of the format.
const version = 1

// maxLine bounds a line: a record's value in hexadecimal digits, and the rest.
const maxLine = 2*(store.MaxRecordValue+store.MaxRecordKey) + 4096

// header is the first line.
type header struct {
	Heddle     string    `json:"heddle"` // "state"
	Version    int       `json:"version"`
	Term       uint64    `json:"term"`
	Owner      string    `json:"owner"`
	Entry      uint64    `json:"entry"`
	LIDs       int       `json:"lids"`
	MKeys      int       `json:"m_keys"`
	Neighbors  int       `json:"neighbors"`
	Records    int       `json:"records"`
	LinesAfter int       `json:"lines"`             // entries that follow, without the last line
	Without    *Withheld `json:"without,omitempty"` // nil: it has all
}

// Backup is what a store held.
type Backup struct {
	State   *store.State
	At      journal.Mark // the last entry of the journal that it includes
	Without Withheld     // entries that the text is without
}

// line is one of the others; exactly one field is set.
type line struct {
	LID      *lidLine      `json:"lid,omitempty"`
	MKey     *mkeyLine     `json:"m_key,omitempty"`
	Neighbor *neighborLine `json:"neighbor,omitempty"`
	Record   *recordLine   `json:"record,omitempty"`
	Sum      *string       `json:"crc32c,omitempty"` // the last line: of all lines before
}

type lidLine struct {
	GUID string `json:"guid"`
	LID  uint16 `json:"lid"`
	LMC  uint8  `json:"lmc"`
}

type mkeyLine struct {
	GUID string `json:"guid"`
	Key  string `json:"key"`
}

type neighborLine struct {
	Node string `json:"node"`
	Port uint8  `json:"port"`
	Peer string `json:"peer"`
}

type recordLine struct {
	Table string `json:"table"`
	Key   string `json:"key"`   // hexadecimal
	Value string `json:"value"` // hexadecimal
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// marked is a store that knows its last entry.
type marked interface {
	Contents() (*store.State, journal.Mark, error)
}

// WriteStore writes what a store holds, as of the last entry of its journal if it has one.
func WriteStore(w io.Writer, st store.Store) (err error) {
	var s *store.State
	var at journal.Mark
	if j, ok := st.(marked); ok {
		s, at, err = j.Contents()
	} else {
		s, err = st.Load()
	}
	if err != nil {
		return err
	}
	return (&Backup{State: s, At: at}).Write(w)
}

// Write writes b as text. Equal backups give equal bytes.
func (b *Backup) Write(w io.Writer) error {
	s := b.State
	h := header{
		Heddle: "state", Version: version, Term: b.At.Term.Number, Owner: hex64(uint64(b.At.Term.Owner)), Entry: b.At.Number,
		LIDs: len(s.LIDs), MKeys: len(s.MKeys), Neighbors: len(s.Neighbors), Records: len(s.Records),
		LinesAfter: len(s.LIDs) + len(s.MKeys) + len(s.Neighbors) + len(s.Records),
	}
	if b.Without != (Withheld{}) {
		h.Without = &b.Without
	}
	sum := crc32.New(castagnoli)
	buf := bufio.NewWriter(io.MultiWriter(w, sum))
	e := json.NewEncoder(buf)
	if err := e.Encode(h); err != nil {
		return err
	}
	for _, x := range s.LIDs {
		if err := e.Encode(line{LID: &lidLine{hex64(uint64(x.GUID)), uint16(x.LID), x.LMC}}); err != nil {
			return err
		}
	}
	for _, x := range s.MKeys {
		if err := e.Encode(line{MKey: &mkeyLine{hex64(uint64(x.GUID)), hex64(uint64(x.MKey))}}); err != nil {
			return err
		}
	}
	for _, x := range s.Neighbors {
		if err := e.Encode(line{Neighbor: &neighborLine{hex64(uint64(x.Node)), x.Port, hex64(uint64(x.Peer))}}); err != nil {
			return err
		}
	}
	for _, x := range s.Records {
		if err := e.Encode(line{Record: &recordLine{x.Table.String(), hex.EncodeToString(x.Key), hex.EncodeToString(x.Value)}}); err != nil {
			return err
		}
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("%08x", sum.Sum32())
	last, err := json.Marshal(line{Sum: &text})
	if err != nil {
		return err
	}
	_, err = w.Write(append(last, '\n'))
	return err
}

func hex64(v uint64) string { return fmt.Sprintf("0x%016x", v) }

// Read reads a backup. An error names the line. Nothing of a damaged or cut-off backup is
// returned.
func Read(r io.Reader) (*Backup, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	sum := crc32.New(castagnoli)
	n := 0
	next := func() ([]byte, error) {
		n++
		b, err := readLine(in)
		if err != nil {
			return nil, fmt.Errorf("backup: line %d: %w", n, err)
		}
		return b, nil
	}
	b, err := next()
	if err != nil {
		return nil, err
	}
	h, out, err := readHeader(b)
	if err != nil {
		return nil, fmt.Errorf("backup: line 1: %w", err)
	}
	var ops []store.Op
	for {
		sum.Write(b)
		if b, err = next(); err != nil {
			return nil, err
		}
		var l line
		if err := strict(b, &l); err != nil {
			return nil, fmt.Errorf("backup: line %d: %w", n, err)
		}
		if l.Sum != nil {
			if want := fmt.Sprintf("%08x", sum.Sum32()); *l.Sum != want {
				return nil, fmt.Errorf("backup: line %d: the checksum is %s, and should be %s: the backup was changed or damaged", n, *l.Sum, want)
			}
			break
		}
		o, err := l.op()
		if err != nil {
			return nil, fmt.Errorf("backup: line %d: %w", n, err)
		}
		ops = append(ops, o)
	}
	if len(ops) != h.LinesAfter {
		return nil, fmt.Errorf("backup: it has %d entries, and line 1 names %d", len(ops), h.LinesAfter)
	}
	if b, err := in.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("backup: after line %d comes more (%q): it should end there", n, b)
	}
	m := store.NewMemory()
	if err := m.Apply(ops); err != nil {
		return nil, err
	}
	s, err := m.Load()
	if err != nil {
		return nil, err
	}
	if len(s.LIDs) != h.LIDs || len(s.MKeys) != h.MKeys || len(s.Neighbors) != h.Neighbors || len(s.Records) != h.Records {
		return nil, errors.New("backup: an entry comes twice, or line 1 names other numbers of entries")
	}
	out.State = s
	return out, nil
}

// readHeader decodes the first line: all of the backup but its state.
func readHeader(b []byte) (h header, out *Backup, err error) {
	if err := strict(b, &h); err != nil || h.Heddle != "state" {
		return h, nil, errors.New("this is no backup of heddle's state")
	}
	if h.Version != version {
		return h, nil, fmt.Errorf("version %d, this program knows version %d: use the version of heddle that wrote it", h.Version, version)
	}
	out = &Backup{At: journal.Mark{Term: journal.Term{Number: h.Term}, Number: h.Entry}}
	owner, err := parse64(h.Owner)
	if err != nil {
		return h, nil, fmt.Errorf("owner: %w", err)
	}
	out.At.Term.Owner = ib.GUID(owner)
	if w := h.Without; w != nil {
		if w.MKeys < 0 || w.Tokens < 0 || w.Services < 0 || *w == (Withheld{}) {
			return h, nil, errors.New("it counts nothing that the backup is without, or less than nothing")
		}
		out.Without = *w
	}
	return h, out, nil
}

// readLine returns the next line with its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var b []byte
	for {
		part, err := in.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case err == nil:
			return b, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("the backup is cut off")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(b) > maxLine:
			return nil, errors.New("the line is too long")
		}
	}
}

// strict decodes JSON without unknown fields or anything behind it.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

func parse64(s string) (uint64, error) {
	if len(s) != 18 || !strings.HasPrefix(s, "0x") {
		return 0, fmt.Errorf("%q is no number of 16 hexadecimal digits after 0x", s)
	}
	return strconv.ParseUint(s[2:], 16, 64)
}

// op is the operation that restores the line.
func (l *line) op() (store.Op, error) {
	var o store.Op
	var err error
	num := func(s string) uint64 {
		v, e := parse64(s)
		err = errors.Join(err, e)
		return v
	}
	set := 0
	if x := l.LID; x != nil {
		set++
		o = store.Op{Kind: store.PutLID, GUID: ib.GUID(num(x.GUID)), LID: ib.LID(x.LID), LMC: x.LMC}
	}
	if x := l.MKey; x != nil {
		set++
		o = store.Op{Kind: store.PutMKey, GUID: ib.GUID(num(x.GUID)), MKey: ib.MKey(num(x.Key))}
	}
	if x := l.Neighbor; x != nil {
		set++
		o = store.Op{Kind: store.PutNeighbor, GUID: ib.GUID(num(x.Node)), Port: x.Port, Peer: ib.GUID(num(x.Peer))}
	}
	if x := l.Record; x != nil {
		set++
		t, ok := store.TableNamed(x.Table)
		if !ok {
			return o, fmt.Errorf("there is no table %q", x.Table)
		}
		key, e1 := hex.DecodeString(x.Key)
		value, e2 := hex.DecodeString(x.Value)
		err = errors.Join(err, e1, e2)
		o = store.Op{Kind: store.PutRecord, Record: store.Record{Table: t, Key: key, Value: value}}
	}
	switch {
	case set != 1:
		return o, errors.New("it has no entry, or more than one")
	case err != nil:
		return o, err
	}
	return o, o.Check()
}
