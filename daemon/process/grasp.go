package process

import "heddle/store/journal"

// grasp is what the cores of a mandate know of the shared state. It decides whether they are started anew
// when they become master, or when their term is won late: cores that know less than the store has, or
// what it has not, would store changes that do not fit. It is a value, and its rules are pure.
type grasp struct {
	known journal.Mark // up to which they have read the state
	term  journal.Term // the last one that was won for them, in which they alone wrote; zero: none
	lost  bool         // that term ended otherwise than by giving it back, so others may have written in it
	again bool         // they are master from the start: they were started anew for that
	// dropped: as master they know what was not stored while they were on standby.
	dropped bool
}

// won begins a term of the cores.
func (g *grasp) won(term journal.Term) { g.term, g.lost = term, false }

// current reports whether the cores know the state up to an entry: it is the last one that they have
// read, or one of the term in which they alone wrote.
func (g *grasp) current(last journal.Mark) bool {
	return last == g.known || !g.lost && g.term != (journal.Term{}) && last.Term == g.term
}

// behindOf reports whether cores that became master on standby are started anew before the store is asked
// for the term, because it may be away: this process knows an entry last that they do not, they know what
// was not stored, or they began with the time off. Cores that were started for this mastership are not
// started a second time without the store's word.
func (g *grasp) behindOf(last journal.Mark, dropped, off bool) bool {
	return !g.again && (dropped || !g.current(last) || off)
}

// lacks reports whether cores that won the term as they became master are started anew: had is the last
// entry before it.
func (g *grasp) lacks(had journal.Mark, dropped bool) bool { return dropped || !g.current(had) }

// lags reports whether cores that are master without a term lack an entry that counts: last is the last one
// that this process knows, newest the last one that another manager has told of, since the last term when
// their mastership began. Entries of a later term are those of a manager that has won it meanwhile; in
// another part of a subnet that fell apart, that says nothing of this part.
func (g *grasp) lags(last, newest journal.Mark, since journal.Term) bool {
	for _, m := range [...]journal.Mark{last, newest} {
		if m.Term.Number <= since.Number && m.Compare(g.known) > 0 && !g.current(m) {
			return true
		}
	}
	return false
}

// keeps reports whether cores that have been master without a term go on when it is won: had is the last
// entry before it. again says that they had a term in this mastership, and lost it to another master,
// who may have written.
func (g *grasp) keeps(had journal.Mark, again bool) bool {
	return !again && !g.dropped && had == g.known
}
