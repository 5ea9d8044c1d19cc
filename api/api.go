// Package api serves the state of a manager over HTTP: status, nodes, links and
// events as JSON with an OpenAPI description, Prometheus metrics, health probes
// and the status page.
//
// Handlers read one published snapshot and render it; the few that change
// something pass a command to the manager. Reading is open to all clients that
// can reach the address, which is loopback unless TLS is configured. Everything
// else needs a role: by a named token, a client certificate, the token of the
// daemon's token file, or the Unix socket which only its owner can open. Routes
// has who may call what.
package api

import (
	"context"
	"net/http"
	"runtime/trace"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"heddle/access"
	"heddle/internal/version"
	"heddle/web"
)

// Backend is the API's interface to a running manager. Every method may be
// called from many goroutines and must not block on the fabric.
type Backend interface {
	Administration
	Machines
	Counting
	Congesting
	Porting
	Topologies
	Tables
	Cartography
	// Spare: Status is the state in a few numbers. Ready reports whether the subnet is up (or this
	// manager is a working standby), with the reason where it is not.
	Spare
	// Nodes and Links list the result of the last sweep, in GUID order.
	Nodes() []Node
	Links() []Link
	// Repairs are the last repairs of faults, the newest first.
	Repairs() []Repair
	// Sweeps are the last sweeps, the newest first.
	Sweeps() []Sweep
	// Drawing places the fabric on levels for the page.
	Drawing() Drawing
	// Use is how busy the links of the drawing are, if that is measured.
	Use() Use
	// Sweep requests a full sweep and returns immediately.
	Sweep(ctx context.Context) error
	// Reroute requests tables from scratch, by the whole chain of engines and
	// without discovery, and returns immediately. With rebalance the engines
	// ignore the installed tables.
	Reroute(ctx context.Context, rebalance bool) error
	// PlanReroute computes what Reroute would install now, and installs nothing. An error says why
	// there are no such tables, or that another plan is being computed.
	PlanReroute(ctx context.Context, rebalance bool) (RoutePlan, error)
}

// Status is the body of /v1/status.
type Status struct {
	Version      string    `json:"version" doc:"version of the program"`
	State        string    `json:"state" doc:"DISCOVERING, STANDBY, MASTER or NOTACTIVE"`
	Phase        string    `json:"phase" doc:"current phase of the sweep; idle between sweeps"`
	WaitSeconds  float64   `json:"wait_seconds,omitempty" doc:"so long the sweep waits at most until packets of earlier tables have left; it gives way to hosts that come up, and other changes"`
	SubnetUp     bool      `json:"subnet_up"`
	Port         string    `json:"port" doc:"the port through which the subnet is managed"`
	PortGUID     string    `json:"port_guid"`
	LID          int       `json:"lid" doc:"of that port; 0: it has none, or it is not known"`
	Priority     int       `json:"priority"`
	Master       string    `json:"master,omitempty" doc:"port GUID of the master, if it is another manager"`
	Engine       string    `json:"engine" doc:"the routing engine whose tables are installed"`
	EngineReason string    `json:"engine_reason,omitempty" doc:"why engines before it in the chain were passed over"`
	Generation   uint64    `json:"generation" doc:"number of the published state"`
	Switches     int       `json:"switches"`
	CAs          int       `json:"cas"`
	Routers      int       `json:"routers"`
	EndPorts     int       `json:"endports"`
	Links        int       `json:"links" doc:"links that are up"`
	LinksActive  int       `json:"links_active"`
	LIDs         int       `json:"lids" doc:"LIDs given"`
	VPorts       int       `json:"vports" doc:"virtual ports that can be reached"`
	VMs          int       `json:"vms" doc:"interfaces of virtual machines"`
	VMsPending   int       `json:"vms_pending" doc:"operations on them that are stored and not finished"`
	Unseen       int       `json:"unseen" doc:"nodes that do not answer; they stay in the subnet as they were last read"`
	OwnSilent    bool      `json:"own_silent" doc:"the agent of the manager's own port is one of them"`
	Problems     int       `json:"problems" doc:"nodes, ports and links that are excluded or degraded"`
	Gone         Gone      `json:"gone" doc:"what left the subnet in the last 7 days and is not back; the map shows it"`
	Sweeps       uint64    `json:"sweeps"`
	Resweeps     uint64    `json:"light_sweeps"`
	SMPsSent     uint64    `json:"smps_sent"`
	SMPsRetried  uint64    `json:"smps_retried"`
	SMPsTimedOut uint64    `json:"smps_timed_out"`
	Damped       []Damped  `json:"damped_links" doc:"links held down because they fail repeatedly"`
	LastSweep    SweepInfo `json:"last_sweep"`

	SA         SAStatus        `json:"sa"`
	Partitions PartitionStatus `json:"partitions"`

	ActiveAt string    `json:"active_at,omitempty" doc:"where the active manager is, if it is another one that this one knows"`
	Stale    float64   `json:"stale_seconds,omitempty" doc:"on standby in a pair: how long ago the active manager was heard"`
	Started  time.Time `json:"started"`
	UpSince  time.Time `json:"up_since,omitzero"`
}

// Gone counts what a subnet had.
type Gone struct {
	Switches int `json:"switches"`
	Hosts    int `json:"hosts" doc:"CAs"`
	Routers  int `json:"routers"`
	Cables   int `json:"cables" doc:"those of nodes that left too"`
}

// Damped is a link that is held down for a while.
type Damped struct {
	Port     string  `json:"port" doc:"one end, a switch port"`
	Failures int     `json:"failures" doc:"in a row"`
	Held     bool    `json:"held" doc:"held down until it is quiet, and not just let back in later"`
	Quiet    float64 `json:"quiet_seconds" doc:"how long it must be quiet"`
	Left     float64 `json:"left_seconds"`
}

// SweepInfo describes the last sweep that read the fabric or a region of it.
type SweepInfo struct {
	Reason       string             `json:"reason" doc:"its cause"`
	Region       bool               `json:"region" doc:"only the changed region was read"`
	Updated      bool               `json:"updated" doc:"unchanged routes were kept, not computed anew"`
	GroupBlocks  int                `json:"mft_blocks_sent"`
	Seconds      float64            `json:"seconds"`
	Phases       map[string]float64 `json:"phases" doc:"seconds of each phase"`
	BlocksSent   int                `json:"lft_blocks_sent"`
	BlocksRead   int                `json:"lft_blocks_read"`
	PortSets     int                `json:"port_sets" doc:"Set(PortInfo) that changed parameters"`
	Armed        int                `json:"ports_armed"`
	Activated    int                `json:"ports_activated"`
	SMPs         uint64             `json:"smps"`
	Transition   string             `json:"transition" doc:"dynamic, staged, repair, discard or static-discard, and why"`
	Risk         *Risk              `json:"transition_risk,omitempty" doc:"set if the transition was not proved at every step"`
	EnginePassed []string           `json:"engines_passed_over,omitempty"`
}

// Sweep is one row of /v1/sweeps: a sweep that read the fabric or a region of it.
type Sweep struct {
	Time time.Time `json:"time" doc:"its end"`
	SweepInfo
	Retried   uint64 `json:"smps_retried"`
	TimedOut  uint64 `json:"smps_timed_out"`
	LIDsSet   int    `json:"lids_set" doc:"ports that were given a LID they did not show"`
	Downed    int    `json:"links_downed" doc:"links taken down for the transition static2003"`
	TopsSent  int    `json:"tops_sent" doc:"Set(SwitchInfo) that changed LinearFDBTop or MulticastFDBTop"`
	Engine    string `json:"engine"`
	Problems  int    `json:"problems"`
	Read      int    `json:"switches_read" doc:"switches that a sweep of a region read whole"`
	Again     bool   `json:"again" doc:"another sweep followed, because something changed meanwhile"`
	BrokenOff bool   `json:"broken_off" doc:"because of a fault; the next went on from what was installed"`
}

// Risk describes a transition that was not proved at every step: packets may wait for
// each other in a cycle until switches discard them.
type Risk struct {
	Channels []string `json:"channels" doc:"an example of such a circle: port and data lane of switches; each may wait for the next, the last for the first. Empty if none is known by name"`
	Worst    float64  `json:"worst_seconds" doc:"how long such packets stay at most, by the packet lifetime of switches and the head-of-queue limits"`
	Why      string   `json:"why"`
}

// Repair is one row of /v1/repairs: the consequences of a fault and its repair. A pair
// is a switch with a host and the LID of a host; pairs without a physical path do not
// count. Broken = First + Late + Left.
type Repair struct {
	Time         time.Time `json:"time" doc:"end of the sweep that repaired it"`
	Reason       string    `json:"reason" doc:"cause of the sweep"`
	Faults       []string  `json:"faults" doc:"the losses, at most 8: switch NAME, link NAME:PORT (to NAME:PORT), table of switch NAME"`
	MoreFaults   int       `json:"more_faults" doc:"how many more were lost"`
	Broken       int       `json:"pairs_broken"`
	First        int       `json:"pairs_first" doc:"connected without a wait, by entries that mix with all others"`
	Late         int       `json:"pairs_late" doc:"connected after a wait, or by entries that do not mix with packets in flight"`
	Left         int       `json:"pairs_left" doc:"not connected by this sweep; another one follows"`
	Seconds      float64   `json:"seconds" doc:"from the first sign of the fault to the answer that acknowledges the last block that connects a pair"`
	Mode         string    `json:"mode" doc:"of the transition"`
	Policy       string    `json:"policy" doc:"availability, strict, discard, static or static2003"`
	Stages       int       `json:"stages"`
	Drains       int       `json:"drains" doc:"waits for packets in flight to leave"`
	DrainSeconds float64   `json:"drain_seconds"`
	Risk         *Risk     `json:"risk,omitempty" doc:"set if a transient cycle was possible"`
}

// Node is one row of /v1/nodes.
type Node struct {
	GUID        string `json:"guid"`
	Description string `json:"description"`
	Type        string `json:"type"`
	Ports       int    `json:"ports"`
	LID         int    `json:"lid"`
	LMC         int    `json:"lmc"`
	State       string `json:"state" doc:"ok, or the problem"`
	Path        string `json:"path" doc:"directed route from the manager"`
}

// Link is one row of /v1/links, lower end first.
type Link struct {
	A     LinkEnd `json:"a"`
	B     LinkEnd `json:"b"`
	Width string  `json:"width"`
	Speed string  `json:"speed"`
	MTU   int     `json:"mtu"`
	VLs   int     `json:"vls"`
	State string  `json:"state"`
	Inner bool    `json:"inner,omitempty" doc:"both ends are switches: it can be drained"`
}

// LinkEnd is one end of a link.
type LinkEnd struct {
	GUID        string `json:"guid"`
	Description string `json:"description"`
	Port        int    `json:"port"`
	State       string `json:"state"`
}

// Drawing is the fabric on levels: hosts are counted at their switch, switches
// are drawn individually. Hosts and links that have been seen since the manager
// started and are gone count as not active.
type Drawing struct {
	Generation uint64       `json:"generation"`
	Levels     [][]DrawNode `json:"levels" doc:"from the leaf switches up"`
	Links      []DrawLink   `json:"links" doc:"between switches"`
}

// DrawNode is a switch of the drawing.
type DrawNode struct {
	ID    int    `json:"id"`
	GUID  string `json:"guid"`
	Name  string `json:"name"`
	Hosts int    `json:"hosts"`
	Up    int    `json:"hosts_active"`
	State string `json:"state"`
}

// DrawLink joins two switches of the drawing: N links, of which Up are Active.
type DrawLink struct {
	A  int `json:"a"`
	B  int `json:"b"`
	N  int `json:"n"`
	Up int `json:"up"`
}

// Use is how busy links are: the shares of their data rates that were sent.
type Use struct {
	Generation uint64    `json:"generation" doc:"of the drawing whose switches it names"`
	Source     string    `json:"source" doc:"where it was measured; empty: it is not measured"`
	Seconds    float64   `json:"seconds" doc:"over which it is a mean"`
	Links      []LinkUse `json:"links" doc:"between switches"`
	Hosts      []HostUse `json:"hosts"`
}

// LinkUse is the busiest of the links between two switches of the drawing.
type LinkUse struct {
	A  int     `json:"a"`
	B  int     `json:"b"`
	AB float64 `json:"ab" doc:"from a to b: share of the data rate"`
	BA float64 `json:"ba" doc:"from b to a"`
	// Gbps is that of the link that was measured last; parallel links are mostly equal.
	Gbps float64 `json:"gbps" doc:"data rate of the link in Gb/s"`
}

// HostUse is the busiest of the links between a switch and its hosts.
type HostUse struct {
	Switch int     `json:"switch"`
	Up     float64 `json:"up" doc:"from a host: share of the data rate"`
	Down   float64 `json:"down" doc:"to a host"`
}

// Options of a server.
type Options struct {
	// Token permits everything; if it is empty, only AllowWrite, named tokens and certificates do.
	Token string
	// AllowWrite is set on the handler of the owner's Unix socket: root, and the user of this process,
	// may do everything there.
	AllowWrite bool
	// Hosts are the names under which clients may address the server, in addition
	// to loopback names and addresses.
	Hosts []string
	// Metrics are the contents of /metrics.
	Metrics prometheus.Gatherer
	// HA is how the process stands to others; nil: there is no /v1/ha.
	HA Availability
	// ReadToken, if set, is needed for reading too.
	ReadToken string
	// Login: reading needs a token or a certificate, whether ReadToken is set or not.
	Login bool
	// Tokens are the named tokens, and TokenKeeper changes them; nil: there are none.
	Tokens      *access.Registry
	TokenKeeper TokenKeeper
	// Clients returns the roles of client certificates as they are now; nil: these mean nothing.
	Clients func() *access.Clients
	// Audit keeps the audit log; nil: there is none.
	Audit Auditor
	// Control changes the settings of the program; nil: nobody can while it runs.
	Control Controller
	// Webhooks are the states of targets; nil: there are none.
	Webhooks func() []Webhook
	// Log returns the last lines of the log, and Flight records what the process does while it is
	// to, for the support bundle; nil: there is none.
	Log    func() []string
	Flight *trace.FlightRecorder
	// Limits bounds what clients may try and ask; nil: wrong credentials alone, on this handler.
	Limits *Limits
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// healthTime is how long the loops of a process may take to show that they turn.
const healthTime = 5 * time.Second

// New returns the handler of a manager's API.
func New(b Backend, o Options) http.Handler { return newGuard(build(b, o), o) }

// config is what all handlers have in common.
func config() huma.Config {
	cfg := huma.DefaultConfig("Heddle", version.Version)
	cfg.DocsPath = "" // its page would load scripts from a public host
	cfg.CreateHooks = nil
	// A write that ignored ?dry_run=true, or a misspelled one, would do what nobody asked for.
	cfg.OnAddOperation = append(cfg.OnAddOperation, func(_ *huma.OpenAPI, op *huma.Operation) {
		op.RejectUnknownQueryParameters = op.Method != http.MethodGet
	})
	return cfg
}

// command describes a call that has a small body or none.
func command(id, method, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: 4096}
}

// accepted is a call that is answered before what it asks for has been done.
func accepted(op huma.Operation) huma.Operation {
	op.DefaultStatus = http.StatusAccepted
	return op
}

// build makes the handlers, which guard is to protect.
func build(b Backend, o Options) *router {
	mux := newRouter()
	a := humago.New(mux, config())

	huma.Get(a, "/v1/status", func(context.Context, *struct{}) (*body[Status], error) {
		return reply(withActive(b.Status(), o.HA)), nil
	})
	huma.Get(a, "/v1/nodes", func(context.Context, *struct{}) (*body[[]Node], error) {
		return reply(nonNil(b.Nodes())), nil
	})
	huma.Get(a, "/v1/links", func(context.Context, *struct{}) (*body[[]Link], error) {
		return reply(nonNil(b.Links())), nil
	})
	huma.Get(a, "/v1/repairs", func(context.Context, *struct{}) (*body[[]Repair], error) {
		return reply(nonNil(b.Repairs())), nil
	})
	huma.Get(a, "/v1/sweeps", func(context.Context, *struct{}) (*body[[]Sweep], error) {
		return reply(nonNil(b.Sweeps())), nil
	})
	pictures(a, b)
	events(a, b)
	huma.Register(a, accepted(command("sweep", http.MethodPost, "/v1/sweep", "Start a full sweep")), func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		if err := b.Sweep(ctx); err != nil {
			return nil, huma.Error503ServiceUnavailable(err.Error())
		}
		return nil, nil
	})

	rerouting(a, b)
	administration(a, b)
	partitioning(a, partitionCalls{b, o.Tokens})
	path(a, b)
	machines(a, b)
	counting(a, b, mux)
	findings(a, b)
	hotSpots(a, b)
	congesting(a, b)
	porting(a, b)
	topologies(a, mux, b)
	tables(a, b)
	mapping(a, b)

	common(a, mux, b, o)
	changeTokens(a, o.TokenKeeper)
	describe(a.OpenAPI())
	return mux
}

// common adds what a process serves whether it runs a manager or not.
func common(a huma.API, mux *router, b Spare, o Options) {
	var streams streamLimit
	mux.HandleFunc("GET /v1/events/stream", streams.serve(b))
	availability(a, o.HA)
	identity(a)
	tokens(a, o.Tokens)
	auditLog(a, o.Audit)
	webhooks(a, o.Webhooks)
	controlling(a, o.Control)
	texts(mux, b, o.HA)
	mux.HandleFunc("GET /v1/support", support(mux, &o))
	if o.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	}
	mux.Handle("GET /", web.Handler())
}

// texts adds what is no JSON document. A process without ha is healthy if its state can be read.
func texts(mux *router, b Spare, ha Availability) {
	mux.HandleFunc("GET /v1/backup", backup(b))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if ha == nil {
			b.Status()
		} else {
			ctx, cancel := context.WithTimeout(r.Context(), healthTime)
			defer cancel()
			if err := ha.Healthy(ctx); err != nil {
				refuse(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, why := b.Ready()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		w.Write([]byte(why + "\n"))
	})
}

// pictures adds what the page draws.
func pictures(a huma.API, b Backend) {
	huma.Get(a, "/v1/drawing", func(context.Context, *struct{}) (*body[Drawing], error) {
		return reply(b.Drawing()), nil
	})
	huma.Get(a, "/v1/use", func(context.Context, *struct{}) (*body[Use], error) {
		return reply(b.Use()), nil
	})
}

type body[T any] struct{ Body T }

func reply[T any](v T) *body[T] { return &body[T]{v} }

// nonNil makes an empty list print as [] and not as null.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
