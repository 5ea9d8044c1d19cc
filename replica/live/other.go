package live

import (
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/replica"
)

// other is the manager that this one's port names as its SM, if that is not this one. It is asked
// for SMInfo as long as the two managers are no pair.
type other struct {
	busy bool
	next mad.Time
	lid  ib.LID     // that answered
	info smp.SMInfo // what it said
	at   mad.Time   // when it was asked; 0: it has not answered
	told ib.GUID    // the manager that people heard of last
}

func (o *other) tick(f *band, now mad.Time) mad.Time {
	own := &f.look.info
	if o.busy || !f.look.have || !own.LID.IsUnicast() || !own.MasterSMLID.IsUnicast() || mine(own) {
		return mad.Never
	}
	o.warn(f)
	if o.next <= now {
		o.next = now.Add(2 * f.p.cfg.Rules.Every)
		o.busy = true
		o.ask(f, func(bool) { o.busy = false })
	}
	return o.next
}

// ask asks the manager that the port names, and calls done with whether it is known who that is.
func (o *other) ask(f *band, done func(known bool)) {
	own := &f.look.info
	if !own.MasterSMLID.IsUnicast() || mine(own) || f.p.core.View(f.p.now()).Paired {
		done(true) // there is none, or the rules need no answer
		return
	}
	to := own.MasterSMLID
	var key ib.MKey // that of a third manager's port is not known
	if to == f.peerLID() {
		key = f.p.mkey(f.p.cfg.Rules.Peer)
	}
	var m ib.MAD
	smp.NewLID(&m, ib.MethodGet, smp.AttrSMInfo, 0, key)
	f.ask(&m, to, f.p.cfg.Rules.Every, func(r *ib.MAD, sent mad.Time) {
		var si smp.SMInfo
		b := data(r)
		known := b != nil && si.Decode(b) == nil
		if known {
			o.lid, o.info, o.at = to, si, sent
		}
		done(known)
	})
}

// master is the manager that the port names, if it answers as master; otherwise 0.
func (o *other) master(f *band) ib.GUID {
	fresh := o.at > 0 && f.p.now().Sub(o.at) <= 5*f.p.cfg.Rules.Every
	if !fresh || o.lid != f.look.info.MasterSMLID || mine(&f.look.info) || o.info.SMState != smp.SMMaster || o.info.GUID == f.p.cfg.Rules.Me {
		return 0
	}
	return o.info.GUID
}

// rival is the master that this manager does not take the subnet from: the peer, or one that it
// does not outrank.
func (o *other) rival(f *band) ib.GUID {
	g := o.master(f)
	if g == f.p.cfg.Rules.Peer || o.info.Priority >= f.p.Priority() {
		return g
	}
	return 0
}

// warn tells people once of a master that is not of the pair, if this manager is active alone.
func (o *other) warn(f *band) {
	g := o.master(f)
	if v := f.p.core.View(f.p.now()); g == 0 || g == o.told || g == f.p.cfg.Rules.Peer || !v.Alone {
		return
	}
	o.told = g
	f.p.notice(&replica.Notice{Kind: replica.NoticeHeld, Other: g, Mark: f.p.core.View(f.p.now()).Last})
}

// OtherMaster explains a master other than this manager and its peer: other is its port GUID, and
// peer that of --peer-guid.
func OtherMaster(me, peer, other ib.GUID) string {
	if other == peer {
		return fmt.Sprintf("the partner %v is master, but no sign of it comes: compare --peer-guid there, which should be %v, and --peer and --ha-secret on both", other, me)
	}
	return fmt.Sprintf("the manager with port GUID %v is master of the subnet, and --peer-guid is %v: if that manager is the partner, restart this one with --peer-guid %v", other, peer, other)
}
