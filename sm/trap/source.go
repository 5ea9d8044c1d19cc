package trap

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// When a source is noisy.
const (
	Window = 5 * time.Second // after so long without a trap a source is counted from 0
	Noisy  = 10              // traps of a source within Window; from this one on they are ignored
	// maxSources bounds the sources that are remembered, some ten for each port that
	// sends traps of every kind. While there are more within a window, new ones are ignored.
	maxSources = 1 << 14
)

// Numbers of Source that are no trap's.
const (
	Vendor  uint16 = 0xFFFD // of a vendor, in an unknown form
	Unknown uint16 = 0xFFFE // generic, with an unknown number
	False   uint16 = 0xFFFF // in the name of another node
)

// Source is what arrivals are counted by. The port counts for switches only: a CA's trap
// is about the port that sends it.
type Source struct {
	LID  ib.LID // 0: nobody's
	Trap uint16
	Port uint8
}

type arrivals struct {
	count uint32
	last  mad.Time
}

// Table remembers who sent which traps within Window.
type Table struct {
	src    map[Source]arrivals
	tidyAt mad.Time // before it no entry is old enough to go
}

// Count notes an arrival and returns how many there were without a pause of Window.
func (t *Table) Count(now mad.Time, s Source) uint32 {
	if t.src == nil {
		t.src = map[Source]arrivals{}
	}
	n, ok := t.src[s]
	if !ok && len(t.src) >= maxSources && !t.tidy(now) {
		return Noisy + 1
	}
	if ok && now.Sub(n.last) > Window {
		n.count = 0
	}
	n.count, n.last = n.count+1, now
	t.src[s] = n
	return n.count
}

// tidy forgets sources that would be counted from 0. It reports whether there is room.
func (t *Table) tidy(now mad.Time) bool {
	if now < t.tidyAt {
		return false
	}
	oldest := now
	for s, n := range t.src {
		if now.Sub(n.last) > Window {
			delete(t.src, s)
		} else {
			oldest = min(oldest, n.last)
		}
	}
	t.tidyAt = oldest.Add(Window)
	return len(t.src) < maxSources
}

// Kind is the number by which a trap is counted: that of a trap that the manager knows.
func Kind(n *smp.Notice) uint16 {
	number := n.TrapNumber
	if t, ok := n.Trap(); ok {
		number = t
	} else if !n.IsGeneric {
		return Vendor
	}
	switch {
	case number >= smp.TrapPortStateChange && number <= smp.TrapFlowCtlWatchdog,
		number == smp.TrapLocalChange, number == smp.TrapSystemImageGUID,
		number >= smp.TrapBadMKey && number <= smp.TrapBadPKeySwitchPort,
		number == smp.TrapVPortChange, number == smp.TrapVPortState, number == smp.TrapVPortBadPKey, number == smp.TrapVPortBadQKey:
		return number
	}
	return Unknown
}

// Claims are the LIDs that a trap says it is from, and the port that it is about.
func Claims(n *smp.Notice) (lids [2]ib.LID, port uint8) {
	lids[0] = n.IssuerLID
	if !n.IsGeneric {
		return lids, 0
	}
	switch {
	case n.TrapNumber == smp.TrapPortStateChange:
		var d smp.DetailLID
		d.Get(&n.DataDetails)
		lids[1] = d.LID
	case n.TrapNumber >= smp.TrapLocalPhyErrors && n.TrapNumber <= smp.TrapFlowCtlWatchdog:
		var d smp.DetailPort
		d.Get(&n.DataDetails)
		lids[1], port = d.LID, d.PortNum
	case n.TrapNumber == smp.TrapLocalChange:
		var d smp.DetailChange
		d.Get(&n.DataDetails)
		lids[1] = d.LID
	case n.TrapNumber == smp.TrapSystemImageGUID:
		var d smp.DetailImage
		d.Get(&n.DataDetails)
		lids[1] = d.LID
	}
	return lids, port
}
