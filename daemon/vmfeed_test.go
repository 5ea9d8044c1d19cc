package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heddle/api"
	"heddle/internal/vmtest"
	"heddle/subnet"
	"heddle/vm"
)

func named(t *testing.T, names ...string) *vm.View {
	t.Helper()
	var ops []vm.Op
	for _, n := range names {
		ops = append(ops, vm.Create{I: vm.Interface{Name: n}})
	}
	return vmtest.View(t, ops...)
}

// TestVMFeed: a client that goes from point to point hears of every change; one from
// another life or too far behind is told to list.
func TestVMFeed(t *testing.T) {
	f := newFeed(&migrations{})
	f.published(named(t, "a"))
	first, _ := f.since("")
	if !first.Reset || len(first.Changes) != 0 {
		t.Errorf("at first %+v", first)
	}
	c, more := f.since(first.Since)
	if c.Reset || len(c.Changes) != 0 || c.Since != first.Since {
		t.Errorf("nothing new: %+v", c)
	}
	f.published(named(t, "b", "c"))
	select {
	case <-more:
	default:
		t.Error("nobody was woken")
	}
	c, _ = f.since(first.Since)
	if want := []api.VMChange{{Name: "a", Deleted: true}, {Name: "b"}, {Name: "c"}}; c.Reset || !slices.Equal(c.Changes, want) {
		t.Errorf("%+v, want %v", c, want)
	}
	f.published(named(t, "a", "c"))
	c, _ = f.since(first.Since)
	if len(c.Changes) != 3 || c.Changes[0] != (api.VMChange{Name: "a"}) || c.Changes[1] != (api.VMChange{Name: "b", Deleted: true}) {
		t.Errorf("each is named once, as it is now: %+v", c)
	}
	other := newFeed(&migrations{})
	for _, point := range []string{"", "x", "-", f.life, f.life + "-99", f.life + "-x", other.life + "-0", f.life + "--1"} {
		if c, _ := f.since(point); !c.Reset {
			t.Errorf("since %q: %+v", point, c)
		}
	}
	views := []*vm.View{named(t, "a"), named(t, "a")} // two interfaces of one name
	for i := range 3 * keptChanges {
		f.published(views[i%2])
	}
	if c, _ := f.since(first.Since); !c.Reset || len(f.kept) > 2*keptChanges {
		t.Errorf("too far behind: %v, %d kept", c.Reset, len(f.kept))
	}
	if c, _ := f.since(fmt.Sprintf("%s-%d", f.life, f.last-keptChanges)); c.Reset || len(c.Changes) != 1 {
		t.Errorf("as far behind as permitted: %+v", c)
	}
}

// TestVMChangesWait: a request for changes waits for them, for its time or the manager's end.
func TestVMChangesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l, _ := managed(t, subnet.Master, func(vm.Event, *vm.Output) {})
		l.Published(named(t))
		point, err := d.VMChanges(t.Context(), "")
		if err != nil || !point.Reset {
			t.Fatal(point, err)
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if c, err := d.VMChanges(short, point.Since); err != nil || c.Reset || len(c.Changes) != 0 {
			t.Error(c, err)
		}
		next := named(t, "a")
		go func() {
			<-time.After(time.Second)
			l.Published(next)
		}()
		if c, err := d.VMChanges(t.Context(), point.Since); err != nil || len(c.Changes) != 1 {
			t.Error(c, err)
		} else {
			point = c
		}
		close(d.vm.ended)
		if _, err := d.VMChanges(t.Context(), point.Since); !errors.Is(err, errEnded) {
			t.Error(err)
		}
	})
	d, _, _ := managed(t, subnet.Standby, func(vm.Event, *vm.Output) {})
	if _, err := d.VMChanges(t.Context(), ""); !errors.Is(err, api.ErrNotMaster) {
		t.Error(err)
	}
	if err := d.SetMigration("a", api.VMProgress{}); !errors.Is(err, api.ErrNotMaster) {
		t.Error(err)
	}
}

// TestMigrations: reports of one migration keep its beginning; the next has its own; what
// is said of interfaces that are gone is forgotten.
func TestMigrations(t *testing.T) {
	d, l, _ := managed(t, subnet.Master, func(vm.Event, *vm.Output) {})
	with := named(t, "a")
	l.Published(named(t))
	d.shared.VMs.Store(with)
	l.Published(with)
	if err := d.SetMigration("b", api.VMProgress{Stage: "copying"}); !errors.Is(err, vm.ErrNotFound) {
		t.Error(err)
	}
	m := &d.migrations
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for i, x := range []struct {
		stage   string
		started int
	}{
		{"copying", 0}, {"finishing", 0}, {"resumed", 0}, {"resumed", 0}, {"copying", 4}, {"failed", 4}, {"resumed", 6},
	} {
		m.set("a", api.VMProgress{Stage: x.stage}, at(i))
		if g := m.of("a"); g.Stage != x.stage || !g.Started.Equal(at(x.started)) || !g.Updated.Equal(at(i)) {
			t.Errorf("%d: %+v", i, g)
		}
	}
	to := func(n int) *api.VMPlace { return &api.VMPlace{PortGUID: "0x1", Function: n} }
	for i, x := range []api.VMProgress{{Stage: "finishing", To: to(1)}, {Stage: "copying", To: to(2)}, {Stage: "resumed"}} {
		m.set("a", x, at(10+i)) // the end of the first is never reported
		if g, want := m.of("a"), at(10+min(i, 1)); !g.Started.Equal(want) {
			t.Errorf("%+v: began at %v, want %v", x, g.Started, want)
		}
	}
	v, err := d.VM("a")
	if err != nil || v.Migration == nil || v.Migration.Stage != "resumed" {
		t.Errorf("%+v %v", v, err)
	}
	l.Published(named(t))
	if m.of("a") != nil || len(m.list) != 0 {
		t.Errorf("%v", m.list)
	}
}
