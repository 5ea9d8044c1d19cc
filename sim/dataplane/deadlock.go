package dataplane

// Deadlock is a set of buffers that will never empty.
type Deadlock struct {
	At Time
}

func (e *Engine) startDetector() {}
func (e *Engine) detect()        {}
