package subnet

import (
	"bytes"
	"testing"
	"time"
)

// A record that was read is written and read again as it was.
func FuzzPortAction(f *testing.F) {
	a := PortAction{Kind: Isolate, Node: 0x2c9, Port: 7, Peer: 0x2ca, PeerPort: 3, Since: time.Unix(100, 0).UTC(), Until: time.Unix(7300, 0).UTC(), By: "token:ops", Why: "cable", Rule: "bad_cable"}
	f.Add(a.Key(), a.Value())
	f.Add([]byte("123456789"), []byte(`{"kind":"drain","peer":"0x1","peer_port":1,"since":-5}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		a, err := DecodePortAction(key, value)
		if err != nil {
			if a != (PortAction{}) {
				t.Fatalf("%v and %+v", err, a)
			}
			return
		}
		b, err := DecodePortAction(a.Key(), a.Value())
		if err != nil || a != b || !bytes.Equal(key, b.Key()) {
			t.Fatalf("%+v, again %+v: %v", a, b, err)
		}
	})
}
