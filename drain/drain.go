// Package drain decides which links are taken out of use: at the request of an operator, or of a
// rule about findings. It keeps the list, its bounds, the end of each action, and the permissions
// of rules.
//
// Core is pure and belongs to one goroutine, or is guarded by a lock of the caller. It proposes a
// Change, which the caller stores and then passes to Commit. Preview, which takes long, is a
// function of immutable values and needs no Core.
package drain

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// Bounds of links that are drained or isolated at one time: so many, or a share of the ports of the
// subnet if that is less, but one in any case.
const (
	MaxLinks  = 10
	PortShare = 200 // one port in so many: 0.5 %
)

// RestoreTime is the minimum time for which the restore of an isolated link is kept: the Set that
// disables the port may be in flight when the restore is requested.
const RestoreTime = 30 * time.Second

// Change is a change of the list that the caller stores before it commits it.
type Change struct {
	Was  subnet.PortAction
	Now  *subnet.PortAction // nil: the action ends
	Text string             // for the event; empty: there is none

	counted func(*Counts)
	done    func() // what else follows
}

// Op is the operation of the store.
func (c *Change) Op() store.Op {
	op := store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TablePortActions, Key: c.Was.Key()}}
	if c.Now != nil {
		op.Kind, op.Record.Value = store.PutRecord, c.Now.Value()
	}
	return op
}

// Result is how a request of an operator or of a rule ended.
type Result uint8

// The results.
const (
	Done Result = iota
	DryRun
	Refused
	NumResults
)

// String implements fmt.Stringer.
func (r Result) String() string { return [...]string{"done", "dry_run", "refused"}[min(r, Refused)] }

// By is the origin of a request to take a link out of use.
type By uint8

// The two.
const (
	Hand By = iota
	Rule
	NumBy
)

// String implements fmt.Stringer.
func (b By) String() string { return [...]string{"hand", "rule"}[min(b, Rule)] }

// Counts are the requests since the Core began, and the ends of actions.
type Counts struct {
	Asked    [subnet.Restore + 1][NumBy][NumResults]uint64 // by kind
	Expired  uint64                                        // actions that ended because their time was over
	Returned uint64                                        // links that a rule gave back because they were clean
}

// Core keeps the links that are drained, isolated or being restored.
type Core struct {
	cfg     Config
	list    []subnet.PortAction
	counts  Counts
	last    time.Time // of the last Step
	clean   map[place]time.Duration
	handled map[uint64]*handled // by number of a finding
	acted   time.Time           // when a rule decided last
}

// place is a port.
type place struct {
	node ib.GUID
	port uint8
}

func placeOf(a *subnet.PortAction) place { return place{a.Node, a.Port} }

// New returns a Core with the actions of a store. Records that cannot be read are left out.
func New(cfg Config, records []store.Record) *Core {
	c := &Core{cfg: cfg, clean: map[place]time.Duration{}, handled: map[uint64]*handled{}}
	for i := range records {
		if r := &records[i]; r.Table == store.TablePortActions {
			if a, err := subnet.DecodePortAction(r.Key, r.Value); err == nil {
				c.list = append(c.list, a)
			}
		}
	}
	return c
}

// Actions are the links that are drained, isolated or being restored. The caller may keep the list.
func (c *Core) Actions() []subnet.PortAction { return slices.Clone(c.list) }

// Counts returns the counts since the Core began.
func (c *Core) Counts() Counts { return c.counts }

// At is the action on the link at a port.
func (c *Core) At(node ib.GUID, port uint8) (subnet.PortAction, bool) {
	for _, a := range c.list {
		if a.Is(node, port) {
			return a, true
		}
	}
	return subnet.PortAction{}, false
}

// Commit takes a change that is stored.
func (c *Core) Commit(x *Change) {
	c.list = slices.DeleteFunc(slices.Clone(c.list), func(a subnet.PortAction) bool { return a.Is(x.Was.Node, x.Was.Port) })
	if x.Now != nil {
		c.list = append(c.list, *x.Now)
	}
	if x.counted != nil {
		x.counted(&c.counts)
	}
	if x.done != nil {
		x.done()
	}
}

// Room returns nil if one more link may be taken out of use; a link that is already out of use does
// not count again.
func (c *Core) Room(s *subnet.Snapshot, a *subnet.PortAction) error {
	others := 0
	for i := range c.list {
		if !c.list[i].Is(a.Node, a.Port) {
			others++
		}
	}
	if most := Most(s); others >= most {
		return fmt.Errorf("%d of at most %d links are drained or isolated; restore one first", others, most)
	}
	return nil
}

// Most is the maximum number of links of a subnet that may be drained or isolated at one time.
func Most(s *subnet.Snapshot) int {
	n := 0
	for i := range s.FirstVPort() {
		if s.Ports[i].Peer != subnet.NoRef() {
			n++
		}
	}
	return max(1, min(MaxLinks, n/PortShare))
}

// Take is the change that drains or isolates a link at the request of an operator.
func (c *Core) Take(s *subnet.Snapshot, a subnet.PortAction) (Change, error) {
	if err := c.Room(s, &a); err != nil {
		return Change{}, err
	}
	return Change{
		Was: a, Now: &a, Text: fmt.Sprintf("%s: %s, by %s", a.Kind, LinkText(s, &a), a.By),
		counted: func(n *Counts) { n.Asked[a.Kind][Hand][Done]++ },
	}, nil
}

// Asked counts an operator's request that changed nothing.
func (c *Core) Asked(kind subnet.PortActionKind, r Result) { c.counts.Asked[kind][Hand][r]++ }

// Restore is the change that returns a link to routing, at the request of an operator.
func (c *Core) Restore(s *subnet.Snapshot, was subnet.PortAction, by string, now time.Time) Change {
	return Change{
		Was: was, Now: restoring(was, now), Text: LinkText(s, &was) + " is restored by " + by,
		counted: func(n *Counts) { n.Asked[subnet.Restore][Hand][Done]++ },
	}
}

// restoring is what follows an action: an isolated link has to be enabled.
func restoring(a subnet.PortAction, now time.Time) *subnet.PortAction {
	if a.Kind == subnet.Drain {
		return nil
	}
	a.Kind, a.Since, a.Until = subnet.Restore, now.UTC().Truncate(time.Second), time.Time{}
	return &a
}

// ending is the change of an action whose time is over, or of a restored link that can be forgotten.
func (c *Core) ending(now time.Time, s *subnet.Snapshot, a *subnet.PortAction) (x Change, ok bool) {
	switch {
	case a.Kind == subnet.Restore && now.Sub(a.Since) >= RestoreTime && s != nil && s.State == subnet.Master && s.Up && !Disabled(s, a):
		return Change{Was: *a}, true
	case a.Kind != subnet.Restore && !a.Until.IsZero() && !now.Before(a.Until):
		return Change{
			Was: *a, Now: restoring(*a, now), Text: "the time is over: " + LinkText(s, a) + " is restored",
			counted: func(n *Counts) { n.Expired++ },
		}, true
	}
	return x, false
}

// Disabled reports whether an end of a link is disabled.
func Disabled(s *subnet.Snapshot, a *subnet.PortAction) bool {
	for _, e := range [2]place{{a.Node, a.Port}, {a.Peer, a.PeerPort}} {
		if p := portAt(s, e); p != nil && p.Info.PortPhysicalState == ib.PhysDisabled {
			return true
		}
	}
	return false
}

func portAt(s *subnet.Snapshot, at place) *subnet.Port {
	if i := s.NodeByGUID(at.node); i >= 0 && int(at.port) < len(s.NodePorts(i)) {
		return s.NodePorts(i)[at.port]
	}
	return nil
}

// LinkText names a link. s may be nil.
func LinkText(s *subnet.Snapshot, a *subnet.PortAction) string {
	name := a.Node.String()
	if s != nil {
		if i := s.NodeByGUID(a.Node); i >= 0 {
			name = s.Nodes[i].Desc
		}
	}
	return fmt.Sprintf("the link at port %d of %q", a.Port, name)
}
