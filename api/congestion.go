package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Congesting is the part of Backend about congestion control.
type Congesting interface {
	// Congestion is what the congestion control manager knows; an error is the client's.
	Congestion(q CongestionQuery) (Congestion, error)
	// SetCongestionMode changes its mode: off, observe, act or withdraw. An error is the client's.
	SetCongestionMode(mode string) error
}

// CongestionQuery is what /v1/congestion is asked for.
type CongestionQuery struct {
	All  bool   // list all nodes, not only those with something to say
	Node string // GUID of a node or port: list its agents, with their settings
}

// Congestion is the body of /v1/congestion.
type Congestion struct {
	Mode     string              `json:"mode" doc:"off, observe, act or withdraw"`
	Senders  int                 `json:"senders" doc:"how many senders to one host the computed settings are for"`
	Agents   int                 `json:"agents" doc:"switches and ports of adapters"`
	Managed  int                 `json:"managed" doc:"of them, those with congestion control"`
	Without  int                 `json:"without" doc:"those that refuse the class"`
	Silent   int                 `json:"silent" doc:"those that do not answer"`
	Locked   int                 `json:"locked" doc:"those with another CC_Key, which they hide"`
	Pending  int                 `json:"pending" doc:"those that have not been read"`
	Differs  int                 `json:"differs" doc:"those that hold other settings than wanted"`
	Requests uint64              `json:"requests"`
	Sets     uint64              `json:"sets" doc:"of the requests"`
	Failed   uint64              `json:"requests_failed"`
	Repairs  uint64              `json:"repairs" doc:"times that a node was found with other settings than it had"`
	Restarts uint64              `json:"restarts" doc:"times that the clock of a node began anew"`
	Marks    uint64              `json:"marked" doc:"events in the logs of switches"`
	Slowed   uint64              `json:"slowed" doc:"events in the logs of adapters"`
	Wanted   *CongestionSettings `json:"wanted,omitempty" doc:"of the first switch and the first adapter"`
	Nodes    []CongestionNode    `json:"nodes" doc:"those that differ, are locked, or mark packets, unless all or one is asked for"`
	Flows    []CongestionFlow    `json:"flows" doc:"of marked packets and slowed senders, the latest first"`
}

// CongestionNode is a switch or a port of an adapter.
type CongestionNode struct {
	GUID        string              `json:"guid" doc:"of the node"`
	Description string              `json:"description"`
	Port        int                 `json:"port" doc:"0: a switch"`
	LID         int                 `json:"lid"`
	State       string              `json:"state" doc:"managed, without, silent, locked or pending"`
	Differs     []string            `json:"differs" doc:"attributes that are not as wanted"`
	Blocks      int                 `json:"table_blocks" doc:"of 64 entries that its table has room for"`
	Key         string              `json:"key" doc:"none, own, other (it shows it) or hidden"`
	Violations  int                 `json:"key_violations"`
	Read        *time.Time          `json:"read,omitempty" doc:"when its settings were read"`
	Events      uint64              `json:"events" doc:"in its log"`
	Marking     bool                `json:"marking" doc:"its last log had events"`
	Ports       []int               `json:"ports,omitempty" doc:"of a switch that marked packets by its last log"`
	Held        *CongestionSettings `json:"held,omitempty" doc:"if one node is asked for"`
	Wanted      *CongestionSettings `json:"wanted,omitempty" doc:"if one node is asked for"`
}

// CongestionSettings are those of a switch, of an adapter, or of both.
type CongestionSettings struct {
	Switch *SwitchCongestion `json:"switch,omitempty"`
	CA     *CACongestion     `json:"adapter,omitempty"`
}

// SwitchCongestion is when a switch marks packets.
type SwitchCongestion struct {
	Threshold           int              `json:"threshold" doc:"0 never, 15 at the shortest queue"`
	PacketSize          int              `json:"packet_size" doc:"in 64 bytes"`
	MarkingRate         int              `json:"marking_rate"`
	VictimPorts         []int            `json:"victim_ports"`
	CreditPorts         []int            `json:"credit_ports"`
	StarvationThreshold int              `json:"starvation_threshold"`
	StarvationDelay     string           `json:"starvation_delay" doc:"SHIFT:MULTIPLIER"`
	Ports               []PortCongestion `json:"ports" doc:"those with settings of their own"`
}

// PortCongestion is a port of a switch with settings of its own.
type PortCongestion struct {
	Port       int  `json:"port"`
	Starvation bool `json:"starvation" doc:"about credit starvation, not marking"`
	Threshold  int  `json:"threshold"`
	PacketSize int  `json:"packet_size"`
	Parameter  int  `json:"parameter" doc:"marking rate, or delay"`
}

// CACongestion is how an adapter slows senders.
type CACongestion struct {
	Control string         `json:"control" doc:"qp or sl"`
	Levels  []SLCongestion `json:"levels" doc:"service levels with the same settings together"`
	Limit   int            `json:"limit" doc:"highest index of the table"`
	Table   []string       `json:"table" doc:"SHIFT:MULTIPLIER by index"`
}

// SLCongestion are the settings of service levels.
type SLCongestion struct {
	SLs      []int `json:"sls"`
	Timer    int   `json:"timer" doc:"in 1.024 µs"`
	Increase int   `json:"increase"`
	Trigger  int   `json:"trigger"`
	Min      int   `json:"min"`
}

// CongestionFlow is a flow that a log named.
type CongestionFlow struct {
	At       FindingEnd `json:"at" doc:"in whose log"`
	Log      string     `json:"log" doc:"switch: its packets were marked; adapter: it was slowed"`
	From     string     `json:"from"`
	FromLID  int        `json:"from_lid"`
	To       string     `json:"to"`
	ToLID    int        `json:"to_lid"`
	SL       int        `json:"sl"`
	LocalQP  uint32     `json:"local_qp,omitempty"`
	RemoteQP uint32     `json:"remote_qp,omitempty"`
	Count    uint64     `json:"count" doc:"events that named it; a log has room for the last few only"`
	First    time.Time  `json:"first"`
	Last     time.Time  `json:"last"`
}

type congestionInput struct {
	All  bool   `query:"all" doc:"list all nodes"`
	Node string `query:"node" doc:"GUID of a node or port: list its agents with their settings"`
}

type congestionModeInput struct {
	Body struct {
		Mode string `json:"mode" enum:"off,observe,act,withdraw"`
	}
}

func congesting(a huma.API, b Congesting) {
	huma.Get(a, "/v1/congestion", func(_ context.Context, in *congestionInput) (*body[Congestion], error) {
		c, err := b.Congestion(CongestionQuery{All: in.All, Node: in.Node})
		if err != nil {
			return nil, huma.Error404NotFound(err.Error())
		}
		return reply(c), nil
	})
	huma.Register(a, accepted(command("congestion-mode", http.MethodPost, "/v1/congestion/mode", "Change the mode of the congestion control manager")), func(ctx context.Context, in *congestionModeInput) (*struct{}, error) {
		before := ""
		if auditing(ctx) {
			c, _ := b.Congestion(CongestionQuery{}) // without one the mode is not known
			before = c.Mode
		}
		if err := b.SetCongestionMode(in.Body.Mode); err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		changed(ctx, "mode: "+before+" -> "+in.Body.Mode)
		return nil, nil
	})
}
