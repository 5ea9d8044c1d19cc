package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/api/kinds"
)

// Event is something that happened, as the log has it.
type Event struct {
	Seq     uint64            `json:"seq" doc:"its number: they ascend, and never start anew in a state directory"`
	Cause   uint64            `json:"cause,omitempty" doc:"number of the first event with the same cause; its own if it is the first"`
	Time    time.Time         `json:"time"`
	Level   string            `json:"level" enum:"debug,info,warn,error"`
	Kind    string            `json:"kind"`
	Message string            `json:"message"`
	Attrs   map[string]string `json:"attrs,omitempty"`
	Links   []EventLink       `json:"links,omitempty" doc:"all links that it is about, if these are more than one"`
	Nodes   []EventNode       `json:"nodes,omitempty" doc:"nodes that it is about besides the one in attrs"`
	More    int               `json:"more,omitempty" doc:"links and nodes that are not listed"`
	Manager string            `json:"manager,omitempty" doc:"the machine of the manager that has it in its log"`
	Spare   bool              `json:"spare,omitempty" doc:"the manager was standby; webhooks do not get it"`
}

// EventLink is a link of an event, the end at the survivor's side second.
type EventLink struct {
	Node     string `json:"node,omitempty"`
	GUID     string `json:"node_guid"`
	Port     int    `json:"port"`
	Peer     string `json:"peer,omitempty"`
	PeerGUID string `json:"peer_node_guid,omitempty"`
	PeerPort int    `json:"peer_port,omitempty"`
}

// EventNode is a node of an event.
type EventNode struct {
	Node string `json:"node,omitempty"`
	GUID string `json:"node_guid"`
}

// EventsPage is how many events Journal.Events returns at most.
const EventsPage = 1000

// EventsQuery says which events are wanted. Without After, Before and Since the newest are.
type EventsQuery struct {
	After  uint64    // only those with a greater number
	Before uint64    // only those with a smaller number, the newest of them; 0: any
	Since  time.Time // only those that are not before
	Kinds  []string  // one of these; a final * stands for anything; none: any
	Node   string    // name or GUID of a node, also at the far end of a link; empty: any
	Cause  uint64    // 0: any
	Level  string    // at least; empty: any
	Limit  int       // at most; 0: any number
}

// Oldest reports whether the oldest events that match are wanted, not the newest.
func (q *EventsQuery) Oldest() bool {
	return q.Before == 0 && (q.After > 0 || !q.Since.IsZero() || q.Cause > 0)
}

var eventLevels = map[string]int{"debug": 0, "info": 1, "warn": 2, "error": 3}

// Match reports whether the query wants e.
func (q *EventsQuery) Match(e *Event) bool {
	return e.Seq > q.After && (q.Before == 0 || e.Seq < q.Before) && !e.Time.Before(q.Since) &&
		(q.Cause == 0 || e.Cause == q.Cause) && eventLevels[e.Level] >= eventLevels[q.Level] &&
		kinds.Match(q.Kinds, e.Kind) && (q.Node == "" || e.names(q.Node))
}

// possible refuses a query that no event can match. Kinds of other versions are possible if the log has
// some. An error of the disk is for the query itself to find.
func (q *EventsQuery) possible(j Journal) error {
	newest, err := j.FindEvents(EventsQuery{Limit: 1})
	if err != nil {
		return nil
	}
	last := uint64(0)
	if len(newest) > 0 {
		last = newest[0].Seq
	}
	if n := max(q.After, q.Cause); n > last {
		return fmt.Errorf("there is no event %d yet: the newest of this manager is %d (each manager numbers its own)", n, last)
	}
	for _, k := range q.Kinds {
		if err := kinds.Check(k); err != nil {
			if list, other := j.FindEvents(EventsQuery{Kinds: []string{k}, Limit: 1}); other == nil && len(list) == 0 {
				return err
			}
		}
	}
	return nil
}

// names reports whether the event is about a node with a name or GUID.
func (e *Event) names(node string) bool {
	same := func(s string) bool { return strings.EqualFold(s, node) }
	for _, k := range []string{"node", "node_guid", "peer_node", "peer_node_guid", "port_guid", "host"} {
		if v, ok := e.Attrs[k]; ok && same(v) {
			return true
		}
	}
	for i := range e.Links {
		if l := &e.Links[i]; same(l.Node) || same(l.GUID) || same(l.Peer) || same(l.PeerGUID) {
			return true
		}
	}
	for i := range e.Nodes {
		if same(e.Nodes[i].Node) || same(e.Nodes[i].GUID) {
			return true
		}
	}
	return false
}

type eventsInput struct {
	After  uint64 `query:"after" doc:"only events with a greater number"`
	Before uint64 `query:"before" doc:"only events with a smaller number, the newest of them"`
	Since  string `query:"since" doc:"only later events: how long ago (2h), a time (RFC 3339), or a number as in after"`
	Kind   string `query:"kind" maxLength:"4096" doc:"only these kinds, with commas between; a final * stands for anything: link_*"`
	Node   string `query:"node" maxLength:"256" doc:"only events about the node with this name or GUID"`
	Cause  uint64 `query:"cause" doc:"only events with this cause"`
	Level  string `query:"level" enum:"debug,info,warn,error" doc:"only this level or a higher one"`
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"so many at most: the oldest that match if after, since or cause is given, else the newest"`
}

// query is what the input asks for at a time.
func (in *eventsInput) query(now time.Time) (q EventsQuery, err error) {
	q = EventsQuery{After: in.After, Before: in.Before, Node: in.Node, Cause: in.Cause, Level: in.Level, Limit: in.Limit}
	for k := range strings.SplitSeq(in.Kind, ",") {
		if k = strings.TrimSpace(k); k != "" {
			q.Kinds = append(q.Kinds, k)
		}
	}
	if in.Since == "" {
		return q, nil
	}
	n, since, err := ParseSince(in.Since, now)
	q.After, q.Since = max(q.After, n), since
	return q, err
}

// ParseSince reads the number of an event, how long ago, or a time.
func ParseSince(s string, now time.Time) (after uint64, since time.Time, err error) {
	if after, err = strconv.ParseUint(s, 10, 64); err == nil {
		return after, since, nil
	}
	if since, err = ParseTime(s, now); err != nil {
		err = fmt.Errorf("%w, or the number of an event", err)
	}
	return 0, since, err
}

// ParseTime reads how long ago, or a time.
func ParseTime(s string, now time.Time) (t time.Time, err error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err = time.Parse(time.RFC3339, s); err != nil {
		err = fmt.Errorf("since %q: want how long ago, such as 2h, or a time such as 2026-11-01T00:00:00Z", s)
	}
	return t, err
}

// events adds /v1/events.
func events(a huma.API, j Journal) {
	huma.Get(a, "/v1/events", func(_ context.Context, in *eventsInput) (*body[[]Event], error) {
		q, err := in.query(time.Now())
		if err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		if err := q.possible(j); err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		list, err := j.FindEvents(q)
		if err != nil {
			return nil, huma.Error500InternalServerError(err.Error())
		}
		return reply(nonNil(list)), nil
	})
}

// keepAlive is the interval of keep-alive comments on an idle event stream, and
// stalled how long a client may read nothing before it is disconnected.
const (
	keepAlive = 15 * time.Second
	stalled   = 30 * time.Second
)

// serve is the handler of event streams.
func (l *streamLimit) serve(b Journal) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		end := l.begin(r)
		if end == nil {
			refuse(w, http.StatusServiceUnavailable, "too many event streams are open; close some, give a token, or read /v1/events")
			return
		}
		defer end()
		stream(b, w, r)
	}
}

// stream sends events as numbered server-sent events, so that a client that returns with Last-Event-ID
// misses none that are still kept.
func stream(b Journal, w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	after, err := beginning(b, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		// The server bounds how long a reply may take. A stream has no end, so
		// each part of it has that bound instead.
		flush.SetWriteDeadline(time.Now().Add(stalled))
		events, more := b.Events(after)
		for _, e := range events {
			j, err := json.Marshal(e)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Seq, j); err != nil {
				return
			}
			after = e.Seq
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-more:
		case <-tick.C:
			flush.SetWriteDeadline(time.Now().Add(stalled))
			if _, err := fmt.Fprint(w, ": alive\n\n"); err != nil {
				return
			}
		}
	}
}

// beginning is the number after which a stream begins: that of a client which returns, that in after,
// or else so that the newest EventsPage events come first.
func beginning(b Journal, r *http.Request) (uint64, error) {
	after := r.Header.Get("Last-Event-ID")
	if s := r.URL.Query().Get("after"); s != "" {
		after = s
	}
	if after != "" {
		n, err := strconv.ParseUint(after, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("after must be the number of an event")
		}
		return n, nil
	}
	newest, err := b.FindEvents(EventsQuery{Limit: EventsPage})
	if err != nil || len(newest) == 0 {
		return 0, nil // the stream shows what there is
	}
	return newest[0].Seq - 1, nil
}

// Webhook is how it stands with a target of webhooks.
type Webhook struct {
	Name         string `json:"name"`
	Host         string `json:"host" doc:"of its URL, the rest of which is not shown"`
	State        string `json:"state" enum:"ok,failing,open,gone" doc:"open: the breaker allows one try at the end of each pause; gone: it answered 410, and gets nothing until the settings are read again"`
	Acknowledged uint64 `json:"acknowledged" doc:"number up to which it has its events"`
	Waiting      uint64 `json:"waiting" doc:"events after that number, wanted or not"`
	Sent         uint64 `json:"sent"`
	Failed       uint64 `json:"failed" doc:"tries"`
	Failures     uint64 `json:"failures" doc:"tries that failed since the last success"`
	Dropped      uint64 `json:"dropped" doc:"events that were too old for its queue"`
	Error        string `json:"error,omitempty" doc:"of the last try"`
}

// webhooks adds /v1/webhooks.
func webhooks(a huma.API, states func() []Webhook) {
	huma.Get(a, "/v1/webhooks", func(context.Context, *struct{}) (*body[[]Webhook], error) {
		if states == nil {
			return reply([]Webhook{}), nil
		}
		return reply(nonNil(states())), nil
	})
}
