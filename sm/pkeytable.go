package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
)

// pkeyTable is the P_Key table of a holder, as far as it is known. That of a port
// is the same one in the fabs of successive sweeps.
type pkeyTable struct {
	claim   *smp.PKeyTable // what a block said that is not as it should be
	claims  int            // … and how often that changed
	life    uint32         // the mastership that it belongs to
	sweep   uint64         // in which block 0 was last read, counted from 1; 0 = in none
	blocks  uint16         // how many blocks, from the first on, are known
	tries   uint8          // that failed in a row
	virgin  bool           // its agent was reset when it was read, and it was not written since
	refused bool           // the agent has no such table, or does not let us write it
	asked   bool           // a request is under way
	okGen   uint64         // of c.pk.gen for which it is as it should be
	retryAt mad.Time       // not before
	wroteAt mad.Time       // when a Set was last acknowledged; meaningful if wrote
	wrote   bool
	peer    ib.GUID // of the end port whose keys it has; edge ports only
	// verifyAt is when to see whether enforcement is as it was set, because an
	// older Set(PortInfo) may arrive late; 0 = no need. Edge ports only.
	verifyAt mad.Time

	// have is what it holds, by index, without the empty entries at its end.
	// Snapshots share it.
	have    []ib.PKey
	sending []ib.PKey // of the Set under way
	// ghost are keys of earlier Sets of which the network may still deliver a
	// copy until ghostAt; then the table is read again. nil: there are no such Sets.
	ghost   []ib.PKey
	ghostAt mad.Time
}

// forget: the table has to be read again. What it held may still be there.
func (t *pkeyTable) forget() { t.blocks, t.okGen, t.virgin = 0, 0, false }

// ghostOf: a copy of a Set of list, which may be empty, may come until suspectTime
// from now.
func (t *pkeyTable) ghostOf(now mad.Time, list []ib.PKey) {
	if t.ghost == nil {
		t.ghost = []ib.PKey{}
	}
	for _, k := range list {
		if !k.IsEmpty() && !slices.Contains(t.ghost, k) {
			t.ghost = append(t.ghost, k)
		}
	}
	t.ghostAt = now.Add(suspectTime)
}

func pkeyBlocks(capacity int) uint16 {
	return uint16((capacity + smp.PKeyBlockLen - 1) / smp.PKeyBlockLen)
}

func pkeyBlock(list []ib.PKey, block uint32) (t smp.PKeyTable) {
	if at := int(block) * smp.PKeyBlockLen; at < len(list) {
		copy(t[:], list[at:])
	}
	return t
}

// share returns a table equal to list that all ports with such a table share.
func (k *pkeys) share(list []ib.PKey) []ib.PKey {
	list = partition.Trim(list)
	b := make([]byte, 0, 128)
	for _, x := range list {
		b = append(b, byte(x>>8), byte(x))
	}
	if t, ok := k.tables[string(b)]; ok {
		return t
	}
	t := append([]ib.PKey{}, list...)
	k.tables[string(b)] = t
	return t
}
