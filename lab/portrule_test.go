package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/drain"
	"heddle/fabric"
	"heddle/ib"
	"heddle/perf"
	"heddle/perf/findings"
	"heddle/route/preview"
	"heddle/sim"
	"heddle/store"
	"heddle/subnet"
)

// portBed is a subnet whose links are taken out of use by hand and by rules, as the daemon does it.
type portBed struct {
	*findingsBed
	ports *drain.Core
	wall  time.Time // when the lab's time was 0
	said  []string
	away  bool // the store takes nothing
}

func newPortBed(t testing.TB, kind, params string, cfg drain.Config) *portBed {
	f := gen(t, kind, strings.Fields(params)...)
	pc := perf.Defaults()
	pc.Period = 10 * time.Second
	sc := sim.Config{Seed: 9, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, ExtendedErrorCounters: true}
	b := &findingsBed{perfBed: newPerfBed(t, f, sc, pc), each: func() {}}
	b.quiet = true
	b.core = findings.New(findings.Rules())
	b.m.OnRound(func(r *perf.Round) { b.rep = b.core.Step(r).Report })
	b.start()
	return &portBed{findingsBed: b, ports: drain.New(cfg, nil), wall: time.Unix(1_800_000_000, 0).UTC()}
}

func (b *portBed) now() time.Time { return b.wall.Add(time.Duration(b.c.Sim.Now())) }

func (b *portBed) change(x *drain.Change) {
	b.Helper()
	b.must(b.m.Store.Apply([]store.Op{x.Op()}))
	b.ports.Commit(x)
	b.m.SetPortActions(b.ports.Actions()...)
	if x.Text != "" {
		b.said = append(b.said, x.Text)
	}
}

// pass lets time pass in steps in which the keeper of links looks at them.
func (b *portBed) pass(d, step time.Duration) {
	b.Helper()
	for ; d > 0; d -= step {
		b.each()
		b.c.Run(step)
		v := &drain.View{Snap: b.m.Snap}
		if r := b.m.Round(); r != nil && b.rep != nil {
			v.Open, v.Read = b.rep.Open, true
			v.Sampled = func(node ib.GUID, port uint8) bool {
				i := r.Snap.NodeByGUID(node)
				at := r.Snap.PortIndex(subnet.Ref{Node: i, Port: port})
				return i >= 0 && at >= 0 && int(at) < r.Len() && r.Elapsed(at) > 0
			}
		}
		for _, x := range b.ports.Step(b.now(), v) {
			b.change(&x)
		}
		if x, ok := b.ports.Next(b.now(), v); ok {
			cfg := TrialConfig()
			plan, err := x.Resolve(v.Snap, b.ports.Actions(), b.now(), preview.Routing{Engines: cfg.Engines, Options: cfg.RouteOptions()})
			change, ok, text := b.ports.Decide(b.now(), v.Snap, &x, &plan, err)
			if ok && !b.away {
				b.change(&change)
			} else if text != "" {
				b.said = append(b.said, text)
			}
		}
	}
}

// tables are the forwarding tables that the devices hold.
func (b *portBed) tables() (all [][]byte) {
	for i := range b.f.Nodes {
		if b.f.Nodes[i].IsSwitch() {
			node, _ := b.c.Sim.Node(b.f.Nodes[i].ID)
			all = append(all, slices.Clone(b.c.Sim.LFT(node, nil)))
		}
	}
	return all
}

func sameTables(x, y [][]byte) bool { return slices.EqualFunc(x, y, slices.Equal[[]byte]) }

func (b *portBed) guid(at fabric.Ref) ib.GUID { return b.f.Nodes[at.Node].GUID }

// hand drains or isolates a link at an operator's request.
func (b *portBed) hand(kind subnet.PortActionKind, at fabric.Ref, hold time.Duration) error {
	a := action(b.f, kind, at)
	a.Since, a.By = b.now(), "ops"
	if hold > 0 {
		a.Until = a.Since.Add(hold)
	}
	x, err := b.ports.Take(b.m.Snap, a)
	if err == nil {
		b.change(&x)
	}
	return err
}

func (b *portBed) disabled(at fabric.Ref) bool {
	for _, r := range [2]fabric.Ref{at, b.f.Port(at).Peer} {
		node, _ := b.c.Sim.Node(b.f.Nodes[r.Node].ID)
		if b.c.Sim.PortInfo(node, int(r.Port)).PortPhysicalState == ib.PhysDisabled {
			return true
		}
	}
	return false
}

// busy is a link between switches with routes.
func (b *portBed) busy() fabric.Ref {
	b.Helper()
	for _, at := range trunks(b.f) {
		if routesOver(b.c, at) > 0 {
			return at
		}
	}
	b.Fatal("no link has routes")
	return fabric.NoRef()
}

// A link with bit errors: as a dry run the rule says once what it would do. Then it drains the link,
// which stays drained for as long as it has errors, beyond the expiry, and for 125 clean minutes more. Then it
// has routes again: the tables are those of before.
func TestRuleDrains(t *testing.T) {
	cfg := drain.Defaults()
	cfg.Expiry = 2 * time.Hour
	b := newPortBed(t, "xgft", "2 4,4 1,4", cfg)
	b.pass(time.Minute, time.Second)
	at := b.busy()
	before := b.tables()
	b.counts(at, perf.SymbolErrors, 20)
	b.pass(5*time.Minute, time.Second)
	if len(b.said) != 1 || !strings.Contains(b.said[0], "would be drained by rule bad_cable (dry run)") {
		t.Fatalf("said %q, findings %+v", b.said, b.rep.Open)
	}
	if note := b.ports.Notes()[b.rep.Open[0].ID]; len(b.ports.Actions()) != 0 || routesOver(b.c, at) == 0 || !strings.Contains(note, "would be drained") {
		t.Fatalf("a dry run changed something, or the finding says %q", note)
	}
	cfg.Mode = drain.Act
	b.ports.Configure(cfg)
	b.said, b.away = nil, true
	b.pass(time.Minute, time.Second)
	if note := b.ports.Notes()[b.rep.Open[0].ID]; len(b.ports.Actions()) != 0 || !strings.Contains(note, "could not be stored") {
		t.Fatalf("nothing is stored, and the finding says %q", note)
	}
	b.away = false
	b.pass(11*time.Minute, time.Second)
	list := b.ports.Actions()
	if len(list) != 1 || list[0].Rule != findings.BadCable || !list[0].Is(b.guid(at), at.Port) || routesOver(b.c, at) != 0 {
		t.Fatalf("not drained: %+v, %q", list, b.said)
	}
	b.pass(3*time.Hour, time.Minute)
	if len(b.ports.Actions()) != 1 {
		t.Fatalf("a link with errors is back: %q", b.said)
	}
	b.each = func() {}
	closed := false
	for range 20 {
		b.pass(time.Minute, time.Minute)
		if closed = len(b.rep.Open) == 0; closed {
			break
		}
	}
	if !closed {
		t.Fatalf("still open: %+v", b.rep.Open)
	}
	b.pass(123*time.Minute, time.Minute)
	if len(b.ports.Actions()) != 1 {
		t.Fatalf("back before 125 clean minutes: %q", b.said)
	}
	b.pass(4*time.Minute, time.Minute)
	if len(b.ports.Actions()) != 0 || !strings.Contains(b.said[len(b.said)-1], "without a finding for 2h5m") {
		t.Fatalf("not back after 125 clean minutes: %+v, %q", b.ports.Actions(), b.said)
	}
	b.m.Reroute(true)
	b.pass(time.Minute, time.Second)
	if !sameTables(before, b.tables()) {
		t.Error("the tables are not those of before")
	}
	n := b.ports.Counts()
	if a := n.Asked[subnet.Drain][drain.Rule]; a[drain.DryRun] != 1 || a[drain.Done] != 1 || a[drain.Refused] != 0 || n.Returned != 1 || n.Expired != 0 {
		t.Errorf("%+v", n)
	}
}

// What a rule did ends in time if counters are not read any more, and what it does not do: to the
// last link to a part of the subnet, to a link that an operator took back while its finding is open, and
// more than the bound.
func TestRuleBounds(t *testing.T) {
	cfg := drain.Defaults()
	cfg.Mode, cfg.Expiry = drain.Act, 3*time.Hour
	b := newPortBed(t, "xgft", "2 4,4 1,4", cfg)
	b.pass(time.Minute, time.Second)
	list := trunks(b.f)
	b.counts(list[0], perf.SymbolErrors, 20)
	b.pass(2*time.Minute, time.Second)
	if len(b.ports.Actions()) != 1 {
		t.Fatalf("%q", b.said)
	}
	b.said = nil
	b.counts(list[5], perf.SymbolErrors, 20) // one link at a time in so small a subnet
	b.pass(30*time.Minute, time.Second)
	if len(b.ports.Actions()) != 1 || len(b.said) != 1 || !strings.Contains(b.said[0], "cannot be drained by rule bad_cable: 1 of at most 1") {
		t.Fatalf("%q", b.said)
	}
	// An operator takes the link back: the rule lets it be while the finding is open, and does what was
	// refused.
	was, _ := b.ports.At(b.guid(list[0]), list[0].Port)
	x := b.ports.Restore(b.m.Snap, was, "ops", b.now())
	b.change(&x)
	b.pass(12*time.Minute, time.Second)
	if got := b.ports.Actions(); len(got) != 1 || !got[0].Is(b.guid(list[5]), list[5].Port) {
		t.Fatalf("%+v, %q", got, b.said)
	}
	// Nothing is known any more.
	b.each, b.rep = func() {}, nil
	b.m.OnRound(func(*perf.Round) { b.rep = nil })
	b.pass(110*time.Minute, time.Minute)
	if len(b.ports.Actions()) != 1 {
		t.Fatalf("ended early: %q", b.said)
	}
	b.pass(75*time.Minute, time.Minute)
	if n := b.ports.Counts(); len(b.ports.Actions()) != 0 || n.Expired != 1 {
		t.Fatalf("not ended: %+v, %q", b.ports.Actions(), b.said)
	}

	// A path of two switches, and a link to a host.
	line := newPortBed(t, "mesh", "2x1", cfg)
	line.pass(time.Minute, time.Second)
	for a, z := range line.f.Links {
		if line.f.Nodes[a.Node].ID != line.m.Node && line.f.Nodes[z.Node].ID != line.m.Node {
			line.counts(a, perf.SymbolErrors, 20)
		}
	}
	line.pass(2*time.Minute, time.Second)
	if len(line.ports.Actions()) != 0 || len(line.said) < 2 {
		t.Fatalf("%+v, %q", line.ports.Actions(), line.said)
	}
	for _, s := range line.said {
		if !strings.Contains(s, "cannot be drained by rule bad_cable: ") || !strings.Contains(s, "last path") && !strings.Contains(s, "last link") {
			t.Error(s)
		}
	}
}

// A drain with an end is over then, not before, and its tables are those of before. The restore of an
// isolated link is kept for 30 s, and until the port is enabled.
func TestDrainExpires(t *testing.T) {
	b := newPortBed(t, "xgft", "2 4,4 1,4", drain.Defaults())
	b.pass(30*time.Second, time.Second)
	at := b.busy()
	before := b.tables()
	b.must(b.hand(subnet.Drain, at, 2*time.Hour))
	b.pass(2*time.Hour-5*time.Second, 5*time.Second)
	if len(b.ports.Actions()) != 1 || routesOver(b.c, at) != 0 {
		t.Fatal("not drained for two hours")
	}
	b.pass(5*time.Second, time.Second)
	if len(b.ports.Actions()) != 0 {
		t.Fatal("drained for longer than two hours")
	}
	b.m.Reroute(true)
	b.pass(time.Minute, time.Second)
	if !sameTables(before, b.tables()) {
		t.Error("the tables are not those of before")
	}

	b.must(b.hand(subnet.Isolate, at, 10*time.Minute))
	b.pass(9*time.Minute, time.Second)
	if !b.disabled(at) {
		t.Fatal("not isolated")
	}
	b.pass(80*time.Second, time.Second)
	list := b.ports.Actions()
	if len(list) != 1 || list[0].Kind != subnet.Restore || b.disabled(at) {
		t.Fatalf("20 s after its end: %+v, disabled %v", list, b.disabled(at))
	}
	b.pass(12*time.Second, time.Second)
	if list := b.ports.Actions(); len(list) != 0 {
		t.Fatalf("a restored link is kept: %+v", list)
	}
	b.m.Reroute(true)
	b.pass(time.Minute, time.Second)
	if !sameTables(before, b.tables()) {
		t.Error("the tables are not those of before")
	}
}

// In a large subnet ten links may be out of use, and an eleventh is refused, by hand.
func TestElevenPorts(t *testing.T) {
	f := gen(t, "fattree", "648")
	c, m := bringUp(t, f, sim.Config{Seed: 4}, TrialConfig())
	mustUp(t, c, m)
	core := drain.New(drain.Defaults(), nil)
	list := trunks(f)
	for k := range 11 {
		a := action(f, subnet.Isolate, list[37*k])
		x, err := core.Take(m.Snap, a)
		if k < 10 && err != nil || k == 10 && (err == nil || !strings.Contains(err.Error(), "10 of at most 10 links")) {
			t.Fatalf("link %d: %v", k+1, err)
		}
		if err == nil {
			core.Commit(&x)
		}
	}
	again := action(f, subnet.Drain, list[37]) // it is out already, so it takes no room
	if _, err := core.Take(m.Snap, again); err != nil {
		t.Error(err)
	}
	m.SetPortActions(core.Actions()...)
	settle(t, c, m)
	for k := range 10 {
		if n := routesOver(c, list[37*k]); n != 0 {
			t.Errorf("%d entries lead over link %d", n, k+1)
		}
	}
}
