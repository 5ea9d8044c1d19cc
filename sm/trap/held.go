package trap

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/work"
)

// The agent of a switch that has just sent a trap holds its next one back until the subnet
// timeout has passed (PortInfo:SubnetTimeOut, 1.07 s by default; IBA §14.2.5.6). If a link goes
// down in that time, perhaps no trap arrives: that of the other end may have to take the path over
// the link. So such switches are asked for PortStateChange until then.

// heldLook is the time between two requests to such a switch. A fault is to be repaired within
// 200 ms, and a repair takes some 10 ms.
const heldLook = 50 * time.Millisecond

// maxHeld bounds these switches. The light sweeps after a fault ask the others.
const maxHeld = 64

// holder is a switch that holds its next trap back.
type holder struct {
	guid  ib.GUID
	until mad.Time
}

// Holds is called when a switch has sent a trap, or must have sent one that was lost.
func (r *Receiver) Holds(g ib.GUID) {
	h := holder{g, r.Now.Add(r.gap())}
	if i := slices.IndexFunc(r.holders, func(h holder) bool { return h.guid == g }); i >= 0 {
		r.holders[i] = h
	} else if len(r.holders) < maxHeld {
		r.holders = append(r.holders, h)
	}
	if r.lookAt == mad.Never {
		r.lookAt = r.Now.Add(heldLook)
	}
}

// gap is how long an agent holds traps back.
func (r *Receiver) gap() time.Duration {
	return 4096 * time.Nanosecond << min(r.Config.SubnetTimeOut, 31)
}

// NextLook is when Look is due, mad.Never if no switch holds a trap back.
func (r *Receiver) NextLook() mad.Time { return r.lookAt }

// Look asks the switches that hold traps back for PortStateChange.
func (r *Receiver) Look() {
	r.holders = slices.DeleteFunc(r.holders, func(h holder) bool { return h.until <= r.Now })
	r.lookAt = mad.Never
	if len(r.holders) > 0 {
		r.lookAt = r.Now.Add(heldLook)
	}
	for _, h := range r.holders {
		if n, ok := r.Fabric.Find(h.guid); ok && r.Fabric.Nodes[n].IsSwitch() {
			r.Ask(work.Make(work.OpPeek, n, 0, 0), smp.AttrSwitchInfo, 0, mad.Urgent)
		}
	}
}
