package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"heddle/access"
	"heddle/partition"
)

// ErrNotStored: the state cannot be stored now; nothing was changed.
var ErrNotStored = errors.New("nothing was stored")

// Administration is the API's interface to the subnet administrator and the
// partitions. Methods may be called from many goroutines.
type Administration interface {
	// Partitions is the policy in force and the state of its programming.
	Partitions() Partitions
	// SetPartitions replaces the policy with a configuration in OpenSM's format. A
	// configuration with an error changes nothing; name, if not empty, is its name
	// in the error. It returns when the policy is stored and programming has
	// begun; Partitions shows when it is complete. The error is ErrNotStored if the
	// configuration is right but cannot be stored now.
	SetPartitions(ctx context.Context, name, config string) (Partitions, error)
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

// PartitionStatus is the state of the partitions' programming.
type PartitionStatus struct {
	Count       int  `json:"count"`
	Settled     bool `json:"settled" doc:"every port of the subnet has acknowledged its P_Key table"`
	Pending     int  `json:"pending_ports" doc:"ports whose table, or that of the switch port before them, is not known to be as it should be"`
	Quarantined int  `json:"quarantined" doc:"P_Keys that were freed and still wait for a port to give them up"`
}

// Partitions is the body of /v1/partitions.
type Partitions struct {
	Config      string      `json:"config" doc:"the policy in the form of OpenSM's partitions.conf"`
	Warnings    []string    `json:"warnings,omitempty" doc:"warnings about the configuration just given"`
	Partitions  []Partition `json:"partitions"`
	Settled     bool        `json:"settled" doc:"every port of the subnet has acknowledged its P_Key table"`
	Pending     int         `json:"pending_ports" doc:"ports whose table, or that of the switch port before them, is not known to be as it should be"`
	Quarantined []string    `json:"quarantined,omitempty" doc:"P_Keys that were freed and still wait for a port to give them up"`
}

// Partition is one partition of the policy.
type Partition struct {
	Name    string   `json:"name"`
	PKey    string   `json:"pkey"`
	Full    int      `json:"full_members" doc:"ports of the subnet with full membership in their table"`
	Limited int      `json:"limited_members"`
	Groups  []string `json:"groups,omitempty" doc:"MGIDs of its permanent multicast groups"`
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

// maxPartitions bounds the JSON of a partition configuration: the largest that
// is read, each byte escaped by another.
const maxPartitions = 2*partition.MaxFile + 8192

func administration(a huma.API, b Administration) {
	huma.Get(a, "/v1/partitions", func(ctx context.Context, _ *struct{}) (*body[Partitions], error) {
		p := b.Partitions()
		if c := callerOf(ctx); c.Role == access.Tenant {
			p = ownPartitions(&c, p)
		}
		return reply(p), nil
	})
	huma.Register(a, huma.Operation{
		OperationID: "set-partitions", Method: http.MethodPut, Path: "/v1/partitions",
		Summary:     "Replace the partitions",
		Description: "The body is JSON with the whole configuration. A configuration with an error changes nothing.",
		Errors:      []int{422, 503},
		// The response follows when the policy is stored; the ports are written
		// later.
		DefaultStatus: http.StatusAccepted,
		MaxBodyBytes:  maxPartitions,
	}, func(ctx context.Context, in *partitionsInput) (*body[Partitions], error) {
		before := ""
		if auditing(ctx) {
			before = b.Partitions().Config
		}
		p, err := b.SetPartitions(ctx, in.Body.Name, in.Body.Config)
		if errors.Is(err, ErrNotStored) {
			return nil, huma.Error503ServiceUnavailable(err.Error())
		}
		if err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		if auditing(ctx) {
			changed(ctx, access.DiffLines(before, p.Config)...)
		}
		return reply(p), nil
	})
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

type partitionsInput struct {
	Body struct {
		Config string `json:"config" doc:"the policy in the form of OpenSM's partitions.conf"`
		Name   string `json:"name,omitempty" maxLength:"4096" doc:"of the file, for messages"`
	}
}
