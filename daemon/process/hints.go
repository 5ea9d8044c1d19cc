package process

import (
	"context"
	"slices"
	"time"

	"heddle/daemon"
	"heddle/ib"
	"heddle/replica/members"
	"heddle/sm"
	"heddle/subnet"
)

// warmth is what a Quorum knows of what masters publish, and of other managers.
type warmth struct {
	hints  chan daemon.Hint // to the cores of the mandate; has room for the newest
	told   daemon.Hint      // the last one; zero: none
	unsure sm.SetUnsure     // of cores that are master
	wake   chan struct{}    // of advise; see Changed
	own    *subnet.Snapshot // what the cores published as master; nil: they are not
	other  *subnet.Snapshot // what the master before published
	heard  time.Time        // when other was known to be right
	myself ib.GUID
	// expect is when the cores were started anew to be master, which others were told; zero: they are,
	// or they are not to be.
	expect time.Time
}

// expectMost is how long others are told that these cores are to be master. Another manager may
// forbid it.
const expectMost = 2 * time.Second

// warmAge is how long what another master published counts after it was last heard.
const warmAge = time.Minute

// newHints begins the hints of a mandate. The holder of mu calls it.
func (q *Quorum) newHints() <-chan daemon.Hint {
	q.hints, q.told, q.myself = make(chan daemon.Hint, 1), daemon.Hint{}, q.port.PortGUID()
	q.advised()
	return q.hints
}

// advise tells the cores what is known of other managers, when that changes.
func (q *Quorum) advise(ctx context.Context) {
	tick := time.NewTicker(members.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-q.waking():
		}
		q.mu.Lock()
		q.advised()
		q.mu.Unlock()
	}
}

func (q *Quorum) waking() chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	return q.wake
}

// Changed is to be called when the state of Members has changed. It does not wait.
func (q *Quorum) Changed() {
	select {
	case q.waking() <- struct{}{}:
	default:
	}
}

// advised passes a hint on if it is new. The holder of mu calls it.
func (q *Quorum) advised() {
	if q.hints == nil {
		return
	}
	if !q.expect.IsZero() && time.Since(q.expect) > expectMost {
		q.expect = time.Time{}
		q.Members.Lead(false)
	}
	if last, _ := q.Terms.Synced(); q.unsure.Unsure && !q.unsure.Lacks && q.lacking(last) {
		q.unsure.Lacks = true // it is heard of only now
		q.log().Error("another manager has an entry of the state that this one lacks: it writes nothing to the subnet until the store is back")
	}
	h := q.hint()
	h.Unsure = q.unsure
	if h.Warm == q.told.Warm && h.Unsure == q.told.Unsure && slices.Equal(h.Allies, q.told.Allies) {
		return
	}
	select {
	case <-q.hints: // an older one
	default:
	}
	q.hints <- h // there is room: nobody else sends
	q.told = h
}

// hint is what is known now: the members, the last owner of the term, and what the master publishes.
func (q *Quorum) hint() (h daemon.Hint) {
	last, _ := q.Terms.Synced()
	owner := last.Term.Owner
	var list []members.Member
	if q.Members != nil {
		list = q.Members.Members()
	}
	active := owner
	for _, m := range list {
		if m.GUID == 0 || slices.ContainsFunc(h.Allies, func(a sm.Ally) bool { return a.GUID == m.GUID }) {
			continue
		}
		h.Allies = append(h.Allies, sm.Ally{GUID: m.GUID, Lives: m.Heard, Heard: m.Heard && m.Active, Silent: !m.Heard})
		if m.Active && m.Heard && (active == owner || m.GUID == owner) {
			active = m.GUID
		}
	}
	if owner != 0 && owner != q.myself && !slices.ContainsFunc(h.Allies, func(a sm.Ally) bool { return a.GUID == owner }) {
		h.Allies = append(h.Allies, sm.Ally{GUID: owner})
	}
	if q.Members != nil && active != q.myself {
		h.Warm = q.Members.Warm(active)
	}
	if h.Warm != nil {
		q.other, q.heard = h.Warm, time.Now()
	}
	return h
}

// published takes what the cores publish as master.
func (q *Quorum) published(s *subnet.Snapshot) {
	q.mu.Lock()
	q.own = s
	q.mu.Unlock()
	if q.Members != nil {
		q.Members.Show(s)
	}
}

// warmIf is what cores that are master from the start begin with, nil for others.
func (q *Quorum) warmIf(granted bool) *subnet.Snapshot {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !granted:
		return nil
	case q.own != nil:
		return q.own
	case time.Since(q.heard) <= warmAge:
		return q.other
	}
	return nil
}
