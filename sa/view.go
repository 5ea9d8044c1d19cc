package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa/pathlog"
	"heddle/subnet"
)

// View is the SA's own state as queries see it: multicast groups, services and
// subscriptions. It is immutable. After a change the Core publishes a new View,
// which shares the unchanged parts.
type View struct {
	Groups   []*Group        // ascending MGID
	Services []*Service      // ascending ServiceID, ServiceGID, P_Key
	Subs     []*Subscription // ascending subscriber GID, Enum
	Paths    *pathlog.View   // changes of paths, by generation
	// Slow are the paths with the level of a slow lane; nil: none.
	Slow *subnet.SlowPaths
}

// Group is a multicast group with its members.
type Group struct {
	MGID       ib.GID
	MLID       ib.LID // may be shared with other groups
	QKey       ib.QKey
	PKey       ib.PKey
	MTU        ib.MTU
	Rate       ib.Rate
	PacketLife uint8 // lifetime code
	SL         ib.SL
	TClass     uint8
	FlowLabel  uint32 // 20 bits
	HopLimit   uint8
	Scope      uint8
	WellKnown  bool     // defined by a partition; stays without members
	Members    []Member // ascending port GID
}

// Member is a port in a group.
type Member struct {
	PortGID   ib.GID
	PortGUID  ib.GUID // port that has the GID, which may be an alias
	JoinState uint8
	Proxy     bool // joined by another port
}

// Service is a registered service.
type Service struct {
	Record wire.ServiceRecord
	Until  mad.Time // when the lease ends; mad.Never
	By     ib.GUID  // the port that registered it; 0: not known
}

// Subscription is a port's subscription to notices.
type Subscription struct {
	GID   ib.GID   // of the subscriber
	Addr  mad.Addr // where Reports go
	Enum  uint16
	Info  wire.InformInfo // QPN is the subscriber's
	Trust bool            // made with the SA_Key: security traps go to it
}
