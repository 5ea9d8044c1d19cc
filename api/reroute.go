package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// TableChange is how much of the switches' forwarding tables other tables change.
type TableChange struct {
	Switches int `json:"switches_changed" doc:"switches with an entry that changes"`
	Blocks   int `json:"blocks_changed" doc:"blocks of 64 entries of forwarding tables that are to be written"`
	Changed  int `json:"entries_changed" doc:"entries that change"`
}

// RoutePlan is the answer to a request for new routes.
type RoutePlan struct {
	Applied bool `json:"applied" doc:"new routes are requested; false: this was a dry run"`
	// Of a dry run:
	Engine string   `json:"engine,omitempty" doc:"dry run: whose tables would be installed"`
	Passed []string `json:"engines_passed_over,omitempty" doc:"dry run: engines before it, and why they have no tables"`
	TableChange
	LoadBefore int64 `json:"load_before" doc:"dry run: most paths over one link and direction, now"`
	LoadAfter  int64 `json:"load_after" doc:"the same with the new tables"`
}

type rerouteInput struct {
	Rebalance bool `query:"rebalance" doc:"without regard to the tables that are installed: even load, more to write"`
	DryRun    bool `query:"dry_run" doc:"say only what would be done; this computes and proves the tables"`
}

type rerouteOutput struct {
	Status int
	Body   RoutePlan
}

func rerouting(a huma.API, b Backend) {
	huma.Register(a, accepted(command("reroute", http.MethodPost, "/v1/reroute", "Compute routes from scratch")), func(ctx context.Context, in *rerouteInput) (*rerouteOutput, error) {
		if in.DryRun {
			p, err := b.PlanReroute(ctx, in.Rebalance)
			if err != nil {
				return nil, huma.Error422UnprocessableEntity(err.Error())
			}
			changed(ctx, dryRun)
			return &rerouteOutput{http.StatusOK, p}, nil
		}
		if err := b.Reroute(ctx, in.Rebalance); err != nil {
			return nil, huma.Error503ServiceUnavailable(err.Error())
		}
		return &rerouteOutput{http.StatusAccepted, RoutePlan{Applied: true}}, nil
	})
}
