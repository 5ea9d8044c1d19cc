package process

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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
)

// sendSlice is how many packets of a manager are handed to the port at once: what is left of them leaves
// when a process goes on that was stopped while it did so.
const sendSlice = 16

// lookout looks at the port of a master.
type lookout struct {
	port    mad.Transport
	epoch   time.Time
	sure    atomic.Int64  // time since epoch at which this process was certainly master; 0: it need not look
	tid     atomic.Uint32 // of the look under way; 0: none
	seen    chan smp.PortInfo
	ended   chan struct{} // closed when the port is gone
	looking chan struct{} // has room for whoever looks

	mu         sync.Mutex
	mastership // guarded by mu
}

// mastership is what a lookout knows of the present one.
type mastership struct {
	n     uint64
	key   func() ib.MKey // of the port
	lost  func()         // tells that the port names another SM
	named bool           // it has named this one
}

func newLookout(port mad.Transport) *lookout {
	return &lookout{
		port: port, epoch: time.Now(), seen: make(chan smp.PortInfo, 1), ended: make(chan struct{}), looking: make(chan struct{}, 1),
	}
}

func (l *lookout) now() int64 { return int64(time.Since(l.epoch)) + 1 }

// arm begins to look, for one that has become master; lost is called when it has lost that.
func (l *lookout) arm(key func() ib.MKey, lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mastership = mastership{n: l.n + 1, key: key, lost: lost}
	l.sure.Store(l.now())
}

// disarm ends that.
func (l *lookout) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mastership = mastership{n: l.n + 1}
	l.sure.Store(0)
}

// is is the present mastership; ok is false if there is none.
func (l *lookout) is() (m mastership, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mastership, l.lost != nil
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
		sure, now := l.sure.Load(), l.now()
		if sure != 0 && now-sure <= int64(lookAfter) {
			l.sure.CompareAndSwap(sure, now)
		}
		if m, ok := l.is(); ok && !m.named && len(l.looking) == 0 {
			go l.look()
		}
	}
}

// pass returns when a manager may send, and false if it must not any more.
func (l *lookout) pass() bool { return l.fresh() || l.look() }

func (l *lookout) fresh() bool {
	sure := l.sure.Load()
	return sure == 0 || l.now()-sure <= int64(lookAfter)
}

// look reads the port, one look at a time.
func (l *lookout) look() bool {
	l.looking <- struct{}{}
	defer func() { <-l.looking }()
	m, ok := l.is()
	if !ok || m.named && l.fresh() {
		return true
	}
	sent := l.now()
	pi, answered := l.read(m.key())
	l.mu.Lock()
	ours := pi.LID != 0 && pi.MasterSMLID == pi.LID
	switch {
	case m.n != l.n: // of a mastership before
	case answered && m.named && !ours && pi.LID != 0 && pi.MasterSMLID != 0:
		l.mu.Unlock()
		m.lost()
		return false
	case answered:
		l.named = l.named || ours
		l.sure.Store(sent)
	default:
		// The port is silent, or refuses the M_Key: that must not slow the manager down. Only a wait that
		// was longer than it can be was a stop.
		if now := l.now(); now-sent <= int64(lookTries*lookWait+lookAfter) {
			sent = now
		}
		l.sure.Store(sent)
	}
	l.mu.Unlock()
	return true
}

func (l *lookout) read(key ib.MKey) (pi smp.PortInfo, ok bool) {
	for range lookTries {
		tid := rand.Uint32() | 1
		var m ib.MAD
		smp.NewDR(&m, ib.MethodGet, smp.AttrPortInfo, 0, key, nil)
		m.SetTID(uint64(tid))
		select {
		case <-l.seen: // an answer that came late
		default:
		}
		l.tid.Store(tid)
		if l.port.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}) != nil {
			return pi, false
		}
		wait := time.NewTimer(lookWait)
		select {
		case pi = <-l.seen:
			wait.Stop()
			return pi, true
		case <-wait.C:
		case <-l.ended:
			wait.Stop()
			return pi, false
		}
	}
	return pi, false
}

// takes reports whether a packet is the answer to a look, and takes it.
func (l *lookout) takes(p *mad.Packet) bool {
	tid := l.tid.Load()
	if tid == 0 || len(p.Data) < ib.MADLen {
		return false
	}
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	if uint32(m.TID()) != tid || m.Class() != ib.ClassSubnDR || m.AttrID() != smp.AttrPortInfo || !m.Method().IsResponse() {
		return false
	}
	l.tid.Store(0)
	var pi smp.PortInfo
	if p.Status == mad.Received && smp.StatusOf(m) == ib.StatusOK && pi.Decode(smp.Data(m)) == nil {
		select {
		case l.seen <- pi:
		default:
		}
	}
	return true
}

// portKey is the M_Key of this manager's port, as far as this process has followed.
func (q *Quorum) portKey(guid ib.GUID) ib.MKey {
	st, _, err := q.Terms.Followed()
	if err != nil {
		return 0
	}
	for _, e := range slices.Backward(st.MKeys) {
		if e.GUID == guid {
			return e.MKey
		}
	}
	return 0
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
