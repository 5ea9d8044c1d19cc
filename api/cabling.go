package api

import "time"

// MaxPlan bounds a plan of cables, in bytes: the netlist of a full subnet is 5 MB.
const MaxPlan = 32 << 20

// maxPlan bounds the request: each byte may be escaped by another.
const maxPlan = 2*MaxPlan + 8192

type cablingInput struct {
	Body struct {
		Plan    string `json:"plan" doc:"a netlist, the text of ibnetdiscover, or lines: node, port, node, port, and if known width and speed"`
		Name    string `json:"name,omitempty" maxLength:"4096" doc:"of the file, for messages"`
		Partial bool   `json:"partial,omitempty" doc:"cables of nodes that the plan does not name are no findings"`
	}
}

// Cabling is the body of /v1/cabling/check.
type Cabling struct {
	Generation uint64         `json:"generation" doc:"number of the published state that was compared"`
	Planned    int            `json:"planned" doc:"cables of the plan"`
	Found      int            `json:"found" doc:"cables of the subnet"`
	Right      int            `json:"right" doc:"planned cables that lead where they should"`
	Off        int            `json:"off,omitempty" doc:"planned cables that cannot be seen, because a port is disabled"`
	Findings   []CablingFault `json:"findings"`
}

// CablingState is the body of /v1/cabling.
type CablingState struct {
	Plan     string         `json:"plan,omitempty" doc:"name of the file; left out: there is none (--cabling)"`
	Note     string         `json:"note,omitempty" doc:"why nothing is shown"`
	Compared *time.Time     `json:"compared,omitempty" doc:"when the subnet was compared last; later sweeps found the same cables"`
	Planned  int            `json:"planned" doc:"cables of the plan"`
	Found    int            `json:"found" doc:"cables of the subnet"`
	Right    int            `json:"right" doc:"planned cables that lead where they should"`
	Off      int            `json:"off" doc:"planned cables that cannot be seen, because a port is disabled"`
	Counts   map[string]int `json:"counts" doc:"findings that are open, by kind"`
	Open     []CablingEntry `json:"open" doc:"findings that are open, at most 1,000"`
	Closed   []CablingEntry `json:"closed" doc:"those that ended last, oldest first"`
	Missed   int            `json:"missed" doc:"findings for which there was no room"`
}

// CablingEntry is a difference while it lasts, and after.
type CablingEntry struct {
	CablingFault
	ID     uint64     `json:"id" doc:"number of the finding, as in /v1/findings"`
	Opened time.Time  `json:"opened"`
	Closed *time.Time `json:"closed,omitempty"`
}

// CablingFault is one difference between the plan and the subnet.
type CablingFault struct {
	Kind    string         `json:"kind" doc:"missing, extra, swapped, rotated, moved, missing_node, extra_node, slow or unclear"`
	Text    string         `json:"text"`
	Do      string         `json:"do" doc:"what to do about it"`
	Node    *CablingEnd    `json:"node,omitempty" doc:"of missing_node, extra_node and unclear"`
	Planned []CablingCable `json:"planned,omitempty" doc:"cables as planned"`
	Found   []CablingCable `json:"found,omitempty" doc:"cables as they are"`
}

// CablingCable is a cable.
type CablingCable struct {
	A CablingEnd `json:"a"`
	B CablingEnd `json:"b"`
}

// CablingEnd is a port of the plan or of the subnet.
type CablingEnd struct {
	GUID string `json:"guid,omitempty" doc:"of the node; left out if the plan does not say it"`
	Name string `json:"name,omitempty"`
	Port int    `json:"port,omitempty"`
}
