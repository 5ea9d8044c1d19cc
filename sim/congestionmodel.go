package sim

import "heddle/ib"

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
	if s.devs[i].cca = nil; c != nil {
		x := *c
		s.devs[i].cca = &x
	}
	return nil
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
