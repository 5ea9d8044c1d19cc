package process

import (
	"cmp"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

// States of a Quorum.
const (
	stateTerm     = "term"     // master, and changes are stored
	stateAway     = "away"     // master with the term, but the store does not answer
	stateRefused  = "refused"  // master without the term
	stateFollower = "follower" // not master
)

// quorumStates are the values of heddle_ha_state.
var quorumStates = []string{stateTerm, stateAway, stateRefused, stateFollower}

// tally is what a Quorum counts of itself.
type tally struct {
	state    string
	since    time.Time // when state began
	refusing time.Time // when changes were refused first, of those that are; zero: they are not
	entries  uint64
	commit   time.Duration // of all entries together
	before   ib.GUID       // the master before this one; 0: none is known
	led      time.Time     // since when this one is master
	elected  uint64        // terms that were won as the core became master
	regained uint64        // later, as the store was back or another master gone
}

// state is the present one, and why changes are refused. The holder of mu calls it.
func (q *Quorum) state() (string, error) {
	away := q.Terms.Away()
	switch {
	case q.stop == nil:
		return stateFollower, away
	case !q.Terms.Holds():
		return stateRefused, cmp.Or(away, q.why)
	case away != nil:
		return stateAway, away
	}
	return stateTerm, nil
}

// observe notes when the state changed: it is called where that may be, and every now and then. The
// holder of mu calls it.
func (q *Quorum) observe() (why error) {
	t := &q.tally
	state, why := q.state()
	if state == stateFollower {
		last, _ := q.Terms.Synced()
		t.before = last.Term.Owner
	} else if t.state == stateFollower {
		t.led = time.Now()
	}
	if state != t.state {
		t.state, t.since = state, time.Now()
	}
	switch refused := state == stateAway || state == stateRefused; {
	case !refused:
		t.refusing = time.Time{}
	case t.refusing.IsZero():
		t.refusing = time.Now()
	}
	return why
}

// count counts a term that was won for cores that go on with it; had is the last entry before. The first
// term of a state takes over from nobody. The holder of mu calls it.
func (q *Quorum) count(had journal.Mark) {
	switch {
	case q.regain:
		q.tally.regained++
	case had.Term.Owner != 0:
		q.tally.elected++
	}
	q.regain = false
}

// refuses keeps what the store said when it refused a change because the term is lost.
func (q *Quorum) refuses(err error) {
	if err == nil || q.Terms.Holds() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stop != nil && q.why == nil {
		q.why = err
	}
}

// measured is Apply of the shared store, and counts how long it takes.
func (r *reader) measured(ops []store.Op) error {
	began := time.Now()
	err := r.Terms.Apply(ops)
	r.q.refuses(err)
	if err == nil {
		r.q.mu.Lock()
		r.q.tally.entries++
		r.q.tally.commit += time.Since(began)
		r.q.mu.Unlock()
	}
	return err
}

// refusedFor is how long changes have been refused. The holder of mu calls it.
func (t *tally) refusedFor() time.Duration {
	if t.refusing.IsZero() {
		return 0
	}
	return time.Since(t.refusing)
}

// synced is how long ago a time was, -1 s if it never was.
func synced(at time.Time) time.Duration {
	if at.IsZero() {
		return -time.Second
	}
	return time.Since(at)
}

// HA implements Authority.
func (q *Quorum) HA() api.HA {
	q.mu.Lock()
	defer q.mu.Unlock()
	why := q.observe()
	t := &q.tally
	last, at := q.Terms.Synced()
	h := api.HA{Mode: "quorum", State: t.state, Since: t.since}
	if why != nil {
		h.Why = "changes are refused: " + why.Error()
	}
	h.Quorum = &api.Quorum{
		Term: last.Term.Number, TermOwner: last.Term.Writer(), Entry: last.Number,
		Synced: seconds(synced(at)), Refused: t.refusedFor().Seconds(),
		Entries: t.entries, Takeovers: t.elected + t.regained,
	}
	h.Quorum.Warm = q.told.Warm != nil
	if q.Members != nil {
		for _, m := range q.Members.Members() {
			x := api.Member{Address: m.Address, Heard: m.Heard, Master: m.Active, Err: m.Err, Differ: m.Differ}
			if m.GUID != 0 {
				x.GUID = m.GUID.String()
			}
			h.Quorum.Members = append(h.Quorum.Members, x)
			if host, _, err := net.SplitHostPort(m.Address); err == nil && m.Heard && m.Active && t.state == stateFollower {
				h.ActiveAt = host // where its API is there nobody says
			}
		}
	}
	if t.before != 0 && t.state != stateFollower && !t.led.IsZero() && (q.port == nil || t.before != q.port.PortGUID()) {
		h.Before = &api.Before{At: "port GUID " + t.before.String(), Until: t.led}
		for _, m := range h.Quorum.Members {
			if host, _, err := net.SplitHostPort(m.Address); err == nil && m.GUID == t.before.String() {
				h.Before.At = host
			}
		}
	}
	if t.entries > 0 {
		h.Quorum.Commit = (t.commit / time.Duration(t.entries)).Seconds()
	}
	return h
}

// Metrics implements Authority.
func (q *Quorum) Metrics() prometheus.Gatherer {
	return metrics.NewHA(func() metrics.HA {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.observe()
		t := &q.tally
		last, at := q.Terms.Synced()
		differ := map[string]bool{}
		if q.Members != nil {
			for _, m := range q.Members.Members() {
				for _, name := range m.Differ {
					differ[name] = true
				}
			}
		}
		return metrics.HA{
			State: t.state, States: quorumStates, Active: q.stop != nil, Term: last.Term.Number,
			Entries: t.entries, Commit: t.commit,
			Takeovers: []metrics.Count{{Labels: []string{"elected"}, N: t.elected}, {Labels: []string{"regained"}, N: t.regained}},
			Shared:    &metrics.Shared{Refused: t.refusedFor()}, Synced: synced(at), Differ: len(differ),
		}
	})
}
