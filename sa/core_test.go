package sa_test

import (
	"cmp"
	"encoding/binary"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// testbed is a Core with a store, and the shell between them: what the core
// wants stored is stored at once, and told.
type testbed struct {
	t       testing.TB
	cfg     sa.Config
	core    *sa.Core
	store   *store.Memory
	snap    *subnet.Snapshot
	view    *sa.View
	now     mad.Time
	timer   mad.Time
	out     sa.Output
	replies []sa.Reply
	groups  []subnet.Group // as they were told last
	told    int            // how often they were told
	notices []sa.Notice
}

// newWorld starts a core on a subnet.
// usual fills in the times that a test leaves out. Of those of the product it has
// not the one in which ports have to join again.
func usual(c sa.Config) sa.Config {
	d := sa.Defaults()
	c.MigrateTime, c.DropAfter = cmp.Or(c.MigrateTime, d.MigrateTime), cmp.Or(c.DropAfter, d.DropAfter)
	return c
}

func newTestbed(t testing.TB, cfg sa.Config, s *subnet.Snapshot) *testbed {
	w := &testbed{t: t, cfg: usual(cfg), store: store.NewMemory(), snap: s}
	w.start()
	return w
}

func (w *testbed) start() {
	w.t.Helper()
	st, err := w.store.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	w.core, w.view, w.groups = sa.NewCore(w.cfg), nil, nil
	w.step(sa.Start{Records: st.Records})
	if w.snap != nil {
		w.publish(w.snap)
	}
}

// restart kills the core and starts another one on what the store holds.
func (w *testbed) restart() { w.start() }

func (w *testbed) publish(s *subnet.Snapshot) {
	w.snap = s
	w.step(sa.Published{Snap: s})
}

// step gives the core an event and does what it wants.
func (w *testbed) step(ev sa.Event) {
	for ev != nil {
		w.out.Reset()
		w.core.Step(w.now, ev, &w.out)
		ev = nil
		if len(w.out.Persist) > 0 {
			ev = sa.Persisted{Gen: w.out.PersistGen, Err: w.store.Apply(w.out.Persist)}
		}
		if w.out.Publish != nil {
			w.view = w.out.Publish
		}
		w.replies = append(w.replies, w.out.Replies...)
		if w.out.GroupsChanged {
			w.groups = w.out.Groups
			w.told++
		}
		w.notices = append(w.notices, w.out.Notices...)
		w.timer = w.out.Timer
	}
}

// ask sends requests in one batch, each from the port with that LID, and
// returns the answers in the order in which they came.
func (w *testbed) ask(from ib.LID, reqs ...[]byte) [][]byte {
	w.t.Helper()
	list := make([]sa.Request, len(reqs))
	for i, r := range reqs {
		list[i] = sa.Request{From: mad.Addr{LID: from, QP: 1}, Data: r}
	}
	w.replies = w.replies[:0]
	w.step(sa.Requests{List: list})
	out := make([][]byte, len(w.replies))
	for i, r := range w.replies {
		if r.To.LID != from {
			w.t.Fatalf("the answer goes to LID %d, not to LID %d which asked", r.To.LID, from)
		}
		out[i] = r.Data
	}
	return out
}

// get answers a query as a worker does. The key makes it trusted.
func (w *testbed) get(from ib.LID, method ib.Method, attr ib.AttrID, mask wire.CompMask, r record, key uint64) []byte {
	w.t.Helper()
	q := ask(method, attr, mask, r)
	binary.BigEndian.PutUint64(q[36:], key)
	src := &sa.Source{Snap: w.snap, View: w.view, Opt: &sa.Options{SAKey: w.cfg.SAKey}}
	b, v := sa.Answer(src, &sa.Request{From: mad.Addr{LID: from, QP: 1}, Data: q}, nil)
	if v != sa.Answered {
		w.t.Fatalf("verdict %d", v)
	}
	return b
}

// kinds are the kinds of the notices since the last call.
func (w *testbed) kinds() []string {
	var out []string
	for _, n := range w.notices {
		out = append(out, n.Kind)
	}
	w.notices = nil
	return out
}

// records are what the store holds in a table.
func (w *testbed) records(tables ...store.Table) []store.Record {
	w.t.Helper()
	st, err := w.store.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(st.Records, func(r store.Record) bool { return !slices.Contains(tables, r.Table) })
}

// up is a subnet of one switch and hosts with LIDs 2…, all in the default
// partition with its broadcast group.
func up(hosts int) *subnet.Snapshot {
	s := snapshot(hosts, 0)
	s.Nodes[0].Switch.MulticastFDBCap = 1024
	s.Partitions = partition.Default()
	for i := range s.Ports {
		if p := s.Ports[i]; p.EndPort >= 0 && p.PKeys == nil {
			p.PKeys = []ib.PKey{ib.PKeyDefaultFull}
		}
	}
	return s
}

// without is a copy of a snapshot in which the ports with those LIDs are
// gone.
func without(s *subnet.Snapshot, lids ...ib.LID) *subnet.Snapshot {
	c := clone(s)
	for i := range c.Ports {
		if p := c.Ports[i]; p.EndPort >= 0 && slices.Contains(lids, p.LID) {
			p.EndPort, p.LID, p.Known = -1, 0, false
			c.EndPortPort = slices.DeleteFunc(c.EndPortPort, func(k int32) bool { return k == int32(i) })
		}
	}
	c.Finish()
	return c
}

// clone is a copy of a snapshot that may be changed and is to be finished.
func clone(s *subnet.Snapshot) *subnet.Snapshot {
	c := *s
	c.Gen++
	c.Nodes, c.Ports = slices.Clone(s.Nodes), slices.Clone(s.Ports)
	for i, p := range c.Ports {
		q := *p
		c.Ports[i] = &q
	}
	c.EndPortPort = slices.Clone(s.EndPortPort)
	d := subnetCopy(&c)
	d.Finish()
	return d
}

// subnetCopy drops the lookups that Finish made, which are s's.
func subnetCopy(c *subnet.Snapshot) *subnet.Snapshot {
	return &subnet.Snapshot{
		Gen: c.Gen, State: c.State, Up: c.Up, Prefix: c.Prefix, PortGUID: c.PortGUID, Self: c.Self, LID: c.LID, SMKey: c.SMKey,
		Master: c.Master, Nodes: c.Nodes, Ports: c.Ports, Graph: c.Graph, Tables: c.Tables, SwitchNode: c.SwitchNode,
		EndPortPort: c.EndPortPort, PacketLife: c.PacketLife, Partitions: c.Partitions,
	}
}

// port is the end port with that LID in a snapshot that may be changed.
func port(s *subnet.Snapshot, lid ib.LID) *subnet.Port { return s.Ports[s.PortByLID(lid)] }
