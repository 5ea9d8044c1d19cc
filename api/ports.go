package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Porting is the part of Backend about links that are drained or isolated.
type Porting interface {
	PortActions() []PortAction
	// ActOnPort drains, isolates or restores a link, or says what that would do. An error says why not.
	ActOnPort(ctx context.Context, q PortRequest) (PortPlan, error)
}

// PortRequest is what is to be done with a link.
type PortRequest struct {
	Action string // drain, isolate or restore
	GUID   string // of a switch
	Port   int
	DryRun bool
	Force  bool          // isolate the link of a host
	For    time.Duration // 0: until it is restored
	By     string
	Why    string
}

// PortAction is a link that is drained, isolated or being restored.
type PortAction struct {
	Action          string     `json:"action" doc:"drain, isolate or restore"`
	GUID            string     `json:"guid" doc:"of a switch"`
	Description     string     `json:"description"`
	Port            int        `json:"port"`
	PeerGUID        string     `json:"peer_guid"`
	PeerDescription string     `json:"peer_description"`
	PeerPort        int        `json:"peer_port"`
	Since           time.Time  `json:"since"`
	Until           *time.Time `json:"until,omitempty" doc:"when the link is restored; left out: when somebody does it"`
	By              string     `json:"by,omitempty"`
	Why             string     `json:"why,omitempty"`
	Rule            string     `json:"rule,omitempty" doc:"of findings, which did it; left out: it was done by hand"`
	Entries         int        `json:"entries" doc:"installed entries that lead over the link now"`
	Disabled        bool       `json:"disabled" doc:"one of its ends is disabled"`
	DisableAt       *time.Time `json:"disable_at,omitempty" doc:"isolate: about when one of its ends is disabled, after packets of earlier tables have left; left out: it is, or entries still lead over the link"`
	GoesOnAt        *time.Time `json:"goes_on_at,omitempty" doc:"about when entries over the link are changed: packets of earlier tables have to leave first; left out: that waits for nothing"`
}

// PortPlan is what a request does, or would do.
type PortPlan struct {
	PortAction
	Applied bool   `json:"applied" doc:"false: this was a dry run"`
	Engine  string `json:"engine,omitempty" doc:"whose tables would be installed"`
	TableChange
	LoadBefore int64 `json:"load_before" doc:"most paths over one link and direction, now"`
	LoadAfter  int64 `json:"load_after" doc:"the same without the link"`
	// Wait is for packets that met earlier tables.
	Wait float64 `json:"disable_wait_seconds,omitempty" doc:"isolate: about so long after the last entry over the link has gone, an end is disabled"`
}

// MaxHold is the longest time after which a link is restored automatically: a larger one is likely a
// mistake, and no end at all is a choice of its own.
const MaxHold = 30 * 24 * time.Hour

type portActionInput struct {
	GUID   string `path:"guid" doc:"of the node, a switch"`
	Num    int    `path:"num" minimum:"1" maximum:"254"`
	DryRun bool   `query:"dry_run" default:"true" doc:"say only what would be done"`
	Force  bool   `query:"force" doc:"isolate only: also the link of a host, which is the last path to it"`
	For    string `query:"for" doc:"how long, such as 2h; 720h (30 days) at most; left out: until it is restored"`
	Why    string `query:"why" maxLength:"200"`
}

func porting(a huma.API, b Porting) {
	huma.Get(a, "/v1/ports/actions", func(context.Context, *struct{}) (*body[[]PortAction], error) {
		return reply(nonNil(b.PortActions())), nil
	})
	for _, verb := range []string{"drain", "isolate", "restore"} {
		huma.Register(a, command(verb+"-port", http.MethodPost, "/v1/ports/{guid}/{num}/"+verb, "Say what it would do to "+verb+" a link, or do it"), func(ctx context.Context, in *portActionInput) (*body[PortPlan], error) {
			q := PortRequest{Action: verb, GUID: in.GUID, Port: in.Num, DryRun: in.DryRun, Force: in.Force, Why: in.Why, By: callerOf(ctx).Name}
			if in.For != "" {
				d, err := time.ParseDuration(in.For)
				if err != nil || d <= 0 || d > MaxHold {
					return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("for %q; give a time such as 2h, 720h (30 days) at most", in.For))
				}
				q.For = d
			}
			p, err := b.ActOnPort(ctx, q)
			if err != nil {
				return nil, huma.Error422UnprocessableEntity(err.Error())
			}
			if !p.Applied {
				changed(ctx, dryRun)
			} else {
				changed(ctx, fmt.Sprintf("%s: port %d of %s", verb, in.Num, in.GUID))
			}
			return reply(p), nil
		})
	}
}
