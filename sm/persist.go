package sm

import "heddle/store"

// persist hands ops to the shell; the sweep waits for Persisted.
func (c *Core) persist(ops []store.Op) {
	c.save(ops)
	c.persistWait = true
}

// save hands ops to the shell, with those that are not known to be durable.
func (c *Core) save(ops []store.Op) {
	c.unsaved = append(c.unsaved, ops...)
	c.out.Persist = append(c.out.Persist[:0], c.unsaved...)
	c.persistGen++
	c.out.PersistGen = c.persistGen
}

func (c *Core) onPersisted(ev Persisted) {
	if ev.Gen == c.persistGen && ev.Err == nil {
		c.unsaved = nil
	}
	c.partitionsSaved(ev)
	c.leasesSaved(ev)
	if !c.persistWait || ev.Gen != c.persistGen {
		return
	}
	c.persistWait = false
	if ev.Err != nil {
		c.out.notify(Notice{
			Kind: KindPersistFailed, Level: Error, Err: ev.Err,
			Text: "LIDs and keys could not be stored, so none is given out: make room or mend the state directory; it is tried again",
		})
		c.errs++
		c.endSweep()
		return
	}
	if c.phase == PhaseAssign {
		c.startSets()
	}
}
