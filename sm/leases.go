package sm

import (
	"heddle/fabric"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// leases is what a manager knows and does about leases.
type leases struct {
	retry mad.Time // when the first that failed is due
}

func newLeases() leases { return leases{retry: mad.Never} }

func (c *Core) setLeases(ev SetLeases) {}

// leaseAliases are the leases that are placed, or to be placed, on shared ports:
// entries of their GUID tables.
func (c *Core) leaseAliases() []subnet.Alias { return nil }

// functionWanted is what a VPort, or a function of a vSwitch, is to hold now. It
// may change at any step; lookVPort is called then.
func (c *Core) functionWanted(r vportRef) functionWant {
	return functionWant{up: r.a.model == subnet.VPorts && !r.a.vports[r.index].info.LIDRequired}
}

// functionChanged is told when what is known of a VPort changed: it was read, it
// took what was wanted, it changed its state, it came or went.
func (c *Core) functionChanged(r vportRef) {}

// functionRefused is told when a VPort does not take what is wanted: err says why.
func (c *Core) functionRefused(r vportRef, err error) {}

// loadFunctionLIDs takes the LIDs of virtual functions that the store held.
func (c *Core) loadFunctionLIDs(list []store.Record) {}

// grantLIDs is the graph with the LIDs of virtual functions at their owners.
func (c *Core) grantLIDs(g *fabric.Graph) *fabric.Graph { return g }

// startMoves begins to put LIDs where they are to be. It reports whether there is
// something to do.
func (c *Core) startMoves() bool { return false }

// dropMoves gives up what is under way: answers will not be seen.
func (c *Core) dropMoves() {}

// moved takes the phase on when its items are done.
func (c *Core) moved() bool { return false }
