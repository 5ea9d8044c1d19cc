package lab

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim/host/saclient"
)

// pathUser is a host that has paths to its peers: those that its path cache would serve without
// asking, or those that a program has which knows no cache and no generations. Such a program
// believes what it has, and asks for all its paths when a Report says that any may have changed.
type pathUser struct {
	gid   ib.GID
	peers []ib.GID
	// lose, if set, loses a Report or its response, or the answer to a request.
	lose func() bool
	// deaf hosts answer no Reports, and do not look at them.
	deaf bool

	cache  *PathHost // nil: a program without
	client *saclient.Client
	alarm  *Alarm
	c      *Cluster
	held   map[ib.GID]wire.PathRecord
}

// patient is a client that repeats a request each 200 ms.
func patient() mad.Config {
	return mad.Config{Timeout: 200 * time.Millisecond, MaxTimeout: 200 * time.Millisecond, Retries: 1 << 20}
}

// newPathUser opens a port of a node; subscribe, and give it peers.
func newPathUser(t testing.TB, c *Cluster, node string, caching bool) *pathUser {
	t.Helper()
	h := &pathUser{c: c, held: map[ib.GID]wire.PathRecord{}}
	if caching {
		var err error
		if h.cache, err = c.PathHost(node, agent.Defaults()); err != nil {
			t.Fatal(err)
		}
		h.cache.Lose, h.gid = h.loses, h.cache.GID()
		return h
	}
	ep, err := c.Sim.Attach(node)
	if err != nil {
		t.Fatal(err)
	}
	h.gid = ib.MakeGID(ib.DefaultSubnetPrefix, ep.PortGUID())
	h.client = saclient.New(func(p *mad.Packet) {
		if !h.loses(p) {
			ep.Send(p)
		}
	}, func() saclient.Master {
		pi := ep.PortInfo()
		return saclient.Master{LID: pi.MasterSMLID, SL: pi.MasterSMSL}
	}, patient())
	h.client.OnReport = h.report
	h.alarm = NewAlarm(c.Sim, h.client.NextTimer, h.client.Expire)
	ep.Accepts = saclient.Accepts
	ep.OnPacket = func(p *mad.Packet) {
		if !h.loses(p) {
			h.client.Receive(c.Sim.Now(), p)
			h.alarm.Set()
		}
	}
	return h
}

// loses reports whether a packet that goes or comes is lost.
func (h *pathUser) loses(p *mad.Packet) bool {
	switch m := ib.Method(p.Data[3]); {
	case m == ib.MethodReport && h.deaf:
		return true
	case m == ib.MethodReport, m.IsResponse():
		return h.lose != nil && h.lose()
	}
	return false
}

// heard counts the Reports that it took.
func (h *pathUser) heard() int {
	if h.cache != nil {
		return int(h.cache.Stats().Reports)
	}
	return int(h.client.Count.Reports)
}

// subscribe subscribes to traps 68 and 69; a path cache does by itself.
func (h *pathUser) subscribe() {
	if h.cache != nil {
		return
	}
	for _, n := range []uint16{smp.TrapRePath, smp.TrapUnPath} {
		h.client.Subscribe(h.c.Sim.Now(), n, func(mad.Time, error) {})
	}
	h.alarm.Set()
}

// askAll asks for all paths.
func (h *pathUser) askAll() {
	for _, d := range h.peers {
		h.ask(d)
	}
}

const pathEnds = wire.PathCompSGID | wire.PathCompDGID

func (h *pathUser) ask(dst ib.GID) {
	q := wire.PathRecord{SGID: h.gid, DGID: dst}
	if h.cache != nil {
		h.cache.Ask(&agent.Query{Mask: pathEnds, Record: q}, time.Second, func(mad.Time, *agent.Answer) {})
		return
	}
	h.client.Paths(h.c.Sim.Now(), &q, pathEnds, true, func(_ mad.Time, list []wire.PathRecord, err error) {
		if delete(h.held, dst); err == nil && len(list) > 0 {
			h.held[dst] = list[0]
		}
	})
	h.alarm.Set()
}

// report takes a Report.
func (h *pathUser) report(r *saclient.Report) {
	var d smp.DetailPath
	d.Get(&r.Notice.DataDetails)
	mask, p := wire.CompMask(d.ComponentMask), &r.Path
	if !mask.Any(wire.PathCompDLID | wire.PathCompDGID) {
		h.askAll()
		return
	}
	trap, _ := r.Notice.Trap()
	for _, dst := range h.peers {
		had, has := h.held[dst]
		switch {
		case mask.Has(wire.PathCompDGID) && dst != p.DGID, !mask.Has(wire.PathCompDGID) && has && had.DLID != p.DLID:
		case trap == smp.TrapUnPath:
			delete(h.held, dst)
		case p.MTU == 0 || dst != p.DGID || has && had.PKey != p.PKey:
			h.ask(dst)
		default:
			h.held[dst] = *p
		}
	}
}

// doubts reports whether the host knows that its paths may have changed, and not which.
func (h *pathUser) doubts() bool { return h.cache != nil && h.cache.Stats().Suspect > 0 }

// wrong says which path that the host has differs from the manager's answer; "": none.
func (h *pathUser) wrong(m *Manager) string {
	port := m.Snap.PortByGID(h.gid)
	if port < 0 {
		return ""
	}
	held := h.held
	if h.cache != nil {
		held = map[ib.GID]wire.PathRecord{}
		for e := range h.cache.Entries {
			if e.Left > 0 && !e.NoPath {
				held[e.Record.DGID] = e.Record
			}
		}
	}
	src := *m.sa.source()
	src.Held = nil // nobody asks
	for _, d := range h.peers {
		var p wire.PathRecord
		var q ib.MAD
		wire.New(&q, ib.MethodGet, wire.AttrPathRecord, 0, pathEnds)
		(&wire.PathRecord{SGID: h.gid, DGID: d}).Put(wire.Data(&q))
		b, _ := sa.Answer(&src, &sa.Request{From: mad.Addr{LID: m.Snap.Ports[port].LID, QP: 1}, Data: q[:]}, nil)
		ok := len(b) >= ib.MADLen && binary.BigEndian.Uint16(b[4:]) == 0 &&
			p.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PathRecordLen]) == nil
		has, is := held[d]
		if !is && h.cache != nil {
			continue // it asks before it serves one
		}
		if has.NumbPath = p.NumbPath; is != ok || is && has != p {
			return fmt.Sprintf("from %v to %v: has %v %+v, the SA has %v %+v", h.gid, d, is, has, ok, p)
		}
	}
	return ""
}
