package sm

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// A sweep that meets a node which has just fallen silent waits for all tries of its requests:
// 3 s with the usual time-outs. Hosts whose joins wait for the sweep do not wait so long:
// while nothing is answered any more, tries follow each other at an interval that is long
// beside the round trips seen, instead of 200 ms to 1.6 s. There are as many tries as ever,
// so where datagrams are lost no more nodes are taken for silent.
//
// An agent that is slow, or busy for a moment, may be: it is kept as it was last read, like any
// silent node (unseen.go). It is asked further for a while, by requests that nothing waits for. An
// answer brings it back. A node that answers what was asked long before, or that was silent
// for a moment only, is slow, or datagrams are lost on the way to it: it is not hurried for
// a while.

const (
	// hurryTrips is the interval of tries in round trips, hurryMin its least.
	hurryTrips = 32
	hurryMin   = 15 * time.Millisecond
	// patience is how long a node is not hurried that turned out to be slow.
	patience = time.Minute
	// askTime is how long a node is asked in this way if it owes nothing.
	askTime = 3 * time.Second
	// maxLate bounds the nodes that are asked meanwhile.
	maxLate = 1 << 10
)

type hurry struct {
	wanted  bool // joins wait for the sweep under way, or the next
	at      mad.Time
	patient map[ib.GUID]mad.Time // nodes that were slow, and when
	asked   map[ib.GUID]bool     // further
	late    map[uint32]*asking   // by number
	seq     uint32
}

func newHurry() hurry {
	return hurry{patient: map[ib.GUID]mad.Time{}, asked: map[ib.GUID]bool{}, late: map[uint32]*asking{}}
}

// forget is for a new state: the requests are canceled.
func (h *hurry) forget() {
	clear(h.asked)
	clear(h.late)
	h.wanted = false
}

// cancelAll cancels all requests but those to late nodes, whose operation is the last.
func (c *Core) cancelAll() { c.Engine.Cancel(0, uint64(work.OpLate)<<56-1) }

// hurryWait is the interval of tries.
func (c *Core) hurryWait() time.Duration {
	return min(max(hurryTrips*c.Engine.RTT(), hurryMin), c.Config.SMPTimeout)
}

// hurryAt is when the requests under way are to be hurried.
func (c *Core) hurryAt() mad.Time {
	if !c.hurry.wanted || c.Pending == 0 || c.Engine.Outstanding() == 0 || !c.Running() || c.absent.Veiled() {
		return mad.Never
	}
	switch c.Phase {
	case notice.PhaseDiscover, notice.PhaseAssign, notice.PhaseReadback, notice.PhaseDiscard, notice.PhaseDistribute,
		notice.PhaseTop, notice.PhaseLanes, notice.PhaseArm, notice.PhaseActivate:
		return max(c.peeking.answeredAt, c.PhaseStart, c.hurry.at).Add(c.hurryWait())
	}
	return mad.Never
}

func (c *Core) hurryUp() {
	c.hurry.at = c.Now
	c.Engine.Hurry(c.Now, c.hurryWait(), func(token uint64) bool {
		g, ok := c.about(work.Item(token))
		if !ok {
			return false
		}
		if at, slow := c.hurry.patient[g]; slow && c.Now < at.Add(patience) {
			return false
		}
		delete(c.hurry.patient, g)
		return true
	})
}

// about is the node that an item of the phase is about, if it was part of the subnet before this
// sweep.
func (c *Core) about(it work.Item) (ib.GUID, bool) {
	if it.Beside() {
		return 0, false
	}
	if it.Op() == work.OpNodeInfo {
		if b, ok := c.absent.WasBehind(ref{Node: it.Node(), Port: it.Port()}); ok {
			return c.Last.Nodes[b.Node].Info.NodeGUID, true
		}
		return 0, false
	}
	if it.Node() < 0 {
		return 0, false
	}
	n := &c.Fabric.Nodes[it.Node()]
	g := n.Info.NodeGUID
	if c.Phase == notice.PhaseDiscover && !c.Region {
		if c.Last == nil {
			return 0, false
		}
		_, ok := c.Last.Find(g)
		return g, ok
	}
	return g, n.Flags&topo.NodeNew == 0
}

// asking is a node that was hurried in vain and is asked further.
type asking struct {
	guid  ib.GUID
	since mad.Time
	req   mad.Request
	open  int // requests under way
}

// Of work.OpLate: extra is the number of the asking, shifted, and which of its requests it is.
const (
	lateAgain = 0 // sent again and again: when the silence is over
	lateOnce  = 1 // once: a node that answers it after a while is slow
)

// hurriedInVain has a node asked further that did not answer when it was hurried.
func (c *Core) hurriedInVain(it work.Item, comp *mad.Completion) {
	h := &c.hurry
	g, ok := c.about(it)
	if !ok || h.asked[g] || len(h.asked) >= maxLate {
		return
	}
	h.seq = (h.seq + 1) & 0x7FFFFF
	a := &asking{guid: g, since: c.Now, req: mad.Request{Addr: comp.Addr, Retries: -1}}
	smp.NewDR(&a.req.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, smp.MKey(comp.Request), smp.Path(comp.Request))
	h.asked[g], h.late[h.seq] = true, a
	c.askLate(a, h.seq<<1|lateOnce)
	c.askLate(a, h.seq<<1|lateAgain)
}

func (c *Core) askLate(a *asking, extra uint32) bool {
	a.req.Token, a.req.Timeout = uint64(work.Make(work.OpLate, -1, 0, extra)), 0
	if extra&1 == lateOnce {
		a.req.Timeout = askTime
	}
	if c.Engine.Submit(&a.req) != nil {
		return false
	}
	a.open++
	return true
}

// onLate takes the answer of a node that was hurried in vain.
func (c *Core) onLate(it work.Item, comp *mad.Completion) {
	h := &c.hurry
	seq := it.Extra() >> 1
	a := h.late[seq]
	if a == nil {
		return
	}
	a.open--
	awaited := c.absent.Awaited(a.guid)
	again := it.Extra()&1 == lateAgain
	var ni smp.NodeInfo
	if work.Answer(comp) == nil && ni.Decode(smp.Data(comp.MAD)) == nil && ni.NodeGUID == a.guid {
		if !again || c.Now < a.since.Add(2*c.Config.SMPTimeout) {
			h.patient[a.guid] = c.Now
		}
		if awaited {
			c.absent.Heard(a.guid)
			c.AskFullSweep("what did not answer in time does now: " + a.guid.String())
		}
	} else if again {
		if awaited {
			c.absent.Silent(a.guid)
		}
		if mad.Unanswered(comp.Err) && (c.Now < a.since.Add(askTime) || c.absent.Owes(a.guid)) && c.askLate(a, it.Extra()) {
			return
		}
	}
	if a.open <= 0 {
		delete(h.late, seq)
		delete(h.asked, a.guid)
	}
}
