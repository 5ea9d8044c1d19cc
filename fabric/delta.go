package fabric

import (
	"cmp"
	"sync/atomic"

	"heddle/ib"
)

// Delta describes the change from one Graph to another: which parts are the
// same, with their indices, and which are not. It is immutable: inverses may be one slice, and Deltas
// may share theirs.
type Delta struct {
	// Switch gives, by switch of the new graph, its index in the old one, or -1;
	// OldSwitch is the inverse. Switches are identified by GUID.
	Switch, OldSwitch []int32
	// Channel gives, by channel of the new graph, its index in the old one, or -1;
	// OldChannel is the inverse. Channels are the same if they join the same ports
	// of the same switches.
	Channel, OldChannel []int32
	// LIDs, ascending, are those whose destination changed: the end port that owns
	// the LID, or its switch or switch port.
	LIDs []ib.LID
	// SameSwitches says that both graphs have the same switches, so that indices
	// and rows need no translation; SameChannels says the same of channels.
	SameSwitches, SameChannels bool
}

// SameWires reports whether two graphs share the memory of their switches and
// channels, as they do if one was derived from the other by changing LIDs
// (WithLIDs, route/move). False does not mean that they differ.
func SameWires(a, b *Graph) bool {
	return shared(a.Switches, b.Switches) && shared(a.Off, b.Off) && shared(a.Channels, b.Channels)
}

// SameEndPorts reports whether two graphs share the memory of their end ports. False does not mean
// that these differ.
func SameEndPorts(a, b *Graph) bool { return shared(a.EndPorts, b.EndPorts) }

func shared[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Diff compares two graphs. It takes time proportional to their channels and
// LIDs.
func Diff(old, now *Graph) *Delta {
	d := newDelta(old, now)
	if d.SameChannels && shared(old.EndPorts, now.EndPorts) {
		d.LIDs = otherOwners(old, now)
		return d
	}
	for l := range max(len(old.LIDOwner), len(now.LIDOwner)) {
		if !d.sameLID(old, now, l) {
			d.LIDs = append(d.LIDs, ib.LID(l))
		}
	}
	return d
}

// OtherOwners lists the LIDs, ascending, that have another owner in now than in old. ok is false if
// the graphs do not share the memory of all but the owners, which does not mean that they differ.
func OtherOwners(old, now *Graph) (lids []ib.LID, ok bool) {
	if !SameWires(old, now) || !shared(old.EndPorts, now.EndPorts) {
		return nil, false
	}
	return otherOwners(old, now), true
}

// compared is the last comparison of owners. When a LID moved, its job, the snapshot, the SA and the
// address manager compare the same two graphs.
var compared atomic.Pointer[comparison]

type comparison struct {
	a, b []int32 // LIDOwner of two graphs
	lids []ib.LID
}

func otherOwners(old, now *Graph) []ib.LID {
	c := compared.Load()
	if c == nil || !shared(c.a, old.LIDOwner) || !shared(c.b, now.LIDOwner) {
		c = &comparison{a: old.LIDOwner, b: now.LIDOwner, lids: unequal(old.LIDOwner, now.LIDOwner)}
		compared.Store(c)
	}
	return c.lids[:len(c.lids):len(c.lids)]
}

// unequal lists the LIDs of which two lists have other owners.
func unequal(a, b []int32) (lids []ib.LID) {
	const some = 256 // are compared at a time
	both := min(len(a), len(b))
	for lo := 0; lo < max(len(a), len(b)); lo += some {
		if lo+some <= both && [some]int32(a[lo:lo+some]) == [some]int32(b[lo:lo+some]) {
			continue
		}
		for l := lo; l < lo+some; l++ {
			x, y := int32(NoLID), int32(NoLID)
			if l < len(a) {
				x = a[l]
			}
			if l < len(b) {
				y = b[l]
			}
			if x != y {
				lids = append(lids, ib.LID(l))
			}
		}
	}
	return lids
}

// newDelta is Diff without the LIDs.
func newDelta(old, now *Graph) *Delta {
	d := &Delta{}
	if SameWires(old, now) {
		d.Switch, d.Channel = upTo(len(now.Switches)), upTo(len(now.Channels))
		d.OldSwitch, d.OldChannel = d.Switch, d.Channel
		d.SameSwitches, d.SameChannels = true, true
		return d
	}
	d.Switch, d.Channel = make([]int32, len(now.Switches)), make([]int32, len(now.Channels))
	d.OldSwitch, d.OldChannel = make([]int32, len(old.Switches)), make([]int32, len(old.Channels))
	same := match(len(old.Switches), len(now.Switches), func(i, j int) int {
		return cmp.Compare(old.Switches[i].GUID, now.Switches[j].GUID)
	}, func(i, j int32) { d.pair(i, j) })
	d.SameSwitches = same

	fill(d.Channel)
	fill(d.OldChannel)
	kept := 0
	for s := range now.Switches {
		o := d.Switch[s]
		if o < 0 {
			continue
		}
		// Channels of a switch ascend by output port in both.
		lo, hi := now.Off[s], now.Off[s+1]
		olo, ohi := old.Off[o], old.Off[o+1]
		match(int(ohi-olo), int(hi-lo), func(i, j int) int {
			return cmp.Compare(old.Channels[olo+int32(i)].OutPort, now.Channels[lo+int32(j)].OutPort)
		}, func(i, j int32) {
			if i < 0 || j < 0 {
				return
			}
			a, b := &old.Channels[olo+i], &now.Channels[lo+j]
			if a.InPort == b.InPort && d.Switch[b.To] == a.To {
				d.Channel[lo+j], d.OldChannel[olo+i] = olo+i, lo+j
				kept++
			}
		})
	}
	d.SameChannels = d.SameSwitches && kept == len(now.Channels) && kept == len(old.Channels)
	return d
}

func (d *Delta) pair(i, j int32) {
	if j >= 0 {
		d.Switch[j] = i
	}
	if i >= 0 {
		d.OldSwitch[i] = j
	}
}

// sameLID reports whether packets to LID l go to the same place in both.
func (d *Delta) sameLID(old, now *Graph, l int) bool {
	a, b := old.owner(l), now.owner(l)
	if a == nil || b == nil {
		return a == b
	}
	at := int32(-1)
	if b.Switch >= 0 {
		at = d.Switch[b.Switch]
		if at < 0 {
			return false // on a switch that is new
		}
	}
	return a.GUID == b.GUID && a.PortNum == b.PortNum && a.Type == b.Type && a.Switch == at && a.Port == b.Port
}

func (g *Graph) owner(l int) *EndPort {
	if l >= len(g.LIDOwner) || g.LIDOwner[l] == NoLID {
		return nil
	}
	return &g.EndPorts[g.LIDOwner[l]]
}

// counted is the longest list that upTo has returned.
var counted atomic.Pointer[[]int32]

// upTo lists 0 to n-1. The list is shared, and not to be changed.
func upTo(n int) []int32 {
	if p := counted.Load(); p != nil && len(*p) >= n {
		return (*p)[:n:n]
	}
	a := make([]int32, n)
	for i := range a {
		a[i] = int32(i)
	}
	counted.Store(&a)
	return a
}

func fill(a []int32) {
	for i := range a {
		a[i] = -1
	}
}

// match walks two ascending lists and calls pair for each element of either:
// (i, j) if equal, with -1 for a missing one. It reports whether the lists are
// equal.
func match(n, m int, compare func(i, j int) int, pair func(i, j int32)) bool {
	same := true
	i, j := 0, 0
	for i < n || j < m {
		c := 0
		switch {
		case i == n:
			c = 1
		case j == m:
			c = -1
		default:
			c = compare(i, j)
		}
		switch {
		case c < 0:
			pair(int32(i), -1)
			i++
			same = false
		case c > 0:
			pair(-1, int32(j))
			j++
			same = false
		default:
			pair(int32(i), int32(j))
			i++
			j++
		}
	}
	return same
}
