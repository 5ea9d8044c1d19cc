package access

import (
	"errors"
	"time"

	"heddle/store"
	"heddle/store/journal"
)

// PollTime is the interval at which a process checks whether another manager changed tokens. A
// token that is revoked on one manager is refused by the other one after this time plus the time to
// copy the change.
const PollTime = 250 * time.Millisecond

// Follower keeps a Registry up to date with a store that others write. It is for one goroutine.
type Follower struct {
	// Registry gets the tokens.
	Registry *Registry

	known bool
	at    journal.Mark // up to which the registry has the journal
}

// entriesAtOnce bounds what one look at the journal reads, in bytes.
const entriesAtOnce = 1 << 20

// Poll reads the changes since the last call: entries of the journal, or the complete state if the
// journal does not go back that far, or is another one. A store without a journal is read
// completely.
func (f *Follower) Poll(st store.Store) error {
	keep, ok := st.(journal.Store)
	f.Registry.change.Lock()
	defer f.Registry.change.Unlock()
	if !ok {
		s, err := st.Load()
		if err == nil {
			f.Registry.replace(s)
		}
		return err
	}
	last, err := lastOf(keep)
	if err != nil || f.known && last == f.at {
		return err
	}
	if f.known {
		switch err := f.follow(keep, last); {
		case err == nil:
			return nil
		case !errors.Is(err, journal.ErrTrimmed):
			return err
		}
	}
	f.known = false
	s, at, err := keep.Contents()
	if err != nil {
		return err
	}
	f.Registry.replace(s)
	f.known, f.at = true, at
	return nil
}

// lastOf is the last entry. A store on other machines knows it without asking them.
func lastOf(st journal.Store) (journal.Mark, error) {
	if s, ok := st.(interface {
		Synced() (journal.Mark, time.Time)
	}); ok {
		m, _ := s.Synced()
		return m, nil
	}
	return st.Last()
}

// follow takes the entries up to last. ErrTrimmed: the journal does not continue what the registry
// has.
func (f *Follower) follow(st journal.Store, last journal.Mark) error {
	if last.Number < f.at.Number || f.at.Number == 0 {
		return journal.ErrTrimmed
	}
	for f.at != last {
		// The entry that is known comes first: in another history it differs.
		list, err := st.Entries(f.at.Number, entriesAtOnce)
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].Mark != f.at {
			return journal.ErrTrimmed
		}
		if len(list) == 1 { // the next one is larger than what is read at once
			if list, err = st.Entries(f.at.Number+1, entriesAtOnce); err != nil {
				return err
			}
			if len(list) == 0 {
				return journal.ErrTrimmed
			}
		} else {
			list = list[1:]
		}
		for i := range list {
			f.Registry.apply(list[i].Ops)
			f.at = list[i].Mark
		}
		if f.at.Number >= last.Number {
			return nil // of a later moment than last, or of another term: the next look says
		}
	}
	return nil
}
