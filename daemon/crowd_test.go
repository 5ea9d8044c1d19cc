package daemon

import (
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	"heddle/internal/heap"
	"heddle/mad"
	"heddle/sa"
	"heddle/shell"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// What the changes of a crowd take in the virtual time of crowd, in ns; queries, and packets, take
// what they take in that of timedPort.
const (
	hopTime       = 2000 // of a packet between a host and the manager
	subscribeTime = 20_000
)

// crowd are agents of hosts that start at one instant, and a manager with its queues and its SA's
// loop in virtual time. The manager has one processor, which receives while the store is written.
type crowd struct {
	pipe
	store.Store
	*saLoop
	d      *Daemon
	now    mad.Time
	events heap.Heap[mad.Time, func(at mad.Time)]
	n      uint64
	worker worker
	wake   mad.Time
	hosts  map[ib.LID]*crowdHost

	sync     time.Duration // of a write to the store
	requests int           // that arrived
}

// crowdHost is an agent.
type crowdHost struct {
	c          *crowd
	addr       mad.Addr
	core       *agent.Core
	due        mad.Time
	subscribed mad.Time
	refused    int
}

func (c *crowd) at(t mad.Time, f func(at mad.Time)) {
	c.n++
	c.events.Push(t, c.n, f)
}

// step gives an agent an event at a time.
func (h *crowdHost) step(at mad.Time, ev agent.Event) {
	out := agent.Output{}
	out.Reset()
	h.core.Step(at, ev, &out)
	for i := range out.Sends {
		p := &mad.Packet{Addr: h.addr, LocalQP: 1, Data: out.Sends[i].MAD[:]}
		h.c.at(at+hopTime, func(mad.Time) { h.c.receive(p) })
	}
	for _, n := range out.Notices {
		switch n.Kind {
		case "subscribed":
			h.subscribed = at
		case "refused":
			h.refused++
		}
	}
	if h.due = out.Timer; h.due != mad.Never {
		h.c.at(max(at, h.due), func(at mad.Time) {
			if h.due <= at {
				h.step(at, agent.Timer{})
			}
		})
	}
}

// receive is a packet at the manager's port.
func (c *crowd) receive(p *mad.Packet) {
	c.requests++
	c.now += receiveTime
	k := c.d.packet(nil)
	*k = mad.Packet{Addr: p.Addr, LocalQP: 1, Data: append(k.Data[:0], p.Data...)}
	if !ib.Method(p.Data[3]).IsResponse() {
		c.d.sort(k)
		c.d.recv.release()
		return
	}
	c.shell.Step(sa.Received{P: k})
}

func (c *crowd) Send(p *mad.Packet) error {
	c.now += sendTime + sendCall
	h, data := c.hosts[p.Addr.LID], append([]byte(nil), p.Data...)
	c.at(c.now+hopTime, func(at mad.Time) {
		h.step(at, agent.Received{P: &mad.Packet{Addr: mad.Addr{LID: 1, QP: 1}, LocalQP: 1, Data: data}})
	})
	return nil
}

// Save is a write to the disk, during which requests are received and processed.
func (c *crowd) Save(gen uint64, ops []store.Op) {
	c.now += mad.Time(subscribeTime * len(ops))
	c.at(c.now.Add(c.sync), func(mad.Time) {
		c.written(saved{gen: gen, err: c.Store.Apply(ops), took: c.sync})
	})
	c.saves++
}

func (c *crowd) Close() error     { return nil }
func (c *crowd) Now() mad.Time    { return c.now }
func (c *crowd) Wake(at mad.Time) { c.wake = at }

func (c *crowd) pop() {
	e := c.events.Pop()
	c.now = max(c.now, e.Key)
	e.Value(e.Key)
}

// run runs until a time.
func (c *crowd) run(end mad.Time) {
	for c.now < end {
		changes, _ := c.d.changes.load()
		queries, _ := c.d.queries.load()
		next := c.wake
		if c.events.Len() > 0 {
			next = min(next, c.events.Min().Key)
		}
		switch {
		case c.events.Len() > 0 && c.events.Min().Key <= c.now:
			c.pop()
		case c.wake <= c.now:
			c.wake = mad.Never
			c.shell.Step(sa.Timer{})
		case queries > 0:
			w := &c.worker
			n := w.from.take(w.batch[:w.most], nil, 1)
			c.now += mad.Time(answerTime * n)
			w.serveAll(w.batch[:n])
		case changes > 0:
			c.shell.Mail()
			c.change()
		default:
			c.now = max(c.now, min(next, end))
		}
	}
}

func newCrowd(snap *subnet.Snapshot, hosts, queue int, sync time.Duration) *crowd {
	cfg := agent.Defaults()
	c := &crowd{Store: store.NewMemory(), sync: sync, wake: mad.Never, hosts: map[ib.LID]*crowdHost{}}
	c.d = New(Config{Port: c, Core: sm.Defaults(), Store: c, Registry: sa.Defaults(), Queue: queue, Cores: 1})
	c.d.clock.virtual = c.Now
	c.d.shared.Snap.Store(snap)
	c.saLoop = newSALoop(c.d)
	c.shell = shell.NewSA(c.core, c, &c.d.shared)
	c.worker = worker{d: c.d, from: c.d.queries, peers: 1, most: maxBatch, stats: &c.d.sa.workers[0]}
	c.shell.Start(nil, 0)
	c.shell.Mail()
	for i, lid := range lids(snap)[:hosts] {
		cfg.FirstTID = uint32(i) << 12
		p := snap.Ports[snap.PortByLID(lid)]
		h := &crowdHost{c: c, addr: mad.Addr{LID: lid, QP: 1}, core: agent.New(cfg)}
		c.hosts[lid] = h
		c.at(0, func(at mad.Time) {
			h.step(at, agent.SetPort{Port: agent.Port{
				Active: true, LID: lid, SM: mad.Addr{LID: 1}, GIDs: []ib.GID{ib.MakeGID(snap.Prefix, p.GUID)}, PKeys: []ib.PKey{ib.PKeyDefaultFull},
			}})
		})
	}
	return c
}

// TestCrowd: agents that start at one instant are all subscribed soon, also where a write to the
// disk takes long or the queue is too short for them; none takes BUSY for a refusal. One alone
// waits for nothing but its writes. A second run is the same.
func TestCrowd(t *testing.T) {
	snap := bringUp(t, "xgft", "2", "36,56", "1,18")
	const hosts = 2000
	for _, c := range []struct {
		what  string
		hosts int
		sync  time.Duration
		queue int // 0: the default
		most  time.Duration
		clear bool // nobody is answered BUSY, nothing is repeated
	}{
		{"one", 1, 10 * time.Millisecond, 0, 55 * time.Millisecond, true},
		{"flash", hosts, 2 * time.Millisecond, 0, 250 * time.Millisecond, true},
		{"disk", hosts, 10 * time.Millisecond, 0, 300 * time.Millisecond, true},
		{"slow disk", hosts, 100 * time.Millisecond, 0, 1500 * time.Millisecond, false},
		{"short queue", hosts, 10 * time.Millisecond, 500, 4 * time.Second, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			run := func() (last mad.Time, requests int, busy uint64) {
				w := newCrowd(snap, c.hosts, c.queue, c.sync)
				w.run(mad.Time(10 * time.Second))
				for _, h := range w.hosts {
					if h.subscribed == 0 || h.refused > 0 || !h.core.Stats().Subscribed {
						t.Fatalf("LID %d: subscribed at %v, refused %d times", h.addr.LID, h.subscribed, h.refused)
					}
					last = max(last, h.subscribed)
				}
				for _, s := range []*answerStats{&w.d.sa.receiving, &w.d.sa.changing} {
					for i := range s.busy {
						busy += s.busy[i].Load()
					}
				}
				if n := len(w.d.View().Subs); n != 4*c.hosts {
					t.Errorf("%d subscriptions", n)
				}
				return last, w.requests, busy
			}
			last, requests, busy := run()
			t.Logf("all are subscribed after %v, with %d requests, of which %d were answered BUSY", time.Duration(last), requests, busy)
			if time.Duration(last) > c.most {
				t.Errorf("want %v", c.most)
			}
			// Each agent subscribes four times, and asks twice what changed.
			if c.clear && (busy > 0 || requests != 6*c.hosts) {
				t.Errorf("%d requests, want %d", requests, 6*c.hosts)
			}
			if l, r, b := run(); l != last || r != requests || b != busy {
				t.Errorf("a second run: %v, %d requests, %d BUSY", l, r, b)
			}
		})
	}
}
