package replica

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/store/journal"
)

// otherHeddle is who is the SM of a port that the single manager wrote.
const otherHeddle = 3

// single is a third Heddle that is not of the pair, with a store of its own and the priority of
// the two. It is standby while one of them is master in its part of the fabric, and becomes master
// some time after they are silent. Then it stays master beside one that becomes active, or not, as
// its GUID ranks.
type single struct {
	here   bool
	side   int // if the fabric is split: the half that it is in
	master bool
	ranks  bool
	last   int      // grows each time
	heard  mad.Time // a manager of the pair, or a master that ranks higher
	polls  time.Duration
	store  *journal.Memory
	wrote  int // of its own changes
	ruled  bool
}

// reaches reports whether the single manager is the master of site i's part of the fabric.
func (x *single) reaches(w *world, i int) bool {
	return x.here && x.master && w.port[i] && (!w.split || x.side == i)
}

// mastered reports whether a manager that is not of the pair is the master of site i's part of the
// fabric: those of the pair write nothing there.
func (w *world) mastered(i int) bool { return w.thirdReaches(i) || w.single.reaches(w, i) }

func (w *world) comeSingle() {
	x := &w.single
	x.here, x.master, x.side, x.ranks, x.heard = true, false, w.r.IntN(2), w.r.IntN(2) == 0, w.now
	x.polls = time.Duration(500+w.r.IntN(5000)) * time.Millisecond
	if x.store == nil {
		x.store = journal.NewMemory(10)
	}
	x.last++
	n := x.last
	var act func()
	act = func() {
		if x.here && x.last == n {
			x.act(w)
			w.at(100*time.Millisecond, act)
		}
	}
	w.at(w.lag(200*time.Millisecond), act)
}

// act is what it does all the time.
func (x *single) act(w *world) {
	drives := false
	for i, s := range w.site {
		drives = drives || w.port[i] && (!w.split || x.side == i) && s.core != nil && !s.stop && s.drive
	}
	higher := w.third.here && (!w.split || w.third.side == x.side)
	switch {
	case higher, !x.master && drives, drives && !x.ranks:
		x.master, x.heard = false, w.now
	case !x.master && w.now.Sub(x.heard) < x.polls:
	default:
		x.begin(w)
		for i, s := range w.site {
			if x.reaches(w, i) {
				s.sm = otherHeddle
			}
		}
		x.change(w)
	}
}

// begin makes it master, in a term of its own journal.
func (x *single) begin(w *world) {
	if x.master {
		return
	}
	w.logf("the single manager is master")
	x.master, x.ruled = true, true
	last := must(x.store.Last())
	e := journal.Entry{Mark: journal.Mark{Term: last.Term.Next(otherHeddle), Number: last.Number + 1}, Begin: &journal.Begin{Had: last}}
	if err := x.store.Append(&e); err != nil {
		w.fail("the single manager: %v", err)
	}
}

// change stores one of its own changes.
func (x *single) change(w *world) {
	x.wrote++
	last := must(x.store.Last())
	rec := store.Record{Table: store.TableServices, Key: fmt.Appendf(nil, "single %d", x.wrote), Value: []byte{0}}
	e := journal.Entry{Mark: journal.Mark{Term: last.Term, Number: last.Number + 1}, Ops: []store.Op{{Kind: store.PutRecord, Record: rec}}}
	if err := x.store.Append(&e); err != nil {
		w.fail("the single manager: %v", err)
	}
}

// own fails if the single manager's store is not its own, or if the pair's disks have what is in it.
func (x *single) own(w *world) {
	if x.store == nil {
		return
	}
	if st := must(x.store.Load()); len(st.Records) != x.wrote {
		w.fail("the single manager wrote %d records and has %d", x.wrote, len(st.Records))
	}
	for _, s := range w.site {
		if t := must(s.disk.Last()).Term; t.Owner == ib.GUID(otherHeddle) {
			w.fail("%d has an entry of the single manager: %v", s.i, t)
		}
	}
}
