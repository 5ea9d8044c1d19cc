package sim

import (
	"fmt"
	"maps"

	"heddle/ib"
	"heddle/ib/pm"
)

// PMA is how the performance management agents of a node differ from those that Config describes;
// the zero value does not.
type PMA struct {
	// NoExtended: there is no PortCountersExtended. NoIETF: it has no unicast and multicast
	// packets. FullExtended: it has the error counters too, as with
	// Config.ExtendedErrorCounters.
	NoExtended, NoIETF, FullExtended bool
	// Wrap: 32-bit traffic counters go on from 0 where others stop.
	Wrap bool
	// NoClassPortInfo and NoSamples: the agent refuses ClassPortInfo, or PortSamplesControl.
	NoClassPortInfo, NoSamples bool
	// Drops: it does not answer requests for attributes that it does not have, where others refuse
	// them.
	Drops bool
	// Silent: it answers nothing, while the SMA does.
	Silent bool
	// RedirectTo, if not empty, is the node whose QP RedirectQP (at least 2) answers for this
	// one, which must be a switch: ClassPortInfo says so. With RedirectByStatus ClassPortInfo
	// does not, but every other request is answered with status redirect (IBA §13.5.2).
	RedirectTo       string
	RedirectQP       uint32
	RedirectByStatus bool
}

// SetPMA changes the performance management agents of a node; nil makes them as they were.
func (s *Subnet) SetPMA(node string, p *PMA) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	var c PMA
	if d.pma = nil; p != nil {
		c = *p
		d.pma = &c
	}
	if d.pmaPort, err = s.redirects(&s.proxies, int32(i), c.RedirectTo, c.RedirectQP); err != nil {
		d.pma, c.Wrap = nil, false
	}
	for k := d.first; k <= d.first+int32(d.nports); k++ {
		s.ports[k].wraps = c.Wrap
	}
	return err
}

// redirects has a QP of node to answer for node i in a class, which has these proxies; "": its own
// agent answers. It returns the port of that node.
func (s *Subnet) redirects(proxies *map[uint32]int32, i int32, to string, qp uint32) (port int32, err error) {
	maps.DeleteFunc(*proxies, func(_ uint32, k int32) bool { return k == i })
	if to == "" {
		return 0, nil
	}
	n, err := s.Node(to)
	if err != nil {
		return 0, err
	}
	if d := &s.devs[i]; !d.isSwitch() || qp < 2 {
		return 0, fmt.Errorf("sim: %s cannot redirect to QP %d: only switches do, to a QP from 2 on", d.desc, qp)
	}
	if *proxies == nil {
		*proxies = map[uint32]int32{}
	}
	(*proxies)[qp] = i
	if port = s.devs[n].first; !s.devs[n].isSwitch() {
		port++
	}
	return port, nil
}

// proxied is the node for which a request to a QP of d is meant: d, or one that redirects there.
func (s *Subnet) proxied(f *flight, d *device) *device {
	if k, ok := s.proxies[f.dqp]; ok && f.dqp > 1 {
		if p := &s.devs[k]; p.pma != nil && s.endPort(f.port) == s.endPort(p.pmaPort) {
			return p
		}
	}
	return d
}

// pmaRefuses answers what the model of the agent has otherwise; ok is false if it has not.
func (s *Subnet) pmaRefuses(f *flight, d *device) (st ib.Status, ok bool) {
	p, attr := d.pma, f.mad.AttrID()
	if p == nil {
		return 0, false
	}
	direct := f.dqp < 2
	switch {
	case p.RedirectTo != "" && direct && (attr == pm.AttrClassPortInfo) != p.RedirectByStatus:
		data := pm.Data(&f.mad)
		c := s.classPortInfo(f, d)
		to := &s.ports[s.endPort(d.pmaPort)]
		c.RedirectLID, c.RedirectQP, c.RedirectQKey, c.RedirectPKey = to.lid, p.RedirectQP, ib.QKeyGSI, ib.PKeyDefaultFull
		clear(data)
		c.Put(data)
		if p.RedirectByStatus {
			st = ib.StatusRedirect
		}
		return st, true
	case attr == pm.AttrClassPortInfo && p.NoClassPortInfo, attr == pm.AttrPortSamplesControl && p.NoSamples,
		attr == pm.AttrPortCountersExtended && p.NoExtended:
		return ib.StatusBadMethodAttr, true
	}
	return 0, false
}

// Tally is an amount of traffic and errors of a port.
type Tally struct {
	XmitWords, RcvWords         uint64 // of 4 bytes
	XmitPkts, RcvPkts           uint64
	XmitMulticast, RcvMulticast uint64 // of these packets
	// Errors are in the order of CounterSelect2 of PortCountersExtended.
	Errors [numErrs]uint64
}

// Count has a port count a tally in addition to its own traffic.
func (s *Subnet) Count(node, port int, t *Tally) {
	d := &s.devs[node]
	p := d.first + int32(port)
	c, wraps := &s.ports[p].cnt, s.ports[p].wraps
	add32(&c.xmitData32, t.XmitWords, wraps)
	add32(&c.rcvData32, t.RcvWords, wraps)
	add32(&c.xmitPkts32, t.XmitPkts, wraps)
	add32(&c.rcvPkts32, t.RcvPkts, wraps)
	c.xmitData += t.XmitWords
	c.rcvData += t.RcvWords
	c.xmitPkts += t.XmitPkts
	c.rcvPkts += t.RcvPkts
	c.mxmit += t.XmitMulticast
	c.mrcv += t.RcvMulticast
	c.uxmit += t.XmitPkts - t.XmitMulticast
	c.urcv += t.RcvPkts - t.RcvMulticast
	for i, n := range t.Errors {
		if n != 0 {
			s.coldOf(p).pm.err[i] += n
		}
	}
}

// Counted is what a port has counted since its counters were cleared, with its own datagrams.
func (s *Subnet) Counted(node, port int) (t Tally) {
	p := s.devs[node].first + int32(port)
	s.countData(p)
	c := &s.ports[p].cnt
	t = Tally{
		XmitWords: c.xmitData, RcvWords: c.rcvData, XmitPkts: c.xmitPkts, RcvPkts: c.rcvPkts,
		XmitMulticast: c.mxmit, RcvMulticast: c.mrcv,
	}
	if c := s.ports[p].cold; c != nil {
		t.Errors = c.pm.err
	}
	return t
}

// ClearCounters has a port begin its counters of traffic or of errors from 0, as a tool does.
func (s *Subnet) ClearCounters(node, port int, traffic, errors bool) {
	d := &s.devs[node]
	p := d.first + int32(port)
	if traffic {
		s.ports[p].cnt = counters{}
	}
	if c := s.ports[p].cold; c != nil && errors {
		c.pm.err = [numErrs]uint64{}
	}
}

// CountVPort has a virtual port count a tally in addition to its own traffic; the errors are those
// of relaying, in the first. With clear its counters begin from 0 before.
func (s *Subnet) CountVPort(f VF, t *Tally, clear bool) error {
	v, err := s.function(f)
	if err != nil {
		return err
	}
	if clear {
		v.cnt, v.relay = counters{}, 0
	}
	c := &v.cnt
	c.xmitData += t.XmitWords
	c.rcvData += t.RcvWords
	c.xmitPkts += t.XmitPkts
	c.rcvPkts += t.RcvPkts
	c.mxmit += t.XmitMulticast
	c.mrcv += t.RcvMulticast
	c.uxmit += t.XmitPkts - t.XmitMulticast
	c.urcv += t.RcvPkts - t.RcvMulticast
	v.relay += t.Errors[0]
	return nil
}
