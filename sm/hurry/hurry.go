// Package hurry shortens the time-outs of requests while hosts wait for a sweep.
//
// A sweep that meets a node which has just fallen silent waits for all tries of its requests: 3 s
// with the usual time-outs. Hosts whose joins wait for the sweep do not wait so long. While no
// answers arrive any more, tries follow each other at an interval that is long compared with the
// round trips seen, instead of 200 ms to 1.6 s. The number of tries is the same, so where datagrams
// are lost no more nodes are taken for silent.
//
// An agent that is slow, or busy for a moment, may be taken for silent. The node then stays in the
// subnet as it was last read (package absent), and is asked further for a while, by requests that
// no phase waits for. An answer brings it back. A node that answers an early request late, or that
// was silent for a moment only, is slow, or datagrams to it are lost: its requests are not hurried
// for a while.
//
// Requests owns which nodes are slow and which are asked further. Inputs are the requests that were
// hurried in vain and late answers. Outputs are earlier tries, requests, and a full sweep when a
// node answers.
package hurry

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/absent"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

const (
	// trips is the interval of tries in round trips, least its minimum.
	trips = 32
	least = 15 * time.Millisecond
	// patience is how long requests to a slow node are not hurried.
	patience = time.Minute
	// askTime is how long a node is asked in this way if it owes nothing.
	askTime = 3 * time.Second
	// maxLate bounds the nodes that are asked further.
	maxLate = 1 << 10
)

// Requests are the requests of a manager's sweeps.
type Requests struct {
	*env.Env
	absent  *absent.Nodes
	wanted  bool // joins wait for the sweep under way, or the next
	at      mad.Time
	patient map[ib.GUID]mad.Time // slow nodes, and since when
	asked   map[ib.GUID]bool     // nodes that are asked further
	late    map[uint32]*asking   // by number
	seq     uint32
}

// New returns requests that nothing hurries.
func New(e *env.Env, nodes *absent.Nodes) *Requests {
	return &Requests{Env: e, absent: nodes, patient: map[ib.GUID]mad.Time{}, asked: map[ib.GUID]bool{}, late: map[uint32]*asking{}}
}

// Want says that joins wait for the sweep under way or the next one.
func (r *Requests) Want() { r.wanted = true }

// Wanted reports whether joins wait.
func (r *Requests) Wanted() bool { return r.wanted }

// SweepEnded says whether joins still wait when a sweep has ended.
func (r *Requests) SweepEnded(wanted bool) { r.wanted = wanted }

// Forget is called when all requests have been canceled.
func (r *Requests) Forget() {
	clear(r.asked)
	clear(r.late)
	r.wanted = false
}

// interval is the time between tries.
func (r *Requests) interval() time.Duration {
	return min(max(trips*r.Engine.RTT(), least), r.Config.SMPTimeout)
}

// Next is when the requests under way are to be hurried; the last answer of the phase came at
// answered.
func (r *Requests) Next(answered mad.Time) mad.Time {
	if !r.wanted || r.Pending == 0 || r.Engine.Outstanding() == 0 || !r.Running() || r.absent.Veiled() {
		return mad.Never
	}
	switch r.Phase {
	case notice.PhaseDiscover, notice.PhaseAssign, notice.PhaseReadback, notice.PhaseDiscard, notice.PhaseDistribute,
		notice.PhaseTop, notice.PhaseLanes, notice.PhaseArm, notice.PhaseActivate:
		return max(answered, r.PhaseStart, r.at).Add(r.interval())
	}
	return mad.Never
}

// Send sends the requests under way again, but for those to slow nodes.
func (r *Requests) Send() {
	r.at = r.Now
	r.Engine.Hurry(r.Now, r.interval(), func(token uint64) bool {
		g, ok := r.about(work.Item(token))
		if !ok {
			return false
		}
		if at, slow := r.patient[g]; slow && r.Now < at.Add(patience) {
			return false
		}
		delete(r.patient, g)
		return true
	})
}

// about is the node that an item of the phase is about. ok is false if the node was no part of the
// subnet before this sweep.
func (r *Requests) about(it work.Item) (g ib.GUID, ok bool) {
	if it.OutOfPhase() {
		return 0, false
	}
	if it.Op() == work.OpNodeInfo {
		if b, ok := r.absent.WasBehind(subnet.Ref{Node: it.Node(), Port: it.Port()}); ok {
			return r.Last.Nodes[b.Node].Info.NodeGUID, true
		}
		return 0, false
	}
	if it.Node() < 0 {
		return 0, false
	}
	n := &r.Fabric.Nodes[it.Node()]
	g = n.Info.NodeGUID
	if r.Phase == notice.PhaseDiscover && !r.Region {
		if r.Last == nil {
			return 0, false
		}
		_, ok := r.Last.Find(g)
		return g, ok
	}
	return g, n.Flags&topo.NodeNew == 0
}

// asking is a node that is asked further, because it did not answer when it was hurried.
type asking struct {
	guid  ib.GUID
	since mad.Time
	req   mad.Request
	open  int // requests under way
}

// Of work.OpLate: extra is the number of the asking, shifted, and which of its requests it is.
const (
	lateAgain = 0 // repeated: shows when the silence is over
	lateOnce  = 1 // sent once: a node that answers it after a while is slow
)

// Unanswered has a node asked further that did not answer when it was hurried.
func (r *Requests) Unanswered(it work.Item, comp *mad.Completion) {
	g, ok := r.about(it)
	if !ok || r.asked[g] || len(r.asked) >= maxLate {
		return
	}
	r.seq = (r.seq + 1) & 0x7FFFFF
	a := &asking{guid: g, since: r.Now, req: mad.Request{Addr: comp.Addr, Retries: -1}}
	smp.NewDR(&a.req.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, smp.MKey(comp.Request), smp.Path(comp.Request))
	r.asked[g], r.late[r.seq] = true, a
	r.askLate(a, r.seq<<1|lateOnce)
	r.askLate(a, r.seq<<1|lateAgain)
}

func (r *Requests) askLate(a *asking, extra uint32) bool {
	a.req.Token, a.req.Timeout = uint64(work.Make(work.OpLate, -1, 0, extra)), 0
	if extra&1 == lateOnce {
		a.req.Timeout = askTime
	}
	if r.Engine.Submit(&a.req) != nil {
		return false
	}
	a.open++
	return true
}

// Answered takes the end of a request to a node that is asked further (work.OpLate).
func (r *Requests) Answered(it work.Item, comp *mad.Completion) {
	seq := it.Extra() >> 1
	a := r.late[seq]
	if a == nil {
		return
	}
	a.open--
	awaited := r.absent.Awaited(a.guid)
	again := it.Extra()&1 == lateAgain
	var ni smp.NodeInfo
	if work.Answer(comp) == nil && ni.Decode(smp.Data(comp.MAD)) == nil && ni.NodeGUID == a.guid {
		if !again || r.Now < a.since.Add(2*r.Config.SMPTimeout) {
			r.patient[a.guid] = r.Now
		}
		if awaited {
			r.absent.Heard(a.guid)
			r.Sweeper.AskFullSweep("a node that did not answer in time answers now: " + a.guid.String())
		}
	} else if again {
		if awaited {
			r.absent.Silent(a.guid)
		}
		if mad.Unanswered(comp.Err) && (r.Now < a.since.Add(askTime) || r.absent.Owes(a.guid)) && r.askLate(a, it.Extra()) {
			return
		}
	}
	if a.open <= 0 {
		delete(r.late, seq)
		delete(r.asked, a.guid)
	}
}
