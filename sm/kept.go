package sm

import (
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/sm/notice"
	"heddle/subnet"
)

// What stays in devices although the store does not know it (package tenure): P_Keys are kept by
// pkeymgr, addresses of virtual functions by placement, and entries of GUID tables stay in any case.

// beginTenure asks the fabric who was its last master. Ports of hosts are not asked: a host can
// write its own PortInfo.
func (c *Core) beginTenure() {
	f := c.Fabric
	var masters []ib.LID
	if f != nil && f.Self != subnet.NoRef() {
		masters = append(masters, f.Port(f.Self).Info.MasterSMLID)
		for i := range f.Nodes {
			if n := &f.Nodes[i]; n.IsSwitch() && n.OK() {
				masters = append(masters, f.PortOf(int32(i), 0).Info.MasterSMLID)
			}
		}
	}
	has := func(port ib.GUID, l ib.LID) bool {
		if r := c.lids.Manager(); port == c.Config.PortGUID && r.Base != 0 && l >= r.Base && int(l) < int(r.Base)+1<<r.LMC {
			return true
		}
		r, ok := c.lids.Stored(port)
		return ok && l >= r.Base && int(l) < int(r.Base)+1<<r.LMC
	}
	if c.tenure.Begin(masters, has) || c.unstored.unsure {
		c.pkeys.MeetAnew()
		c.keeping.told = keptCounts{}
	}
}

// keeping is what was told of kept entries.
type keeping struct {
	told keptCounts
	list []subnet.Kept // as snapshots show it; immutable
}

// keptCounts says how many entries are kept.
type keptCounts struct{ keys, ports, addresses int }

func countKept(list []subnet.Kept) (n keptCounts) {
	ports := map[ib.GUID]bool{}
	for i := range list {
		ports[list[i].Place.Port] = true
		if list[i].PKey != 0 {
			n.keys++
		} else {
			n.addresses++
		}
	}
	n.ports = len(ports)
	return n
}

// settleKept tells how many entries are kept, when all devices have been read. If there are none,
// the store knows all.
func (c *Core) settleKept() {
	if !c.tenure.Keeps() {
		return
	}
	list := c.keptNow()
	if !slices.Equal(list, c.keeping.list) {
		c.keeping.list = list
		c.pkeys.ShowAnew()
	}
	if !c.pkeys.Met() || !c.vports.AllMet() || !c.placements.Met() {
		return
	}
	n := countKept(list)
	switch {
	case len(list) == 0 && !c.unstored.unsure:
		c.tenure.Settled()
		c.pkeys.KeepsNothing()
	case len(list) == 0:
	case n != c.keeping.told:
		c.Notify(notice.Notice{Kind: notice.KindKept, Level: notice.Warn, Text: n.text(c.tenure.Why())})
	}
	c.keeping.told = n
}

// text says for people what is kept, and why.
func (n keptCounts) text(why string) string {
	return fmt.Sprintf("kept %v that no policy and no interface assigns, because another manager may have assigned them (%s): "+
		"'heddle ctl adopt' shows them", n, why)
}

// String names the entries: "3 P_Keys and the addresses of 2 virtual functions on 4 ports".
func (n keptCounts) String() string {
	var what []string
	if n.keys > 0 {
		what = append(what, plural.Of(n.keys, "P_Key"))
	}
	if n.addresses > 0 {
		what = append(what, "the addresses of "+plural.Of(n.addresses, "virtual function"))
	}
	return strings.Join(what, " and ") + " on " + plural.Of(n.ports, "port")
}

// keptNow lists what is kept.
func (c *Core) keptNow() []subnet.Kept {
	list := append(c.pkeys.Kept(), c.placements.Kept()...)
	subnet.SortKept(list)
	return list
}

// dropKept revokes what is kept at ports, nil for all of them.
func (c *Core) dropKept(ports []ib.GUID) {
	if c.State != subnet.Master || !c.tenure.Keeps() {
		return
	}
	named := make(map[ib.GUID]bool, len(ports))
	for _, p := range ports {
		named[p] = true
	}
	at := func(port ib.GUID) bool { return ports == nil || named[port] }
	n := countKept(slices.DeleteFunc(c.keptNow(), func(k subnet.Kept) bool { return !at(k.Place.Port) }))
	if n != (keptCounts{}) {
		c.Notify(notice.Notice{
			Kind: notice.KindKept, Level: notice.Warn, Text: fmt.Sprintf("an administrator revokes %v that were kept", n),
		})
	}
	c.pkeys.DropKept(at)
	c.placements.DropKept(at)
	if ports == nil {
		c.tenure.Settled()
		c.pkeys.KeepsNothing()
	}
	c.keeping.list = c.keptNow()
	c.keeping.told = countKept(c.keeping.list)
}
