package daemon

import (
	"testing"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm"
	"heddle/subnet"
)

// TestGoesOn: a link with entries waits for the sweep that waits, one whose action gave way for its own time.
func TestGoesOn(t *testing.T) {
	const node, peer = ib.GUID(1), ib.GUID(2)
	waits := &sm.Status{WaitsUntil: 76}
	gaveWay := &sm.Status{WaitsUntil: mad.Never, PutOff: []sm.LinkWait{{Node: node, Port: 20, At: 50}}}
	for _, x := range []struct {
		name    string
		status  *sm.Status
		kind    subnet.PortActionKind
		port    uint8
		entries int
		want    mad.Time
	}{
		{"nothing waits", &sm.Status{WaitsUntil: mad.Never}, subnet.Drain, 20, 40, mad.Never},
		{"a drain waits", waits, subnet.Drain, 20, 40, 76},
		{"an isolation waits", waits, subnet.Isolate, 20, 40, 76},
		{"a drain is complete", waits, subnet.Drain, 20, 0, mad.Never},
		{"a link gets routes again", waits, subnet.Restore, 20, 40, mad.Never},
		{"a drain gave way", gaveWay, subnet.Drain, 20, 40, 50},
		{"another one did", gaveWay, subnet.Drain, 19, 0, mad.Never},
	} {
		a := subnet.PortAction{Kind: x.kind, Node: node, Port: x.port, Peer: peer, PeerPort: 1}
		if at := goesOn(x.status, &a, x.entries); at != x.want {
			t.Errorf("%s: goes on at %v, want %v", x.name, at, x.want)
		}
	}
}
