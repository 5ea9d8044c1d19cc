package daemon

// FlushEvents returns when all events until now can be read.
func (d *Daemon) FlushEvents() { d.events.Flush() }
