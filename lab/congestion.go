package lab

import (
	"heddle/congestion"
	"heddle/mad"
	"heddle/shell"
)

// congestionControl is the congestion control manager of a Manager, driven in virtual time.
type congestionControl struct {
	m       *Manager
	notices []congestion.Notice
	core    *congestion.Core
	shell   *shell.Congestion
	armed   mad.Time
}

// ServeCongestion gives an attached manager a congestion control manager, before Start or later.
func (m *Manager) ServeCongestion(cfg congestion.Config) {
	c := &congestionControl{m: m, core: congestion.New(cfg), armed: mad.Never}
	c.shell = shell.NewCongestion(c.core, congestionEdge{c}, &m.shared)
	m.shared.WakeCongestion = c.shell.Mail
	if m.cong != nil {
		m.cong.shell.Halt()
	}
	m.cong = c
	c.shell.Mail()
}

// Congestion is the newest view of the manager's congestion control manager, nil before the first.
func (m *Manager) Congestion() *congestion.View { return m.shared.Congestion.Load() }

// CongestionStatus is the state of the manager's congestion control manager.
func (m *Manager) CongestionStatus() congestion.Status { return m.cong.core.Status() }

// CongestionNotices are those of the manager's congestion control manager.
func (m *Manager) CongestionNotices() []congestion.Notice { return m.cong.notices }

// SetCongestionMode changes the mode of the manager's congestion control manager.
func (m *Manager) SetCongestionMode(mode congestion.Mode) { m.shared.SetCongestionMode(mode) }

// congestionEdge does what the congestion control manager's core wants.
type congestionEdge struct{ c *congestionControl }

func (e congestionEdge) Now() mad.Time { return e.c.m.c.Sim.Now() }

func (e congestionEdge) Send(list []mad.Packet) {
	m := e.c.m
	for i := range list {
		if m.OnSend != nil {
			m.OnSend(&list[i])
		}
		m.sends(&list[i])
	}
}

func (e congestionEdge) Published(*congestion.View) {}

func (e congestionEdge) Tell(list []congestion.Notice) { e.c.notices = append(e.c.notices, list...) }

func (e congestionEdge) Wake(t mad.Time) {
	e.c.m.wake(&e.c.armed, t, func() { e.c.shell.Step(congestion.Timer{}) })
}
