package live

import (
	"errors"
	"slices"
	"testing"

	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

// grouper is a disk that refuses one entry, and counts its syncs.
type grouper struct {
	*journal.Memory
	refuse uint64 // number
	syncs  int
}

var errRefused = errors.New("refused")

func (g *grouper) Append(e *journal.Entry) error {
	g.syncs++
	if e.Number == g.refuse {
		return errRefused
	}
	return g.Memory.Append(e)
}

func (g *grouper) AppendAll(list []journal.Entry) error {
	g.syncs++
	if slices.ContainsFunc(list, func(e journal.Entry) bool { return e.Number == g.refuse }) {
		return errRefused
	}
	for i := range list {
		if err := g.Memory.Append(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func appends(first uint64, n, size int) (list []replica.Command) {
	for i := range uint64(n) {
		list = append(list, replica.Append{Entry: journal.Entry{
			Mark: journal.Mark{Term: journal.Term{Number: 1, Owner: 1}, Number: first + i},
			Ops:  []store.Op{{Kind: store.PutMKey, GUID: 2, MKey: 7}, {Kind: store.PutRecord, Record: store.Record{Table: store.TableMembers, Key: []byte{1}, Value: make([]byte, size)}}},
		}})
	}
	return list
}

// TestGroup: only entries share a sync, and not too many.
func TestGroup(t *testing.T) {
	note := []replica.Command{replica.SetNote{}}
	for _, c := range []struct {
		name string
		list []replica.Command
		want int
	}{
		{"a note", append(note, appends(1, 3, 1)...), 1},
		{"an entry", appends(1, 1, 1), 1},
		{"entries before a note", slices.Concat(appends(1, 3, 1), note, appends(4, 3, 1)), 3},
		{"many", appends(1, groupEntries+1, 1), groupEntries},
		{"large", appends(1, 10, groupBytes/4), 3},
		{"very large", appends(1, 2, groupBytes), 1},
	} {
		if got := group(c.list); got != c.want {
			t.Errorf("%s: %d commands at once, not %d", c.name, got, c.want)
		}
	}
}

// TestGroupFails: entries share one sync. If one of them cannot be written, each has the answer
// that it would have by itself.
func TestGroupFails(t *testing.T) {
	g := &grouper{Memory: journal.NewMemory(100)}
	d := &disk{p: &Pair{cfg: Config{Store: g, Rules: replica.Config{Me: 1, Peer: 2}}}}
	d.p.known.replaced(&d.p.cfg.Rules, &store.State{})
	for i, did := range d.carryOutAll(appends(1, 5, 1)) {
		if did.Err != nil {
			t.Errorf("entry %d: %v", i+1, did.Err)
		}
	}
	if g.syncs != 1 || d.before != 5 || d.p.known.mkeyOf(2) != 7 {
		t.Errorf("%d syncs; entries up to %d are known, with M_Key %v", g.syncs, d.before, d.p.known.mkeyOf(2))
	}
	g.refuse = 8
	did := d.carryOutAll(appends(6, 4, 1))
	want := []error{nil, nil, errRefused, journal.ErrGap}
	for i := range want {
		if !errors.Is(did[i].Err, want[i]) {
			t.Errorf("entry %d: %v, want %v", 6+i, did[i].Err, want[i])
		}
		if want[i] != nil && did[i].Mark.Number != 7 {
			t.Errorf("entry %d: the disk says that it ends with entry %d, not 7", 6+i, did[i].Mark.Number)
		}
	}
	if at, err := g.Last(); err != nil || at.Number != 7 || d.before != 7 {
		t.Errorf("the journal ends with %v, %v; entries up to %d are known", at, err, d.before)
	}
}
