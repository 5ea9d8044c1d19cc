// Package qos holds the QoS policy of path answers: which service level, MTU,
// rate, lifetime and P_Key a path gets by who asks for what (IBA Annex A13; the
// file form is that of OpenSM's qos-policy.conf). A Policy is immutable once it
// is in use.
package qos

import (
	"heddle/ib"
)

// End is one end of a path.
type End struct {
	GUID  ib.GUID     // port GUID
	Node  string      // node description
	Port  uint8       // port number
	Type  ib.NodeType // of the node
	Self  bool        // the subnet manager's own port
	PKeys []ib.PKey   // its P_Key table
}

// Query is what a path query says of itself.
type Query struct {
	Src, Dst     *End
	PKey         ib.PKey // with HasPKey
	ServiceID    uint64  // with HasServiceID
	QoSClass     uint16  // with HasQoSClass, 12 bits
	HasPKey      bool
	HasServiceID bool
	HasQoSClass  bool
}

// Level is what a path gets. A zero limit is none.
type Level struct {
	Name       string
	SL         ib.SL
	MTULimit   ib.MTU
	RateLimit  ib.Rate
	PacketLife uint8 // with HasLife: lifetime code
	HasLife    bool
	PKeys      []ib.PKey // allowed ones, bases; empty: any
	PathBits   uint8     // with HasBits
	HasBits    bool
}

// Policy maps queries to levels. The zero value has no rules.
type Policy struct{}

// Level returns the level that the first matching rule gives, the default
// level where no rule matches, nil where there is no policy.
func (p *Policy) Level(q *Query) *Level { return nil }
