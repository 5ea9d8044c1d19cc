package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"heddle/ib"
	"heddle/store/journal"
)

// A stream begins with a Greeting each way. Frames follow: a header of 4 bytes and at most
// MaxFrame bytes. A message is cut into frames, so that a sign need not wait for the end of a
// large one: signs come between the frames of another message.
const (
	// MaxFrame is the largest frame without its header, in bytes.
	MaxFrame = 64 << 10

	frameMore  = 1 << 24 // further frames of this message follow
	frameAside = 1 << 25 // a sign by itself; the message around it goes on
	frameFlags = 0xFF000000

	greetingLen  = 32
	greetingText = "heddle\x00"
)

// linked is the range of versions of the stream of a build for tests; see journal.Linked.
var linked string

// Versions are what a manager reads and writes.
type Versions struct{ Stream, Journal journal.Range }

// Own are those of this program.
func Own() Versions {
	return Versions{journal.Linked(linked, journal.Range{Oldest: 1, Newest: settingsVersion}), journal.Versions()}
}

// Agreed are the versions that both ends of a stream use.
type Agreed struct{ Stream, Journal uint8 }

// ErrVersions: the two managers have no version in common.
var ErrVersions = errors.New("wire: the two managers cannot be a pair")

// Agree finds the newest versions that both managers have, or fails with ErrVersions, and says which
// manager is the older one.
func (v *Versions) Agree(peer *Versions) (a Agreed, err error) {
	for _, x := range []struct {
		what      string
		own, peer journal.Range
		to        *uint8
	}{{"stream", v.Stream, peer.Stream, &a.Stream}, {"journal", v.Journal, peer.Journal, &a.Journal}} {
		c, ok := x.own.Common(x.peer)
		if !ok {
			older := "this one is older: upgrade it"
			if x.own.Oldest > x.peer.Newest {
				older = "that one is older: upgrade it"
			}
			return Agreed{}, fmt.Errorf("%w: the other one has version %v of the %s, this one version %v; %s", ErrVersions, x.peer, x.what, x.own, older)
		}
		*x.to = c
	}
	return a, nil
}

// Greeting is the first that each side of a stream sends. Its layout is that of all versions.
type Greeting struct {
	From, To ib.GUID // of the managers' ports
	LID      ib.LID  // of the sender's port; 0: it has none yet
	Versions Versions
}

// Put appends the greeting.
func (g *Greeting) Put(b []byte) []byte {
	be := binary.BigEndian
	b = append(append(b, greetingText...), g.Versions.Stream.Oldest)
	b = be.AppendUint64(be.AppendUint64(b, uint64(g.From)), uint64(g.To))
	b = append(be.AppendUint16(b, uint16(g.LID)), g.Versions.Stream.Newest, g.Versions.Journal.Oldest, g.Versions.Journal.Newest)
	return append(b, 0, 0, 0)
}

// Read reads a greeting. Bytes that this version does not know are ignored.
func (g *Greeting) Read(r io.Reader) error {
	var b [greetingLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	if string(b[:len(greetingText)]) != greetingText {
		return errors.New("wire: the other end is no manager of a pair")
	}
	f := journal.Reader{B: b[len(greetingText):]}
	oldest := f.Uint8()
	got := Greeting{From: ib.GUID(f.Uint64()), To: ib.GUID(f.Uint64()), LID: ib.LID(f.Uint16())}
	got.Versions = Versions{journal.Range{Oldest: oldest, Newest: f.Uint8()}, journal.Range{Oldest: f.Uint8(), Newest: f.Uint8()}}
	for _, r := range []journal.Range{got.Versions.Stream, got.Versions.Journal} {
		if r.Oldest == 0 || r.Newest < r.Oldest {
			// Builds from before ranges have zeros here.
			return fmt.Errorf("%w: the other one names the versions %d to %d, which no release does: upgrade it", ErrVersions, r.Oldest, r.Newest)
		}
	}
	*g = got
	return nil
}

// Writer writes messages to a stream, one after the other.
type Writer struct {
	w     io.Writer
	as    Agreed
	b     []byte // the message
	frame []byte
}

// NewWriter returns a writer of messages in the versions that Agree returned.
func NewWriter(w io.Writer, as Agreed) *Writer { return &Writer{w: w, as: as} }

// keptBuffer is how large a buffer may be that is kept for the next message.
const keptBuffer = 1 << 20

// Write writes a message (see Append). Before each of its frames it writes what urgent returns,
// if that is not nil.
func (w *Writer) Write(m any, urgent func() *Sign) error {
	b, err := Append(w.b[:0], m, w.as)
	if err != nil {
		return err
	}
	if cap(b) <= keptBuffer {
		w.b = b
	} else {
		w.b = nil
	}
	for {
		if s := urgent(); s != nil {
			sign, err := Append(nil, s, w.as)
			if err == nil {
				err = w.put(sign, frameAside)
			}
			if err != nil {
				return err
			}
		}
		n, more := len(b), uint32(0)
		if n > MaxFrame {
			n, more = MaxFrame, frameMore
		}
		if err := w.put(b[:n], more); err != nil {
			return err
		}
		if b = b[n:]; more == 0 {
			return nil
		}
	}
}

func (w *Writer) put(b []byte, flags uint32) error {
	w.frame = binary.BigEndian.AppendUint32(w.frame[:0], uint32(len(b))|flags)
	w.frame = append(w.frame, b...)
	_, err := w.w.Write(w.frame)
	return err
}

// Reader reads messages from a stream.
type Reader struct {
	r    io.Reader
	part []byte // of a message that has not ended
}

// NewReader returns a reader. It reads in small steps: r should have a buffer.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next returns the next message, see Decode. It calls alive after each frame.
func (r *Reader) Next(alive func()) (any, error) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(r.r, head[:]); err != nil {
			return nil, err
		}
		h := binary.BigEndian.Uint32(head[:])
		n := int(h &^ frameFlags)
		if n == 0 || n > MaxFrame || h&frameFlags&^(frameMore|frameAside) != 0 || h&frameFlags == frameMore|frameAside {
			return nil, fmt.Errorf("wire: no frame has the header %08x", h)
		}
		at := len(r.part)
		if at+n > MaxMessage {
			return nil, fmt.Errorf("wire: a message is larger than %d bytes", MaxMessage)
		}
		r.part = slices.Grow(r.part, n)[:at+n]
		if _, err := io.ReadFull(r.r, r.part[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		alive()
		switch h & frameFlags {
		case frameMore:
			continue
		case frameAside:
			m, err := Decode(r.part[at:])
			r.part = r.part[:at]
			if _, ok := m.(*Sign); err == nil && !ok {
				err = fmt.Errorf("wire: a %T between the frames of another message", m)
			}
			return m, err
		}
		b := r.part
		r.part = nil
		return Decode(b)
	}
}
