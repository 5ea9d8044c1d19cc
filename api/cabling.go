package api

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
	Findings   []CablingFault `json:"findings"`
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
