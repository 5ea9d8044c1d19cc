package process

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"heddle/daemon"
	"heddle/ib"
	"heddle/sm"
	"heddle/store/journal"
	"heddle/subnet"
	"heddle/subnet/checkpoint"
)

// Checkpoints have a manager that is stopped leave what it published last for the next one with its
// state, which answers from that until it has read the subnet. Make them with NewCheckpoints.
type Checkpoints struct {
	dir    string
	store  journal.Store
	prefix ib.SubnetPrefix
	lmc    uint8
	log    *slog.Logger

	read    chan struct{}    // closed when found and readErr are set
	found   *checkpoint.File // nil: there is none, or it was used
	readErr error

	mu     sync.Mutex
	runs   *daemon.Daemon   // nil: none. Guarded by mu
	last   *subnet.Snapshot // what the manager published last; nil: nothing. Guarded by mu
	writer *writing         // nil: the process does not end yet. Guarded by mu
}

// writing is a checkpoint that is being written. w and err are set when done is closed.
type writing struct {
	done chan struct{}
	w    *checkpoint.Writer
	err  error
}

// At its end the process waits for the manager to have nothing to do, as long as a sweep of the largest
// subnets takes, and for the disk.
const (
	settleTime     = 3 * time.Second
	settlePoll     = 20 * time.Millisecond
	checkpointTime = 5 * time.Second
)

// NewCheckpoints begins to read the checkpoint in the directory of a store. The managers have a
// configuration with this subnet prefix and LMC.
func NewCheckpoints(dir string, st journal.Store, prefix ib.SubnetPrefix, lmc uint8, log *slog.Logger) *Checkpoints {
	c := &Checkpoints{dir: dir, store: st, prefix: prefix, lmc: lmc, log: log, read: make(chan struct{})}
	go func() {
		defer close(c.read)
		c.found, c.readErr = checkpoint.Read(dir)
	}()
	return c
}

// give gives a mandate what the last process left.
func (c *Checkpoints) give(m *Mandate) {
	id := checkpoint.Identity{Port: m.Port.PortGUID(), Prefix: c.prefix, LMC: c.lmc}
	m.Warm = func() (*subnet.Snapshot, *sm.Float) { return c.resume(id), nil }
	m.Published = func(s *subnet.Snapshot) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = s
	}
	m.Began = func(d *daemon.Daemon) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.runs = d
	}
	m.Stopped = func(settled bool) { c.stopped(id, settled) }
}

// resume returns what this manager published before it was restarted, nil if that is not known, or does
// not fit.
func (c *Checkpoints) resume(want checkpoint.Identity) *subnet.Snapshot {
	<-c.read
	f, err := c.found, c.readErr
	c.found, c.readErr = nil, nil
	if gone := checkpoint.Remove(c.dir); gone != nil {
		f, err = nil, gone // it may be found again
	}
	if f != nil {
		if want.Last, err = c.store.Last(); err == nil {
			err = f.Fits(want, time.Now())
		}
	}
	if err != nil {
		c.log.Warn("what was published before the restart is not used: the subnet is read before queries are answered", "kind", "checkpoint", "err", err)
		return nil
	}
	if f == nil {
		return nil
	}
	return f.Snapshot
}

// leave waits for the manager to have nothing to do, and writes what it published last while it still
// answers: nearly all of the next checkpoint.
func (c *Checkpoints) leave(ctx context.Context) {
	c.mu.Lock()
	d := c.runs
	c.mu.Unlock()
	for end := time.Now().Add(settleTime); d != nil && d.Busy() && time.Now().Before(end); {
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return
		}
	}
	w := &writing{done: make(chan struct{})}
	c.mu.Lock()
	s := c.last
	if s != nil {
		c.writer = w
	}
	c.mu.Unlock()
	if s == nil {
		return
	}
	go func() {
		defer close(w.done)
		w.w, w.err = checkpoint.Begin(c.dir, s)
	}()
	ctx, end := context.WithTimeout(ctx, checkpointTime)
	defer end()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

// stopped completes the checkpoint when the manager has stopped. settled says that the subnet is as it
// published it, and the store as well.
func (c *Checkpoints) stopped(id checkpoint.Identity, settled bool) {
	c.mu.Lock()
	w, s := c.writer, c.last
	c.runs, c.writer, c.last = nil, nil, nil
	c.mu.Unlock()
	if w == nil {
		return
	}
	const lost = "what was published is not kept: the next start reads the subnet before it answers"
	select {
	case <-w.done:
	default:
		c.log.Warn(lost, "kind", "checkpoint", "err", "the disk takes too long")
		return
	}
	err := w.err
	switch {
	case err == nil && !settled:
		w.w.Discard()
		c.log.Info(lost, "kind", "checkpoint", "why", "a sweep or a change of the subnet was under way")
		return
	case err == nil:
		if id.Last, err = c.store.Last(); err == nil {
			err = w.w.Commit(s, id)
		} else {
			w.w.Discard()
		}
	}
	if err != nil {
		c.log.Warn(lost, "kind", "checkpoint", "err", err)
	}
}
