package subnet

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"heddle/ib"
)

// PortActionKind is what an operator or a rule had done to a link.
type PortActionKind uint8

// The kinds.
const (
	// Drain keeps routes off a link, which stays up.
	Drain PortActionKind = 1 + iota
	// Isolate disables an end of a link, when no route leads over it any more.
	Isolate
	// Restore enables the end that Isolate disabled; the link then has routes as any other.
	Restore
)

var portActionNames = [...]string{Drain: "drain", Isolate: "isolate", Restore: "restore"}

// String implements fmt.Stringer.
func (k PortActionKind) String() string {
	if int(k) < len(portActionNames) && k > 0 {
		return portActionNames[k]
	}
	return fmt.Sprintf("action(%d)", uint8(k))
}

// ParsePortAction is the kind of a name.
func ParsePortAction(s string) (PortActionKind, error) {
	for k := Drain; k <= Restore; k++ {
		if portActionNames[k] == s {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%q is none of drain, isolate and restore", s)
}

// PortAction is a link that is to be without routes.
type PortAction struct {
	Kind     PortActionKind
	Node     ib.GUID // of a switch
	Port     uint8
	Peer     ib.GUID // of the node at the far end
	PeerPort uint8
	Since    time.Time
	Until    time.Time // zero: until somebody restores the link
	By       string    // who asked for it
	Why      string
	Rule     string // by which it was done; empty: by hand
}

// Is reports whether a port is one of the link's ends.
func (a *PortAction) Is(node ib.GUID, port uint8) bool {
	return a.Node == node && a.Port == port || a.Peer == node && a.PeerPort == port
}

// Key identifies the link in a store: node GUID and port.
func (a *PortAction) Key() []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(a.Node)), a.Port)
}

// portActionRecord is the stored form.
type portActionRecord struct {
	Kind     string `json:"kind"`
	Peer     string `json:"peer"`
	PeerPort uint8  `json:"peer_port"`
	Since    int64  `json:"since"`           // Unix time in seconds
	Until    int64  `json:"until,omitempty"` // the same
	By       string `json:"by,omitempty"`
	Why      string `json:"why,omitempty"`
	Rule     string `json:"rule,omitempty"`
}

// Value is the record of an action in a store (docs/format/store.md).
func (a *PortAction) Value() []byte {
	r := portActionRecord{Kind: a.Kind.String(), Peer: a.Peer.String(), PeerPort: a.PeerPort, Since: a.Since.Unix(), By: a.By, Why: a.Why, Rule: a.Rule}
	if !a.Until.IsZero() {
		r.Until = a.Until.Unix()
	}
	b, _ := json.Marshal(r) // strings and numbers
	return b
}

// DecodePortAction reads a record.
func DecodePortAction(key, value []byte) (a PortAction, err error) {
	var r portActionRecord
	if len(key) != 9 {
		return a, fmt.Errorf("subnet: port action: key of %d bytes, not 9", len(key))
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return a, fmt.Errorf("subnet: port action: %w", err)
	}
	a = PortAction{
		Node: ib.GUID(binary.BigEndian.Uint64(key)), Port: key[8], PeerPort: r.PeerPort, Since: time.Unix(r.Since, 0).UTC(), By: r.By, Why: r.Why, Rule: r.Rule,
	}
	if a.Kind, err = ParsePortAction(r.Kind); err == nil {
		a.Peer, err = ib.ParseGUID(r.Peer)
	}
	if err == nil && (a.Node == 0 || a.Port == 0) {
		err = fmt.Errorf("port %d of node %v", a.Port, a.Node)
	}
	if err != nil {
		return PortAction{}, fmt.Errorf("subnet: port action: %w", err)
	}
	if r.Until != 0 {
		a.Until = time.Unix(r.Until, 0).UTC()
	}
	return a, nil
}
