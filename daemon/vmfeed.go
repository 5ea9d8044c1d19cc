package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"heddle/api"
	"heddle/vm"
)

// keptChanges is how many changes of interfaces a client may be behind. Who is further
// behind lists all.
const keptChanges = 8192

// feed tells clients which interfaces changed. Unlike events, it has no limit of rate: a
// client that reads it and then the interfaces knows all.
type feed struct {
	life       string // of this manager: points of another one mean nothing
	migrations *migrations

	mu   sync.Mutex
	view *vm.View      // the last one; guarded by mu
	last uint64        // number of the last change; guarded by mu
	kept []vm.Change   // the newest, oldest first; guarded by mu
	more chan struct{} // closed at the next change; guarded by mu
}

func newFeed(m *migrations) *feed {
	return &feed{life: rand.Text()[:8], migrations: m, more: make(chan struct{})}
}

// published takes over a new view.
func (f *feed) published(v *vm.View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.view
	f.view = v
	if old == nil {
		return // a point of before is of another life
	}
	list := v.Changes(old)
	if len(list) == 0 {
		return
	}
	f.migrations.forget(list)
	f.last += uint64(len(list))
	if f.kept = append(f.kept, list...); len(f.kept) > 2*keptChanges {
		f.kept = append([]vm.Change(nil), f.kept[len(f.kept)-keptChanges:]...)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// since returns the changes since a point, which may be none yet, and a channel that is
// closed when there are more.
func (f *feed) since(point string) (c api.VMChanges, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.Since = f.life + "-" + strconv.FormatUint(f.last, 10)
	life, number, _ := strings.Cut(point, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || life != f.life || n > f.last || f.last-n > uint64(len(f.kept)) {
		c.Reset = true
		return c, f.more
	}
	at := map[string]int{}
	for _, x := range f.kept[uint64(len(f.kept))-(f.last-n):] {
		if i, ok := at[x.Name]; ok {
			c.Changes[i].Deleted = x.Gone
			continue
		}
		at[x.Name] = len(c.Changes)
		c.Changes = append(c.Changes, api.VMChange{Name: x.Name, Deleted: x.Gone})
	}
	return c, f.more
}

// VMChanges implements api.Migrations.
func (d *Daemon) VMChanges(ctx context.Context, since string) (api.VMChanges, error) {
	for {
		if err := d.master(); err != nil {
			return api.VMChanges{}, err
		}
		if d.Interfaces() == nil {
			return api.VMChanges{}, fmt.Errorf("%w: the address manager has not started yet", api.ErrBusy)
		}
		c, more := d.feed.since(since)
		if c.Reset || len(c.Changes) > 0 {
			return c, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return c, nil
		case <-d.vm.ended:
			return c, errEnded
		}
	}
}
