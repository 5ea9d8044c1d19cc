package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/subnet/atlas"
)

// Cartography is the API's interface to maps of the subnet, as it is and as it was.
type Cartography interface {
	// Map draws the subnet in a level of detail. The error says what the query names and is not there.
	Map(q MapQuery) (Map, error)
	// Places says where nodes are on the maps of a state; those that are on none are left out.
	Places(at uint64, nodes []string) ([]Place, error)
	// History lists the stored states before a number (0: all), the newest first.
	History(before uint64, limit int) History
	// Trace is Path that also shows the way back, and ways that end before the other end.
	Trace(from, to string) (Path, error)
}

// MapQuery is what /v1/map is asked for.
type MapQuery struct {
	Level int
	Unit  string // node GUID or description of a node of a group; empty: the whole subnet
	At    uint64 // number of a stored state; 0: now
	Since uint64 // number of an earlier one to compare with; 0: none
}

// Map is the body of /v1/map.
type Map struct {
	Generation uint64    `json:"generation" doc:"number of the published state"`
	At         uint64    `json:"at,omitempty" doc:"number of the stored state that is shown; absent: now"`
	Time       time.Time `json:"time,omitzero" doc:"of the stored state that is shown"`
	Since      uint64    `json:"since,omitempty" doc:"number of the stored state that it is compared with"`
	atlas.Map
}

// Place is where a node is on all maps of a state.
type Place struct {
	GUID string  `json:"guid"`
	Name string  `json:"name"`
	Unit string  `json:"unit" doc:"its group"`
	X    float32 `json:"x"`
	Y    float32 `json:"y"`
}

// History is the body of /v1/history.
type History struct {
	Moments []Moment `json:"moments" doc:"newest first"`
	More    bool     `json:"more,omitempty" doc:"there are older ones"`
}

// Moment is a time at which the wiring became another one.
type Moment struct {
	Number     uint64    `json:"number" doc:"at and since of /v1/map take it"`
	Time       time.Time `json:"time"`
	Generation uint64    `json:"generation"`
	Whole      bool      `json:"whole,omitempty" doc:"the first of a process, or a copy: nothing need have changed"`
	Gone       int       `json:"gone,omitempty" doc:"nodes and cables that have gone"`
	New        int       `json:"new,omitempty" doc:"that have come, or have become active"`
	Other      int       `json:"other,omitempty" doc:"that are in another state"`
	Text       string    `json:"text,omitempty" doc:"the first of these, in words"`
}

type mapInput struct {
	Level int    `query:"level" minimum:"1" maximum:"3" default:"1" doc:"1: bundles between groups; 2: switches, with a bundle for each pair; 3: with hosts and their cables, for one group"`
	Unit  string `query:"unit" maxLength:"64" doc:"a group, by the node GUID or description of one of its nodes"`
	At    uint64 `query:"at" doc:"number of a stored state (/v1/history)"`
	Since uint64 `query:"since" doc:"number of an earlier one: what has changed since then is in changes"`
}

type placesInput struct {
	Node []string `query:"node,explode" maxItems:"200" doc:"node GUIDs or descriptions"`
	At   uint64   `query:"at" doc:"number of a stored state"`
}

type historyInput struct {
	Before uint64 `query:"before" doc:"only states with a lower number"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

func mapping(a huma.API, b Cartography) {
	huma.Get(a, "/v1/map", func(_ context.Context, in *mapInput) (*body[Map], error) {
		m, err := b.Map(MapQuery(*in))
		if err != nil {
			return nil, huma.Error404NotFound(err.Error())
		}
		return reply(m), nil
	})
	huma.Get(a, "/v1/map/places", func(_ context.Context, in *placesInput) (*body[[]Place], error) {
		list, err := b.Places(in.At, in.Node)
		if err != nil {
			return nil, huma.Error404NotFound(err.Error())
		}
		return reply(nonNil(list)), nil
	})
	huma.Get(a, "/v1/history", func(_ context.Context, in *historyInput) (*body[History], error) {
		h := b.History(in.Before, in.Limit)
		h.Moments = nonNil(h.Moments)
		return reply(h), nil
	})
}
