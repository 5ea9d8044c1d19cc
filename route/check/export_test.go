package check

// Carried reports whether Update made p without proving all anew.
func (p *Proof) Carried() bool { return p.lazy }
