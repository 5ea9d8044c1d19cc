package api

import (
	"net"
	"net/http"
	"sync"

	"heddle/api/listen"
)

// Limits on event streams. Anyone who can reach the address may open some (on loopback, every local
// user), so no client may exclude others.
const (
	// maxStreams bounds the event streams of clients without a token, and those of clients
	// with one; maxClientStreams those of one address, or of loopback, without a token.
	maxStreams       = 64
	maxClientStreams = 32
)

func isProbe(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// streamLimit bounds the event streams that are open.
type streamLimit struct {
	mu       sync.Mutex
	token    int            // with a token; guarded by mu
	open     int            // without; guarded by mu
	byClient map[string]int // of those; guarded by mu
}

// begin takes a place for a stream; end, which is nil if there is none, gives it back.
func (l *streamLimit) begin(r *http.Request) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if callerOf(r.Context()).Known {
		if l.token >= maxStreams {
			return nil
		}
		l.token++
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.token--
		}
	}
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || listen.IsLoopback(client) {
		client = "loopback" // it has as many addresses as anybody likes
	}
	if l.open >= maxStreams || l.byClient[client] >= maxClientStreams {
		return nil
	}
	if l.byClient == nil {
		l.byClient = map[string]int{}
	}
	l.open++
	l.byClient[client]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.byClient[client]--; l.byClient[client] == 0 {
			delete(l.byClient, client)
		}
	}
}
