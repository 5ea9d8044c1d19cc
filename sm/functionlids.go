package sm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/sm/notice"
	"heddle/store"
	"heddle/subnet"
)

// LIDs of virtual functions come out of the space of those of ports (assign.go),
// whose order they follow: ports have been served when functions are found. The
// lowest that is free is taken; one that floats is the highest that is free. A LID is
// kept for as long as its lease, whether the function is there or not. LIDs of
// ports that are not there are given up when there is no other (as for ports).
//
// A LID belongs to a GUID, and is stored as those of ports are. Where vSwitches are
// prepopulated it belongs to a function as well (byPlace): a lease that takes its
// LID to another function leaves that one's LID behind.

// functionLIDs are the LIDs of functions.
type functionLIDs struct {
	// byPlace are the LIDs of functions that always have one, by place, and, as
	// function 0, the base LID of a port whose LID floats.
	byPlace map[subnet.Place]ib.LID
	placeOf map[ib.LID]subnet.Place
	leaseOf map[ib.LID]*lease
	space   *lidSpace      // what is in use by whom ever; nil: to be found out
	fresh   bool           // LIDs came that the engine is to route
	floated []ib.GUID      // ports that have their base LID again, which is not stored
	short   bool           // functions that are to have LIDs may have none: prepopulate looks
	changed []subnet.Place // functions that have other LIDs, from when these are stored
}

func newFunctionLIDs() functionLIDs {
	return functionLIDs{byPlace: map[subnet.Place]ib.LID{}, placeOf: map[ib.LID]subnet.Place{}, leaseOf: map[ib.LID]*lease{}}
}

// set gives a function its LID; 0 takes it away.
func (fn *functionLIDs) set(p subnet.Place, l ib.LID) store.Op {
	if was := fn.byPlace[p]; was != 0 && fn.placeOf[was] == p {
		delete(fn.placeOf, was)
	}
	if l == 0 {
		delete(fn.byPlace, p)
		fn.short = true
	} else {
		fn.byPlace[p], fn.placeOf[l] = l, p
	}
	return placeOp(p, l)
}

// placeKey is the key of a record of store.TableFunctionLIDs, and placeValue its value
// (docs/format/store.md).
func placeKey(p subnet.Place) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, uint64(p.Port)), p.Function)
}

func placeOp(p subnet.Place, l ib.LID) store.Op {
	r := store.Record{Table: store.TableFunctionLIDs, Key: placeKey(p)}
	if l == 0 {
		return store.Op{Kind: store.DeleteRecord, Record: r}
	}
	r.Value = binary.BigEndian.AppendUint16(nil, uint16(l))
	return store.Op{Kind: store.PutRecord, Record: r}
}

// parsePlace is the inverse of placeOp; it refuses what that does not write.
func parsePlace(r *store.Record) (p subnet.Place, l ib.LID, err error) {
	if len(r.Key) != 10 || len(r.Value) != 2 {
		return p, 0, fmt.Errorf("sm: LID of a function: %d bytes of key and %d of value are stored instead of 10 and 2", len(r.Key), len(r.Value))
	}
	p = subnet.Place{Port: ib.GUID(binary.BigEndian.Uint64(r.Key)), Function: binary.BigEndian.Uint16(r.Key[8:])}
	l = ib.LID(binary.BigEndian.Uint16(r.Value))
	if p.Port == 0 || !l.IsUnicast() {
		return p, 0, fmt.Errorf("sm: LID of function %v: LID %d is stored, which is not unicast, or no port", p, l)
	}
	return p, l, nil
}

// loadFunctionLIDs takes the LIDs of virtual functions that the store held. What
// cannot be right is left out, and said.
func (c *Core) loadFunctionLIDs(list []store.Record) {
	fn := &c.leases.fn
	taken := map[ib.LID]subnet.Place{}
	for i := range list {
		if list[i].Table != store.TableFunctionLIDs {
			continue
		}
		p, l, err := parsePlace(&list[i])
		if o, twice := taken[l]; err == nil && twice {
			err = fmt.Errorf("sm: LID %d is stored for functions %v and %v", l, o, p)
		}
		if err != nil {
			c.Notify(notice.Notice{Kind: notice.KindLIDConflict, Level: notice.Warn, Err: err, Text: "a stored LID of a function is left out"})
			continue
		}
		taken[l] = p
		if p.Function > 0 && !c.Config.VSwitchPrepopulate {
			c.Unsaved = append(c.Unsaved, placeOp(p, 0)) // functions have none of their own any more
			continue
		}
		fn.set(p, l)
	}
	// Leases are set before the start, when nothing was known of their LIDs.
	for _, l := range c.leases.list {
		if lid := c.stored[l.GUID].lid; l.lid == 0 && lid != 0 {
			l.lid, fn.leaseOf[lid] = lid, l
			if l.port == 0 {
				l.port = l.Place.Port
			}
		}
	}
}

// places lists byPlace in the order of places.
func (fn *functionLIDs) places() []subnet.Place {
	list := make([]subnet.Place, 0, len(fn.byPlace))
	for p := range fn.byPlace {
		list = append(list, p)
	}
	slices.SortFunc(list, comparePlaces)
	return list
}

func comparePlaces(a, b subnet.Place) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Function, b.Function))
}

// placeLID reports whether a LID belongs to a function, whoever uses it.
func (c *Core) placeLID(l ib.LID) bool {
	_, ok := c.leases.fn.placeOf[l]
	return ok
}

// takeFunctionLIDs takes the LIDs of functions out of a space that LIDs of ports
// are about to be given from. Those beyond its limit, because a switch came whose
// table is smaller, are lost.
func (c *Core) takeFunctionLIDs(sp *lidSpace) (ops []store.Op) {
	x := &c.leases
	x.fn.space = nil
	lost := func(who string, l ib.LID) {
		c.Notify(notice.Notice{
			Kind: notice.KindLIDConflict, Level: notice.Warn,
			Text: fmt.Sprintf("LID %d of %s cannot be kept: the smallest forwarding table holds LIDs below %d, or a port has it; it gets another", l, who, sp.limit),
		})
	}
	for _, p := range x.fn.places() {
		l := x.fn.byPlace[p]
		if p.Function == 0 {
			continue // its port is served first
		}
		if r := (lidRange{lid: l}); sp.free(r) {
			sp.take(r)
			continue
		}
		lost("function "+p.String(), l)
		ops = append(ops, x.fn.set(p, 0))
	}
	for _, l := range x.list {
		if l.gone || l.lid == 0 {
			continue
		}
		r := lidRange{lid: l.lid}
		if sp.free(r) {
			sp.take(r)
			continue
		}
		if c.placeLID(l.lid) {
			continue // it is that of the function that holds it
		}
		lost("GUID "+l.GUID.String(), l.lid)
		ops = append(ops, c.loseLID(l)...)
	}
	return ops
}

// loseLID takes a lease's LID away. Whoever holds it gets another.
func (c *Core) loseLID(l *lease) []store.Op {
	if c.leases.fn.leaseOf[l.lid] == l {
		delete(c.leases.fn.leaseOf, l.lid)
	}
	l.lid, l.port = 0, 0
	c.leases.fn.space = nil
	c.lookLease(l)
	if _, ok := c.stored[l.GUID]; !ok {
		return nil
	}
	delete(c.stored, l.GUID)
	return []store.Op{{Kind: store.DeleteLID, GUID: l.GUID}}
}

// lidsInUse are the LIDs that somebody has or that are kept for somebody.
func (c *Core) lidsInUse() *lidSpace {
	fn := &c.leases.fn
	if fn.space != nil && fn.space.limit == c.limit {
		return fn.space
	}
	sp := &lidSpace{limit: c.limit}
	for _, r := range c.stored {
		sp.take(r)
	}
	for _, r := range c.lids {
		sp.take(r)
	}
	for _, l := range fn.byPlace {
		sp.take(lidRange{lid: l})
	}
	for _, l := range c.leases.list {
		if !l.gone && l.lid != 0 {
			sp.take(lidRange{lid: l.lid})
		}
	}
	fn.space = sp
	return sp
}

// highest returns the highest free LID, 0 if there is none.
func (s *lidSpace) highest() ib.LID {
	for l := min(s.limit-1, int(ib.LIDMaxUnicast)); l > 0; l-- {
		if s.free(lidRange{lid: ib.LID(l)}) {
			return ib.LID(l)
		}
	}
	return 0
}

// takeLID takes a free LID for a function; 0: there is none, not even one of a port that
// is not there. It appends what is to be stored.
func (c *Core) takeLID(top bool, ops []store.Op) (ib.LID, []store.Op) {
	sp := c.lidsInUse()
	for {
		l := ib.LID(0)
		if top {
			l = sp.highest()
		} else {
			l = sp.find(0).lid
		}
		if l != 0 {
			sp.take(lidRange{lid: l})
			return l, ops
		}
		g, ok := c.absent()
		if !ok {
			return 0, ops
		}
		sp.release(c.stored[g])
		delete(c.stored, g)
		delete(c.lids, g)
		ops = append(ops, store.Op{Kind: store.DeleteLID, GUID: g})
	}
}

// absent is the port with the highest GUID that has a LID and is not there.
func (c *Core) absent() (last ib.GUID, ok bool) {
	for g := range c.stored {
		if c.EndPort(g) == nil && (c.leases.byGUID[g] == nil) && (!ok || g > last) {
			last, ok = g, true
		}
	}
	return last, ok
}

// noLID says that there is no LID left, how many there are, and who has them.
func (c *Core) noLID() string {
	n := c.countLIDs()
	return fmt.Sprintf("no LID left: all %d that the smallest forwarding table holds are in use: %d by ports, %d by functions that always have one, %d by interfaces, %d of them without a place; "+
		"delete interfaces or take functions away, use a smaller LMC or switches with larger tables", n.limit, n.ports, n.functions, n.leases, n.waiting)
}

// lidCount is who has how many LIDs.
type lidCount struct {
	limit, ports, functions, leases, waiting int
}

func (n *lidCount) used() int { return n.ports + n.functions + n.leases }

func (c *Core) countLIDs() (n lidCount) {
	n.limit = max(c.limit-1, 0)
	for g, r := range c.stored {
		if c.leases.byGUID[g] == nil {
			n.ports += 1 << r.lmc
		}
	}
	for p := range c.leases.fn.byPlace {
		if p.Function > 0 {
			n.functions++
		}
	}
	for _, l := range c.leases.list {
		if l.gone || l.lid == 0 || c.placeLID(l.lid) {
			continue
		}
		n.leases++
		if l.target() == (subnet.Place{}) {
			n.waiting++
		}
	}
	return n
}

// adoptLID takes over a LID that a function shows, if nobody else has it.
func (c *Core) adoptLID(l *lease, lid ib.LID) {
	if l.lid != 0 || l.LID != 0 && l.LID != lid || l.GUID == 0 {
		return
	}
	sp := c.lidsInUse()
	if !sp.free(lidRange{lid: lid}) {
		return
	}
	sp.take(lidRange{lid: lid})
	c.Save(c.storeLID(l, lid))
}

// storeLID gives a lease its LID.
func (c *Core) storeLID(l *lease, lid ib.LID) []store.Op {
	of := c.leases.fn.leaseOf
	if of[l.lid] == l {
		delete(of, l.lid)
	}
	l.lid, of[lid] = lid, l
	r := lidRange{lid: lid}
	if c.stored[l.GUID] == r {
		return nil
	}
	c.stored[l.GUID] = r
	return []store.Op{{Kind: store.PutLID, GUID: l.GUID, LID: lid}}
}

// giveLIDs gives the leases of the batch that need one a LID. Those for which
// there is none leave the batch.
func (c *Core) giveLIDs() (ops []store.Op) {
	x := &c.leases
	keep := x.batch[:0]
	for _, l := range x.batch {
		t := l.target()
		if p := c.EndPort(t.Port); p != nil && t != (subnet.Place{}) && l.LIDKind == subnet.FloatingLID && c.sharedPort(t.Port) {
			var f failure
			if ops, f = c.giveFloating(l, p, ops); f.cause != 0 {
				c.refuseLease(l, f)
				continue
			}
			keep = append(keep, l)
			continue
		}
		a, v := c.function(t)
		if t == (subnet.Place{}) || a == nil || v == nil || !needsLID(a, v) {
			keep = append(keep, l)
			continue
		}
		var f failure
		if ops, f = c.giveLID(l, a, t, ops); f.cause != 0 {
			c.refuseLease(l, f)
			continue
		}
		keep = append(keep, l)
	}
	x.batch = keep
	return ops
}

// refuseLease takes a lease out of the batch, because it cannot be carried out.
func (c *Core) refuseLease(l *lease, f failure) {
	l.leaving = false
	l.failed, l.back = f, l.held
	c.settle(l)
	c.lookLease(l)
}

func (c *Core) giveLID(l *lease, a *adapter, t subnet.Place, ops []store.Op) ([]store.Op, failure) {
	sp := c.lidsInUse()
	always := a != nil && c.always(a)
	if l.LID != 0 && l.lid != l.LID && l.failed.cause == 0 {
		switch {
		case int(l.LID) >= c.limit:
			return ops, failure{subnet.CauseTableFull, fmt.Sprintf("LID %d is asked for, and the smallest forwarding table holds LIDs below %d only", l.LID, c.limit)}
		case l.lid != 0 && l.held != (subnet.Place{}):
			return ops, failure{subnet.CauseLIDInUse, fmt.Sprintf("LID %d is asked for, and it has LID %d, which may be in use: detach it first", l.LID, l.lid)}
		case always && c.placeLID(l.LID) && c.leases.fn.leaseOf[l.LID] == nil: // a function's that nobody uses
		case !sp.free(lidRange{lid: l.LID}):
			return ops, failure{subnet.CauseLIDTaken, fmt.Sprintf("LID %d is asked for, and somebody else has it", l.LID)}
		}
		if l.lid != 0 && !c.placeLID(l.lid) {
			sp.release(lidRange{lid: l.lid})
		}
		sp.take(lidRange{lid: l.LID})
		ops = append(ops, c.storeLID(l, l.LID)...)
	}
	if always {
		return c.swapPlaces(l, t, ops)
	}
	if from, ok := c.leases.fn.placeOf[l.lid]; ok { // which gets another in its turn
		ops = append(ops, c.leases.fn.set(from, 0))
		c.leases.fn.changed = append(c.leases.fn.changed, from)
	}
	if l.lid == 0 {
		lid, more := c.takeLID(l.LIDKind == subnet.FloatingLID, ops)
		if ops = more; lid == 0 {
			return ops, failure{subnet.CauseNoLID, c.noLID()}
		}
		ops = append(ops, c.storeLID(l, lid)...)
	}
	return ops, failure{}
}

// maxFormer bounds leases.former; an address manager gives GUIDs again, so that this is
// more than there are in most subnets.
const maxFormer = 1 << 16

// forgetLease ends a lease that nothing holds any more.
func (c *Core) forgetLease(l *lease) {
	x := &c.leases
	if l.gone {
		return
	}
	if l.lid != 0 {
		c.Save(c.loseLID(l))
	}
	l.gone = true
	delete(x.byGUID, l.GUID)
	if !l.implied {
		if len(x.former) >= maxFormer {
			clear(x.former)
		}
		x.former[l.GUID] = true
	}
	if x.gone++; x.gone > 64 && x.gone > len(x.list)/2 {
		x.list = slices.DeleteFunc(x.list, func(l *lease) bool { return l.gone })
		x.gone = 0
	}
}

// storeBatch has LIDs stored before they are used.
func (c *Core) storeBatch(ops []store.Op) {
	c.Save(ops)
	c.leases.gen, c.leases.saveErr = c.SaveGen, nil
}

// leasesSaved takes the answer.
func (c *Core) leasesSaved(ev Persisted) {
	x := &c.leases
	if x.gen == 0 || ev.Gen < x.gen {
		return
	}
	x.gen, x.saveErr = 0, ev.Err
	if ev.Err != nil {
		for _, l := range x.batch {
			c.reportLease(l, subnet.LeaseWaiting, failure{subnet.CauseNotStored, "its LID could not be stored: " + ev.Err.Error()})
		}
		x.retry = c.Now.Add(c.Config.RetryInterval)
		c.tellLeases()
	}
}
