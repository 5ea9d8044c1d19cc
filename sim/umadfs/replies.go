package umadfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Bounds of the buffers kept for reuse: their number and size.
const (
	keptReplies  = 16
	keptReplyLen = 8 << 10
)

// replies are the unwritten replies of one mount.
type replies struct {
	mu    sync.Mutex
	queue [][]byte // guarded by mu
	free  [][]byte // guarded by mu

	// Held while a reply is written, so that the descriptor is not closed during it.
	open  sync.RWMutex
	ended bool // guarded by open
}

// add takes a reply and returns an empty buffer for the next.
func (r *replies) add(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, b)
	n := len(r.free)
	if n == 0 {
		return nil
	}
	b = r.free[n-1]
	r.free = r.free[:n-1]
	return b
}

// end waits until current writes are done, and permits no others.
func (r *replies) end() {
	r.open.Lock()
	defer r.open.Unlock()
	r.ended = true
}

// next is the first reply whose write has not begun, nil if there is none; done
// has been written.
func (r *replies) next(done []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done != nil && cap(done) <= keptReplyLen && len(r.free) < keptReplies {
		r.free = append(r.free, done[:0])
	}
	if len(r.queue) == 0 {
		return nil
	}
	b := r.queue[0]
	r.queue = append(r.queue[:0], r.queue[1:]...)
	return b
}

// Flush writes the replies. It is called with the driver's lock free.
func (c *conn) Flush() {
	c.flagged.Store(false)
	r := &c.replies
	r.open.RLock()
	defer r.open.RUnlock()
	for b := r.next(nil); b != nil; b = r.next(b) {
		if !r.ended {
			_, _ = unix.Write(c.fd, b) // ENOENT: the caller is gone
		}
	}
}
