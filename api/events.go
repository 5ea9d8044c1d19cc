package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

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

// stream sends events as numbered server-sent events, so that a client that
// returns with Last-Event-ID misses none that are still stored.
func stream(b Journal, w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if s := r.URL.Query().Get("after"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			refuse(w, http.StatusBadRequest, "after must be the number of an event")
			return
		}
		after = n
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
