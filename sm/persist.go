package sm

import (
	"heddle/sm/notice"
	"heddle/store"
)

// persist hands ops to the shell; the sweep waits for Persisted.
func (c *Core) persist(ops []store.Op) {
	c.Save(ops)
	c.sweep.persistWait = true
}

func (c *Core) onPersisted(ev Persisted) {
	if ev.Gen == c.SaveGen && ev.Err == nil {
		c.Unsaved = nil
	}
	c.pkeys.Saved(ev.Gen, ev.Err)
	c.placements.Saved(ev.Gen, ev.Err)
	if !c.sweep.persistWait || ev.Gen != c.SaveGen {
		return
	}
	c.sweep.persistWait = false
	if ev.Err != nil {
		c.Notify(notice.Notice{
			Kind: notice.KindPersistFailed, Level: notice.Error, Err: ev.Err,
			Text: "LIDs and keys could not be stored, so none are assigned. Look at the store: the state directory (space, disk), the partner, or etcd. The manager tries again",
		})
		c.Errs++
		c.endSweep()
		return
	}
	if c.Phase == notice.PhaseAssign {
		c.startSets()
	}
}
