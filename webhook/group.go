package webhook

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	"heddle/api"
)

// Group sends events to targets that may change. It is safe for concurrent use.
type Group struct {
	source    Source
	marks     Marks
	transport http.RoundTripper // as that of New

	mu      sync.Mutex
	ctx     context.Context // of the senders; guarded by mu
	running []*running      // guarded by mu
	changed chan struct{}   // closed when the targets change; guarded by mu
}

type running struct {
	*Sender
	stop context.CancelFunc
	done chan struct{}
}

// NewGroup returns a Group without targets, whose senders end with ctx.
func NewGroup(ctx context.Context, s Source, m Marks, transport http.RoundTripper) *Group {
	return &Group{source: s, marks: m, transport: transport, ctx: ctx, changed: make(chan struct{})}
}

// Set replaces the targets. An unchanged target continues, and is tried again if it answered 410. A
// changed target continues after the last event that it received. A target that was removed keeps
// its mark, and continues from there if it is added again.
func (g *Group) Set(targets []Target) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var next []*running
	old := map[string]*running{}
	for _, r := range g.running {
		old[r.target.Name] = r
	}
	for _, t := range targets {
		if r := old[t.Name]; r != nil && reflect.DeepEqual(r.target, t) && r.Status().State != gone {
			next = append(next, r)
			delete(old, t.Name)
			continue
		} else if r != nil {
			r.end() // before another one reads its mark
		}
		ctx, stop := context.WithCancel(g.ctx)
		r := &running{Sender: New(t, g.source, g.marks, g.transport), stop: stop, done: make(chan struct{})}
		go func() {
			defer close(r.done)
			r.Run(ctx)
		}()
		next = append(next, r)
	}
	for _, r := range old {
		r.end()
	}
	g.running = next
	close(g.changed)
	g.changed = make(chan struct{})
}

func (r *running) end() {
	r.stop()
	<-r.done
}

// targetsNow are the targets, and a channel that is closed when they change.
func (g *Group) targetsNow() (list []Target, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.running {
		list = append(list, r.target)
	}
	return list, g.changed
}

// acknowledged is the number up to which each target has its events.
func (g *Group) acknowledged() map[string]uint64 {
	list := map[string]uint64{}
	for _, st := range g.Status() {
		list[st.Name] = st.Acknowledged
	}
	return list
}

// Status returns the status of each target.
func (g *Group) Status() []api.Webhook {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]api.Webhook, len(g.running))
	for i, r := range g.running {
		list[i] = r.Status()
	}
	return list
}

// Wait returns when the senders have ended, which they do with the context.
func (g *Group) Wait() {
	g.mu.Lock()
	list := g.running
	g.mu.Unlock()
	for _, r := range list {
		<-r.done
	}
}
