package process

import (
	"testing"

	"heddle/ib"
	"heddle/store/journal"
)

// mark is an entry: term 3 is that of this manager, others are not.
func mark(term, number uint64) journal.Mark {
	owner := ib.GUID(0xb)
	if term == 3 {
		owner = 0xa
	}
	return journal.Mark{Term: journal.Term{Number: term, Owner: owner}, Number: number}
}

// TestGrasp is the rule by which the cores of a manager with a shared state are started anew, case by
// case. Term 3 is ours, terms 2 and 4 are those of another manager.
func TestGrasp(t *testing.T) {
	read := grasp{known: mark(2, 10)}
	wrote := read
	wrote.won(mark(3, 0).Term)
	lost := wrote
	lost.lost = true
	anew := grasp{known: mark(2, 10), again: true}
	dropped := read
	dropped.dropped = true
	empty := grasp{}

	type last = journal.Mark
	for _, c := range []struct {
		name string
		g    grasp
		last last
		drop bool
		off  bool
		// Are they started anew: before the term is asked for, when it is won, and when it is won late?
		before, after, late bool
	}{
		{"the last entry that they read", read, mark(2, 10), false, false, false, false, false},
		{"a later one", read, mark(2, 11), false, false, true, true, true},
		{"an earlier one, of a restored backup", read, mark(2, 9), false, false, true, true, true},
		{"the same number of another term", read, mark(4, 10), false, false, true, true, true},
		{"what they know was not stored", read, mark(2, 10), true, false, true, true, false},
		{"what they knew on standby was not stored", dropped, mark(2, 10), false, false, false, false, true},
		{"they began with another time", read, mark(2, 10), false, true, true, false, false},
		{"their own entry", wrote, mark(3, 25), false, false, false, false, true},
		{"that of another term after it", wrote, mark(4, 26), false, false, true, true, true},
		{"their own, of a term that was lost", lost, mark(3, 25), false, false, true, true, true},
		{"as read, their term lost before an entry", lost, mark(2, 10), false, false, false, false, false},
		{"started anew, and the store had the same", anew, mark(2, 10), false, false, false, false, false},
		{"started anew, and the store has more", anew, mark(4, 11), false, false, false, true, true},
		{"started anew, with another time", anew, mark(2, 10), false, true, false, false, false},
		{"nothing was ever stored", empty, journal.Mark{}, false, false, false, false, false},
		{"nothing was read, and something is there", empty, mark(2, 1), false, false, true, true, true},
		{"a term of nobody is not theirs", empty, journal.Mark{Number: 7}, false, false, true, true, true},
	} {
		if got := c.g.behindOf(c.last, c.drop, c.off); got != c.before {
			t.Errorf("%s: started anew before the term is asked for: %v", c.name, got)
		}
		if got := c.g.lacks(c.last, c.drop); got != c.after {
			t.Errorf("%s: started anew with the term: %v", c.name, got)
		}
		if got := !c.g.keeps(c.last, false); got != c.late {
			t.Errorf("%s: started anew with a term that is won late: %v", c.name, got)
		}
		if c.g.keeps(c.last, true) {
			t.Errorf("%s: cores go on after another master had the term", c.name)
		}
	}
	back := lost
	if back.won(mark(3, 0).Term); !back.current(mark(3, 26)) {
		t.Error("a term that was won again is not theirs")
	}
}

// TestLags: cores without a term lack what this process or another manager had when their mastership
// began, also if they hear of it later; not what another manager has stored in a later term.
func TestLags(t *testing.T) {
	cores := grasp{known: mark(2, 10)}
	for _, c := range []struct {
		name         string
		last, newest journal.Mark
		want         bool
	}{
		{"all is known", mark(2, 10), mark(2, 10), false},
		{"nobody tells", mark(2, 10), journal.Mark{}, false},
		{"another manager is behind", mark(2, 10), mark(2, 9), false},
		{"this process has more", mark(2, 11), journal.Mark{}, true},
		{"another manager has more", mark(2, 10), mark(2, 11), true},
		{"another manager has won the term", mark(2, 10), mark(3, 11), false},
	} {
		if got := cores.lags(c.last, c.newest, mark(2, 0).Term); got != c.want {
			t.Errorf("%s: they lag: %v", c.name, got)
		}
	}
}
