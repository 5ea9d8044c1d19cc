package sa

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/heap"
	"heddle/mad"
	"heddle/partition"
	"heddle/store"
)

// Limits on services. A registration over a limit is refused with NO_RESOURCES.
const (
	maxServices        = 1 << 18
	maxServicesPerPort = 4096 // registered by one port
)

// services owns the registered services (IBA §15.2.5.14). ServiceID, ServiceGID and
// ServiceP_Key identify a service; registering it again replaces the other fields.
//
// A service may be replaced or deleted by the port that registered it, the port that
// offers it (ServiceGID), a requester that knows its ServiceKey, and a trusted requester.
// OpenSM lets any member of the partition change a service without a key. (Responses to
// untrusted requesters hide the key. A client that deletes the record it received, as
// osmtest does, therefore sends no key.)
type services struct {
	all    shared[*Service] // ascending RID
	byPort map[ib.GUID]int  // number of services that each port registered
	leases heap.Heap[mad.Time, serviceRID]
	policy *partition.Policy // of the last snapshot
	grants *partition.Grants // of policy; nil: not resolved yet
}

// lease is an entry of the expiry heap. It is stale if the service's Until has
// changed since.
type lease struct {
	until mad.Time
	rid   serviceRID
}

// serviceRID identifies a service.
type serviceRID struct {
	id   uint64
	gid  ib.GID
	pkey ib.PKey
}

func ridOf(r *wire.ServiceRecord) serviceRID {
	return serviceRID{r.ServiceID, r.ServiceGID, r.ServicePKey}
}

func (r serviceRID) compare(q serviceRID) int {
	return cmp.Or(cmp.Compare(r.id, q.id), bytes.Compare(r.gid[:], q.gid[:]), cmp.Compare(r.pkey, q.pkey))
}

func (x *services) find(r serviceRID) (int, bool) {
	return slices.BinarySearchFunc(x.all.list, r, func(s *Service, r serviceRID) int { return ridOf(&s.Record).compare(r) })
}

func (x *services) view(v *View) { v.Services = x.all.view() }

func (x *services) load(c *Core, r *store.Record) error {
	s, err := decodeService(r.Key, r.Value)
	if err != nil {
		return err
	}
	if s.Until != mad.Never {
		// The store has wall time. If the clock was set back since, no service may
		// outlast its lease.
		left := mad.Time(max(max(int64(s.Until), 0)-c.wall, 0))
		s.Until = min(left, c.now.Add(time.Duration(s.Record.ServiceLease)*time.Second))
	}
	x.put(s)
	return nil
}

// put registers s and replaces the service with its RID.
func (x *services) put(s *Service) {
	if x.byPort == nil {
		x.byPort = map[ib.GUID]int{}
	}
	rid := ridOf(&s.Record)
	i, ok := x.find(rid)
	if ok {
		x.count(x.all.list[i].By, -1)
		x.all.set(i, s)
	} else {
		x.all.insert(i, s)
	}
	x.count(s.By, 1)
	if s.Until != mad.Never {
		x.leases.Push(s.Until, 0, rid)
		x.compact()
	}
}

func (x *services) count(port ib.GUID, by int) {
	if x.byPort[port] += by; x.byPort[port] == 0 {
		delete(x.byPort, port)
	}
}

func (x *services) remove(i int) {
	x.count(x.all.list[i].By, -1)
	x.all.remove(i)
}

// compact removes stale entries once they are the majority.
func (x *services) compact() {
	if x.leases.Len() < 2*len(x.all.list)+64 {
		return
	}
	x.leases = heap.Heap[mad.Time, serviceRID]{}
	for _, s := range x.all.list {
		if s.Until != mad.Never {
			x.leases.Push(s.Until, 0, ridOf(&s.Record))
		}
	}
}

// request processes a Set or Delete of a ServiceRecord.
func (x *services) request(c *Core, q *query, m []byte) {
	var r wire.ServiceRecord
	st, stored := statusInvalid, false
	if r.Decode(q.data) == nil {
		if (*ib.MAD)(m).Method() == ib.MethodDelete {
			r, st = x.delete(c, q, r)
		} else {
			r, stored, st = x.register(c, q, r)
		}
	}
	if st != 0 {
		c.reply(q.req, refuse(nil, m, st))
		return
	}
	if !q.trusted {
		r.ServiceKey = [16]byte{}
	}
	if stored {
		c.answerNow(q.req, m, wire.ServiceRecordLen, r.Put)
		return
	}
	c.answer(q.req, m, wire.ServiceRecordLen, r.Put)
}

// register adds or replaces a service. stored reports that the store has the same one already.
func (x *services) register(c *Core, q *query, r wire.ServiceRecord) (out wire.ServiceRecord, stored bool, st ib.Status) {
	if !q.has(wire.ServiceCompServiceID|wire.ServiceCompServiceGID) || q.me < 0 || !mayOffer(q, &r) {
		return r, false, statusInvalid
	}
	if !q.has(wire.ServiceCompServiceLease) {
		r.ServiceLease = wire.ServiceLeaseForever
	}
	s := &Service{Record: r, Until: mad.Never, By: q.s.Ports[q.me].GUID}
	if r.ServiceLease != wire.ServiceLeaseForever {
		s.Until = c.now.Add(time.Duration(r.ServiceLease) * time.Second)
	}
	i, ok := x.find(ridOf(&r))
	mine := 0
	switch {
	case ok && !mayChange(q, x.all.list[i], &r):
		return r, false, statusInvalid
	case ok:
		if x.all.list[i].By == s.By {
			mine = 1
		}
	case len(x.all.list) >= maxServices:
		return r, false, statusNoResources
	}
	if x.byPort[s.By]-mine >= maxServicesPerPort {
		return r, false, statusNoResources
	}
	if !ok {
		c.notice("service_registered", fmt.Sprintf("service %#x %q of %v, P_Key %v, registered by port %v", r.ServiceID, r.Name(), r.ServiceGID, r.ServicePKey, s.By))
	}
	value := serviceValue(s, c.wall)
	if ok && bytes.Equal(value, serviceValue(x.all.list[i], c.wall)) {
		// A renewal: what is stored says so already.
		return r, c.rests(store.Record{Table: store.TableServices, Key: serviceKey(&r), Value: value}), 0
	}
	x.put(s)
	c.save(store.TableServices, serviceKey(&r), value)
	c.changed = true
	return r, false, 0
}

// mayOffer checks the ServiceP_Key: the registering port must be a member of
// the partition, and so must the port that offers the service (IBA C15-0.1.13).
// A key outside the component mask is stored as received, so it is checked too.
func mayOffer(q *query, r *wire.ServiceRecord) bool {
	k := r.ServicePKey
	if !q.has(wire.ServiceCompServicePKey) {
		return k.IsEmpty() || q.s.HasPKey(q.me, k)
	}
	if k.IsEmpty() || !q.s.HasPKey(q.me, k) {
		return false
	}
	if r.ServiceGID.IsMulticast() {
		return true
	}
	// The prefix is ignored: osmtest sends its bytes in the wrong order.
	p := q.s.PortByGUID(r.ServiceGID.GUID())
	return p >= 0 && q.s.HasPKey(p, k)
}

// mayChange reports whether the requester may replace or delete s with the
// record it sent (IBA C15-0.1.14).
func mayChange(q *query, s *Service, r *wire.ServiceRecord) bool {
	old := &s.Record
	return q.trusted || old.ServiceKey != [16]byte{} && old.ServiceKey == r.ServiceKey || q.owns(s)
}

// owns reports whether the requester registered a service or offers it.
func (q *query) owns(s *Service) bool {
	if q.me < 0 {
		return false
	}
	g := q.s.Ports[q.me].GUID
	return g == s.By || !s.Record.ServiceGID.IsMulticast() && g == s.Record.ServiceGID.GUID()
}

// delete takes the RID from the record, regardless of the mask.
func (x *services) delete(c *Core, q *query, r wire.ServiceRecord) (wire.ServiceRecord, ib.Status) {
	i, ok := x.find(ridOf(&r))
	if !ok || !q.seesService(x.all.list[i]) {
		return r, statusNoRecords
	}
	s := x.all.list[i]
	if !mayChange(q, s, &r) {
		return r, statusInvalid
	}
	x.drop(c, i, "service_deleted")
	return s.Record, 0
}

// drop deletes a service.
func (x *services) drop(c *Core, i int, kind string) {
	r := &x.all.list[i].Record
	c.notice(kind, fmt.Sprintf("service %#x %q of %v, P_Key %v", r.ServiceID, r.Name(), r.ServiceGID, r.ServicePKey))
	c.save(store.TableServices, serviceKey(r), nil)
	x.remove(i)
	c.changed = true
}

// expire deletes the services whose lease has expired, in order of RID among
// equals.
func (x *services) expire(c *Core) {
	var over []lease
	for x.leases.Len() > 0 && x.leases.Min().Key <= c.now {
		l := x.leases.Pop()
		over = append(over, lease{l.Key, l.Value})
	}
	slices.SortFunc(over, func(a, b lease) int { return cmp.Or(cmp.Compare(a.until, b.until), a.rid.compare(b.rid)) })
	for _, l := range over {
		if i, ok := x.find(l.rid); ok && x.all.list[i].Until == l.until {
			x.drop(c, i, "service_expired")
		}
	}
}

func (x *services) nextTimer() mad.Time {
	if x.leases.Len() == 0 {
		return mad.Never
	}
	return x.leases.Min().Key
}
