package live

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"heddle/replica"
	"heddle/replica/wire"
	"heddle/store/journal"
)

// heardOf collects what OnDiffer gets.
type heardOf struct {
	mu   sync.Mutex
	said []string // guarded by mu
}

func (h *heardOf) differ(names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, strings.Join(names, " "))
}

func (h *heardOf) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// TestDiffer: each of two managers says which settings differ: once, also after a takeover and a new stream, and again
// when others differ or none does.
func TestDiffer(t *testing.T) {
	b := newTestbed(t, 2)
	var heard [2]heardOf
	for i := range b.site {
		b.settings[i] = []wire.Setting{{Name: "engine", Value: "ftree"}, {Name: "qos", Value: "false"}, {Name: "hoq-life", Value: []string{"17", "18"}[i]}}
		b.differ[i] = heard[i].differ
	}
	said := func(what string, want ...string) {
		t.Helper()
		for i, x := range b.site {
			b.eventually(what, func() bool { return slices.Equal(heard[i].all(), want) })
			if got := strings.Join(x.pair().Status().Differ, " "); got != want[len(want)-1] {
				t.Errorf("%s: status %q, want %q", what, got, want[len(want)-1])
			}
		}
	}
	a := b.begin()
	said("hoq-life differs", "hoq-life")
	o := a.other()
	set := func(x *site, qos, hoq string) {
		b.settings[x.i] = []wire.Setting{{Name: "engine", Value: "ftree"}, {Name: "qos", Value: qos}, {Name: "hoq-life", Value: hoq}}
		x.pair().SetSettings(b.settings[x.i])
	}
	set(o, "true", "19")
	said("qos differs too", "hoq-life", "qos hoq-life")
	for _, x := range b.site { // the streams begin anew
		x.proxy.setCut(true)
	}
	b.eventually("the stream is gone", func() bool { return !a.pair().Status().Serving })
	for _, x := range b.site {
		x.proxy.setCut(false)
	}
	b.paired()
	said("the same differ", "hoq-life", "qos hoq-life")
	set(b.site[0], "false", "19")
	set(b.site[1], "false", "19")
	b.eventually("none differs", func() bool { return len(a.pair().Status().Differ)+len(o.pair().Status().Differ) == 0 })
	for i := range heard {
		if got := heard[i].all(); got[len(got)-1] != "" {
			t.Errorf("manager %d: %q", i, got)
		}
	}
}

// TestDifferOlder: a partner of before, which does not compare, is said nothing of, also if one before it differed.
func TestDifferOlder(t *testing.T) {
	b := newTestbed(t, 2)
	for i := range b.site {
		b.settings[i] = []wire.Setting{{Name: "hoq-life", Value: []string{"17", "18"}[i]}}
	}
	a := b.begin()
	o := a.other()
	b.eventually("hoq-life differs", func() bool { return len(a.pair().Status().Differ) == 1 })
	o.kill()
	b.versions[o.i] = wire.Versions{Stream: journal.Range{Oldest: 1, Newest: 3}, Journal: journal.Versions()}
	o.start()
	b.eventually("the older one is the standby", func() bool {
		return a.pair().Status().State == Paired && o.pair().Status().Role == replica.Standby
	})
	for _, x := range b.site {
		if got := x.pair().Status().Differ; len(got) != 0 {
			t.Errorf("%s: %q differ", x.name(), got)
		}
	}
}
