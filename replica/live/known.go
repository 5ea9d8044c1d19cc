package live

import (
	"sync"
	"sync/atomic"

	"heddle/ib"
	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

// known is what the journal says about the ports of both managers.
type known struct {
	mu   sync.Mutex
	lid  map[ib.GUID]ib.LID  // guarded by mu
	kept map[ib.GUID]ib.LID  // what the journal says of lid, with store.ManagerGUID; guarded by mu
	mkey map[ib.GUID]ib.MKey // guarded by mu

	needs atomic.Uint32 // oldest version of the journal whose programs can carry out all of it
}

// replaced takes a state.
func (k *known) replaced(r *replica.Config, s *store.State) {
	k.mu.Lock()
	k.lid, k.kept, k.mkey = map[ib.GUID]ib.LID{}, map[ib.GUID]ib.LID{}, map[ib.GUID]ib.MKey{}
	k.mu.Unlock()
	k.needs.Store(0)
	for i := range s.Records {
		k.op(r, &store.Op{Kind: store.PutRecord, Record: s.Records[i]})
	}
	for _, e := range s.LIDs {
		k.op(r, &store.Op{Kind: store.PutLID, GUID: e.GUID, LID: e.LID})
	}
	for _, e := range s.MKeys {
		k.op(r, &store.Op{Kind: store.PutMKey, GUID: e.GUID, MKey: e.MKey})
	}
}

// op takes a change.
func (k *known) op(r *replica.Config, o *store.Op) {
	if v := uint32(journal.Needs(o)); v > k.needs.Load() {
		k.needs.Store(v) // the pair's goroutine and that of the disk take turns
	}
	if o.GUID != r.Me && o.GUID != r.Peer && o.GUID != store.ManagerGUID {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch o.Kind {
	case store.PutLID:
		k.lid[o.GUID], k.kept[o.GUID] = o.LID, o.LID
	case store.DeleteLID:
		delete(k.kept, o.GUID)
	case store.PutMKey:
		k.mkey[o.GUID] = o.MKey
	case store.DeleteMKey:
		delete(k.mkey, o.GUID)
	}
}

// peerLID is the LID of the peer's port, 0 if it is not known. own is that of this manager's port, 0
// if it has none. Where the LID of the manager floats one of the two ports has it, and the other one
// the LID that is stored for it.
func (k *known) peerLID(r *replica.Config, own ib.LID) ib.LID {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, floats := k.lid[r.Peer], k.kept[store.ManagerGUID]
	switch {
	case floats == 0 || own == 0:
		return l
	case own != floats:
		return floats
	case k.kept[r.Peer] != floats:
		return k.kept[r.Peer]
	}
	return 0
}

// floating is the LID of the manager if it floats, else 0.
func (k *known) floating() ib.LID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[store.ManagerGUID]
}

// met notes a LID that the peer itself showed.
func (k *known) met(g ib.GUID, l ib.LID) {
	if !l.IsUnicast() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lid[g] = l
}

func (k *known) mkeyOf(g ib.GUID) ib.MKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mkey[g]
}

// mkey is the M_Key of the port of one of the managers.
func (p *Pair) mkey(g ib.GUID) ib.MKey {
	if p.cfg.MKey != nil {
		return p.cfg.MKey(g)
	}
	return p.known.mkeyOf(g)
}
