package hypervisor

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/sim/host/adapter"
	"heddle/sim/hypervisor/precopy"
	"heddle/sim/hypervisor/suspend"
)

// Site is where a machine migrates: its present place and its destination.
type Site interface {
	// Now is a time that does not go back; After calls a function later, once.
	Now() time.Duration
	After(d time.Duration, fn func())
	// Reserve asks for the destination, before anything happens.
	Reserve(done func(error))
	// Send sends bytes of the machine's memory to the destination, in order; Arrived is
	// how many have come so far.
	// Broken is why no more will come, nil: it may.
	Send(bytes int)
	Arrived() int64
	Broken() error
	// Stop has the machine stand still, and Run go on.
	Stop()
	Run()
	// Unplug takes the machine off its function. Plug puts it on one at the destination,
	// or back on the old one.
	Unplug() error
	Plug(back bool) error
	// Settle has the addresses of the machine come to where it is plugged.
	Settle(done func(error))
	// Ready reports whether the function has its addresses and carries packets, and
	// At where queue pairs are then, with the LID of the function; 0: the port's.
	Ready() bool
	At() (a *adapter.Adapter, lid ib.LID)
}

// Config is that of a migration.
type Config struct {
	Way  Way
	Late bool // the function works through pre-copy; Firmware is always late
	Copy precopy.Config
	Cost Costs
	Seed uint64
	// Limit is how long the migration waits for processes and peers to suspend before it
	// gives up; 0: 10 s.
	Limit time.Duration
}

// ErrSuspend is why a migration failed one of whose connections did not finish within
// Config.Limit.
var ErrSuspend = errors.New("hypervisor: a connection cannot be suspended")

// phase is how far a migration is.
type phase uint8

const (
	fresh phase = iota
	reserving
	suspending // processes and peers finish, ThreeStages
	detaching
	copying  // pre-copy
	saving   // Firmware
	stopping // stop-and-copy
	settling
	loading // Firmware
	attaching
	waiting // until the addresses work
	reconfiguring
	reverting // a connection could not be suspended
	resuming
	done
)

// Mark is an event of a migration.
type Mark struct {
	At   time.Duration
	What string
}

// Migration is the migration of a machine.
type Migration struct {
	cfg  Config
	site Site
	copy *precopy.Copy
	// Session suspends and resumes the connections of ThreeStages.
	Session *suspend.Session
	// Connections are the machine's, of the ways that take them along.
	Connections []*adapter.Connection

	phase  phase
	until  time.Duration // of the phase, if it is a delay
	chunks []int64       // bytes sent in all when each was
	sizes  []int
	sent   int64
	next   time.Duration // when the rate permits the next chunk
	extra  int64         // bytes of the function's state that are to be sent
	back   bool          // it goes back to the old place
	settle error
	asked  bool
	err    error
	marks  []Mark

	away, returned time.Duration // of the function
}

// New prepares a migration. Connections or Session are to be set before Start.
func New(c Config, s Site) (*Migration, error) {
	k, err := precopy.New(c.Copy, c.Seed)
	switch {
	case err != nil:
		return nil, err
	case c.Way < ThreeStages || c.Way > Firmware:
		return nil, fmt.Errorf("hypervisor: %v does not exist", c.Way)
	case c.Cost.Tick <= 0:
		return nil, errors.New("hypervisor: a hypervisor must look now and then (Costs.Tick)")
	}
	if c.Limit == 0 {
		c.Limit = 10 * time.Second
	}
	c.Late = c.Late || c.Way == Firmware
	return &Migration{cfg: c, site: s, copy: k}, nil
}

// Start begins.
func (m *Migration) Start() {
	m.enter(reserving, "begins")
	m.site.Reserve(func(err error) {
		switch {
		case err != nil:
			m.err = err
			m.enter(done, "refused")
		case m.cfg.Late:
			m.startCopy()
		default:
			m.suspend()
		}
	})
	m.tick()
}

func (m *Migration) tick() {
	m.step()
	if m.phase != done {
		m.site.After(m.cfg.Cost.Tick, m.tick)
	}
}

func (m *Migration) enter(p phase, what string) {
	m.phase = p
	if what != "" {
		m.marks = append(m.marks, Mark{m.site.Now(), what})
	}
}

// wait begins a phase that is a delay.
func (m *Migration) wait(p phase, d time.Duration, what string) {
	m.enter(p, what)
	m.until = m.site.Now() + d
}

// step goes on as far as possible.
func (m *Migration) step() {
	for was := fresh; m.phase != was; {
		was = m.phase
		m.advance()
	}
}

func (m *Migration) advance() {
	now := m.site.Now()
	over := now >= m.until
	switch m.phase {
	case suspending:
		m.suspending(now)
	case detaching:
		if over {
			m.detached(now)
		}
	case copying:
		m.copying(now)
	case saving:
		if over {
			m.enter(stopping, "")
		}
	case stopping:
		m.pump(now)
		switch {
		case m.copy.Phase() == precopy.Complete && m.extra == 0 && m.site.Arrived() >= m.sent:
			m.place(now)
		case m.site.Broken() != nil:
			m.goBack(m.site.Broken())
		}
	case settling:
		if m.asked {
			m.settled()
		}
	case loading, attaching, waiting:
		if over && m.site.Ready() {
			m.attached(now)
		}
	case reconfiguring:
		if over {
			a, _ := m.site.At()
			m.Session.Resume(a)
			m.enter(resuming, "")
		}
	case reverting:
		if m.Session.Step(); m.Session.Settled() {
			a, _ := m.site.At()
			m.Session.Resume(a)
			m.enter(resuming, "")
		}
	case resuming:
		if m.Session.Resumed() {
			m.end(nil)
		}
	}
}

func (m *Migration) copying(now time.Duration) {
	switch m.pump(now); {
	case m.site.Broken() != nil && m.cfg.Late:
		m.end(m.site.Broken()) // it runs where it was
	case m.site.Broken() != nil:
		m.site.Stop()
		m.goBack(m.site.Broken())
	case m.copy.Phase() == precopy.Pausing:
		m.converged()
	}
}

func (m *Migration) startCopy() {
	now := m.site.Now()
	m.copy.Start(now)
	m.next = now
	m.enter(copying, "pre-copy")
}

// suspend begins to quiet the connections, or takes them off their function.
func (m *Migration) suspend() {
	m.until = m.site.Now() + m.cfg.Limit
	m.enter(suspending, "suspend")
	if m.cfg.Way == ThreeStages {
		m.Session.Suspend()
		return
	}
	for _, c := range m.Connections {
		c.Detach()
	}
}

func (m *Migration) suspending(now time.Duration) {
	if m.cfg.Way == ThreeStages {
		m.Session.Step()
		if !m.Session.Suspended() {
			if now >= m.until {
				m.err = ErrSuspend
				m.Session.Cancel()
				m.enter(reverting, "not suspended")
			}
			return
		}
	}
	m.away = now
	m.wait(detaching, m.cfg.Cost.Detach, "detach")
}

// detached is when the machine's kernel has let the function go.
func (m *Migration) detached(now time.Duration) {
	if err := m.site.Unplug(); err != nil {
		m.end(err)
		return
	}
	if m.cfg.Late {
		m.stop(now)
		return
	}
	m.startCopy()
}

// converged is when the copy wants the machine to stop.
func (m *Migration) converged() {
	if m.cfg.Late && m.cfg.Way != Firmware {
		m.suspend()
		return
	}
	m.stop(m.site.Now())
}

// stop stops the machine.
func (m *Migration) stop(now time.Duration) {
	m.site.Stop()
	m.copy.Paused(now)
	m.next = now
	m.enter(stopping, "stop-and-copy")
	if m.cfg.Way != Firmware {
		return
	}
	for _, c := range m.Connections {
		c.Detach()
	}
	m.away, m.extra = now, m.cfg.Cost.State
	m.wait(saving, m.cfg.Cost.Save, "")
}

// window is how many bytes of the copy are under way at most.
const window = 4 << 20

// pump takes what has arrived, and sends more.
func (m *Migration) pump(now time.Duration) {
	got := m.site.Arrived()
	for len(m.chunks) > 0 && m.chunks[0] <= got {
		m.copy.Arrived(now, m.sizes[0])
		m.chunks, m.sizes = m.chunks[1:], m.sizes[1:]
	}
	m.next = max(m.next, now-m.cfg.Cost.Tick)
	for m.sent-got < window && m.next <= now {
		n := m.copy.Next(now)
		if n > 0 {
			m.chunks, m.sizes = append(m.chunks, m.sent+int64(n)), append(m.sizes, n)
		} else if m.phase == stopping && m.extra > 0 {
			n = int(min(m.extra, int64(m.cfg.Copy.Chunk)))
			m.extra -= int64(n)
		}
		if n == 0 {
			return
		}
		m.sent += int64(n)
		m.site.Send(n)
		if m.cfg.Cost.Rate > 0 {
			m.next += time.Duration(float64(n) / m.cfg.Cost.Rate * 1e9)
		}
	}
}

// place puts the machine on a function of the destination and asks for its addresses.
func (m *Migration) place(now time.Duration) {
	what := "at the destination"
	if m.back {
		what = "at the old place"
	}
	m.enter(settling, what)
	if m.cfg.Way == Firmware {
		if err := m.site.Unplug(); err != nil {
			m.end(err)
			return
		}
	}
	m.until = now + m.cfg.Cost.Load
	m.ask()
}

// goBack has the machine, which stands still, go on at the old place, where its memory
// still is.
func (m *Migration) goBack(why error) {
	m.err, m.back = why, true
	m.marks = append(m.marks, Mark{m.site.Now(), "back: " + why.Error()})
	m.place(m.site.Now())
}

// ask plugs the machine where it is to be, and asks for its addresses.
func (m *Migration) ask() {
	m.asked = false
	if err := m.site.Plug(m.back); err != nil {
		m.end(err)
		return
	}
	m.site.Settle(func(err error) { m.asked, m.settle = true, err })
}

// settled is when the manager has answered, which may have rolled back the migration.
func (m *Migration) settled() {
	if m.settle != nil && !m.back {
		m.err, m.back = m.settle, true
		m.marks = append(m.marks, Mark{m.site.Now(), "rolled back"})
		if err := m.site.Unplug(); err != nil {
			m.end(err)
			return
		}
		m.ask()
		return
	}
	if m.settle != nil {
		m.end(m.settle)
		return
	}
	if m.cfg.Way == Firmware {
		m.enter(loading, "")
		return
	}
	m.site.Run()
	m.wait(attaching, m.cfg.Cost.Attach, "attach")
}

// attached is when the function works.
func (m *Migration) attached(now time.Duration) {
	m.returned = now
	if m.cfg.Way == ThreeStages {
		m.wait(reconfiguring, m.cfg.Cost.Reconfigure, "resume")
		return
	}
	a, lid := m.site.At()
	for _, c := range m.Connections {
		if err := c.Attach(a, lid); err != nil {
			m.end(err)
			return
		}
	}
	if m.cfg.Way == Firmware {
		m.site.Run()
	}
	m.end(nil)
}

func (m *Migration) end(err error) {
	if m.err == nil {
		m.err = err
	}
	m.enter(done, "ends")
}

// Done reports whether the migration has ended, and Err why it failed: the machine is
// then at its old place, or without its function.
func (m *Migration) Done() bool { return m.phase == done }

// Err is why it failed.
func (m *Migration) Err() error { return m.err }

// Marks are its events.
func (m *Migration) Marks() []Mark { return m.marks }

// Away is how long the machine had no function.
func (m *Migration) Away() time.Duration { return m.returned - m.away }

// Copy is that of the memory.
func (m *Migration) Copy() *precopy.Copy { return m.copy }
