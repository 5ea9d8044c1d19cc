package process

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// A process can be stopped at any moment (SIGSTOP, no processor), and another manager takes the
// subnet over meanwhile. When it goes on, the manager in it still believes to be master: before it sends
// anything it looks at its own port, which names the SM of the subnet.

// Times of a lookout.
const (
	lookTick = 50 * time.Millisecond
	// lookAfter is how long a stop may be after which nobody looks: no standby takes over sooner.
	lookAfter = 150 * time.Millisecond
	lookWait  = 100 * time.Millisecond // for an answer
	lookTries = 3
	// lookAsked is how many questions are known, and lookLate for how long: their answers may be late.
	lookAsked = 16
	lookLate  = 5 * time.Second
	// lookPause is how long nobody looks in advance at a port that was silent, or refused the M_Key, of
	// which it may send a trap.
	lookPause = time.Second
)

// sendSlice is how many packets of a manager are handed to the port at once: what is left of them leaves
// when a process goes on that was stopped while it did so.
const sendSlice = 16

// lookout looks at the port of a master.
//
// Its goroutine and all who send note that the process runs. A longer time between two notes was a stop.
// A manager may send if something shows, from after the last stop, that it is master: an answer of the
// port to a question that was asked after it, or so many questions without an answer. A look whose
// questions a stop has interrupted shows nothing, and is followed by another one.
//
// An answer counts for the moment in which it was asked, whichever look asked. So a late one that names
// this manager never covers a stop in between. One that names another SM ends the mastership also when
// it is late: the port does not come back to a manager that did not set it.
type lookout struct {
	port  mad.Transport
	ended chan struct{} // closed when the port is gone

	mu    sync.Mutex // guards everything below
	epoch time.Time
	noted int64 // when this process was last known to run, as all times in ns since epoch
	since int64 // since when it was not stopped
	asked [lookAsked]question
	next  int // of asked
	under *look
	mastership
}

// mastership is what a lookout knows of the present one.
type mastership struct {
	n     uint64
	key   func() ib.MKey // of the port
	lost  func()         // tells that the port names another SM; nil: there is no mastership
	named bool           // the port has named this SM
	sure  int64          // when this process was certainly master
	pause int64          // until when nobody looks in advance
	over  chan struct{}  // not nil: the port has named another SM. Closed when lost has returned
}

// question is one to the port. That with TID 0 has been answered.
type question struct {
	tid   uint32
	n     uint64 // the mastership
	named bool   // in that moment
	sent  int64
}

// look is one that is under way. All who want to send wait for it.
type look struct {
	n     uint64 // the mastership
	key   func() ib.MKey
	heard chan reply
	ended chan struct{} // closed when it has ended
}

// reply is the answer to a question.
type reply struct {
	question
	refused bool
}

func newLookout(port mad.Transport) *lookout {
	return &lookout{port: port, ended: make(chan struct{}), epoch: time.Now()}
}

// note notes that the process runs, and returns the time. The holder of mu calls it.
func (l *lookout) note() int64 {
	now := int64(time.Since(l.epoch))
	if now-l.noted > int64(lookAfter) {
		l.since = now
	}
	l.noted = now
	return now
}

// arm begins to look, for one that has become master; lost is called when it has lost that.
func (l *lookout) arm(key func() ib.MKey, lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mastership = mastership{n: l.n + 1, key: key, lost: lost, sure: l.note()}
	l.under = nil
}

// disarm ends that.
func (l *lookout) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mastership = mastership{n: l.n + 1}
	l.under = nil
}

// doubt has a look come before anything is sent: another manager may have taken over.
func (l *lookout) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = l.note()
	l.sure = min(l.sure, l.since-1)
}

// run notes that the process is not stopped, until the port is gone. It looks until the port has named this
// manager.
func (l *lookout) run() {
	tick := time.NewTicker(lookTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ended:
			return
		}
		l.mu.Lock()
		if now := l.note(); l.lost != nil && !l.named && now >= l.pause {
			l.look()
		}
		l.mu.Unlock()
	}
}

// fresh reports whether a manager may send without a look. The holder of mu calls it.
func (l *lookout) fresh() bool {
	l.note()
	return l.lost == nil || l.over == nil && l.sure >= l.since
}

// pass returns when a manager may send, and false if it must not any more.
func (l *lookout) pass() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.fresh() {
		over := l.over
		until := (<-chan struct{})(over)
		if over == nil {
			until = l.look()
		}
		l.mu.Unlock()
		gone := false
		select {
		case <-until:
		case <-l.ended:
			gone = true // the port says so to who sends
		}
		l.mu.Lock()
		switch {
		case gone:
			return true
		case over != nil && l.over == over:
			return false
		}
	}
	return true
}

// look returns what is closed at the end of the look under way; if there is none, one begins. The holder
// of mu calls it.
func (l *lookout) look() <-chan struct{} {
	if l.under == nil {
		l.under = &look{n: l.n, key: l.key, heard: make(chan reply, lookAsked), ended: make(chan struct{})}
		go l.read(l.under)
	}
	return l.under.ended
}

// read asks the port until it answers, or has left lookTries questions in a row without an answer. If it
// is silent, or refuses the M_Key, that must not slow the manager down.
func (l *lookout) read(c *look) {
	defer close(c.ended)
	key := c.key()
	var first int64 // of the questions without an answer
	for silent := 0; ; {
		q, ok := l.ask(c, key)
		if !ok {
			return
		}
		told := l.hear(c, q)
		l.mu.Lock()
		now := l.note()
		if silent == 0 || first < l.since {
			silent, first = 0, q.sent
		}
		if q.sent >= l.since {
			silent++
		}
		if told || silent == lookTries || l.under != c {
			if l.under == c {
				l.under = nil
				if !told {
					l.sure, l.pause = max(l.sure, first), now+int64(lookPause)
				}
			}
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// ask sends a question; ok is false if the look is not wanted any more.
func (l *lookout) ask(c *look, key ib.MKey) (q question, ok bool) {
	l.mu.Lock()
	if l.under != c {
		l.mu.Unlock()
		return q, false
	}
	q = question{tid: rand.Uint32() | 1, n: c.n, named: l.named, sent: l.note()}
	l.asked[l.next] = q
	l.next = (l.next + 1) % lookAsked
	l.mu.Unlock()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrPortInfo, 0, key, nil)
	m.SetTID(uint64(q.tid))
	if l.port.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}) != nil {
		c.tell(reply{question: q, refused: true})
	}
	return q, true
}

// tell hands a reply to a look. One that has more to read than it asked does without.
func (c *look) tell(r reply) {
	select {
	case c.heard <- r:
	default:
	}
}

// hear waits for the answer to the last question, or to one before it that shows as much. It returns
// false if there is none.
func (l *lookout) hear(c *look, last question) bool {
	wait := time.NewTimer(lookWait)
	defer wait.Stop()
	for {
		select {
		case r := <-c.heard:
			l.mu.Lock()
			l.note()
			enough := l.over != nil || r.sent >= l.since
			l.mu.Unlock()
			switch {
			case !r.refused && enough:
				return true
			case r.refused && r.tid == last.tid:
				return false
			}
		case <-wait.C:
			return false
		case <-l.ended:
			return false
		}
	}
}

// takes reports whether a packet is the answer to a question, and takes it.
func (l *lookout) takes(p *mad.Packet) bool {
	if len(p.Data) < ib.MADLen {
		return false
	}
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	if m.Class() != ib.ClassSubnDR || m.AttrID() != smp.AttrPortInfo || smp.HopCount(m) != 0 || !m.Method().IsResponse() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.note()
	i := slices.IndexFunc(l.asked[:], func(q question) bool {
		return q.tid != 0 && q.tid == uint32(m.TID()) && now-q.sent <= int64(lookLate)
	})
	if i < 0 {
		return false
	}
	q := l.asked[i]
	l.asked[i].tid = 0
	if q.n != l.n || l.lost == nil || l.over != nil {
		return true // of a mastership before
	}
	var pi smp.PortInfo
	refused := p.Status != mad.Received || smp.StatusOf(m) != ib.StatusOK || pi.Decode(smp.Data(m)) != nil
	ours := pi.LID != 0 && pi.MasterSMLID == pi.LID
	switch {
	case refused:
	case q.named && !ours && pi.LID != 0 && pi.MasterSMLID != 0:
		over, lost := make(chan struct{}), l.lost
		l.over = over
		go func() { // who receives does not wait for it
			defer close(over)
			lost()
		}()
	default:
		l.named = l.named || ours
		l.sure = max(l.sure, q.sent)
	}
	if l.under != nil {
		l.under.tell(reply{question: q, refused: refused})
	}
	return true
}

// portKey is the M_Key of this manager's port, as far as this process has followed.
func (q *Quorum) portKey(guid ib.GUID) ib.MKey {
	key, _ := q.Terms.MKey(guid)
	return key
}

// superseded is called when the port names another SM: the cores are started anew, on standby.
func (q *Quorum) superseded() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stop == nil || q.stale {
		return
	}
	q.log().Warn("this process was stopped, and another manager has taken the subnet over: the cores are started anew, on standby")
	q.stale, q.granted, q.own = true, false, nil
	if q.Members != nil {
		q.expect = time.Time{}
		q.Members.Lead(false)
	}
	q.port.Close() // which ends the manager
}
