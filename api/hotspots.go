package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// HotSpots is the body of /v1/hotspots.
type HotSpots struct {
	Round uint64 `json:"round" doc:"round of counters after which they were looked for; 0: none has ended"`
	Mode  string `json:"dftree" doc:"off, observe or act: what becomes of flows to hot spots"`
	SL    int    `json:"slow_sl" doc:"service level of the slow lane; -1: there is none"`
	NoSL  string `json:"no_slow_sl,omitempty" doc:"why there is no slow lane"`
	// Note says why nothing is shown by counters.
	Note  string `json:"note,omitempty" doc:"why there are none by counters: these have not been read, or what was found last does not hold any more"`
	Slow  int    `json:"slow_paths" doc:"paths that are answered with the level of the slow lane"`
	Count int    `json:"open_count" doc:"those that are open, listed or not"`
	// In the order of opening; those that ended last, oldest first.
	Open   []HotSpot `json:"open" doc:"in the order of opening"`
	Closed []HotSpot `json:"closed" doc:"those that ended last, oldest first"`
	Held   int       `json:"held" doc:"hosts whose hot spot was opened again a moment ago, and is not opened a third time yet"`
	Missed int       `json:"missed" doc:"hosts with the sign of a hot spot for which there was no room; above 0: the fabric as a whole is full"`
}

// HotSpot is a host that is sent more than it takes.
type HotSpot struct {
	ID               uint64            `json:"id"`
	Host             HotSpotEnd        `json:"host"`
	At               FindingEnd        `json:"at" doc:"the switch port before the host"`
	Sign             string            `json:"sign" doc:"waiting: the port waits for the host; full: it is in use all the time, and ports that feed it wait"`
	Since            time.Time         `json:"since" doc:"of the first sample with the sign"`
	Opened           time.Time         `json:"opened"`
	Closed           *time.Time        `json:"closed,omitempty"`
	Why              string            `json:"why_closed,omitempty" doc:"ended, or not seen any more"`
	Wait             float64           `json:"wait" doc:"share of time that the port waited"`
	Use              float64           `json:"use" doc:"share of its data rate that the port used"`
	Lane             int               `json:"lane" doc:"data lane on which the port waits most; -1: not known"`
	Behind           bool              `json:"behind,omitempty" doc:"the port does not show the sign any more: flows to the host wait on the slow lane behind those to other hot spots"`
	Contributors     []HotSpotFeeder   `json:"contributors" doc:"hosts that feed it"`
	MoreContributors int               `json:"more_contributors,omitempty" doc:"left out by a limit, or for lack of room"`
	Victims          []HotSpotSufferer `json:"victims" doc:"hosts that may suffer: they wait, and share a waiting link with a contributor"`
	More             int               `json:"more_victims,omitempty"`
	Paths            int               `json:"slow_paths" doc:"paths that are on the slow lane, or would be (observe)"`
	Refused          string            `json:"refused,omitempty" doc:"why its paths do not move"`
}

// HotSpotEnd is a host's port.
type HotSpotEnd struct {
	FindingEnd
	PortGUID string `json:"port_guid"`
	LID      int    `json:"lid"`
}

// HotSpotFeeder is a host that feeds a hot spot.
type HotSpotFeeder struct {
	HotSpotEnd
	Since time.Time `json:"since"`
	Wait  float64   `json:"wait"`
	Use   float64   `json:"use"`
	Known bool      `json:"known" doc:"it has asked for the path; otherwise it may also be one that suffers"`
}

// HotSpotSufferer is a host that may suffer from a hot spot.
type HotSpotSufferer struct {
	HotSpotEnd
	Wait float64    `json:"wait"`
	Use  float64    `json:"use"`
	Via  FindingEnd `json:"via" doc:"port before a waiting link that its paths share"`
}

func hotSpots(a huma.API, b Counting) {
	huma.Get(a, "/v1/hotspots", func(_ context.Context, in *hotSpotsInput) (*body[HotSpots], error) {
		return reply(b.HotSpots(in.Limit)), nil
	})
}

type hotSpotsInput struct {
	Limit int `query:"limit" minimum:"0" maximum:"1000000" default:"0" doc:"of the newest open and ended hot spots each, and of what each one lists; 0: all"`
}
