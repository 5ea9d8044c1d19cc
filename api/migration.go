package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Migrations is the API's interface to what drivers of hypervisors need: changes of
// interfaces, and a place to report their migrations.
type Migrations interface {
	// VMChanges returns the changes since a point, when there are some or ctx ends.
	VMChanges(ctx context.Context, since string) (VMChanges, error)
	// SetMigration keeps what a driver reports of the migration of an interface.
	SetMigration(name string, p VMProgress) error
}

// VMChanges is the body of /v1/vms:changes.
type VMChanges struct {
	Since   string     `json:"since" doc:"the point up to which these are the changes: the since of the next request"`
	Reset   bool       `json:"reset" doc:"the changes since the given point are not known any more, or none was given: list all interfaces now"`
	Changes []VMChange `json:"changes" doc:"each interface once"`
}

// VMChange names an interface that changed.
type VMChange struct {
	Name    string `json:"name"`
	Deleted bool   `json:"deleted,omitempty"`
}

// VMProgress is what a driver of hypervisors reports of a migration. Stages follow each
// other as they are listed; resumed and failed are the last.
type VMProgress struct {
	Stage      string    `json:"stage" enum:"queued,copying,stopping,finishing,resumed,failed" doc:"queued: other migrations go first; copying: the VM runs, and its memory is being copied; stopping: it is stopped, and the rest is on its way; finishing: it is stopped, and its address moves; resumed: it runs at the destination; failed: it runs at the source, or reason says more"`
	From       *VMPlace  `json:"from,omitempty"`
	To         *VMPlace  `json:"to,omitempty"`
	Memory     int64     `json:"memory_bytes,omitempty" minimum:"0"`
	Rounds     []VMRound `json:"rounds,omitempty" maxItems:"64" doc:"of the copy, that have ended; the last of a complete copy is after the VM stopped"`
	Outage     float64   `json:"outage_ms,omitempty" minimum:"0" doc:"how long the VM was stopped"`
	PeerOutage float64   `json:"peer_outage_ms,omitempty" minimum:"0" doc:"the longest time between two answers that a peer had from it, if that was measured"`
	Reason     string    `json:"reason,omitempty" maxLength:"1000" doc:"why it failed"`
	Driver     string    `json:"driver,omitempty" maxLength:"128" doc:"who reports"`
}

// VMRound is a round of a copy of memory.
type VMRound struct {
	Bytes   int64   `json:"bytes" minimum:"0"`
	Seconds float64 `json:"seconds" minimum:"0"`
}

// VMMigration is the last migration of an interface, as its driver reported it. It is not
// stored: a manager that has started again shows it when the driver reports again.
type VMMigration struct {
	VMProgress
	Started time.Time `json:"started" doc:"when this manager first heard of it"`
	Updated time.Time `json:"updated"`
}

type vmProgressBody struct {
	VMNamed
	Body VMProgress
}

func migrations(a huma.API, m parts) {
	huma.Get(a, "/v1/vms:changes", func(ctx context.Context, in *struct {
		VMWait
		Since string `query:"since" maxLength:"64" doc:"the since of the last reply; empty at first"`
	},
	) (*body[VMChanges], error) {
		ctx, cancel := in.until(ctx)
		defer cancel()
		c, err := mine(ctx, m).VMChanges(ctx, in.Since)
		if err != nil {
			return nil, vmError(err)
		}
		c.Changes = nonNil(c.Changes)
		return reply(c), nil
	})
	huma.Register(a, huma.Operation{
		OperationID: "report-vm-migration", Method: http.MethodPut, Path: "/v1/vms/{name}/migration",
		Summary: "Report how far the migration of an interface is, for drivers of hypervisors", MaxBodyBytes: maxBody,
		DefaultStatus: http.StatusNoContent, Errors: []int{400, 401, 404, 422, 503},
	}, func(_ context.Context, in *vmProgressBody) (*struct{}, error) {
		if err := m.SetMigration(in.Name, in.Body); err != nil {
			return nil, vmError(err)
		}
		return nil, nil
	})
}
