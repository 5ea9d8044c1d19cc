// Package generation is how a host keeps up with the manager's path state (docs/signalling.md):
// which change it has come to, whether a Report follows on that or shows that another was lost,
// the question for what changed since, and its answer.
//
// A generation has 64 bits: the upper 32 name a history, which no other manager continues without
// its store; the lower 32 count changes. Everything here is pure.
package generation

import (
	"errors"

	"heddle/ib"
	wire "heddle/ib/sa"
)

// ErrFormat is an answer that is no list of changes.
var ErrFormat = errors.New("generation: the answer is no list of changes")

// Tracker is how far a host has come. The zero value has come nowhere.
type Tracker struct {
	have   uint64 // after the Reports so far; 0: none
	sure   uint64 // of the last answer
	newest uint64 // of the newest values that were taken
	absent bool
}

// Have is the generation after the Reports so far: what a host asks with that acts on each Report
// before it acknowledges it. 0: none.
func (t *Tracker) Have() uint64 { return t.have }

// Sure is the generation of the last answer: what a host asks with that may lose a Report which it
// has acknowledged, for of several Reports for one generation it may be one of them. 0: none.
func (t *Tracker) Sure() uint64 { return t.sure }

// Known reports whether the manager may have generations.
func (t *Tracker) Known() bool { return !t.absent }

// Restart is for another manager, which may have generations though the last had none.
func (t *Tracker) Restart() { t.absent = false }

// Forget begins anew: the host does not know what it has.
func (t *Tracker) Forget() { t.have, t.sure = 0, 0 }

// Refused takes the status of a question that was refused: unless it says that the manager is
// busy, the manager has no generations.
func (t *Tracker) Refused(st ib.Status) { t.absent = st&ib.StatusBusy == 0 }

// Same reports whether two generations are of one history, so that they can be compared.
func Same(a, b uint64) bool { return a != 0 && b != 0 && a>>32 == b>>32 }

// Verdict says what a Report of trap 68 or 69 leaves open.
type Verdict uint8

// The verdicts.
const (
	Absent  Verdict = iota // there are no generations: the Report says what it says
	Unknown                // the host has none yet
	Missed                 // changes that the Report does not name: they are to be asked for
	Follows                // nothing: the Report names its change, and the host had those before
)

// Reported takes the generations of a Report; named: the Report names a path.
func (t *Tracker) Reported(n *wire.PathNotice, named bool) Verdict {
	switch {
	case n.Generation == 0 || t.absent:
		return Absent
	case t.have == 0:
		return Unknown
	case !named || !Same(n.Generation, t.have) || !Same(n.Before, t.have) || t.have < n.Before:
		return Missed
	case !n.More:
		t.have = max(t.have, n.Generation)
	}
	return Follows
}

// Covers reports whether a Report says nothing that an answer since has not said: it was under way,
// or was repeated as it was.
func (t *Tracker) Covers(n *wire.PathNotice) bool {
	return !t.absent && Same(n.Generation, t.sure) && n.Generation <= t.sure
}

// Newer reports whether the values of a Report are newer than all that the host has taken: those of
// a repeated Report are not. Then they are the newest. Call it before Reported.
func (t *Tracker) Newer(n *wire.PathNotice) bool {
	if t.absent || !Same(n.Generation, t.have) || n.Generation <= t.have ||
		Same(n.Generation, t.newest) && n.Generation < t.newest {
		return false
	}
	t.newest = n.Generation
	return true
}

// Answered takes the head of an answer. whole: any path may have changed, and the list does not
// say which. newer: no Report has brought newer values than those of the list.
func (t *Tracker) Answered(head *wire.PathChangeRecord) (whole, newer bool) {
	if head.All || !Same(head.Generation, t.sure) {
		t.have, t.sure = head.Generation, head.Generation
		return true, true
	}
	t.have, t.sure = max(t.have, head.Generation), head.Generation
	if newer = !Same(head.Generation, t.newest) || head.Generation >= t.newest; newer {
		t.newest = head.Generation
	}
	return false, newer
}

// Ask writes the question which paths of a port changed since a generation; 0: none is known.
// head: the newest generation alone is asked for, by a Get, whose answer is one MAD.
func Ask(m *ib.MAD, port ib.GID, since uint64, head bool) {
	method := ib.MethodGetTable
	if head {
		method = ib.MethodGet
	}
	wire.New(m, method, wire.AttrPathChangeRecord, 0, wire.PathChangeCompGeneration|wire.PathChangeCompSGID)
	(&wire.PathChangeRecord{Generation: since, Path: wire.PathRecord{SGID: port}}).Put(wire.Data(m))
}

// Decode reads the answer: a table, reassembled, or the one MAD of a Get. It begins with its head,
// and has no other; what is broken anywhere is no answer, as a part of a list would pass for all of
// it.
func Decode(b []byte) ([]wire.PathChangeRecord, error) {
	var h wire.Header
	if h.Decode(b) != nil {
		return nil, ErrFormat
	}
	size := 8 * int(h.AttrOffset)
	one := ib.Method(b[3]) == ib.MethodGetResp
	if b = b[wire.HeaderLen:]; one {
		b, size = b[:min(len(b), wire.PathChangeRecordLen)], wire.PathChangeRecordLen
	}
	if size < wire.PathChangeRecordLen {
		return nil, ErrFormat
	}
	var list []wire.PathChangeRecord
	for ; len(b) >= size; b = b[size:] {
		var r wire.PathChangeRecord
		if r.Decode(b[:wire.PathChangeRecordLen]) != nil || r.Head != (len(list) == 0) {
			return nil, ErrFormat
		}
		list = append(list, r)
	}
	if len(list) == 0 || list[0].Generation == 0 {
		return nil, ErrFormat
	}
	return list, nil
}
