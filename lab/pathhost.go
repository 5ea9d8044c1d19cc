package lab

import (
	"time"

	"heddle/agent"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/host/saclient"
)

// PathHost is the path cache of heddle agent on a simulated host: package agent's core at an open
// port, in virtual time, as agent/live has it at a real one.
type PathHost struct {
	// Lose, if set, loses what goes or comes.
	Lose func(p *mad.Packet) bool

	sim   *sim.Subnet
	ep    *sim.Endpoint
	out   func(p *mad.Packet)
	core  *agent.Core
	rmpp  *mad.RMPP
	due   mad.Time // of the core
	alarm *Alarm
	away  bool
	read  mad.Time // when the state of the port was read
	asked uint64
	done  map[uint64]func(now mad.Time, a *agent.Answer)
}

// The port is read each pathTick, and before a question if the last reading is older than
// pathQuick: the times of agent/live.
const (
	pathTick  = 2 * time.Second
	pathQuick = 50 * time.Millisecond
)

// PathHost opens a port of a node for a path cache.
func (c *Cluster) PathHost(node string, cfg agent.Config) (*PathHost, error) {
	ep, err := c.Sim.Attach(node)
	if err != nil {
		return nil, err
	}
	ep.Accepts = saclient.Accepts
	h := NewPathHost(c.Sim, ep, cfg, ep.Send)
	ep.OnPacket = h.Receive
	h.Return()
	return h, nil
}

// NewPathHost puts a path cache at an open port, whose owner passes on what comes for it (Receive):
// responses to what it has sent, and Reports. It sends by send, and has its port from Return on.
func NewPathHost(s *sim.Subnet, ep *sim.Endpoint, cfg agent.Config, send func(p *mad.Packet)) *PathHost {
	h := &PathHost{
		sim: s, ep: ep, out: send, core: agent.New(cfg), rmpp: mad.NewRMPP(mad.RMPPConfig{}), due: mad.Never, away: true,
		done: map[uint64]func(mad.Time, *agent.Answer){},
	}
	h.alarm = NewAlarm(s, func() mad.Time { return min(h.due, h.rmpp.NextTimer()) }, h.expire)
	h.tick()
	return h
}

// GID is that of the host's port.
func (h *PathHost) GID() ib.GID { return ib.MakeGID(h.ep.PortInfo().GidPrefix, h.ep.PortGUID()) }

// Stats are the counts of the cache.
func (h *PathHost) Stats() agent.Stats { return h.core.Stats() }

// Entries calls yield for the cached answers, the most recently used one first.
func (h *PathHost) Entries(yield func(agent.Entry) bool) { h.core.Entries(h.sim.Now(), yield) }

// Ask asks for a path. done is called once, at the latest after wait: during the call if the answer
// is there.
func (h *PathHost) Ask(q *agent.Query, wait time.Duration, done func(now mad.Time, a *agent.Answer)) {
	if h.sim.Now().Sub(h.read) > pathQuick {
		h.look()
	}
	h.asked++
	h.done[h.asked] = done
	h.step(agent.Ask{Token: h.asked, Query: *q, Wait: wait})
}

// Remove takes the port away; who asks has no answer until Return.
func (h *PathHost) Remove() {
	h.away = true
	h.look()
}

// Return gives it its port, at the start and after Remove.
func (h *PathHost) Return() {
	h.away = false
	h.look()
}

// Receive takes a packet from the port, which is valid during the call alone.
func (h *PathHost) Receive(p *mad.Packet) {
	if h.Lose != nil && h.Lose(p) {
		return
	}
	whole, kind := h.rmpp.Receive(h.sim.Now(), p, h.send, noDone)
	switch kind {
	case mad.RMPPUsed:
		h.alarm.Set()
		return
	case mad.RMPPMessage:
		p = whole
	}
	h.step(agent.Received{P: keep(p)})
}

func (h *PathHost) send(p *mad.Packet) {
	if h.Lose == nil || !h.Lose(p) {
		h.out(p)
	}
}

// tick reads the port, again and again.
func (h *PathHost) tick() {
	h.look()
	h.sim.After(pathTick, h.tick)
}

// look tells the core the state of the port.
func (h *PathHost) look() {
	h.read = h.sim.Now()
	if h.away {
		h.step(agent.SetPort{})
		return
	}
	pi := h.ep.PortInfo()
	h.step(agent.SetPort{Port: agent.Port{
		Active: pi.PortState == ib.StateActive, LID: pi.LID, LMC: pi.LMC,
		SM:   mad.Addr{LID: pi.MasterSMLID, SL: pi.MasterSMSL},
		GIDs: h.ep.GIDs(nil), PKeys: h.ep.PKeys(nil),
	}})
}

func (h *PathHost) expire(now mad.Time) {
	if h.rmpp.NextTimer() <= now {
		h.rmpp.Expire(now, h.send, noDone)
	}
	if h.due <= now {
		h.step(agent.Timer{})
	}
}

// step applies one event, and carries out what it asks for.
func (h *PathHost) step(ev agent.Event) {
	var out agent.Output
	out.Reset()
	now := h.sim.Now()
	h.core.Step(now, ev, &out)
	h.due = out.Timer
	h.alarm.Set()
	if out.Refresh {
		h.read = mad.Time(0).Add(-pathTick) // the next question reads the port
	}
	for i := range out.Sends {
		s := &out.Sends[i]
		h.send(&mad.Packet{Addr: s.Addr, LocalQP: 1, Data: s.MAD[:]})
	}
	for i := range out.Answers {
		a := &out.Answers[i]
		done := h.done[a.Token]
		delete(h.done, a.Token)
		done(now, a) // which may ask
	}
}
