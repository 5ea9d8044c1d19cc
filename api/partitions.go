package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"heddle/access"
	"heddle/ib"
	"heddle/partition"
)

// Errors of a change of partitions. partition.ErrNotFound and ErrExists are others.
var (
	// ErrNotStored: the state cannot be stored now; nothing was changed.
	ErrNotStored = errors.New("nothing was stored")
	// ErrOutdated: the partitions have another revision than the change is for; nothing was changed.
	ErrOutdated = errors.New("the partitions have changed meanwhile")
	// ErrInUse: a tenant's partition has interfaces, or members that an administrator named.
	ErrInUse = errors.New("in use")
)

// Partitioning is the part of Backend about partitions.
type Partitioning interface {
	// Partitions is the policy in force and the state of its programming.
	Partitions() Partitions
	// ChangePartitions makes a change, or says what it would do; the answer has a Plan. It returns
	// when the policy is stored and programming has begun; Partitions shows when it is complete. A
	// change with an error changes nothing.
	ChangePartitions(ctx context.Context, c *PartitionsChange) (Partitions, error)
	// PartitionMembers are the lines of a partition, named by P_Key or name.
	PartitionMembers(partition string, q TableQuery) (Table[PartitionMember], error)
}

// PartitionsOp is what a PartitionsChange does.
type PartitionsOp int

// The changes.
const (
	ReplacePartitions PartitionsOp = iota // by Config
	CreatePartition                       // as New says
	DeletePartition                       // Partition
	SetMember                             // Member of Partition to Membership
	RemoveMember                          // Member of Partition
)

// PartitionsChange is a change of partitions.
type PartitionsChange struct {
	Op PartitionsOp
	// Name is that of the file that Config is from, for messages.
	Name, Config string
	New          NewPartition
	// Partition is a P_Key or a name, Member a port GUID, a class of ports, NODE or NODE:PORT.
	Partition, Member, Membership string
	// Match is the revision that the partitions must have; empty: any.
	Match  string
	DryRun bool
	// Scope is that of a tenant, which creates and deletes its own partitions alone; nil: the caller may
	// change all.
	Scope *access.Scope
	// Reserved are the P_Keys of tenants' tokens: a new partition has one of them only if New says so.
	Reserved []ib.PKey
	// Asked are the P_Keys of requests about interfaces that are not answered yet; the backend fills it in.
	Asked []ib.PKey
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
	Config      string         `json:"config" doc:"the policy in the form of OpenSM's partitions.conf, without comments"`
	Revision    string         `json:"revision,omitempty" doc:"of config: give it as If-Match with a change, so that the change is refused if another one came first"`
	Warnings    []string       `json:"warnings,omitempty" doc:"warnings about the configuration just given"`
	Partitions  []Partition    `json:"partitions"`
	Settled     bool           `json:"settled" doc:"every port of the subnet has acknowledged its P_Key table"`
	Pending     int            `json:"pending_ports" doc:"ports whose table, or that of the switch port before them, is not known to be as it should be"`
	Quarantined []string       `json:"quarantined,omitempty" doc:"P_Keys that were freed and still wait for a port to give them up"`
	Plan        *PartitionPlan `json:"plan,omitempty" doc:"what the change just given does, or would do"`
}

// Partition is one partition of the policy.
type Partition struct {
	Name    string   `json:"name"`
	PKey    string   `json:"pkey"`
	Full    int      `json:"full_members" doc:"ports of the subnet with full membership in their table"`
	Limited int      `json:"limited_members"`
	Groups  []string `json:"groups,omitempty" doc:"MGIDs of its permanent multicast groups"`
}

// PartitionMember is a line of a partition: a single port or a class of ports.
type PartitionMember struct {
	Member      string `json:"member" doc:"port GUID, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF"`
	Membership  string `json:"membership" doc:"full, limited or both"`
	Node        string `json:"node,omitempty" doc:"description of the node of a port on the fabric"`
	NodeGUID    string `json:"node_guid,omitempty"`
	Port        int    `json:"port,omitempty"`
	Interface   string `json:"interface,omitempty" doc:"of a virtual machine that has the GUID"`
	Pending     bool   `json:"pending,omitempty" doc:"a single port that is not on the fabric"`
	ByInterface bool   `json:"by_interface,omitempty" doc:"virtual machines add it: it changes with their P_Keys, not here"`
}

// PartitionPlan is what a change of partitions does, or would do. Lists are bounded; each has the number
// of entries that are left out.
type PartitionPlan struct {
	Applied        bool                `json:"applied" doc:"false: this was a dry run"`
	Revision       string              `json:"revision" doc:"of the partitions that it changes: give it as If-Match to make the change that was shown"`
	Change         []string            `json:"change" doc:"lines of the policy that end (-) and begin (+)"`
	MoreChange     int                 `json:"more_change,omitempty"`
	Partitions     []PlannedPartition  `json:"partitions" doc:"that begin, end or are changed"`
	MorePartitions int                 `json:"more_partitions,omitempty"`
	Ports          int                 `json:"ports" doc:"whose P_Keys change, virtual ones too"`
	Memberships    []PlannedMembership `json:"memberships" doc:"changes of membership, by partition"`
	MoreChanges    int                 `json:"more_memberships,omitempty"`
	Hosts          PlannedTables       `json:"tables" doc:"P_Key tables of end ports and virtual ports to write"`
	SwitchPorts    PlannedTables       `json:"switch_tables" doc:"P_Key tables of switch ports that face end ports to write"`
	Switches       int                 `json:"switches" doc:"with a table or an enforcement that changes"`
	SwitchNames    []string            `json:"switch_names" doc:"the first of them"`
	EnforceOn      int                 `json:"enforce_on" doc:"switch ports that begin to enforce partitions"`
	EnforceOff     int                 `json:"enforce_off" doc:"switch ports that end it"`
	NoRoom         int                 `json:"enforce_no_room" doc:"switch ports that cannot enforce partitions: their table has no room"`
	Overflow       PlannedPorts        `json:"overflow" doc:"ports whose table has no room for all of their P_Keys"`
	Waiting        []string            `json:"waiting,omitempty" doc:"P_Keys of a partition that ended: no new member receives one before every old one has lost it"`
	Groups         []PlannedGroup      `json:"groups" doc:"multicast groups that begin, end, change or lose members"`
	MoreGroups     int                 `json:"more_groups,omitempty"`
	Interfaces     int                 `json:"interfaces" doc:"of virtual machines, whose P_Keys change or wait"`
	InterfaceNames []string            `json:"interface_names,omitempty" doc:"the first of them"`
	Notes          []string            `json:"notes,omitempty" doc:"what else to know"`
}

// PlannedPartition is a partition that begins, ends or is changed.
type PlannedPartition struct {
	Name    string   `json:"name"`
	PKey    string   `json:"pkey"`
	What    string   `json:"what" enum:"new,gone,renamed,changed"`
	Was     string   `json:"was,omitempty" doc:"renamed: the name that it has now"`
	Begin   int      `json:"pending_begin,omitempty" doc:"single members that begin and are not on the fabric"`
	End     int      `json:"pending_end,omitempty" doc:"single members that end and are not on the fabric"`
	Pending []string `json:"pending_guids,omitempty" doc:"the first of both"`
}

// PlannedMembership is a change of membership that ports have in common.
type PlannedMembership struct {
	Partition string `json:"partition"`
	PKey      string `json:"pkey"`
	From      string `json:"from" enum:"none,limited,full,both"`
	To        string `json:"to" enum:"none,limited,full,both"`
	PlannedPorts
}

// PlannedPorts are ports, the first of them by name.
type PlannedPorts struct {
	Count int      `json:"ports"`
	Names []string `json:"first,omitempty" doc:"the first of them"`
}

// PlannedTables are P_Key tables to write.
type PlannedTables struct {
	Tables int `json:"tables"`
	Blocks int `json:"blocks" doc:"of 32 P_Keys, that change"`
	Writes int `json:"writes" doc:"Set(P_KeyTable) requests: a block that loses and gets P_Keys is written twice or more"`
	Unread int `json:"unread,omitempty" doc:"tables that are not read yet: what they need is estimated"`
}

// PlannedGroup is a multicast group that begins, ends, changes or loses members.
type PlannedGroup struct {
	MGID string `json:"mgid"`
	MLID string `json:"mlid,omitempty"`
	PKey string `json:"pkey"`
	What string `json:"what" enum:"new,gone,stays,members,permanent,values" doc:"stays: it is no longer permanent, and ends with its last member; permanent: it becomes so"`
	Ends int    `json:"members_end" doc:"memberships that end"`
}

// NewPartition is a partition to create.
type NewPartition struct {
	Name    string      `json:"name" minLength:"1" maxLength:"256"`
	PKey    string      `json:"pkey,omitempty" doc:"0x0001 to 0x7ffe; left out: the lowest that is free"`
	IPoIB   bool        `json:"ipoib,omitempty" doc:"with the broadcast group of IPoIB"`
	Members []NewMember `json:"members,omitempty" maxItems:"10000" doc:"left out: none but interfaces of virtual machines with its P_Key"`
}

// NewMember is a member of a new partition.
type NewMember struct {
	Member     string `json:"member" maxLength:"256" doc:"port GUID with 0x, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF, or NODE or NODE:PORT on the fabric"`
	Membership string `json:"membership,omitempty" doc:"full, limited or both; left out: limited"`
}

// maxPartitions bounds the JSON of a partition configuration: the largest that
// is read, each byte escaped by another.
const maxPartitions = 2*partition.MaxFile + 8192

// maxNewPartition bounds the JSON of a new partition with 10,000 members.
const maxNewPartition = 1 << 20

// Revision names a configuration of partitions.
func Revision(config string) string {
	sum := sha256.Sum256([]byte(config))
	return hex.EncodeToString(sum[:8])
}

// ChangeInput is what all changes of partitions have.
type ChangeInput struct {
	DryRun bool   `query:"dry_run" doc:"say only what would be done"`
	Match  string `header:"If-Match" maxLength:"80" doc:"the revision (ETag) that the partitions must have; otherwise nothing is changed (412)"`
}

// partitionsOutput is an answer with the partitions; Status is 200 if nothing was changed.
type partitionsOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   Partitions
}

// planOutput is the answer to the change of one thing.
type planOutput struct {
	Status int
	Body   PartitionPlan
}

type partitionsInput struct {
	ChangeInput
	Body struct {
		Config string `json:"config" doc:"the policy in the form of OpenSM's partitions.conf"`
		Name   string `json:"name,omitempty" maxLength:"4096" doc:"of the file, for messages"`
	}
}

// PartitionPath names a partition.
type PartitionPath struct {
	PKey string `path:"pkey" maxLength:"256" doc:"P_Key, or the name of the partition"`
}

// MemberPath names a member of a partition.
type MemberPath struct {
	PartitionPath
	Member string `path:"member" maxLength:"256" doc:"port GUID with 0x, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF, or NODE or NODE:PORT on the fabric"`
}

// partitionCalls are the calls about partitions. tokens have P_Keys of tenants; nil: there are none.
type partitionCalls struct {
	Partitioning
	tokens *access.Registry
}

func partitioning(a huma.API, b partitionCalls) {
	huma.Get(a, "/v1/partitions", func(ctx context.Context, _ *struct{}) (*partitionsOutput, error) {
		p := b.Partitions()
		if c := callerOf(ctx); c.Role == access.Tenant {
			p = ownPartitions(&c, p)
		}
		return partitionsAnswer(http.StatusOK, p), nil
	})
	replace := partitionOp("set-partitions", http.MethodPut, "/v1/partitions", "Replace the partitions, or say what that would do",
		"The body is JSON with the whole configuration. A configuration with an error changes nothing. ")
	replace.MaxBodyBytes = maxPartitions
	huma.Register(a, replace, func(ctx context.Context, in *partitionsInput) (*partitionsOutput, error) {
		p, err := change(ctx, b, in.ChangeInput, &PartitionsChange{Op: ReplacePartitions, Name: in.Body.Name, Config: in.Body.Config})
		return partitionsAnswer(statusOf(in.DryRun), p), err
	})
	create := partitionOp("create-partition", http.MethodPost, "/v1/partitions", "Create a partition, or say what that would do", "")
	create.MaxBodyBytes = maxNewPartition
	planned(a, b, create, func(in *struct {
		ChangeInput
		Body NewPartition
	},
	) (ChangeInput, PartitionsChange) {
		return in.ChangeInput, PartitionsChange{Op: CreatePartition, New: in.Body}
	})
	planned(a, b, partitionOp("delete-partition", http.MethodDelete, "/v1/partitions/{pkey}", "Delete a partition, or say what that would do",
		"Memberships of virtual machines stay. "), func(in *struct {
		PartitionPath
		ChangeInput
	},
	) (ChangeInput, PartitionsChange) {
		return in.ChangeInput, PartitionsChange{Op: DeletePartition, Partition: in.PKey}
	})
	members(a, b)
}

// partitionOp describes a call that changes partitions.
func partitionOp(id, method, path, summary, more string) huma.Operation {
	return accepted(huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		Description: more + "The answer follows when the policy is stored; ports are written later. With dry_run nothing is changed, and the status is 200.",
		Errors:      []int{403, 404, 409, 412, 422, 503},
	})
}

// members adds the calls about single members.
func members(a huma.API, b partitionCalls) {
	huma.Get(a, "/v1/partitions/{pkey}/members", func(_ context.Context, in *struct {
		PartitionPath
		TableQuery
	},
	) (*body[Table[PartitionMember]], error) {
		t, err := b.PartitionMembers(in.PKey, in.TableQuery)
		if err != nil {
			return nil, partitionError(err)
		}
		t.Rows = nonNil(t.Rows)
		return reply(t), nil
	})
	const path = "/v1/partitions/{pkey}/members/{member}"
	planned(a, b, partitionOp("set-partition-member", http.MethodPut, path, "Add a member to a partition or change its membership, or say what that would do",
		"A single port becomes the last line of the partition, so that no other line overrides it. "), func(in *struct {
		MemberPath
		ChangeInput
		Body struct {
			Membership string `json:"membership" doc:"full, limited or both"`
		}
	},
	) (ChangeInput, PartitionsChange) {
		return in.ChangeInput, PartitionsChange{Op: SetMember, Partition: in.PKey, Member: in.Member, Membership: in.Body.Membership}
	})
	planned(a, b, partitionOp("remove-partition-member", http.MethodDelete, path, "Remove a member from a partition, or say what that would do",
		"A port that is also a member by a class stays one by that. The last member goes with its partition. "), func(in *struct {
		MemberPath
		ChangeInput
	},
	) (ChangeInput, PartitionsChange) {
		return in.ChangeInput, PartitionsChange{Op: RemoveMember, Partition: in.PKey, Member: in.Member}
	})
}

func statusOf(dry bool) int {
	if dry {
		return http.StatusOK
	}
	return http.StatusAccepted
}

func partitionsAnswer(status int, p Partitions) *partitionsOutput {
	out := &partitionsOutput{Status: status, Body: p}
	if p.Revision != "" {
		out.ETag = `"` + p.Revision + `"`
	}
	return out
}

// planned adds a change of one thing, which is answered with its plan. of reads it from a request.
func planned[I any](a huma.API, b partitionCalls, op huma.Operation, of func(*I) (ChangeInput, PartitionsChange)) {
	huma.Register(a, op, func(ctx context.Context, in *I) (*planOutput, error) {
		options, c := of(in)
		p, err := change(ctx, b, options, &c)
		if err != nil {
			return nil, err
		}
		return &planOutput{Status: statusOf(options.DryRun), Body: *p.Plan}, nil
	})
}

// change makes a change of partitions, and notes for the audit log what it was.
func change(ctx context.Context, b partitionCalls, in ChangeInput, c *PartitionsChange) (Partitions, error) {
	c.DryRun, c.Match = in.DryRun, strings.Trim(strings.TrimPrefix(in.Match, "W/"), `"`)
	if c.Match == "*" {
		c.Match = "" // any that there are
	}
	who := callerOf(ctx)
	if who.Role == access.Tenant {
		if c.Scope = &who.Scope; c.Match != "" {
			return Partitions{}, partitionError(fmt.Errorf("%w: it sees no revision of the partitions: leave If-Match out", ErrForbidden))
		}
	}
	c.Reserved = reserved(b.tokens)
	p, err := b.ChangePartitions(ctx, c)
	switch {
	case err != nil:
		return Partitions{}, partitionError(err)
	case in.DryRun:
		changed(ctx, dryRun)
	case len(p.Plan.Change) == 0:
		changed(ctx, "the partitions are as before")
	default:
		planChanged(ctx, p.Plan)
	}
	if c.Scope != nil {
		p.Plan = ownPlan(c.Scope, p.Plan)
	}
	return p, nil
}

// planChanged notes for the audit log the lines that a plan has changed.
func planChanged(ctx context.Context, p *PartitionPlan) {
	changed(ctx, access.RedactLines(p.Change)...)
	if p.MoreChange > 0 {
		changed(ctx, fmt.Sprintf("and %d more lines", p.MoreChange))
	}
}

// partitionError is an error of partitions as an answer.
func partitionError(err error) error {
	switch {
	case errors.Is(err, ErrNotStored):
		return huma.Error503ServiceUnavailable(err.Error())
	case errors.Is(err, ErrOutdated):
		return huma.Error412PreconditionFailed(err.Error())
	case errors.Is(err, partition.ErrNotFound):
		return huma.Error404NotFound(err.Error())
	case errors.Is(err, ErrForbidden):
		return huma.Error403Forbidden(err.Error())
	case errors.Is(err, partition.ErrExists), errors.Is(err, ErrInUse):
		return huma.Error409Conflict(err.Error())
	}
	return huma.Error422UnprocessableEntity(err.Error())
}
