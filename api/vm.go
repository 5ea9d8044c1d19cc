package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/access"
	"heddle/vm"
)

// Errors of Machines, in addition to those of package vm.
var (
	// ErrNotMaster: the text after it names the master.
	ErrNotMaster = errors.New("this manager is not the master of the subnet")
	// ErrBusy: nothing was done, or the outcome is unknown.
	ErrBusy = errors.New("busy")
	// ErrForbidden: the caller is a tenant, and may not do that.
	ErrForbidden = errors.New("not permitted to this tenant")
	// ErrNoPartition: no partition has the P_Key.
	ErrNoPartition = errors.New("no partition has this P_Key")
)

// Memberships is the interface of the UFM calls to the address manager.
type Memberships interface {
	// Perform performs operations and returns when they are stored. An error says
	// that none was performed, or that the outcome is unknown.
	Perform(ctx context.Context, ops []vm.Op) ([]vm.Reply, error)
	// Interfaces is the state of the address manager, nil before it has started.
	Interfaces() *vm.View
	// Master is nil on the master of the subnet, and otherwise an ErrNotMaster.
	Master() error
	// VPorts are the virtual ports that the last sweep saw.
	VPorts() []VPort
}

// Machines is the API's interface to the address manager. Methods may be called
// from many goroutines.
type Machines interface {
	Memberships
	Migrations
	Keeper
	// VMs lists interfaces by name, a page of them.
	VMs(f VMFilter) (VMList, error)
	// VM is one interface; the error is vm.ErrNotFound if there is none.
	VM(name string) (VM, error)
	// Operate performs operations and returns one outcome for each, when all are
	// done or ctx ends. Operations unfinished by then are stored and continue, and
	// their interfaces say Waiting. An error says that nothing was done.
	Operate(ctx context.Context, ops []VMOperation) ([]VMOutcome, error)
	// Pools returns the numbers of free GUIDs and LIDs.
	Pools() VMPools
	// Hypervisors are the ports that can hold virtual functions.
	Hypervisors() []Hypervisor
	// VPorts are the virtual ports and functions that the last sweep saw.
	VPorts() []VPort
	// PartitionReady reports the state of a P_Key in the hardware of its members.
	// The error is ErrNoPartition if no partition has it.
	PartitionReady(pkey string) (PartitionReady, error)
}

// VM is an interface of a virtual machine.
type VM struct {
	Name       string   `json:"name"`
	State      string   `json:"state" doc:"created, attached, migrating or detached"`
	GUID       string   `json:"guid,omitempty" doc:"port GUID; empty while it is to have a function's and has no place"`
	GID        string   `json:"gid,omitempty" doc:"with the prefix of the subnet"`
	GUIDKind   string   `json:"guid_kind" doc:"static: given at creation; pool: chosen by the manager; function: that of its current function"`
	DestGUID   string   `json:"destination_guid,omitempty" doc:"guid_kind function, migrating: the GUID that it will have"`
	Dynamic    bool     `json:"dynamic_guid" doc:"guid_kind is pool"`
	Aliases    []string `json:"alias_guids,omitempty"`
	LIDKind    string   `json:"lid_kind" doc:"shared, own or floating"`
	LID        int      `json:"lid" doc:"requested LID, or that of the last placement; 0: none yet"`
	Pinned     bool     `json:"lid_pinned,omitempty" doc:"it requested this LID"`
	Mode       string   `json:"mode" doc:"how its LID moves: auto, balanced or minimal"`
	Keys       []VMKey  `json:"keys"`
	Hypervisor *VMPlace `json:"hypervisor,omitempty"`
	Dest       *VMPlace `json:"destination,omitempty" doc:"reserved for it during a migration"`
	Doing      string   `json:"doing,omitempty" doc:"the stored, unfinished operation"`
	Placement  string   `json:"placement" doc:"the subnet manager's last state of the placement: waiting, moving, placed or refused; none: it is on no function"`
	Lease      string   `json:"lease" doc:"the same as placement, under the name of version 0.1"`
	Reason     string   `json:"reason,omitempty" doc:"why it waits, was refused or was rolled back"`
	Waiting    bool     `json:"waiting,omitempty" doc:"the request is stored and will be carried out"`
	Blocks     int      `json:"lft_blocks,omitempty" doc:"that its last move wrote to switches; not stored"`
	// Migration is what a driver of hypervisors reported of the last one.
	Migration *VMMigration `json:"migration,omitempty" doc:"the last migration, as the driver of its hypervisors reported it; not stored"`
}

// VMKey is a P_Key that an interface has.
type VMKey struct {
	PKey       string `json:"pkey" doc:"0x0001 to 0x7fff"`
	Membership string `json:"membership,omitempty" enum:"full,limited" doc:"default: full"`
}

// VMPlace is a virtual function.
type VMPlace struct {
	PortGUID    string `json:"port_guid"`
	Description string `json:"description,omitempty" doc:"of the node, if it is there"`
	Function    int    `json:"function"`
}

// VMFilter selects the interfaces to list. Empty fields select all.
type VMFilter struct {
	State      string `query:"state" enum:"created,attached,migrating,detached" doc:"only those in this state"`
	Hypervisor string `query:"hypervisor" doc:"only those that are, or will be, at this port GUID, node GUID or node description"`
	PKey       string `query:"pkey" doc:"only those with this P_Key"`
	After      string `query:"after" doc:"only those whose names come after this one"`
	Limit      int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"so many at most"`
}

// VMList is a page of interfaces.
type VMList struct {
	Total int    `json:"total" doc:"that match, on all pages"`
	Next  string `json:"next,omitempty" doc:"the after of the next page; empty on the last"`
	VMs   []VM   `json:"vms"`
}

// VMOperation is one operation. Fields that its Op does not use stay empty.
type VMOperation struct {
	Op   string `json:"op" enum:"create,attach,migrate,finish,rollback,move,detach,delete,keys" doc:"move: migrate, then finish"`
	Name string `json:"name" minLength:"1" maxLength:"128"`
	VMAddress
	VMTarget
	Force bool `json:"force,omitempty" doc:"delete: also one that is attached"`
	// Scope is that of a tenant, whose P_Keys Keys must be when the operation is performed; nil: any P_Key.
	Scope *access.Scope `json:"-"`
}

// VMAddress holds the addresses for a new interface.
type VMAddress struct {
	GUID     string   `json:"guid,omitempty" doc:"port GUID; empty: one of the manager's pool, or that of the function"`
	GUIDKind string   `json:"guid_kind,omitempty" enum:"static,pool,function" doc:"static and pool GUIDs move with the interface; function: it uses the GUID of its current function, so it changes on migration. Default: static with a guid, pool without"`
	Aliases  []string `json:"alias_guids,omitempty" maxItems:"127"`
	LIDKind  string   `json:"lid_kind,omitempty" enum:"shared,own,floating" doc:"own: a LID that moves with the interface; floating: the same on a shared port, which then has this LID. Default: shared"`
	LID      int      `json:"lid,omitempty" minimum:"0" maximum:"49151" doc:"the requested LID; 0: any"`
	Mode     string   `json:"mode,omitempty" enum:"auto,balanced,minimal" doc:"how its LID moves: by writing all switches where the entries differ (balanced), the fewest (minimal), or minimal inside a leaf and balanced elsewhere (auto). Default: auto"`
	Keys     []VMKey  `json:"keys,omitempty" maxItems:"1024"`
}

// VMTarget is where an interface is to be.
type VMTarget struct {
	Hypervisor string `json:"hypervisor,omitempty" doc:"port GUID, node GUID or node description"`
	Function   int    `json:"function,omitempty" minimum:"0" maximum:"65535" doc:"0: any free one"`
}

// VMOutcome is the end of an operation: VM, or Err.
type VMOutcome struct {
	VM  VM
	Err error
}

// VMResult is the result of one operation of a batch.
type VMResult struct {
	Status int    `json:"status" doc:"as for a single request: 200, 201, 202 or an error status"`
	Error  string `json:"error,omitempty"`
	VM     *VM    `json:"vm,omitempty"`
}

// VMPools has the numbers of free addresses.
type VMPools struct {
	GUIDs     uint64 `json:"guids" doc:"in the manager's pool"`
	GUIDsUsed uint64 `json:"guids_used" doc:"by interfaces and functions"`
	LIDs      int    `json:"lids" doc:"that the subnet can have, bounded by the smallest LinearFDBCap"`
	LIDsUsed  int    `json:"lids_used" doc:"given to ports, functions and interfaces"`
	Journal   int    `json:"journal" doc:"operations that are stored and not finished"`
}

// Hypervisor is a port that can hold virtual functions.
type Hypervisor struct {
	PortGUID    string         `json:"port_guid"`
	NodeGUID    string         `json:"node_guid"`
	Description string         `json:"description"`
	Port        int            `json:"port"`
	LID         int            `json:"lid"`
	State       string         `json:"state"`
	Model       string         `json:"model" doc:"shared, vswitch or vport"`
	Functions   int            `json:"functions" doc:"that it can hold"`
	Used        int            `json:"used" doc:"functions in use by interfaces, or reserved for them"`
	VPorts      int            `json:"vports" doc:"that can be reached"`
	GUIDs       []FunctionGUID `json:"function_guids,omitempty" doc:"of the functions that have one of their own, for interfaces of guid_kind function"`
}

// FunctionGUID is the GUID of a virtual function.
type FunctionGUID struct {
	Function int    `json:"function"`
	GUID     string `json:"guid"`
}

// VPort is a virtual port.
type VPort struct {
	GUID        string   `json:"guid"`
	PortGUID    string   `json:"port_guid" doc:"of the physical port"`
	NodeGUID    string   `json:"node_guid" doc:"of the physical port's node"`
	Node        string   `json:"node" doc:"its description"`
	Port        int      `json:"port"`
	Index       int      `json:"index" doc:"VPort index at its port"`
	Description string   `json:"description" doc:"of the VPort's own node"`
	LID         int      `json:"lid"`
	OwnLID      bool     `json:"own_lid"`
	State       string   `json:"state"`
	Keys        []string `json:"pkeys"`
	Aliases     []string `json:"alias_guids,omitempty"`
	Reachable   bool     `json:"reachable"`
}

// PartitionReady is the state of a P_Key in the hardware.
type PartitionReady struct {
	PKey    string          `json:"pkey"`
	Ready   bool            `json:"ready" doc:"every member on the fabric has the P_Key in its table"`
	Members int             `json:"members" doc:"that are named, on the fabric or not"`
	Present int             `json:"present" doc:"members that are on the fabric"`
	Absent  []string        `json:"absent,omitempty" doc:"GUIDs that are members and not on the fabric, the first thousand"`
	Pending []PendingMember `json:"pending,omitempty" doc:"those that do not have it yet, the first thousand"`
}

// PendingMember is a member of a partition that does not have its P_Key yet.
type PendingMember struct {
	GUID string `json:"guid"`
	Why  string `json:"why" doc:"the missing step"`
}

// maxBatchLen bounds the body of a batch, in bytes.
const maxBatchLen = 8 << 20

// VMStatus is the HTTP status of an error of an operation.
func VMStatus(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, vm.ErrNotFound), errors.Is(err, ErrNoPartition):
		return http.StatusNotFound
	case errors.Is(err, vm.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, vm.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, vm.ErrNoRoom):
		return http.StatusInsufficientStorage
	}
	return http.StatusServiceUnavailable // the store, a standby, the fabric: not the request's fault
}

func vmError(err error) error { return huma.NewError(VMStatus(err), err.Error()) }

type vmBody struct {
	Status int
	Body   VM
}

// VMWait is how long a request waits.
type VMWait struct {
	Wait float64 `query:"wait" minimum:"0" maximum:"50" default:"20" doc:"seconds to wait for completion; an operation unfinished by then is stored, continues, and is answered 202"`
}

// VMNamed names an interface.
type VMNamed struct {
	Name string `path:"name" minLength:"1" maxLength:"128" doc:"of the interface; a / in it is written %2F"`
}

type vmCreate struct {
	VMWait
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"128" doc:"letters, digits and ._:-/"`
		VMAddress
		VMTarget
	}
}

type vmAt struct {
	VMWait
	VMNamed
	Body VMTarget
}

type vmAlone struct {
	VMWait
	VMNamed
}

type vmDelete struct {
	VMWait
	VMNamed
	Force bool `query:"force" doc:"also if it has a place"`
}

type vmKeys struct {
	VMWait
	VMNamed
	Body struct {
		Keys []VMKey `json:"keys" maxItems:"1024"`
	}
}

type vmBatch struct {
	VMWait
	Body struct {
		Operations []VMOperation `json:"operations" minItems:"1" maxItems:"10000"`
	}
}

type vmBatchReply struct {
	Results []VMResult `json:"results" doc:"one for each operation, in their order"`
}

// until bounds how long a request waits.
func (w VMWait) until(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(w.Wait*float64(time.Second)))
}

// operate performs one operation.
func operate(ctx context.Context, b parts, w VMWait, op VMOperation) (VMOutcome, error) {
	ctx, cancel := w.until(ctx)
	defer cancel()
	out, err := noted(ctx, mine(ctx, b), []VMOperation{op})
	if err != nil {
		return VMOutcome{}, vmError(err)
	}
	if out[0].Err != nil {
		return VMOutcome{}, vmError(out[0].Err)
	}
	return out[0], nil
}

func vmReply(ctx context.Context, b parts, w VMWait, op VMOperation) (*vmBody, error) {
	out, err := operate(ctx, b, w, op)
	if err != nil {
		return nil, err
	}
	return &vmBody{done(op.Op, &out.VM), out.VM}, nil
}

// done is the status of an operation that was not refused.
func done(op string, v *VM) int {
	switch {
	case v.Waiting:
		return http.StatusAccepted
	case op == "create":
		return http.StatusCreated
	}
	return http.StatusOK
}

func machines(a huma.API, m parts) {
	huma.Get(a, "/v1/vms", func(ctx context.Context, in *VMFilter) (*body[VMList], error) {
		list, err := mine(ctx, m).VMs(*in)
		if err != nil {
			return nil, vmError(err)
		}
		list.VMs = nonNil(list.VMs)
		return reply(list), nil
	})
	huma.Get(a, "/v1/vms/pools", func(context.Context, *struct{}) (*body[VMPools], error) {
		return reply(m.Pools()), nil
	})
	huma.Get(a, "/v1/vms/{name}", func(ctx context.Context, in *VMNamed) (*body[VM], error) {
		v, err := mine(ctx, m).VM(in.Name)
		if err != nil {
			return nil, vmError(err)
		}
		return reply(v), nil
	})
	huma.Get(a, "/v1/hypervisors", func(context.Context, *struct{}) (*body[[]Hypervisor], error) {
		return reply(nonNil(m.Hypervisors())), nil
	})
	huma.Get(a, "/v1/vports", func(context.Context, *struct{}) (*body[[]VPort], error) {
		return reply(nonNil(m.VPorts())), nil
	})
	huma.Get(a, "/v1/partitions/{pkey}/ready", func(ctx context.Context, in *struct {
		PKey string `path:"pkey" doc:"0x0001 to 0x7fff"`
	},
	) (*body[PartitionReady], error) {
		r, err := mine(ctx, m).PartitionReady(in.PKey)
		if err != nil {
			return nil, vmError(err)
		}
		return reply(r), nil
	})
	changeMachines(a, m)
	migrations(a, m)
	kept(a, m)
}

func changeMachines(a huma.API, m parts) {
	write := func(method, path, id, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: maxBody,
			Errors: []int{400, 401, 404, 409, 422, 503, 507},
		}
	}
	huma.Register(a, write(http.MethodPost, "/v1/vms", "create-vm", "Create an interface, and attach it if a hypervisor is given"),
		func(ctx context.Context, in *vmCreate) (*vmBody, error) {
			return vmReply(ctx, m, in.VMWait, VMOperation{Op: "create", Name: in.Body.Name, VMAddress: in.Body.VMAddress, VMTarget: in.Body.VMTarget})
		})
	for _, op := range [...][2]string{
		{"attach", "Attach an interface to a function"},
		{"migrate", "Reserve a function of another hypervisor; nothing moves yet"},
		{"move", "Migrate and finish in one step"},
	} {
		huma.Register(a, write(http.MethodPost, "/v1/vms/{name}/"+op[0], op[0]+"-vm", op[1]),
			func(ctx context.Context, in *vmAt) (*vmBody, error) {
				return vmReply(ctx, m, in.VMWait, VMOperation{Op: op[0], Name: in.Name, VMTarget: in.Body})
			})
	}
	for _, op := range [...][2]string{
		{"finish", "Move the addresses to the reserved function"},
		{"rollback", "Give up a migration"},
		{"detach", "Detach an interface from its function"},
	} {
		huma.Register(a, write(http.MethodPost, "/v1/vms/{name}/"+op[0], op[0]+"-vm", op[1]),
			func(ctx context.Context, in *vmAlone) (*vmBody, error) {
				return vmReply(ctx, m, in.VMWait, VMOperation{Op: op[0], Name: in.Name})
			})
	}
	huma.Register(a, write(http.MethodPut, "/v1/vms/{name}/keys", "set-vm-keys", "Replace the P_Keys of an interface"),
		func(ctx context.Context, in *vmKeys) (*vmBody, error) {
			return vmReply(ctx, m, in.VMWait, VMOperation{Op: "keys", Name: in.Name, VMAddress: VMAddress{Keys: in.Body.Keys}})
		})
	huma.Register(a, write(http.MethodDelete, "/v1/vms/{name}", "delete-vm", "Delete an interface"),
		func(ctx context.Context, in *vmDelete) (*struct{ Status int }, error) {
			out, err := operate(ctx, m, in.VMWait, VMOperation{Op: "delete", Name: in.Name, Force: in.Force})
			if err != nil {
				return nil, err
			}
			code := http.StatusNoContent
			if out.VM.Waiting {
				code = http.StatusAccepted
			}
			return &struct{ Status int }{code}, nil
		})
	batch := write(http.MethodPost, "/v1/vms:batch", "batch-vms", "Several operations, whose addresses move together")
	batch.MaxBodyBytes = maxBatchLen
	huma.Register(a, batch, func(ctx context.Context, in *vmBatch) (*body[vmBatchReply], error) {
		ctx, cancel := in.until(ctx)
		defer cancel()
		out, err := noted(ctx, mine(ctx, m), in.Body.Operations)
		if err != nil {
			return nil, vmError(err)
		}
		r := vmBatchReply{Results: make([]VMResult, len(out))}
		for i := range out {
			op := in.Body.Operations[i].Op
			if err := out[i].Err; err != nil {
				r.Results[i] = VMResult{Status: VMStatus(err), Error: err.Error()}
				continue
			}
			r.Results[i] = VMResult{Status: done(op, &out[i].VM), VM: &out[i].VM}
		}
		return reply(r), nil
	})
}
