package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"heddle/replica"
	"heddle/store/journal"
)

// What the disk writes with one sync at most: the answers to all come when the last one is done.
const (
	groupEntries = 256
	groupBytes   = 128 << 10 // unless it is one entry; more would delay the first answers
)

// disk carries out commands in order, on a goroutine of its own: a sync takes its time. Entries
// that came during one sync share the next.
type disk struct {
	p *Pair

	mu   sync.Mutex
	cond sync.Cond
	list []replica.Command // guarded by mu
	end  bool              // guarded by mu

	// before is the last entry that did not come from the peer while this process ran: later
	// ones are no fork, because they are in the peer's journal. Of run's goroutine.
	before uint64
}

func newDisk(p *Pair) *disk {
	d := &disk{p: p}
	d.cond.L = &d.mu
	return d
}

func (d *disk) add(list []replica.Command) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, list...)
	d.cond.Signal()
}

func (d *disk) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end = true
	d.cond.Signal()
}

func (d *disk) run() {
	for {
		d.mu.Lock()
		for len(d.list) == 0 && !d.end {
			d.cond.Wait()
		}
		if d.end {
			d.mu.Unlock()
			return
		}
		n := group(d.list)
		now := slices.Clone(d.list[:n])
		clear(d.list[:n])
		d.list = d.list[n:]
		d.mu.Unlock()

		did := d.carryOutAll(now)
		if !d.p.post(func() {
			for i := range did {
				d.p.step(did[i])
			}
		}) {
			return
		}
	}
}

// group is how many of the first commands are entries for one sync; at least 1.
func group(list []replica.Command) int {
	n, bytes := 0, 0
	for n < min(len(list), groupEntries) {
		a, is := list[n].(replica.Append)
		if is {
			bytes += sizeOfEntry(&a.Entry)
		}
		if n > 0 && (!is || bytes > groupBytes) {
			break
		}
		n++
		if !is {
			break
		}
	}
	return n
}

// carryOutAll carries out what group took. Entries that cannot be written together are written one
// by one, so that each has the answer that it would have by itself.
func (d *disk) carryOutAll(list []replica.Command) []replica.Did {
	did := make([]replica.Did, len(list))
	s, is := d.p.cfg.Store.(journal.Grouper)
	if len(list) > 1 && is {
		entries := make([]journal.Entry, len(list))
		for i := range list {
			entries[i] = list[i].(replica.Append).Entry
		}
		if s.AppendAll(entries) == nil {
			for i := range entries {
				d.wrote(&entries[i])
			}
			return did
		}
	}
	for i := range list {
		did[i] = d.carryOut(list[i])
	}
	return did
}

// wrote takes an entry that is durable.
func (d *disk) wrote(e *journal.Entry) {
	for i := range e.Ops {
		d.p.known.op(&d.p.cfg.Rules, &e.Ops[i])
	}
	if e.Term.Owner == d.p.cfg.Rules.Me {
		d.before = e.Number
	}
}

func (d *disk) carryOut(c replica.Command) (did replica.Did) {
	s := d.p.cfg.Store
	switch c := c.(type) {
	case replica.Append:
		if did.Err = s.Append(&c.Entry); did.Err == nil {
			d.wrote(&c.Entry)
		}
	case replica.SetNote:
		did.Err = s.SetNote(c.Note)
	case replica.ReadEntries:
		did.Entries, did.Err = s.Entries(c.From, c.Size)
		return did
	case replica.ReadState:
		did.State, did.Mark, did.Err = s.Contents()
		return did
	case replica.Replace:
		if c.Counted {
			did.Err = d.fork(c.Fork)
		} else {
			d.drop(c.Fork)
		}
		if did.Err == nil {
			if did.Err = s.Replace(c.State, c.At); did.Err == nil {
				d.p.known.replaced(&d.p.cfg.Rules, c.State)
				d.before = 0
			}
		}
	}
	if did.Err != nil {
		d.p.set(func(st *Status) { st.LastError = did.Err.Error() })
		if last, err := s.Last(); err == nil {
			did.Mark = last
		}
	}
	return did
}

// drop says that entries after number go without a fork file: nobody was told of them.
func (d *disk) drop(number uint64) {
	if d.before > number {
		d.p.log.Info("a copy of the other manager's journal replaces this one's; entries that it may lack were not acknowledged",
			"entries_at_most", d.before-number, "last", d.before)
	}
}

// fork saves the entries after number that the peer may lack.
func (d *disk) fork(number uint64) error {
	if d.before <= number {
		return nil
	}
	s := d.p.cfg.Store
	from, err := oldest(s, number+1, d.before)
	if err != nil {
		return err
	}
	var b []byte
	var last journal.Mark
	for n := from; n <= d.before; n = last.Number + 1 {
		list, err := s.Entries(n, 1<<20)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			if list[i].Number > d.before {
				break
			}
			if b, err = journal.Append(b, &list[i]); err != nil {
				return err
			}
		}
		last = list[len(list)-1].Mark
		if last.Number > d.before {
			break
		}
	}
	if len(b) == 0 {
		return nil
	}
	m, _ := journal.DecodeMark(b[8:])
	name := filepath.Join(d.p.cfg.ForkDir, fmt.Sprintf("fork-%d-%d.journal", m.Term.Number, m.Number))
	if err := writeFile(name, b); err != nil {
		return fmt.Errorf("replica: entries that the other manager may lack cannot be saved: %w", err)
	}
	d.p.log.Warn("a copy of the other manager's journal replaces entries that it may lack; they are saved", "file", name)
	d.p.forkSaved(name)
	return nil
}

// oldest is the first entry from number to last that the journal keeps; after last if none.
func oldest(s journal.Store, number, last uint64) (uint64, error) {
	for low, high := number, last+1; low < high; number = low {
		mid := low + (high-low)/2
		_, err := s.Entries(mid, 1)
		switch {
		case err == nil:
			high = mid
		case errors.Is(err, journal.ErrTrimmed):
			low = mid + 1
		default:
			return 0, err
		}
	}
	return number, nil
}

// writeFile writes a file durably, under its name when it is complete.
func writeFile(name string, b []byte) error {
	tmp := name + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
