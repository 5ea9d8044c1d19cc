package umad

// KeepsTime says that the port times every try of a request itself, by
// mad.Packet.Timeout, and reports unanswered ones as mad.Failed.
func (p *Port) KeepsTime() bool { return true }
