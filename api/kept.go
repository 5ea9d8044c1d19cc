package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Keeper is the API's interface to what the subnet manager keeps although its store does not know
// it (docs/ha.md).
type Keeper interface {
	// Kept lists it.
	Kept() []Kept
	// Adopt gives interfaces and memberships to what is kept at ports, all of them without ports,
	// and returns one outcome for each operation. An error says that nothing was done.
	Adopt(ctx context.Context, ports []string) ([]Adopted, error)
	// DropKept revokes what is kept at ports, all of them without ports.
	DropKept(ctx context.Context, ports []string) error
}

// Kept is an entry of a device that is kept.
type Kept struct {
	PortGUID    string    `json:"port_guid" doc:"of the physical port"`
	NodeGUID    string    `json:"node_guid,omitempty" doc:"of its node; absent while it is not in the subnet"`
	Description string    `json:"description,omitempty" doc:"of its node"`
	Function    int       `json:"function,omitempty" doc:"virtual port or function; absent: the port itself"`
	GUID        string    `json:"guid" doc:"who has it"`
	PKey        string    `json:"pkey,omitempty" doc:"a P_Key, without the membership bit; absent: the entry is the address of a function"`
	Membership  string    `json:"membership,omitempty" enum:"full,limited"`
	LID         int       `json:"lid,omitempty" doc:"of the address"`
	Since       time.Time `json:"since" doc:"when this manager found it"`
}

// Adopted is the outcome of one operation.
type Adopted struct {
	What  string `json:"what" doc:"the operation, for people"`
	Error string `json:"error,omitempty"`
}

type keptPorts struct {
	Body struct {
		Ports []string `json:"ports,omitempty" maxItems:"10000" doc:"port GUIDs, node GUIDs or node descriptions; none: all ports"`
	}
}

func kept(a huma.API, k Keeper) {
	huma.Get(a, "/v1/kept", func(context.Context, *struct{}) (*body[[]Kept], error) {
		return reply(nonNil(k.Kept())), nil
	})
	huma.Register(a, huma.Operation{
		OperationID: "adopt", Method: http.MethodPost, Path: "/v1/kept/adopt", DefaultStatus: http.StatusOK,
		Summary: "Give interfaces and memberships to what is kept",
	}, func(ctx context.Context, in *keptPorts) (*body[[]Adopted], error) {
		list, err := k.Adopt(ctx, in.Body.Ports)
		if err != nil {
			return nil, vmError(err)
		}
		return reply(nonNil(list)), nil
	})
	huma.Register(a, huma.Operation{
		OperationID: "drop-kept", Method: http.MethodPost, Path: "/v1/kept/drop", DefaultStatus: http.StatusAccepted,
		Summary: "Revoke what is kept",
	}, func(ctx context.Context, in *keptPorts) (*body[struct{}], error) {
		if err := k.DropKept(ctx, in.Body.Ports); err != nil {
			return nil, vmError(err)
		}
		return reply(struct{}{}), nil
	})
}
