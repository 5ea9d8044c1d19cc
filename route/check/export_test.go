package check

// Incremental reports whether Update made p without proving all anew.
func (p *Proof) Incremental() bool { return p.lazy }
