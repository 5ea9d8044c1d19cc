package daemon

import (
	"fmt"
	"sync"
	"time"

	"heddle/api"
	"heddle/vm"
)

// migrations is what drivers of hypervisors reported of migrations, by interface. It is not
// stored; a driver reports again to a manager that has started again.
type migrations struct {
	mu   sync.Mutex
	list map[string]api.VMMigration // guarded by mu
}

// of is the last migration of an interface, nil if none was reported.
func (m *migrations) of(name string) *api.VMMigration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x, ok := m.list[name]; ok {
		return &x
	}
	return nil
}

// set notes a report. After the end of a migration the next report is the beginning of
// another one, unless it repeats the end. So is one with another destination: the end may not have
// been reported before the next migration began.
func (m *migrations) set(name string, p api.VMProgress, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list == nil {
		m.list = map[string]api.VMMigration{}
	}
	old, ok := m.list[name]
	x := api.VMMigration{VMProgress: p, Started: old.Started, Updated: now}
	if !ok || over(old.Stage) && old.Stage != p.Stage || elsewhere(old.To, p.To) {
		x.Started = now
	}
	m.list[name] = x
}

// elsewhere reports whether two destinations are known and differ.
func elsewhere(a, b *api.VMPlace) bool { return a != nil && b != nil && *a != *b }

// over reports whether a stage is the end of a migration.
func over(stage string) bool { return stage == "resumed" || stage == "failed" }

// forget forgets interfaces that are gone.
func (m *migrations) forget(list []vm.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range list {
		if c.Gone {
			delete(m.list, c.Name)
		}
	}
}

// SetMigration implements api.Migrations.
func (d *Daemon) SetMigration(name string, p api.VMProgress) error {
	if err := d.master(); err != nil {
		return err
	}
	v := d.Interfaces()
	if v == nil || v.Interface(name) == nil {
		return fmt.Errorf("%w: %q", vm.ErrNotFound, name)
	}
	d.migrations.set(name, p, time.Now())
	if v = d.Interfaces(); v.Interface(name) == nil { // deleted in the meantime
		d.migrations.forget([]vm.Change{{Name: name, Gone: true}})
	}
	return nil
}
