// Package partition holds the partitions of a subnet: which port has which
// P_Key, as full or limited member, and which permanent multicast groups they
// have (IBA §10.9). A Policy is a value; Parse reads it from OpenSM's
// partitions.conf, Validate checks one from elsewhere, and no function changes
// a policy in place.
package partition

import (
	"heddle/ib"
)

// Membership is how a port belongs to a partition.
type Membership uint8

// The memberships. Both puts two entries into a port's table.
const (
	Limited Membership = 1 + iota
	Full
	Both
)

// Kind is the set of ports that a Member line names.
type Kind uint8

// The kinds.
const (
	Port        Kind = iota // the end port with Member.GUID
	All                     // every end port
	AllCAs                  // … of CAs
	AllSwitches             // port 0 of switches
	AllRouters              // … of routers
	Self                    // the port of the subnet manager
)

// Member is a member of a partition, or a class of them.
type Member struct {
	Kind Kind
	GUID ib.GUID // port GUID, or an alias GUID; Kind Port only. It need not be on the fabric
	As   Membership
	// AnyIndex: the P_Key may be at any index of this line's ports, although its
	// partition has index 0.
	AnyIndex bool `json:",omitempty"`
}

// Group is a multicast group that is there without any member, and stays.
type Group struct {
	MGID      ib.GID
	QKey      ib.QKey
	MTU       ib.MTU
	Rate      ib.Rate
	SL        ib.SL
	TClass    uint8
	FlowLabel uint32 // 20 bits
	HopLimit  uint8
}

// Partition is one P_Key with its members.
type Partition struct {
	Name    string  // name of the tenant: a P_Key that changes its name was free in between
	PKey    ib.PKey // 15 bits: the membership bit is 0
	Index0  bool    // its members have it at index 0, except those with Member.AnyIndex
	SL      ib.SL   // of paths in the partition without a QoS rule
	HasSL   bool
	Members []Member
	Groups  []Group
}

// DefaultKey is the P_Key of the default partition without the membership bit.
const DefaultKey ib.PKey = 0x7FFF

// Policy is all partitions of a subnet, ascending by P_Key. The default
// partition is always among them. It is immutable once it is in use.
type Policy struct {
	Partitions []Partition
}

// Default is the policy without any configuration: every port is a full member
// of the default partition, which has the IPoIB broadcast group.
func Default() *Policy {
	return &Policy{Partitions: []Partition{{
		Name: "Default", PKey: DefaultKey, Members: []Member{{Kind: All, As: Full}},
		Groups: []Group{Broadcast(DefaultKey)},
	}}}
}

// Broadcast is the IPv4 broadcast group of a partition, link-local scope, with
// the values that OpenSM gives it: 2048 bytes, 10 Gb/s (RFC 4391 §4).
func Broadcast(key ib.PKey) Group {
	g := Group{QKey: 0x0B1B, MTU: 4, Rate: 3}
	copy(g.MGID[:], []byte{0xFF, 0x12, 0x40, 0x1B, byte(key>>8) | 0x80, byte(key)})
	for i := 12; i < 16; i++ {
		g.MGID[i] = 0xFF
	}
	return g
}
