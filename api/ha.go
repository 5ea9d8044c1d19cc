package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Availability is how a process stands to others that may manage the same subnet.
type Availability interface {
	// HA is how it stands now.
	HA() HA
	// Handover makes the other manager active. ErrNoPair, or an error that says why not.
	Handover(ctx context.Context) error
	// Takeover makes this manager active although the other one may have had newer entries, which
	// stale permits.
	Takeover(ctx context.Context, stale bool) error
	// Forks are the entries that were put aside.
	Forks() ([]Fork, error)
	// Healthy returns nil if the process works, within the time of ctx.
	Healthy(ctx context.Context) error
}

// ErrNoPair: the manager has no partner.
var ErrNoPair = errors.New("this manager has no partner (--peer)")

// HA is the body of /v1/ha.
type HA struct {
	Mode   string    `json:"mode" doc:"single: it manages the subnet alone; pair: with a partner; quorum: others share its state in etcd"`
	Active bool      `json:"active" doc:"this process runs the managers"`
	State  string    `json:"state" doc:"single, starting, paired, alone, waiting, copying or stale; quorum: term (master, and it may write), away (the same, but etcd does not answer), refused (master without the term) or follower"`
	Why    string    `json:"why,omitempty" doc:"why it is active or standby"`
	Since  time.Time `json:"since,omitzero" doc:"since when it is active or standby; quorum: since when it is in this state"`
	// ActiveAt names the active manager to a person; empty: this one, or none is known.
	ActiveAt string `json:"active_at,omitempty" doc:"where the active manager is, if it is another one"`
	// Before is known of a manager that took over since its process started.
	Before *Before `json:"before,omitempty" doc:"who was active before this manager: what happened then is in the events of that one"`
	Stale  float64 `json:"stale_seconds,omitempty" doc:"standby: how long ago the active manager was heard; what is stored may be as old. Negative: not since the start"`
	Pair   *Pair   `json:"pair,omitempty"`
	Quorum *Quorum `json:"quorum,omitempty"`
}

// Before is the active manager before this one.
type Before struct {
	At    string    `json:"at" doc:"where its API is, its host, or its port GUID, as far as is known"`
	Until time.Time `json:"until" doc:"when this manager took over from it"`
}

// Quorum is how a manager stands to the state that it shares with others.
type Quorum struct {
	Term      uint64  `json:"term" doc:"number of the term of the last entry that this manager knows, one more for each master"`
	TermOwner string  `json:"term_owner" doc:"port GUID of the manager that wrote it; import: an import of a backup; nobody: there is no entry"`
	Entry     uint64  `json:"entry" doc:"number of that entry"`
	Synced    float64 `json:"sync_seconds" doc:"how long ago this manager last had all entries; it asks every 10 s; negative: not since the start"`
	Refused   float64 `json:"refused_seconds,omitempty" doc:"master: for how long changes have been refused"`
	Entries   uint64  `json:"entries" doc:"changes of this manager that were stored, since it started"`
	Commit    float64 `json:"commit_seconds" doc:"mean time until a change was stored"`
	Takeovers uint64  `json:"takeovers" doc:"times that this manager won the term, but for the first term of a state"`
	Warm      bool    `json:"warm" doc:"standby: it has what the master publishes, so it answers before it has read the subnet"`

	Members []Member `json:"members,omitempty" doc:"the other managers, with --peer"`
}

// Member is another manager with the same state in etcd.
type Member struct {
	Address string `json:"address"`
	GUID    string `json:"port_guid,omitempty" doc:"of its port; empty: it was not heard yet"`
	Heard   bool   `json:"heard" doc:"it was heard in the last 0.24 s"`
	Master  bool   `json:"master" doc:"as it says"`
	Err     string `json:"error,omitempty" doc:"why it is not heard"`
	// Differ is empty also if it does not say, as versions before 0.2.0.
	Differ []string `json:"settings_differ,omitempty" doc:"settings that all managers should have alike and that it has otherwise than this one"`
}

// Pair is how a manager stands to its partner.
type Pair struct {
	PortGUID   string `json:"port_guid"`
	LID        int    `json:"lid" doc:"of this manager's port; 0: not known yet"`
	Term       uint64 `json:"term" doc:"number of the term, one more for each change of the active manager"`
	TermOwner  string `json:"term_owner" doc:"port GUID of the manager whose term it is; import: an import of a backup; nobody: there is no term"`
	Entry      uint64 `json:"entry" doc:"number of the last entry on this manager's disk"`
	Peer       string `json:"peer" doc:"the partner's address"`
	PeerGUID   string `json:"peer_guid"`
	PeerAPI    string `json:"peer_api,omitempty" doc:"where the partner's API is, as --peer-api says"`
	PeerLID    int    `json:"peer_lid"`
	PeerActive bool   `json:"peer_active" doc:"as it said last"`
	PeerTerm   uint64 `json:"peer_term"`
	PeerEntry  uint64 `json:"peer_entry"`
	// PeerPriority is negative if the partner does not say.
	Priority     int `json:"priority" doc:"of this manager in SMInfo, which counts against third managers"`
	PeerPriority int `json:"peer_priority" doc:"that of the partner; negative: it does not say"`

	LagEntries uint64  `json:"lag_entries" doc:"entries that the standby of the two lacks"`
	LagSeconds float64 `json:"lag_seconds" doc:"for how long it has lacked any"`
	// Negative: none since the start.
	Synced      float64 `json:"sync_seconds" doc:"how long ago the standby of the two is known to have had all entries; negative: not since the start"`
	Stream      float64 `json:"stream_sign_seconds" doc:"how long ago the partner was heard over TCP; negative: not since the start"`
	Fabric      float64 `json:"fabric_sign_seconds" doc:"how long ago it was heard through the subnet"`
	Warm        bool    `json:"warm,omitempty" doc:"standby: it knows what the active manager publishes, and answers from that when it takes over"`
	Connected   bool    `json:"connected" doc:"the stream to the partner is open"`
	Serving     bool    `json:"serving" doc:"the partner's stream to this manager is open"`
	StreamError string  `json:"stream_error,omitempty"`
	PortUsable  bool    `json:"port_usable" doc:"management packets pass the link of this manager's port"`
	SMOfPort    int     `json:"sm_of_port" doc:"LID that it names as its subnet manager's"`
	FloatingLID int     `json:"floating_lid,omitempty" doc:"LID that the port of the active one of the two has; 0: each port keeps its own"`
	Master      string  `json:"master_guid,omitempty" doc:"not paired: port GUID of another manager that this one's port names and that answers as master"`
	MasterText  string  `json:"master_text,omitempty" doc:"what that means, and what to do"`
	Held        bool    `json:"held,omitempty" doc:"because of it this standby does not take over"`
	Entries     uint64  `json:"entries" doc:"entries of this manager that count, since it started"`
	Commit      float64 `json:"commit_seconds" doc:"mean time until an entry counts"`
	Takeovers   uint64  `json:"takeovers" doc:"times that this manager became active, but for the first term of a state"`
	Answering   float64 `json:"takeover_seconds" doc:"the last time: from the decision to answers from the whole subnet; 0: not yet"`
	Forks       int     `json:"forks" doc:"files with entries that were put aside"`
	// ForksDeleted counts since the start.
	ForksDeleted int    `json:"forks_deleted,omitempty" doc:"such files that were deleted since the start, because there were too many"`
	DiskError    string `json:"disk_error,omitempty"`
	// Differ is empty also if the partner does not say, as versions before 0.2.0.
	Differ []string `json:"settings_differ,omitempty" doc:"settings that both managers should have alike and that differ"`
}

// Fork is one row of /v1/ha/forks: entries that a copy of the partner's journal replaced.
type Fork struct {
	File    string    `json:"file"`
	Time    time.Time `json:"time"`
	Entries int       `json:"entries"`
	First   string    `json:"first"`
	Last    string    `json:"last"`
	Bytes   int64     `json:"bytes"`
}

type takeoverInput struct {
	Stale bool `query:"stale" doc:"even if changes that the partner acknowledged are lost"`
}

// availability adds /v1/ha.
func availability(a huma.API, ha Availability) {
	if ha == nil {
		return
	}
	huma.Get(a, "/v1/ha", func(context.Context, *struct{}) (*body[HA], error) { return reply(ha.HA()), nil })
	huma.Get(a, "/v1/ha/forks", func(context.Context, *struct{}) (*body[[]Fork], error) {
		list, err := ha.Forks()
		if err != nil {
			return nil, haError(err)
		}
		return reply(nonNil(list)), nil
	})
	huma.Register(a, command("ha-handover", http.MethodPost, "/v1/ha/handover", "Make the partner active"), func(ctx context.Context, _ *struct{}) (*body[HA], error) {
		if err := ha.Handover(ctx); err != nil {
			return nil, haError(err)
		}
		return reply(ha.HA()), nil
	})
	huma.Register(a, command("ha-takeover", http.MethodPost, "/v1/ha/takeover", "Make this manager active"), func(ctx context.Context, in *takeoverInput) (*body[HA], error) {
		if err := ha.Takeover(ctx, in.Stale); err != nil {
			return nil, haError(err)
		}
		return reply(ha.HA()), nil
	})
}

func haError(err error) error { return huma.Error409Conflict(err.Error()) }

// Spare is what a process shows that runs no manager now.
type Spare interface {
	Status() Status
	// Ready reports whether it can take over, with the reason where it cannot.
	Ready() (bool, string)
	Journal
}

// Journal is what a process keeps, whether it runs a manager or not.
type Journal interface {
	// Events returns those with a number greater than after, oldest first, at most EventsPage, and a
	// channel that is closed when there are more.
	Events(after uint64) ([]Event, <-chan struct{})
	// FindEvents returns events that match, oldest first. An error is that of the disk.
	FindEvents(q EventsQuery) ([]Event, error)
	// Backup writes the stored state as a backup.
	Backup(w io.Writer) error
}

// NewSpare returns the handler of a process that runs no manager: its own state, events, metrics
// and backup. All other calls are answered 503, with the place of the active manager.
// Options.HA is required.
func NewSpare(s Spare, o Options) http.Handler {
	mux := newRouter()
	a := humago.New(mux, config())
	huma.Get(a, "/v1/status", func(context.Context, *struct{}) (*body[Status], error) {
		return reply(withActive(s.Status(), o.HA)), nil
	})
	events(a, s)
	common(a, mux, s, o)
	describe(a.OpenAPI())
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		mux.HandleFunc(method+" /v1/", func(w http.ResponseWriter, _ *http.Request) { standby(w, o.HA.HA()) })
	}
	return newGuard(mux, o)
}

// withActive adds to a status where the active manager is.
func withActive(st Status, ha Availability) Status {
	if ha != nil {
		st.ActiveAt = ha.HA().ActiveAt
	}
	return st
}

// standby says where the active manager is.
func standby(w http.ResponseWriter, h HA) {
	text := "no manager runs in this process yet"
	switch {
	case h.ActiveAt != "":
		text = "this manager is standby; the active one is at " + h.ActiveAt
	case h.Pair != nil:
		text = "this manager is standby, and it does not know an active one"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(struct { // an error means that the client is gone
		Title    string  `json:"title"`
		Status   int     `json:"status"`
		Detail   string  `json:"detail"`
		ActiveAt string  `json:"active_at,omitempty"`
		Stale    float64 `json:"stale_seconds,omitempty"`
	}{http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable, text, h.ActiveAt, h.Stale})
}
