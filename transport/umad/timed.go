package umad

// KeepsTime says that the port times every try of a request itself, by
// mad.Packet.Timeout, and reports those that were not answered as mad.Failed.
func (p *Port) KeepsTime() bool { return true }
