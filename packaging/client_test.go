package packaging

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// client is a host that asks the SA.
type client struct {
	t    *testing.T
	name string
	conn *ibsim.Conn
	sa   ib.LID
	tid  uint64
	in   chan ib.MAD
	// resend is after how long without an answer a join is sent again.
	resend time.Duration
}

// client attaches to a host; sa is the LID of the SA.
func (f *fabric) client(host string, sa ib.LID) *client {
	f.t.Helper()
	conn, err := ibsim.Dial(f.t.Context(), ibsim.Options{Node: host, SockName: f.sock})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	c := &client{t: f.t, name: host, conn: conn, sa: sa, in: make(chan ib.MAD, 64), resend: 5 * time.Second}
	go func() {
		defer close(c.in)
		var p mad.Packet
		for conn.Recv(&p) == nil {
			var m ib.MAD
			// A request that timed out comes back, too.
			if p.Status == mad.Received && copy(m[:], p.Data) == len(m) && ib.Class(m[1]) == ib.ClassSA {
				c.in <- m
			}
		}
	}()
	return c
}

func (c *client) send(method ib.Method, attr ib.AttrID, mask wire.CompMask, r interface{ Put([]byte) }) {
	var m ib.MAD
	wire.New(&m, method, attr, 0, mask)
	c.tid++
	m.SetTID(c.tid)
	r.Put(wire.Data(&m))
	if err := c.conn.Send(&mad.Packet{Addr: mad.Addr{LID: c.sa, QP: 1}, LocalQP: 1, Data: m[:]}); err != nil {
		c.t.Error(err)
	}
}

// join joins a group, makes it if there is none, and returns its MLID.
func (c *client) join(gid ib.GID) (ib.LID, error) {
	const mask = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState |
		wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	ask := &wire.MCMemberRecord{MGID: gid, PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, c.conn.PortGUID()), JoinState: wire.JoinFull, QKey: 1, PKey: 0xFFFF}
	for end := time.Now().Add(need.Patience); ; {
		c.send(ib.MethodSet, wire.AttrMCMemberRecord, mask, ask)
		resend := time.NewTimer(c.resend) // the manager may just have changed
		for waiting := true; waiting; {
			select {
			case m, ok := <-c.in:
				switch {
				case !ok:
					return 0, fmt.Errorf("%s: the port is gone", c.name)
				case uint32(m.TID()) != uint32(c.tid):
				case m.Status() == ib.StatusBusy: // to be sent again later
				case m.Status() != 0:
					return 0, fmt.Errorf("%s, group %v: %v", c.name, gid, m.Status())
				default:
					var r wire.MCMemberRecord
					err := r.Decode(wire.Data(&m))
					return r.MLID, err
				}
			case <-resend.C:
				waiting = false
			}
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("%s, group %v: no answer", c.name, gid)
		}
	}
}

// prober asks for a path 50 times a second, and knows the longest time without an answer.
type prober struct {
	*client
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	last    time.Time     // guarded by mu: of the last answer
	longest time.Duration // guarded by mu
}

func (f *fabric) probe(host string, sa ib.LID) *prober {
	p := &prober{client: f.client(host, sa), stop: make(chan struct{}), last: time.Now()}
	guid := p.conn.PortGUID()
	p.done.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
			gid := ib.MakeGID(ib.DefaultSubnetPrefix, guid)
			p.send(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompNumbPath, &wire.PathRecord{SGID: gid, DGID: gid, NumbPath: 1})
		}
	})
	p.done.Go(func() {
		for m := range p.in {
			if m.Status() == 0 && binary.BigEndian.Uint16(m[16:]) == uint16(wire.AttrPathRecord) {
				p.mu.Lock()
				p.longest, p.last = max(p.longest, time.Since(p.last)), time.Now()
				p.mu.Unlock()
			}
		}
	})
	f.t.Cleanup(func() {
		close(p.stop)
		p.conn.Close()
		p.done.Wait()
	})
	return p
}

// gap waits for an answer from now on, and returns the longest time without one since the last call.
func (p *prober) gap() time.Duration {
	now := time.Now()
	eventually(p.t, "the SA answers", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.last.After(now)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.longest
	p.longest = 0
	return d
}
