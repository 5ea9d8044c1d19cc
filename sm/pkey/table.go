// Package pkey has the P_Key table of a port or virtual port, as far as it was read or acknowledged.
// The tables are stored in topo.Port and vport.VPort, and package pkeymgr alone writes them.
package pkey

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// Table is the P_Key table of a holder, as far as it is known. That of a port
// is the same one in the topologies of successive sweeps.
type Table struct {
	Claim   *smp.PKeyTable // what a block said that is not as it should be
	Claims  int            // … and how often that changed
	Life    uint32         // the mastership that it belongs to
	Sweep   uint64         // in which block 0 was last read, counted from 1; 0 = in none
	Blocks  uint16         // how many blocks, from the first on, are known
	Tries   uint8          // that failed in a row
	Virgin  bool           // its agent was reset when it was read, and it was not written since
	Refused bool           // the agent has no such table, or does not let us write it
	Asked   bool           // a request is under way
	OKGen   uint64         // generation of what ports are to hold for which it is as it should be
	RetryAt mad.Time       // not before
	WroteAt mad.Time       // when a Set was last acknowledged; meaningful if wrote
	Wrote   bool
	Peer    ib.GUID // of the end port whose keys it has; edge ports only
	// VerifyAt is when to see whether enforcement is as it was set, because an
	// older Set(PortInfo) may arrive late; 0 = no need. Edge ports only.
	VerifyAt mad.Time

	// Have is what it holds, by index, without the empty entries at its end.
	// Snapshots share it.
	Have    []ib.PKey
	Sending []ib.PKey // of the Set under way
	// Ghost are keys of earlier Sets of which the network may still deliver a copy until
	// GhostAt; then the table is read again. nil: there are no such Sets.
	Ghost   []ib.PKey
	GhostAt mad.Time
}

// Forget has the table read again. What it held may still be there.
func (t *Table) Forget() { t.Blocks, t.OKGen, t.Virgin = 0, 0, false }

// GhostOf notes that a copy of a Set of list, which may be empty, may arrive until mad.LateCopy from now.
func (t *Table) GhostOf(now mad.Time, list []ib.PKey) {
	if t.Ghost == nil {
		t.Ghost = []ib.PKey{}
	}
	for _, k := range list {
		if !k.IsEmpty() && !slices.Contains(t.Ghost, k) {
			t.Ghost = append(t.Ghost, k)
		}
	}
	t.GhostAt = now.Add(mad.LateCopy)
}

// Blocks is how many blocks a table of so many entries has.
func Blocks(capacity int) uint16 {
	return uint16((capacity + smp.PKeyBlockLen - 1) / smp.PKeyBlockLen)
}

// Block is one block of a list of keys.
func Block(list []ib.PKey, block uint32) (t smp.PKeyTable) {
	if at := int(block) * smp.PKeyBlockLen; at < len(list) {
		copy(t[:], list[at:])
	}
	return t
}
