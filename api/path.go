package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
)

// Path is the path of packets from one end port to another, by the installed tables.
type Path struct {
	From    PathEnd   `json:"from"`
	To      PathEnd   `json:"to"`
	SL      int       `json:"sl"`
	VL      *int      `json:"vl,omitempty" doc:"data lane of the first cable; absent: there is none, or its table is not known"`
	MTU     int       `json:"mtu"`
	Rate    string    `json:"rate"`
	PKey    string    `json:"pkey" doc:"the lowest P_Key that both share; empty: none, they cannot talk"`
	Hops    []PathHop `json:"hops" doc:"the switches of the path"`
	Reverse bool      `json:"reverse" doc:"there is a path back"`
	Loop    bool      `json:"loop,omitempty" doc:"with trace: packets come to the switch of the last hop again, and go round until they are discarded"`
	Broken  string    `json:"broken,omitempty" doc:"with trace: why packets do not arrive"`
	Back    *Path     `json:"back,omitempty" doc:"with trace: the path back"`
	Differs bool      `json:"differs,omitempty" doc:"with trace: the way back crosses other switches or cables"`
}

// PathEnd is one end of a path.
type PathEnd struct {
	GUID        string `json:"port_guid"`
	Node        string `json:"node_guid"`
	Description string `json:"description"`
	LID         int    `json:"lid"`
	Port        int    `json:"port"`
}

// PathHop is a switch on a path and the port that packets leave it by.
type PathHop struct {
	GUID        string `json:"guid"`
	Description string `json:"description"`
	In          int    `json:"in" doc:"the port that they come by; 0: the path begins at the switch itself"`
	Out         int    `json:"out"`
	VL          *int   `json:"vl,omitempty" doc:"data lane of the cable that they leave by; absent: there is none, or its table is not known"`
}

type pathInput struct {
	From  string `query:"from" required:"true" doc:"LID, port GUID, GID or node description"`
	To    string `query:"to" required:"true" doc:"the same"`
	Trace bool   `query:"trace" doc:"also the way back; and a way that ends before the other end as far as it goes, with the reason"`
}

func path(a huma.API, b Backend) {
	huma.Get(a, "/v1/path", func(_ context.Context, in *pathInput) (*body[Path], error) {
		find := b.Path
		if in.Trace {
			find = b.Trace
		}
		p, err := find(in.From, in.To)
		if err != nil {
			return nil, huma.Error404NotFound(err.Error())
		}
		return reply(p), nil
	})
}
