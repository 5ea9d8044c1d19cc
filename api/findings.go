package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Findings is the body of /v1/findings.
type Findings struct {
	Round  uint64    `json:"round" doc:"round of counters after which they were looked for; 0: counters are not read"`
	Open   []Finding `json:"open" doc:"in the order of opening"`
	Closed []Finding `json:"closed" doc:"those that ended last, oldest first"`
	Missed uint64    `json:"missed" doc:"found no room"`
}

// Finding is one thing that is wrong.
type Finding struct {
	ID       uint64       `json:"id"`
	Rule     string       `json:"rule"`
	Severity string       `json:"severity" doc:"info, warning or critical"`
	Title    string       `json:"title"`
	Do       string       `json:"do" doc:"what to do about it"`
	Ends     []FindingEnd `json:"ends"`
	More     int          `json:"more_ends,omitempty" doc:"ends that are not listed"`
	Since    time.Time    `json:"since" doc:"of the first evidence"`
	Opened   time.Time    `json:"opened"`
	Closed   *time.Time   `json:"closed,omitempty"`
	Why      string       `json:"why_closed,omitempty" doc:"healed, not seen any more, or the rule that explains it"`
	Evidence []Evidence   `json:"evidence"`
}

// FindingEnd is a port, or with port 0 a node.
type FindingEnd struct {
	GUID        string `json:"guid" doc:"of the node"`
	Port        int    `json:"port" doc:"0: the node"`
	Description string `json:"description"`
}

// Evidence is a fact about one end.
type Evidence struct {
	FindingEnd
	What  string    `json:"what" doc:"counter or field, by its name in the specification"`
	Delta uint64    `json:"delta" doc:"what a counter has counted since then"`
	Rate  float64   `json:"per_second" doc:"by the last sample that was not 0"`
	Value float64   `json:"value" doc:"of a field or share"`
	Limit float64   `json:"limit" doc:"threshold, or what is expected of a field"`
	Text  string    `json:"text,omitempty"`
	Since time.Time `json:"since"`
	At    time.Time `json:"at" doc:"of the last sample"`
}

func findings(a huma.API, b Counting) {
	huma.Get(a, "/v1/findings", func(context.Context, *struct{}) (*body[Findings], error) {
		return reply(b.Findings()), nil
	})
}
