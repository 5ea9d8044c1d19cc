package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// FindingsQuery is what /v1/findings is asked for.
type FindingsQuery struct {
	Limit int  // of open and of ended findings each; 0: all
	Worst bool // the worst first, the newest of each severity first; otherwise in the order of opening
}

// Findings is the body of /v1/findings.
type Findings struct {
	Round uint64 `json:"round" doc:"round of counters after which they were looked for; 0: none has ended"`
	// Note says why nothing is shown by counters.
	Note string `json:"note,omitempty" doc:"why there are none by counters: these have not been read, or what was found last does not hold any more"`
	// Counts are of all that are open, listed or not.
	Counts FindingCounts `json:"counts" doc:"those that are open, listed or not"`
	Open   []Finding     `json:"open"`
	Closed []Finding     `json:"closed" doc:"those that ended last, oldest first"`
	Missed int           `json:"missed" doc:"could not be looked at or opened in the last round: there were too many"`
}

// FindingCounts are numbers of findings by severity.
type FindingCounts struct {
	Critical int `json:"critical"`
	Warning  int `json:"warning"`
	Info     int `json:"info"`
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
	Event    uint64       `json:"event,omitempty" doc:"number of the event with which it opened; not there until that is written"`
	Cause    uint64       `json:"cause,omitempty" doc:"number of the event that is its cause; of its own if nothing at its place came before"`
	Action   string       `json:"action,omitempty" doc:"what a rule did with the link, would do (dry run), or why it cannot"`
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

type findingsInput struct {
	By    string `query:"by" enum:"opened,severity" default:"opened" doc:"the order of open findings: by opening, or the worst and newest first"`
	Limit int    `query:"limit" minimum:"0" maximum:"1000000" default:"0" doc:"of open and of ended findings each; 0: all"`
}

func findings(a huma.API, b Counting) {
	huma.Get(a, "/v1/findings", func(_ context.Context, in *findingsInput) (*body[Findings], error) {
		return reply(b.Findings(FindingsQuery{Limit: in.Limit, Worst: in.By == "severity"})), nil
	})
}
