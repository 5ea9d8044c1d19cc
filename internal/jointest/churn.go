package jointest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
)

// Times of a host that joins and leaves.
const (
	askPort   = 100 * time.Millisecond // from a request without an answer until the port is asked where the SA is
	sendAgain = time.Second            // until the request is sent again to the same SA
)

// Churn is a load of hosts that join groups and leave them, in random order, and what the SA has acknowledged of it. The
// groups are those of all hosts. Its methods may be called from one goroutine.
type Churn struct {
	hosts   []*churner
	end     chan struct{}
	running sync.WaitGroup

	muted         int          // the half that is held, as in churner
	joins, leaves atomic.Int64 // acknowledged
	busy, again   atomic.Int64 // answers that say so, and requests that were sent again

	mu  sync.Mutex
	err error    // the first one; guarded by mu
	why []string // leaves of acknowledged members that the SA refused; guarded by mu
}

// churner is one host of a Churn.
type churner struct {
	*Churn
	h   *Host
	rng *rand.Rand // its goroutine's

	asked time.Time // when the port was asked; its goroutine's

	mu     sync.Mutex
	slots  []slot             // one for each group; guarded by mu
	sent   map[uint32]attempt // by transaction; guarded by mu
	closed int                // the halves of the groups in which nothing new begins, one bit each; guarded by mu
	muted  int                // those in which nothing is sent again; guarded by mu
	mark   time.Time          // guarded by mu
	heard  time.Time          // the first acknowledgment of a request sent after mark; guarded by mu
}

// slot is what a host knows of its membership in a group.
type slot struct {
	member bool // as acknowledged
	since  time.Time
	open   bool // a request has no answer: it may have been carried out
	tids   []uint32
	sent   time.Time // of the newest request; zero: it was refused as BUSY
}

// attempt is a request that was sent.
type attempt struct {
	slot int
	at   time.Time
}

// halfOf is the bit of a group's half.
func halfOf(group int) int { return 1 << (group & 1) }

// NewChurn starts a load on hosts: each begins an operation in a random one of the groups every period, unless window
// of them have no answer.
func NewChurn(list []*Host, groups int, every time.Duration) *Churn {
	c := &Churn{end: make(chan struct{})}
	for i, h := range list {
		m := &churner{Churn: c, h: h, rng: rand.New(rand.NewPCG(1, uint64(i))), slots: make([]slot, groups), sent: map[uint32]attempt{}}
		c.hosts = append(c.hosts, m)
		c.running.Go(func() { m.run(every) })
	}
	return c
}

// Go lets operations begin in all groups.
func (c *Churn) Go() { c.set(0, 0) }

// Hold stops the load in one half of the groups, 0 or 1. What has no answer then is left in doubt until Go.
func (c *Churn) Hold(half int) { c.set(1<<half, 1<<half) }

// Rest lets nothing new begin. Open is 0 when all but what is in doubt has been answered.
func (c *Churn) Rest() { c.set(3, c.muted) }

func (c *Churn) set(closed, muted int) {
	c.muted = muted
	for _, m := range c.hosts {
		m.mu.Lock()
		m.closed, m.muted = closed, muted
		m.mu.Unlock()
	}
}

// Open is how many operations have no answer, without those of the half that is held.
func (c *Churn) Open() (n int) {
	for _, m := range c.hosts {
		m.mu.Lock()
		for g := range m.slots {
			if m.slots[g].open && c.muted&halfOf(g) == 0 {
				n++
			}
		}
		m.mu.Unlock()
	}
	return n
}

// Acknowledged is how many joins and leaves the SA has acknowledged, how many requests it refused as BUSY, and how many
// were sent again.
func (c *Churn) Acknowledged() (joins, leaves, busy, again int) {
	return int(c.joins.Load()), int(c.leaves.Load()), int(c.busy.Load()), int(c.again.Load())
}

// Mark begins to wait for an acknowledgment to each host.
func (c *Churn) Mark() {
	now := time.Now()
	for _, m := range c.hosts {
		m.mu.Lock()
		m.mark, m.heard = now, time.Time{}
		m.mu.Unlock()
	}
}

// Answered is when the last host got an acknowledgment of what it sent after Mark; ok is false if one has none yet.
func (c *Churn) Answered() (last time.Time, ok bool) {
	for _, m := range c.hosts {
		m.mu.Lock()
		heard := m.heard
		m.mu.Unlock()
		if heard.IsZero() {
			return last, false
		}
		if heard.After(last) {
			last = heard
		}
	}
	return last, true
}

// Err is an error that ended the load of a host, or nil.
func (c *Churn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Compared is the difference between memberships that the SA has and those that it acknowledged.
type Compared struct {
	Members, Doubt int // memberships that were acknowledged; operations without an answer
	Lost           []string
	Extra          []string // those of hosts whose leaves were acknowledged, or that never joined
}

// Compare compares what the SA has with what it acknowledged. Lost are also leaves of members that it refused.
func (c *Churn) Compare(has func(group int, port ib.GUID) bool) (d Compared) {
	for _, m := range c.hosts {
		m.mu.Lock()
		for g := range m.slots {
			s := &m.slots[g]
			there := has(g, m.h.conn.PortGUID())
			switch {
			case s.open:
				d.Doubt++
				continue
			case s.member && !there:
				d.Lost = append(d.Lost, fmt.Sprintf("%s joined group %d at %v", m.h.conn.Node(), g, s.since.Format(time.StampMicro)))
			case there && !s.member:
				d.Extra = append(d.Extra, fmt.Sprintf("%s left group %d at %v", m.h.conn.Node(), g, s.since.Format(time.StampMicro)))
			}
			if s.member {
				d.Members++
			}
		}
		m.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Lost = append(d.Lost, c.why...)
	return d
}

// End ends the load, and its connections.
func (c *Churn) End() {
	close(c.end)
	c.running.Wait()
	for _, m := range c.hosts {
		m.h.conn.Close()
	}
}

func (c *Churn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

func (m *churner) run(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var err error
		select {
		case w, ok := <-m.h.in:
			if !ok {
				m.fail(fmt.Errorf("%s lost its port", m.h.conn.Node()))
				return
			}
			if w.Class() == ib.ClassSA {
				err = m.answered(&w)
			} else {
				err = m.moved(&w)
			}
		case now := <-tick.C:
			if err = m.begin(); err == nil {
				err = m.repeat(now)
			}
		case <-m.end:
			return
		}
		if err != nil {
			m.fail(fmt.Errorf("%s: %w", m.h.conn.Node(), err))
			return
		}
	}
}

// begin begins an operation.
func (m *churner) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed == 3 {
		return nil
	}
	inFlight := 0 // those that are held wait for nothing
	for g := range m.slots {
		if m.slots[g].open && m.muted&halfOf(g) == 0 {
			inFlight++
		}
	}
	if inFlight >= window {
		return nil
	}
	from := m.rng.IntN(len(m.slots))
	for i := range m.slots {
		g := (from + i) % len(m.slots)
		if s := &m.slots[g]; !s.open && m.closed&halfOf(g) == 0 {
			s.open = true
			return m.send(g)
		}
	}
	return nil
}

// send asks for the operation of a slot; mu is held.
func (m *churner) send(group int) error {
	s := &m.slots[group]
	how := ib.MethodSet
	if s.member {
		how = ib.MethodDelete
	}
	if err := m.h.request(how, group); err != nil {
		return err
	}
	s.sent = time.Now()
	s.tids = append(s.tids, m.h.tid)
	m.sent[m.h.tid] = attempt{group, s.sent}
	return nil
}

// repeat sends again what has no answer, and asks the port whether the SA has moved.
func (m *churner) repeat(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.asked) < askPort {
		return nil
	}
	late := m.late(now.Add(-askPort))
	if len(late) == 0 {
		return nil
	}
	m.asked = now
	if err := m.h.askSA(); err != nil {
		return err
	}
	return m.resend(m.late(now.Add(-sendAgain)))
}

// moved takes the answer of the port: if it names another SA, that one is asked immediately.
func (m *churner) moved(w *ib.MAD) error {
	var pi smp.PortInfo
	if smp.StatusOf(w) != 0 || pi.Decode(smp.Data(w)) != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if pi.MasterSMLID == m.h.sa {
		return nil
	}
	m.h.sa = pi.MasterSMLID
	return m.resend(m.late(time.Now().Add(-askPort)))
}

// late are the groups whose requests were sent before a time and have no answer; mu is held.
func (m *churner) late(before time.Time) (list []int) {
	for g := range m.slots {
		if s := &m.slots[g]; s.open && m.muted&halfOf(g) == 0 && s.sent.Before(before) {
			list = append(list, g)
		}
	}
	return list
}

// resend sends requests again; mu is held.
func (m *churner) resend(list []int) error {
	for _, g := range list {
		m.again.Add(1)
		if err := m.send(g); err != nil {
			return err
		}
	}
	return nil
}

// answered takes an answer of the SA. Requests are carried out in the order in which a host sends them, so one to the first
// request of an operation counts also when there was a second one.
func (m *churner) answered(w *ib.MAD) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, is := m.sent[uint32(w.TID())]
	if !is {
		return nil
	}
	s := &m.slots[a.slot]
	leave := s.member
	switch st := w.Status(); {
	case st == ib.StatusBusy:
		delete(m.sent, uint32(w.TID()))
		m.busy.Add(1)
		s.sent = time.Time{}
		return nil
	case st == 0 && leave:
		m.leaves.Add(1)
	case st == 0:
		m.joins.Add(1)
	case leave && len(s.tids) == 1:
		m.Churn.mu.Lock()
		m.why = append(m.why, fmt.Sprintf("%s joined group %d at %v, and its leave was refused: %v", m.h.conn.Node(), a.slot, s.since.Format(time.StampMicro), st))
		m.Churn.mu.Unlock()
	case leave: // an earlier request was carried out
		m.leaves.Add(1)
	default:
		return fmt.Errorf("a join was refused: %v", st)
	}
	if m.heard.IsZero() && !m.mark.IsZero() && a.at.After(m.mark) {
		m.heard = time.Now()
	}
	for _, tid := range s.tids {
		delete(m.sent, tid)
	}
	s.member, s.since, s.open, s.tids = !leave, time.Now(), false, s.tids[:0]
	return nil
}

// Ports are what the ports of all hosts have: their LIDs and P_Keys. wait is how long to wait for a port.
func (c *Churn) Ports(wait time.Duration) (map[string]string, error) {
	list := map[string]string{}
	for _, m := range c.hosts {
		var pi smp.PortInfo
		a, err := m.h.own(smp.AttrPortInfo, 1, wait)
		if err == nil {
			err = pi.Decode(smp.Data(a))
		}
		if err != nil {
			return nil, err
		}
		if a, err = m.h.own(smp.AttrPKeyTable, 0, wait); err != nil {
			return nil, err
		}
		var keys smp.PKeyTable
		if err := keys.Decode(smp.Data(a)); err != nil {
			return nil, err
		}
		list[m.h.conn.Node()] = fmt.Sprintf("LID %d, P_Keys %v", pi.LID, keys)
	}
	return list, nil
}
