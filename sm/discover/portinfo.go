package discover

import (
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// portInfo takes the PortInfo of a port that this discovery has not read yet.
func (d *Discovery) portInfo(it work.Item, comp *mad.Completion) {
	f := d.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	err := work.Answer(comp)
	if err != nil && invalidField(err) && it.Extra()&1 == 0 {
		p.Flags |= topo.PortNoExt // an agent that does not know the extended-speed bit
		d.Add(work.Make(work.OpPortInfo, n, num, it.Extra()|1))
		return
	}
	var pi smp.PortInfo
	if err == nil {
		err = d.decodePortInfo(n, num, comp, &pi)
	}
	if p.Has(topo.PortAsked) && !d.Region {
		if err == nil {
			p.Info.PortState = pi.PortState
		}
		return // only its state is of interest; the silence behind it is known
	}
	switch {
	case err == nil:
		p.Info = pi
		p.Flags |= topo.PortKnown
	case it.Extra()>>1 == 0 || !p.Has(topo.PortKnown):
		d.unread(n, int(num), smp.AttrPortInfo, err)
		return
	} // else it was asked with another key, and the answer before stands
	if f.AgentPort(n, num) == p && d.askWithKey(it, p) {
		return
	}
	d.portRead(n, p)
}

// invalidField reports whether an agent refused a field of a request.
func invalidField(err error) bool {
	var se *work.StatusError
	return errors.As(err, &se) && se.Status&ib.StatusInvalidField == ib.StatusInvalidField
}

// decodePortInfo decodes a PortInfo, and returns an error if it cannot be that of the port.
func (d *Discovery) decodePortInfo(n int32, num uint8, comp *mad.Completion, pi *smp.PortInfo) error {
	if err := pi.Decode(smp.Data(comp.MAD)); err != nil {
		return err
	}
	if (pi.PortState < ib.StateDown || pi.PortState > ib.StateActiveDefer) && !(d.Fabric.Nodes[n].IsSwitch() && num == 0) {
		return fmt.Errorf("port state %d", pi.PortState)
	}
	if was := d.absent.LastPort(n, num); was != nil {
		return d.absent.Plausible(was, pi)
	}
	return nil
}

// askWithKey takes the M_Key that an agent shows. If the agent hides its key from those who do not
// have it (M_KeyProtectBits 1), askWithKey asks again with the next key and reports true, until all
// keys have been tried.
func (d *Discovery) askWithKey(it work.Item, p *topo.Port) bool {
	if p.Info.MKey != 0 {
		p.MKey = p.Info.MKey
		return false
	}
	if p.Info.MKeyProtectBits != 1 {
		return false
	}
	for try := it.Extra() >> 1; ; try++ {
		k, more := d.needs.Keys.NextHidden(try)
		if !more {
			return false
		}
		if k != p.MKey {
			p.MKey = k
			d.Add(work.Make(work.OpPortInfo, p.Node, p.Num, it.Extra()&1|(try+1)<<1))
			return true
		}
	}
}

// portRead asks the questions that a PortInfo makes possible.
func (d *Discovery) portRead(n int32, p *topo.Port) {
	switch f := d.Fabric; {
	case !f.Nodes[n].IsSwitch():
		d.endPortFound(n, p)
		if n == f.Self.Node && p.Num == f.Self.Port && p.LinkUp() {
			d.askBehind(n, p.Num)
		}
	case p.Num == 0:
		d.endPortFound(n, p)
	case p.LinkUp() && !p.Has(topo.PortProved):
		d.askBehind(n, p.Num)
	}
}
