package live

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/replica"
)

// ending finds out whether the peer's process has ended when a stream of the peer has. A manager has
// IsSM of its port from before its first sign until its process ends, in both roles; the kernel takes
// it back then, and the port's agent, which needs no process, says so. A process that was only stopped
// still has it.
type ending struct {
	left int // times that the port is to be asked
	busy bool
	next mad.Time
}

// Streams and IsSM of a process that ends go in any order, and its memory may take long.
const (
	endedTries = 12
	endedEvery = 20 * time.Millisecond
)

// begin has the peer's port asked from now on.
func (e *ending) begin(f *band) { e.left, e.next = endedTries, f.p.now() }

func (e *ending) tick(f *band, now mad.Time) mad.Time {
	switch {
	case e.left == 0 || e.busy:
		return mad.Never
	case now < e.next:
		return e.next
	}
	e.left--
	e.ask(f)
	return mad.Never
}

// ask asks the peer's port whether a manager has it.
func (e *ending) ask(f *band) {
	to, boot := f.peerLID(), f.p.core.View(f.p.now()).Peer.Boot
	if to == 0 || boot == 0 {
		e.left = 0
		return
	}
	e.busy = true
	wait := f.p.cfg.Rules.Every / 2
	again := func() {
		e.busy = false
		e.next = f.p.now().Add(endedEvery)
	}
	var m ib.MAD
	smp.NewLID(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0)
	f.ask(&m, to, wait, func(r *ib.MAD, _ mad.Time) {
		var ni smp.NodeInfo
		if b := data(r); b == nil || ni.Decode(b) != nil || ni.PortGUID != f.p.cfg.Rules.Peer {
			again() // or another port has the LID
			return
		}
		smp.NewLID(&m, ib.MethodGet, smp.AttrPortInfo, 0, f.p.mkey(f.p.cfg.Rules.Peer))
		f.ask(&m, to, wait, func(r *ib.MAD, _ mad.Time) {
			again()
			var pi smp.PortInfo
			if b := data(r); b == nil || pi.Decode(b) != nil || pi.CapabilityMask.Has(ib.CapIsSM) {
				return
			}
			e.left = 0
			f.p.step(replica.Ended{Boot: boot})
		})
	})
}
