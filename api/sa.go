package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
)

// Administration is the API's interface to the subnet administrator and the
// partitions. Methods may be called from many goroutines.
type Administration interface {
	Partitioning
	// SAKey is the key that makes SA requests trusted.
	SAKey() SAKey
	// Groups, Services and Subscriptions are the SA's state.
	Groups() []Group
	Services() []Service
	Subscriptions() []Subscription
	// Signals says what subscribers were notified of; false if the SA does not answer in time.
	Signals() (Signals, bool)
	// Path is the path from one end port to another, each named by LID, GUID, GID
	// or description.
	Path(from, to string) (Path, error)
}

// SAStatus has the counters and the state of the subnet administrator.
type SAStatus struct {
	Requests      uint64 `json:"requests" doc:"received"`
	Answered      uint64 `json:"answered" doc:"worked on and answered, errors included, BUSY not"`
	Busy          uint64 `json:"busy" doc:"answered BUSY"`
	Dropped       uint64 `json:"dropped" doc:"not to be answered: a wrong SM_Key, a stranger, no master"`
	Groups        int    `json:"groups"`
	Members       int    `json:"group_members"`
	Services      int    `json:"services"`
	Subscriptions int    `json:"subscriptions"`
}

// Group is a multicast group.
type Group struct {
	MGID      string        `json:"mgid"`
	MLID      string        `json:"mlid"`
	PKey      string        `json:"pkey"`
	QKey      string        `json:"qkey,omitempty" doc:"shown only with a token, and over the Unix socket"`
	MTU       int           `json:"mtu"`
	Rate      string        `json:"rate"`
	SL        int           `json:"sl"`
	WellKnown bool          `json:"well_known" doc:"it comes from a partition and stays without members"`
	Members   []GroupMember `json:"members"`
}

// GroupMember is a port in a group.
type GroupMember struct {
	PortGID   string   `json:"port_gid"`
	JoinState []string `json:"join_state" doc:"full, non, send_only, send_only_full"`
	Proxy     bool     `json:"proxy" doc:"joined by another port"`
}

// Service is a registered service. Its key is not shown.
type Service struct {
	ID    string `json:"service_id"`
	GID   string `json:"gid"`
	PKey  string `json:"pkey"`
	Name  string `json:"name"`
	Lease uint32 `json:"lease_seconds" doc:"4294967295: forever"`
}

// Subscription is a port's subscription to notices.
type Subscription struct {
	GID      string `json:"gid"`
	LID      int    `json:"lid"`
	QP       uint32 `json:"qp"`
	Generic  bool   `json:"generic"`
	Type     int    `json:"type" doc:"65535: all"`
	Trap     int    `json:"trap" doc:"65535: all"`
	Source   string `json:"source" doc:"GID or LID range that it is about"`
	Producer int    `json:"producer" doc:"16777215: all"`
}

// SAKey is the body of /v1/sa-key, a secret: visible only to clients that may
// write.
type SAKey struct {
	Key     string `json:"sa_key" doc:"the SM_Key that makes an SA request trusted; empty: none does"`
	OwnHost bool   `json:"own_host" doc:"requests with SM_Key 1 from the manager's own port are trusted too"`
}

func administration(a huma.API, b Administration) {
	huma.Get(a, "/v1/groups", func(ctx context.Context, _ *struct{}) (*body[[]Group], error) {
		list := nonNil(b.Groups())
		for i := range list {
			if !callerOf(ctx).Known {
				list[i].QKey = ""
			}
		}
		return reply(list), nil
	})
	huma.Get(a, "/v1/sa-key", func(context.Context, *struct{}) (*body[SAKey], error) {
		return reply(b.SAKey()), nil
	})
	huma.Get(a, "/v1/services", func(context.Context, *struct{}) (*body[[]Service], error) {
		return reply(nonNil(b.Services())), nil
	})
	huma.Get(a, "/v1/subscriptions", func(context.Context, *struct{}) (*body[[]Subscription], error) {
		return reply(nonNil(b.Subscriptions())), nil
	})
	huma.Get(a, "/v1/signals", func(context.Context, *struct{}) (*body[Signals], error) {
		x, ok := b.Signals()
		if !ok {
			return nil, huma.Error503ServiceUnavailable("the SA is busy; ask again")
		}
		return reply(x), nil
	})
}
