package live

import (
	"errors"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/replica"
)

// fence makes this manager the SM of both ports after it became active (rule 5).
type fence struct {
	on     bool
	until  mad.Time // after it nothing may be written, unless no way led there
	told   bool     // the core knows how it went
	done   bool     // the peer's port names this manager
	busy   bool
	next   mad.Time
	giveUp mad.Time // no way leads there, as it did not answer until now
	own    bool     // this manager's port is being written
	mute   int      // Sets in a row that it did not answer
	locked bool     // it answers none: the managers have to find out
	gen    int      // which mastership
	began  mad.Time
}

// take begins to fence.
func (f *band) take(until mad.Time) {
	now := f.p.now()
	rules := &f.p.cfg.Rules
	giveUp := now.Add(rules.Alone / 2)
	if until != mad.Never {
		giveUp = until.Add(-2 * rules.Every)
	}
	f.fence = fence{on: true, until: until, giveUp: giveUp, next: now, gen: f.fence.gen + 1, began: now}
	f.look.named = false
	f.look.next = now
}

// release ends it.
func (f *band) release() { f.fence, f.look.named = fence{gen: f.fence.gen}, false }

// tell answers the core.
func (x *fence) tell(f *band, unreachable bool) {
	if !x.told {
		x.told = true
		f.p.step(replica.Fenced{Unreachable: unreachable})
	}
}

func (x *fence) tick(f *band, now mad.Time) mad.Time {
	if !x.on {
		return mad.Never
	}
	x.claimOwn(f, now)
	if !x.told && now >= x.giveUp {
		x.tell(f, true)
	}
	next := mad.Never
	if !x.told {
		next = x.giveUp
	}
	switch {
	case x.done || x.busy:
	case x.next > now:
		next = min(next, x.next)
	default:
		x.begin(f, now)
	}
	return next
}

// again has the next attempt begin soon: in less than Alone/10 once there is a way.
func (x *fence) again(f *band) {
	x.busy = false
	x.next = f.p.now().Add(min(f.p.cfg.Rules.Every/2, f.p.cfg.Rules.Alone/20))
}

// claimOwn makes this manager the SM of its own port, by what the last look showed.
func (x *fence) claimOwn(f *band, now mad.Time) {
	pi := f.look.info
	looked := f.look.have && !f.look.busy && f.look.at >= x.began
	if x.own || x.locked || f.look.named || !looked || !pi.LID.IsUnicast() || mine(&pi) || now >= x.until && !x.told {
		return
	}
	x.own = true
	pi.ClearForSet()
	pi.MasterSMLID = pi.LID
	gen := x.gen
	f.askOwn(ib.MethodSet, f.p.cfg.Rules.Every, &pi, func(got *smp.PortInfo, _ mad.Time) {
		if x.gen != gen {
			return
		}
		x.own = false
		f.look.next = f.p.now()
		if x.mute++; got != nil {
			x.mute = 0
		}
		if x.mute == lockedSets {
			x.locked = true
			f.p.notice(&replica.Notice{Kind: replica.NoticePort, Err: errLocked, Mark: f.p.core.View(f.p.now()).Last})
		}
	})
}

// lockedSets is how many Sets of this manager's port without an answer mean that it takes none.
const lockedSets = 5

var errLocked = errors.New("replica: this manager's port answers Get(PortInfo), but no Set: is its M_Key the one that is stored? A LID that floats does not come to it, and changes wait for the partner as long as the port names another manager")

// begin makes one attempt: is it the peer's port, what does it name, and then the Set.
func (x *fence) begin(f *band, now mad.Time) {
	to := f.peerLID()
	if to == 0 || !usable(&f.look.info) {
		// Without a LID the peer's port cannot name its manager either.
		if to == 0 && f.look.have && f.look.info.LID.IsUnicast() {
			x.tell(f, true)
		}
		x.again(f)
		return
	}
	x.busy = true
	var m ib.MAD
	smp.NewLID(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0)
	f.ask(&m, to, x.wait(f), x.here(f, func(r *ib.MAD) {
		var ni smp.NodeInfo
		if ni.Decode(smp.Data(r)) != nil || ni.PortGUID != f.p.cfg.Rules.Peer {
			x.again(f) // another port has the LID by now
			return
		}
		smp.NewLID(&m, ib.MethodGet, smp.AttrPortInfo, 0, f.p.mkey(f.p.cfg.Rules.Peer))
		f.ask(&m, to, x.wait(f), x.here(f, func(r *ib.MAD) {
			var pi smp.PortInfo
			if pi.Decode(smp.Data(r)) != nil {
				x.again(f)
				return
			}
			x.write(f, to, &pi)
		}))
	}))
}

// here returns what takes the response of an attempt, unless the mastership has ended.
func (x *fence) here(f *band, then func(r *ib.MAD)) func(*ib.MAD, mad.Time) {
	gen := x.gen
	return func(r *ib.MAD, _ mad.Time) {
		switch {
		case !x.on || x.gen != gen:
		case data(r) == nil:
			x.again(f)
		default:
			then(r)
		}
	}
}

func (x *fence) wait(f *band) time.Duration { return f.p.cfg.Rules.Every / 2 }

func (x *fence) write(f *band, to ib.LID, pi *smp.PortInfo) {
	me, ours := f.look.info.LID, within(&f.look.info, pi.LID)
	if pi.MasterSMLID == me && !ours {
		x.done = true
		x.tell(f, false)
		return
	}
	if now := f.p.now(); now >= x.until && !x.told {
		x.on = false // the peer may be alone: nothing more may be written
		return
	}
	other := f.peerLID()
	if ours && other == 0 {
		x.again(f) // it has our LID, and would name itself
		return
	}
	pi.ClearForSet()
	if pi.MasterSMLID = me; ours {
		pi.LID = other // the LID of the manager floats, and has come here
	}
	var m ib.MAD
	smp.NewLID(&m, ib.MethodSet, smp.AttrPortInfo, 0, f.p.mkey(f.p.cfg.Rules.Peer))
	pi.Put(smp.Data(&m))
	f.ask(&m, to, x.wait(f), x.here(f, func(r *ib.MAD) {
		var got smp.PortInfo
		if got.Decode(smp.Data(r)) != nil || got.MasterSMLID != me || within(&f.look.info, got.LID) {
			x.again(f)
			return
		}
		x.done = true
		x.tell(f, false)
	}))
}
