package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/cm"
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/comm"
	"heddle/sim/host/rc"
)

// attempt is a connection that a pair of hosts tries to make, and one message each way on it.
type attempt struct {
	from, to *Host
	conn     *comm.Conn
	c, d     *adapter.Connection
	err      error
	ended    bool
	got      [2]int // messages that came to from, and to to
}

// ender is the program of one end.
type ender struct {
	a   *attempt
	end int
}

func (e ender) Sent(*adapter.Connection, uint64, rc.Status)     {}
func (e ender) Received(_ *adapter.Connection, _ uint64, _ int) { e.a.got[e.end]++ }
func (e ender) Happened(*adapter.Connection, rc.Event)          {}
func (e ender) Due(uint64)                                      {}

// connectAll has each host ask each other one for a connection, with the path that the SA tells now.
func (b *hostbed) connectAll() map[[2]int]*attempt {
	list := map[[2]int]*attempt{}
	sender := rc.Sender{Timeout: 9, Retries: 2, RNRRetries: 7} // 2.1 ms
	for i, from := range b.hosts {
		for j, to := range b.hosts {
			if i == j {
				continue
			}
			p, err := b.Manager.Path(mad.Addr{LID: from.ep.LID()}, from.GID(), to.GID(), ib.PKeyDefaultFull)
			if err != nil {
				list[[2]int{i, j}] = &attempt{err: err}
				continue
			}
			a := &attempt{from: from, to: to}
			list[[2]int{i, j}] = a
			o := adapter.Options{MTU: 2048, Window: 4, Peer: to.GID()}
			if a.c, a.err = from.Adapter.Connect(o, ender{a, 0}); a.err != nil {
				continue
			}
			a.c.PostReceives(8)
			from.service++
			service := uint64(from.GID().GUID())<<16 | uint64(from.service)
			to.Comm.Listen(service, func(_ mad.Time, r *cm.REQ) (*adapter.Connection, uint32, cm.Reason) {
				d, err := to.Adapter.Connect(adapter.Options{MTU: 2048, Window: 4, Peer: from.GID()}, ender{a, 1})
				if err != nil {
					return nil, 0, cm.ReasonNoQP
				}
				a.d = d
				a.d.PostReceives(8)
				return a.d, 0, 0
			})
			a.conn = from.Comm.Connect(b.Sim.Now(), comm.Request{Service: service, QP: a.c, Path: pathIn(&p), Peer: to.GID(), Sender: sender, MTU: ib.MTU2048},
				func(_ mad.Time, err error) { a.ended, a.err = true, err })
			from.alarm.Set()
		}
	}
	return list
}

// connectRound has each host connect to each other one, with the path that the SA tells now. With ask
// the passive end asks the SA for its path, else it takes that of the request, as librdmacm does. It
// says what went wrong with each pair, "": nothing.
func (b *hostbed) connectRound(ask bool) map[[2]int]string {
	wrong, list := map[[2]int]string{}, b.connectAll()
	b.Run(30 * time.Millisecond)
	for _, a := range list {
		if !a.ended || a.err != nil || a.d == nil || a.d.QP().State() != rc.ReadyToSend {
			continue
		}
		if p, err := b.Manager.Path(mad.Addr{LID: a.to.ep.LID()}, a.to.GID(), a.from.GID(), ib.PKeyDefaultFull); ask && err == nil {
			_ = a.d.Do(func(q *rc.QP, _ rc.Time) error {
				_ = q.Drain()
				_ = q.SetPath(pathIn(&p))
				return q.Resume()
			})
		}
		_, _ = a.c.Post(1, 100), a.d.Post(1, 100)
	}
	b.Run(10 * time.Millisecond)
	b.Sim.Data()
	for k, a := range list {
		switch {
		case !a.ended || a.err != nil || a.d == nil:
			wrong[k] = "no connection"
		case a.got[1] == 0:
			wrong[k] = "nothing from the active end"
		case a.got[0] == 0:
			wrong[k] = "nothing from the passive end"
		}
		if a.conn != nil {
			a.conn.Disconnect(b.Sim.Now())
			a.from.alarm.Set()
		}
	}
	b.Run(60 * time.Millisecond)
	return wrong
}

// guardTime is how long guards may keep one direction of a pair from the level of the other: until
// hosts have new paths and packets have left, and better tables are looked for.
func guardTime() time.Duration {
	cfg := lashManager(nil)
	return cfg.RepathTime + cfg.Flight() + cfg.ImproveDelay + time.Second
}

// guarded has a cable in the middle of the mesh of the thesis fail, and waits until hosts have changed
// their paths and entries are written.
func guarded(t *testing.T, hc HostConfig) *hostbed {
	b := newHostbed(t, meshOfSix(t), 1, hc, nil)
	if err := b.Sim.LinkDown("S2", 2); err != nil {
		t.Fatal(err)
	}
	b.Run(500 * time.Millisecond)
	if !b.inGuards() {
		t.Fatal("there are no guards")
	}
	return b
}

// inGuards reports whether guards are in force.
func (b *hostbed) inGuards() bool {
	l := b.Manager.Snap.Tables.Lanes
	return l != nil && l.Guards
}

// TestConnectThroughGuards: programs connect by communication management, with the product's times,
// while guards are in force after a fault, and later. Its messages take the level of the request in
// both directions, and so do packets of passive ends that do not ask the SA. All pairs connect at
// once, and messages pass both ways.
func TestConnectThroughGuards(t *testing.T) {
	for _, ask := range []bool{true, false} {
		hc := HostDefaults()
		hc.CM = true
		b := guarded(t, hc)
		began, guards, without := b.Sim.Now(), 0, 0
		for b.Sim.Now().Sub(began) < 2*guardTime() {
			if b.inGuards() {
				guards++
			} else {
				without++
			}
			for k, w := range b.connectRound(ask) {
				t.Errorf("%v after the fault, %s to %s: %s", b.Sim.Now().Sub(began), b.hosts[k[0]].Name, b.hosts[k[1]].Name, w)
			}
			b.Run(900 * time.Millisecond)
		}
		if guards < 10 || without == 0 {
			t.Errorf("%d rounds with guards, %d without", guards, without)
		}
	}
}

// TestConnectWithLinuxTimes: requests that begin while guards are in force need one try, with the
// times of Linux.
func TestConnectWithLinuxTimes(t *testing.T) {
	hc := HostDefaults()
	hc.CM, hc.Comm = true, comm.Defaults()
	b := guarded(t, hc)
	list := b.connectAll()
	b.Run(time.Second)
	for k, a := range list {
		if !a.ended || a.err != nil {
			t.Errorf("%s to %s: ended: %v, %v", b.hosts[k[0]].Name, b.hosts[k[1]].Name, a.ended, a.err)
		}
	}
}
