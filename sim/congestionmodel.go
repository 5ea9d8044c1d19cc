package sim

import (
	"heddle/ib"
	"heddle/ib/cc"
)

// CCA changes the congestion control agents of a node from what they are otherwise: all of them
// answer, and keep what is written.
type CCA struct {
	// Silent agents do not answer, as where the class is not served at all.
	Silent bool
	// Refuse is the status that all requests are answered with; 0: none.
	Refuse ib.Status
	// RefuseSets is the same for Sets alone: all, or those of the attribute RefuseSetsOf.
	RefuseSets   ib.Status
	RefuseSetsOf ib.AttrID
	// Deaf agents answer a Set as if they had written it, and do not.
	Deaf bool
	// Blocks is how many blocks the table of an adapter is said to have; 0: two, which is what
	// it has.
	Blocks uint8
	// RedirectTo, if not empty, is the node whose QP RedirectQP (at least 2) answers for this
	// one, which must be a switch: ClassPortInfo says so. With RedirectByStatus ClassPortInfo
	// does not, but every other request is answered with status redirect (IBA §13.5.2).
	RedirectTo       string
	RedirectQP       uint32
	RedirectByStatus bool
	// Request, if set, sees each request that reaches an agent.
	Request func(m *ib.MAD)
	// Answer, if set, changes an answer before it is sent.
	Answer func(m *ib.MAD)
}

// SetCCA changes the congestion control agents of a node; nil makes them as they were.
func (s *Subnet) SetCCA(node string, c *CCA) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	var x CCA
	if d.cca = nil; c != nil {
		x = *c
		d.cca = &x
	}
	if d.ccaPort, err = s.redirects(&s.ccProxies, int32(i), x.RedirectTo, x.RedirectQP); err != nil {
		d.cca = nil
	}
	return err
}

// ccaFor is the node for which a request to a QP of d is meant: d, or one that redirects there.
func (s *Subnet) ccaFor(f *flight, d *device) *device {
	if k, ok := s.ccProxies[f.dqp]; ok && f.dqp > 1 {
		if p := &s.devs[k]; p.cca != nil && s.endPort(f.port) == s.endPort(p.ccaPort) {
			return p
		}
	}
	return d
}

// ccaRedirects answers a request to d that goes elsewhere; ok is false if it does not.
func (s *Subnet) ccaRedirects(f *flight, d *device) (st ib.Status, ok bool) {
	x := d.ccaModel()
	if x.RedirectTo == "" || f.dqp > 1 || (f.mad.AttrID() == cc.AttrClassPortInfo) == x.RedirectByStatus {
		return 0, false
	}
	if x.RedirectByStatus {
		st = ib.StatusRedirect
	}
	i := ib.ClassPortInfo{
		BaseVersion: 1, ClassVersion: cc.ClassVersion, RespTimeValue: defaultRespTime,
		RedirectLID: s.ports[s.endPort(d.ccaPort)].lid, RedirectQP: x.RedirectQP, RedirectQKey: ib.QKeyGSI, RedirectPKey: ib.PKeyDefaultFull,
	}
	data := cc.Data(&f.mad)
	clear(data)
	i.Put(data)
	return st, true
}

// ccaModel is how the congestion control agents of d behave.
func (d *device) ccaModel() *CCA {
	if d.cca == nil {
		return &plainCCA
	}
	return d.cca
}

var plainCCA CCA

// blocks is how many blocks of its table an adapter has room for.
func (c *CCA) blocks() uint32 {
	if c.Blocks == 0 {
		return cctBlocks
	}
	return min(uint32(c.Blocks), cctBlocks)
}
