package replica

import (
	"fmt"
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"heddle/internal/need"
	"heddle/mad"
	"heddle/store"
)

// registers are what changes of a world with a history write besides their own key.
const registers = 4

// operation is a change of a register, which returns what it held before, or a read of it.
type operation struct {
	key   int
	read  bool
	write uint64 // the change
	saw   uint64
	known bool // saw, and that it was carried out
	at    mad.Time
	done  mad.Time
}

// history is what clients of both managers asked for and got.
type history struct {
	ops    []operation
	change map[uint64]int // place in ops
}

func register(id uint64) int { return int(id % registers) }

// asked notes a change, and returns the operation that writes its register.
func (h *history) asked(w *world, id uint64) store.Op {
	h.change[id] = len(h.ops)
	h.ops = append(h.ops, operation{key: register(id), write: id, at: w.now, done: math.MaxInt64})
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableGroups, Key: fmt.Append(nil, register(id)), Value: fmt.Append(nil, id)}}
}

// answered notes the answer to a change.
func (h *history) answered(s *site, d Done) {
	i := h.change[d.ID]
	o := &h.ops[i]
	switch d.Err {
	case nil:
		o.saw, o.known, o.done = s.view[o.key], true, s.w.now
		s.view[o.key] = d.ID
	case ErrStandby, ErrBusy:
		delete(h.change, d.ID) // it was not carried out
	}
}

// read reads all registers, if the manager may answer: what it wrote counts, and its port named
// it a moment ago.
func (h *history) read(s *site) {
	a := &s.core.active
	if s.core.role != Active || !a.alone && (!a.paired || a.third > 0) || s.looked == 0 || s.clock().Sub(s.looked) > s.core.cfg.Every*3/2 {
		return
	}
	for k := range registers {
		h.ops = append(h.ops, operation{key: k, read: true, saw: s.view[k], known: true, at: s.w.now, done: s.w.now})
	}
}

// load takes the registers of a manager that became active.
func (h *history) load(s *site, st *store.State) {
	s.view = [registers]uint64{}
	for _, r := range st.Records {
		if r.Table == store.TableGroups {
			var k int
			var id uint64
			must(fmt.Sscan(string(r.Key), &k))
			must(fmt.Sscan(string(r.Value), &id))
			s.view[k] = id
		}
	}
}

// events are the operations for porcupine. A change without an answer whose value nobody saw
// was not carried out, or as the last one.
func (h *history) events() (list []porcupine.Operation) {
	seen := map[uint64]bool{}
	for i := range h.ops {
		if h.ops[i].known {
			seen[h.ops[i].saw] = true
		}
	}
	for i := range h.ops {
		o := &h.ops[i]
		if o.known || seen[o.write] {
			list = append(list, porcupine.Operation{Input: o, Call: int64(o.at), Output: o, Return: int64(o.done)})
		}
	}
	return list
}

// model is registers that are each on their own.
var model = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, registers)
		for _, o := range all {
			k := o.Input.(*operation).key
			parts[k] = append(parts[k], o)
		}
		return parts
	},
	Init: func() any { return uint64(0) },
	Step: func(state, in, _ any) (bool, any) {
		o := in.(*operation)
		ok := !o.known || state == o.saw
		if o.read {
			return ok, state
		}
		return ok, o.write
	},
}

// TestLinear: per register, changes and reads are as if one manager carried out each of them at
// one moment between question and answer. Schedules with two histories, or with a takeover that
// said that entries may be missing, are left out.
func TestLinear(t *testing.T) {
	checked, ops, all := 0, 0, need.Seeds(60, 2000)
	for _, seed := range all {
		w := newWorld(t, seed)
		w.history, w.whole = &history{change: map[uint64]int{}}, true
		w.campaign()
		if w.begun > 0 {
			continue
		}
		list := w.history.events()
		checked++
		ops += len(list)
		if !porcupine.CheckOperations(model, list) {
			w.fail("seed %d: not linearizable", seed)
		}
	}
	t.Logf("%d operations of %d schedules", ops, checked)
	if checked < len(all)/2 {
		t.Errorf("only %d of %d schedules had one history", checked, len(all))
	}
}

// TestLinearFinds: the check refuses a read of what was overwritten, a change that is lost, and
// one that was never asked for.
func TestLinearFinds(t *testing.T) {
	for name, ops := range map[string][]operation{
		"stale read":  {{write: 1, known: true, at: 1, done: 2}, {write: 2, saw: 1, known: true, at: 3, done: 4}, {read: true, saw: 1, known: true, at: 5, done: 6}},
		"lost change": {{write: 1, known: true, at: 1, done: 2}, {write: 2, saw: 0, known: true, at: 3, done: 4}},
		"wild value":  {{write: 1, known: true, at: 1, done: 2}, {read: true, saw: 7, known: true, at: 3, done: 4}},
		"taken back":  {{write: 1, at: 1, done: 99}, {read: true, saw: 1, known: true, at: 2, done: 3}, {read: true, known: true, at: 4, done: 5}},
	} {
		h := history{ops: ops}
		if porcupine.CheckOperations(model, h.events()) {
			t.Errorf("%s: accepted", name)
		}
	}
	good := history{ops: []operation{{write: 1, at: 1, done: 99}, {read: true, known: true, at: 2, done: 3}, {read: true, saw: 1, known: true, at: 4, done: 5}}}
	if !porcupine.CheckOperations(model, good.events()) {
		t.Error("a change that took effect late is refused")
	}
}
