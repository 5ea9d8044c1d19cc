package wire

import "fmt"

// toldVersion is the first version of the stream on which the active manager tells of its events.
const toldVersion = 3

// MaxTold is the longest Told.Data, in bytes: an event has 1 MiB at most.
const MaxTold = 2 << 20

// Tells reports whether events may be told on a stream.
func (a Agreed) Tells() bool { return a.Stream >= toldVersion }

// Told is what the active manager tells of its events for webhooks (webhook.Partner). It is a message for
// Reader; nothing acknowledges it.
type Told struct{ Data []byte } // 1 to MaxTold bytes

// put appends the encoding of m.
func (m *Told) put(b []byte, version uint8) ([]byte, error) {
	if version < toldVersion {
		return nil, fmt.Errorf("wire: version %d of the stream has no events", version)
	}
	if err := checkTold(m.Data); err != nil {
		return nil, err
	}
	return append(append(b, byte(kindTold)), m.Data...), nil
}

func checkTold(data []byte) error {
	if n := len(data); n == 0 || n > MaxTold {
		return fmt.Errorf("wire: %d bytes of events: want 1 to %d", n, MaxTold)
	}
	return nil
}

// decodeTold reads what follows the kind. The result shares b's bytes.
func decodeTold(b []byte) (*Told, error) { return &Told{b}, checkTold(b) }
