package umadfs

import (
	"strings"
	"sync"
	"time"
)

// watcher keeps a program's output and wakes who waits for a text in it.
type watcher struct {
	mu    sync.Mutex
	cond  *sync.Cond
	text  strings.Builder
	ended bool
}

func newWatcher() *watcher {
	w := &watcher{}
	w.cond = sync.NewCond(&w.mu)
	return w
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	w.cond.Broadcast()
	return len(b), nil
}

func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.cond.Broadcast()
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// wait waits until the output holds text n times, the program ends or time is
// up.
func (w *watcher) wait(text string, n int, limit time.Duration) bool {
	late := false
	t := time.AfterFunc(limit, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		late = true
		w.cond.Broadcast()
	})
	defer t.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !late && !w.ended && strings.Count(w.text.String(), text) < n {
		w.cond.Wait()
	}
	return strings.Count(w.text.String(), text) >= n
}
