package store

import (
	"bytes"
	"errors"
	"maps"
	"sync"

	"heddle/ib"
)

type recordKey struct {
	table Table
	key   string
}

type nodePort struct {
	node ib.GUID
	port uint8
}

var errInjected = errors.New("store: injected failure")

// Memory is a Store without a file. The zero value is not usable; see
// NewMemory.
type Memory struct {
	mu        sync.Mutex // guards everything below
	lids      map[ib.GUID]LIDEntry
	mkeys     map[ib.GUID]ib.MKey
	neighbors map[nodePort]ib.GUID
	records   map[recordKey][]byte
	closed    bool
	// FailNext makes that many following Apply calls fail, for tests; no other
	// goroutine may use the store while it is set.
	FailNext int
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{lids: map[ib.GUID]LIDEntry{}, mkeys: map[ib.GUID]ib.MKey{}, neighbors: map[nodePort]ib.GUID{}, records: map[recordKey][]byte{}}
}

// Load implements Store.
func (m *Memory) Load() (*State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	st := &State{}
	for _, e := range m.lids {
		st.LIDs = append(st.LIDs, e)
	}
	for g, k := range m.mkeys {
		st.MKeys = append(st.MKeys, MKeyEntry{g, k})
	}
	for np, g := range m.neighbors {
		st.Neighbors = append(st.Neighbors, NeighborEntry{np.node, np.port, g})
	}
	for k, v := range m.records {
		st.Records = append(st.Records, Record{k.table, []byte(k.key), bytes.Clone(v)})
	}
	st.sort()
	return st, nil
}

// MKey returns the M_Key of a port; ok is false if there is none.
func (m *Memory) MKey(port ib.GUID) (key ib.MKey, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok = m.mkeys[port]
	return key, ok
}

// Apply implements Store.
func (m *Memory) Apply(ops []Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if m.FailNext > 0 {
		m.FailNext--
		return errInjected
	}
	for i := range ops {
		if err := ops[i].Check(); err != nil {
			return err
		}
	}
	for _, o := range ops {
		switch o.Kind {
		case PutLID:
			m.lids[o.GUID] = LIDEntry{o.GUID, o.LID, o.LMC}
		case DeleteLID:
			delete(m.lids, o.GUID)
		case PutMKey:
			m.mkeys[o.GUID] = o.MKey
		case DeleteMKey:
			delete(m.mkeys, o.GUID)
		case PutNeighbor:
			m.neighbors[nodePort{o.GUID, o.Port}] = o.Peer
		case DeleteNeighbor:
			delete(m.neighbors, nodePort{o.GUID, o.Port})
		case PutRecord:
			m.records[recordKey{o.Record.Table, string(o.Record.Key)}] = bytes.Clone(o.Record.Value)
		case DeleteRecord:
			delete(m.records, recordKey{o.Record.Table, string(o.Record.Key)})
		}
	}
	return nil
}

// Undo returns the operations that give every entry that ops change the contents it has now. They
// share the store's values, which Apply replaces and does not change.
func (m *Memory) Undo(ops []Op) []Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	undo := make([]Op, 0, len(ops))
	for i := range ops {
		o := Op{GUID: ops[i].GUID, Port: ops[i].Port}
		var has bool
		switch ops[i].Kind {
		case PutLID, DeleteLID:
			var e LIDEntry
			e, has = m.lids[o.GUID]
			o.Kind, o.LID, o.LMC = DeleteLID, e.LID, e.LMC
			if has {
				o.Kind = PutLID
			}
		case PutMKey, DeleteMKey:
			o.Kind = DeleteMKey
			if o.MKey, has = m.mkeys[o.GUID]; has {
				o.Kind = PutMKey
			}
		case PutNeighbor, DeleteNeighbor:
			o.Kind = DeleteNeighbor
			if o.Peer, has = m.neighbors[nodePort{o.GUID, o.Port}]; has {
				o.Kind = PutNeighbor
			}
		case PutRecord, DeleteRecord:
			o.Kind, o.Record = DeleteRecord, Record{Table: ops[i].Record.Table, Key: ops[i].Record.Key}
			if o.Record.Value, has = m.records[recordKey{o.Record.Table, string(o.Record.Key)}]; has {
				o.Kind = PutRecord
			}
		}
		undo = append(undo, o)
	}
	return undo
}

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Reopen makes a closed store usable again with its contents, like a file.
func (m *Memory) Reopen() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{lids: maps.Clone(m.lids), mkeys: maps.Clone(m.mkeys), neighbors: maps.Clone(m.neighbors), records: maps.Clone(m.records)}
}
