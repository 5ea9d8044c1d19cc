package mad

import "time"

// Hurry has no try of the requests that were sent and that which chooses wait longer than d for
// its answer, neither the present one nor later ones. There are as many tries as before, so a
// network that loses datagrams loses no more requests, but a node that answers later than
// d after the last try is taken for silent.
func (e *Engine) Hurry(now Time, d time.Duration, which func(token uint64) bool) {
	for i := range e.slots {
		s := &e.slots[i]
		if s.state == slotFree || s.hurry > 0 && s.hurry <= d || !which(s.token) {
			continue
		}
		s.hurry = d
		if s.state != slotInFlight || s.due <= max(now, s.sent.Add(d)) {
			continue
		}
		s.due = max(now, s.sent.Add(d))
		e.clearTimer(int32(i))
		e.setTimer(int32(i), s.due)
	}
}

// RTT is the smoothed round trip of requests that were answered at the first try, 0 if none was.
func (e *Engine) RTT() time.Duration {
	if e.srtt == unknownRTT {
		return 0
	}
	return e.srtt
}
