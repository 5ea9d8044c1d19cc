package vm

import (
	"fmt"

	"heddle/subnet"
)

// request carries out the core's part of an operation. The request is answered when this is
// stored, or when the subnet manager has done its part.
func (c *Core) request(r *Request) {
	switch op := r.Op.(type) {
	case Create:
		c.create(r, &op.I)
	case Attach:
		c.with(r, op.Name, func(e *entry) {
			if err := c.attach(r, e, op.At); err != nil {
				c.reply(r, e.Name, err)
			}
		})
	case Migrate:
		c.with(r, op.Name, func(e *entry) { c.reply(r, e.Name, c.migrate(e, op.To)) })
	case Move:
		c.with(r, op.Name, func(e *entry) { c.move(r, e, op.To) })
	case Finish:
		c.with(r, op.Name, func(e *entry) { c.finish(r, e) })
	case RollBack:
		c.with(r, op.Name, func(e *entry) { c.rollBack(r, e) })
	case Detach:
		c.with(r, op.Name, func(e *entry) { c.detach(r, e) })
	case Delete:
		c.remove(r, op)
	case SetKeys:
		c.with(r, op.Name, func(e *entry) { c.setKeys(r, e, op.Keys) })
	case AddMembers:
		c.reply(r, "", c.addMembers(&op))
	case RemoveMembers:
		c.reply(r, "", c.removeMembers(&op))
	default:
		c.reply(r, "", invalid("operation %T is not known", r.Op))
	}
}

// with calls f with the interface of that name, or answers that it does not exist.
func (c *Core) with(r *Request, name string, f func(*entry)) {
	if e := c.named[name]; e != nil {
		f(e)
		return
	}
	err := checkName(name)
	if err == nil {
		err = fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	c.reply(r, "", err)
}

func (c *Core) create(r *Request, i *Interface) {
	n, err := normal(i)
	if err != nil {
		c.reply(r, "", err)
		return
	}
	if old := c.named[n.Name]; old != nil {
		if !old.same(n) {
			err = conflict("interface %q exists with other addresses or P_Keys (GUID %v, %v LID): delete it first, or take another name", n.Name, old.GUID, old.LIDKind)
		}
		c.created(r, old, i.Place, err)
		return
	}
	e := &entry{Interface: *n}
	e.Pinned = n.LID != 0
	if err = c.mayCreate(e); err == nil && e.GUIDKind == PoolGUID {
		e.GUID, err = c.pool.take(c, e.Aliases)
	}
	if err != nil {
		c.reply(r, "", err)
		return
	}
	c.change(nil, e)
	if e.GUIDKind == FunctionGUID {
		c.tell("vm_created", false, "interface %q gets the GUID of its function when it has a place", e.Name)
	} else {
		c.tell("vm_created", false, "interface %q has GUID %v", e.Name, e.GUID)
	}
	c.created(r, e, i.Place, nil)
}

// created answers the Create of e, which exists. err says that the existing interface differs.
// With a place it is attached first.
func (c *Core) created(r *Request, e *entry, at subnet.Place, err error) {
	if err != nil || at == (subnet.Place{}) {
		c.reply(r, e.Name, err)
		return
	}
	if err = c.attach(r, e, at); err != nil {
		c.tx.acts = append(c.tx.acts, act{kind: actReply, name: e.Name, tag: r.Tag, err: notAttached(err), rests: true})
	}
}

// notAttached is the error of a Create whose interface cannot be at its place.
func notAttached(err error) error { return fmt.Errorf("it is created, but not attached: %w", err) }

// mayCreate reports an address of e that belongs to another interface or port.
func (c *Core) mayCreate(e *entry) error {
	if c.unread[e.Name] {
		return conflict("the stored interface %q is in a format that this version cannot read: take another name", e.Name)
	}
	if c.list.n >= maxInterfaces {
		return noRoom("there are %d interfaces, the maximum: delete some", c.list.n)
	}
	for _, g := range e.guids() {
		if name, ok := c.byGUID[g]; ok {
			return conflict("interface %q: GUID %v belongs to interface %q: choose another GUID, or omit it", e.Name, g, name)
		}
		if p, ok := c.functions.owner[g]; ok {
			return conflict("interface %q: GUID %v belongs to function %v: choose another GUID, or omit it", e.Name, g, p)
		}
		if at := c.shownAt(g); at != "" {
			return conflict("interface %q: GUID %v belongs to %s: choose another GUID, or omit it", e.Name, g, at)
		}
	}
	if !e.Pinned {
		return nil
	}
	if name, ok := c.byLID[e.LID]; ok {
		return conflict("interface %q: LID %d belongs to interface %q: choose another LID, or omit it", e.Name, e.LID, name)
	}
	s := c.up()
	if s == nil {
		return nil // the subnet manager refuses it if it is impossible
	}
	if i := s.PortByLID(e.LID); i >= 0 && s.Ports[i].GUID != e.GUID {
		p := s.Ports[i]
		return conflict("interface %q: LID %d belongs to port %v of %q: choose another LID, or omit it", e.Name, e.LID, p.GUID, s.Nodes[p.Node].Desc)
	}
	if c.pool.lids > 0 && int(e.LID) > c.pool.lids {
		return conflict("interface %q: LID %d: the smallest forwarding table of the subnet ends at LID %d: choose a lower LID, or omit it", e.Name, e.LID, c.pool.lids)
	}
	return nil
}

// matches reports whether at is p, or any function of p's port.
func matches(at, p subnet.Place) bool {
	return at.Port == p.Port && (at.Function == 0 || at.Function == p.Function)
}

// attach gives e a place, and answers r when e is there. If it returns an error, nothing has
// changed and r is not answered.
func (c *Core) attach(r *Request, e *entry, at subnet.Place) error {
	if e.State == Attached || e.State == Migrating {
		return c.attachAgain(r, e, at)
	}
	to, known, err := c.place(e, at.Port, at.Function)
	if err == nil && known {
		err = c.bind(e, to)
	}
	if err != nil {
		return err
	}
	n := c.update(e, func(n *entry) {
		n.State, n.before, n.Place, n.Doing, n.anyFunction = Attached, e.State, to, DoingAttach, at.Function == 0
		n.last, n.why, n.Placement = noMigration, "", subnet.PlacementMoving
		if n.Reason = c.awaited(at.Port); !known {
			n.Placement, n.Reason = subnet.PlacementWaiting, c.unknown(at.Port)
		}
	})
	c.await(r, n.Name, DoingAttach)
	if c.awaited(at.Port) != "" {
		c.still(n.Name)
	}
	return nil
}

// attachAgain is attach of an interface that is attached.
func (c *Core) attachAgain(r *Request, e *entry, at subnet.Place) error {
	switch {
	case !matches(at, e.Place):
		return conflict("interface %q is at %v: detach it first, or migrate it", e.Name, e.Place)
	case e.Doing == DoingDetach:
		return conflict("interface %q is being detached from %v: repeat the request when that is done", e.Name, e.Place)
	case e.Doing == DoingAttach || e.Doing == DoingRollBack:
		c.await(r, e.Name, e.Doing)
		if c.awaited(at.Port) != "" {
			c.still(e.Name)
		}
	default:
		c.tx.acts = append(c.tx.acts, act{kind: actReply, name: e.Name, tag: r.Tag, wait: e.Placement != subnet.PlacementPlaced && e.State == Attached})
	}
	return nil
}

// move reserves a place for e and moves it there. After migrate succeeds, finish cannot fail in
// the same step. An interface that is there already does not move.
func (c *Core) move(r *Request, e *entry, to subnet.Place) {
	if e.State == Attached && matches(to, e.Place) {
		if err := c.attachAgain(r, e, to); err != nil {
			c.reply(r, e.Name, err)
		}
		return
	}
	if err := c.migrate(e, to); err != nil {
		c.reply(r, e.Name, err)
		return
	}
	c.finish(r, c.named[e.Name])
}

// migrate reserves a place for e, or says why e cannot be there.
func (c *Core) migrate(e *entry, to subnet.Place) error {
	switch {
	case e.State == Created || e.State == Detached:
		return conflict("interface %q is %v and has no place to migrate from: attach it", e.Name, e.State)
	case e.Doing == DoingAttach || e.Doing == DoingDetach:
		return conflict("interface %q: its %s at %v is not finished: wait for it, or detach it", e.Name, e.Doing, e.Place)
	case e.State == Migrating && matches(to, e.Dest), e.State == Attached && matches(to, e.Place):
		return nil
	case e.State == Migrating:
		return conflict("interface %q is migrating to %v: finish that or roll it back first", e.Name, e.Dest)
	}
	at, known, err := c.place(e, to.Port, to.Function)
	if err == nil && !known {
		switch s, i := c.port(to.Port); {
		case s == nil:
			err = conflict("interface %q: the subnet is not up, so port %v cannot be checked: repeat the request when it is up", e.Name, to.Port)
		case i < 0:
			err = conflict("interface %q: port %v is not in the subnet: check that its host is on and its cable connected, then repeat the request", e.Name, to.Port)
		default:
			err = conflict("interface %q: the virtual functions of port %v have not been read yet: repeat the request in a second", e.Name, to.Port)
		}
	}
	if err == nil {
		err = c.bind(e, at)
	}
	if err != nil {
		return err
	}
	if e.Doing == DoingRollBack { // its placement continues with the rollback
		c.end(e.Name, DoingFinish, conflict("interface %q was rolled back and is at %v", e.Name, e.Place))
		c.still(e.Name)
	}
	c.update(e, func(n *entry) {
		n.State, n.Dest, n.Doing, n.anyFunction = Migrating, at, "", to.Function == 0
		n.last, n.why = noMigration, ""
		if n.Placement == subnet.PlacementPlaced {
			n.Reason = ""
		}
	})
	with := ""
	if e.GUIDKind == FunctionGUID {
		with = ", where its GUID will be " + c.functions.guid[at].String()
	}
	c.tell("vm_migrating", false, "interface %q (GUID %v) is at %v and has a place reserved at %v%s", e.Name, e.GUID, e.Place, at, with)
	return nil
}

func (c *Core) finish(r *Request, e *entry) {
	if e.State != Migrating {
		switch {
		case e.Doing == DoingRollBack || e.last == rolledBack && e.State == Attached:
			c.reply(r, e.Name, conflict("interface %q stays at %v, because its migration was rolled back (%s): migrate it again", e.Name, e.Place, cmpReason(e.why, "as requested")))
		case e.State == Attached && e.last == finished && e.Doing == "":
			c.reply(r, e.Name, nil)
		default:
			c.reply(r, e.Name, conflict("interface %q is %v and not migrating: migrate it first", e.Name, e.State))
		}
		return
	}
	if e.Doing != DoingFinish {
		if _, _, err := c.place(e, e.Dest.Port, e.Dest.Function); err != nil {
			c.reply(r, e.Name, err)
			return
		}
		if c.absent(e.Dest.Port) {
			c.reply(r, e.Name, conflict("interface %q: port %v is not in the subnet any more: roll the migration back, or check that its host is on and its cable connected and repeat the request", e.Name, e.Dest.Port))
			return
		}
		e = c.update(e, func(n *entry) {
			n.Dest, n.Doing, n.resumed, n.unsure = c.follow(e), DoingFinish, false, false
			n.Placement, n.Reason = subnet.PlacementMoving, c.awaited(e.Dest.Port)
		})
	}
	c.await(r, e.Name, DoingFinish)
	if c.awaited(e.Dest.Port) != "" {
		c.still(e.Name)
	}
}

func (c *Core) rollBack(r *Request, e *entry) {
	switch {
	case e.State == Created || e.State == Detached:
		c.reply(r, e.Name, conflict("interface %q is %v and has no migration to roll back", e.Name, e.State))
		return
	case e.State == Attached && e.Doing != DoingRollBack:
		var err error
		if e.last == finished {
			err = conflict("interface %q: its migration to %v is finished: migrate it back", e.Name, e.Place)
		}
		c.reply(r, e.Name, err)
		return
	case e.State == Migrating && e.Doing == DoingFinish && e.unsure:
		c.reply(r, e.Name, conflict("interface %q: a manager that ended was moving it to %v, and may have finished that: repeat the request when the subnet is up", e.Name, e.Dest))
		return
	case e.State == Migrating:
		was := e.Dest
		e = c.update(e, func(n *entry) {
			n.why, n.Reason = "", ""
			n.rollBack()
		})
		if e.Doing == "" {
			c.tell("vm_rolled_back", false, "interface %q (GUID %v) stays at %v and releases %v", e.Name, e.GUID, e.Place, was)
			c.reply(r, e.Name, nil)
			return
		}
	}
	c.await(r, e.Name, DoingRollBack)
	if c.awaited(e.Place.Port) != "" {
		c.still(e.Name)
	}
}

func (c *Core) detach(r *Request, e *entry) {
	switch {
	case e.State == Created || e.State == Detached:
		c.reply(r, e.Name, nil)
		return
	case e.Doing == DoingDetach:
	case e.Place.Function == 0 || e.GUID == 0: // it waits for a place and had none before
		c.end(e.Name, "", conflict("interface %q was detached during the operation", e.Name))
		c.update(e, func(n *entry) {
			n.State, n.before, n.Place, n.Doing, n.anyFunction = e.before, Created, subnet.Place{}, "", false
			n.Placement, n.Reason = subnet.PlacementWaiting, ""
		})
		c.reply(r, e.Name, nil)
		return
	default:
		c.end(e.Name, "", conflict("interface %q was detached during the operation", e.Name))
		c.update(e, func(n *entry) {
			n.State, n.before, n.Dest, n.Doing, n.anyFunction = Attached, Created, subnet.Place{}, DoingDetach, false
			n.last, n.why, n.Placement, n.Reason = noMigration, "", subnet.PlacementMoving, ""
			if c.up() == nil {
				n.Reason = "waits until the subnet is up"
			}
		})
	}
	c.await(r, e.Name, DoingDetach)
	if c.up() == nil {
		c.still(e.Name)
	}
}

func (c *Core) remove(r *Request, op Delete) {
	e := c.named[op.Name]
	if e == nil {
		c.reply(r, "", checkName(op.Name))
		return
	}
	if (e.State == Attached || e.State == Migrating) && !op.Force {
		c.reply(r, e.Name, conflict("interface %q is at %v: detach it first, or delete it by force", e.Name, e.Place))
		return
	}
	c.end(e.Name, "", fmt.Errorf("%w: %q was deleted during the operation", ErrNotFound, e.Name))
	c.change(e, nil)
	c.tell("vm_deleted", false, "interface %q (GUID %v) was deleted", e.Name, e.GUID)
	c.reply(r, "", nil)
}

func (c *Core) setKeys(r *Request, e *entry, list []Membership) {
	keys, err := normalKeys(list)
	if err != nil {
		c.reply(r, e.Name, fmt.Errorf("interface %q: %w", e.Name, err))
		return
	}
	c.update(e, func(n *entry) { n.Keys = keys })
	c.reply(r, e.Name, nil)
}
