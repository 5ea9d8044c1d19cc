package sa

import (
	"encoding/binary"
	"errors"
	"fmt"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/store"
)

// docs/format/store.md describes the stored groups. Each value begins with the
// version of its layout.
const (
	groupVersion  = 1
	memberVersion = 1
	proxyVersion  = 2 // a membership with its proxy
	stateVersion  = 1

	groupKeyLen  = 16
	groupLen     = 2 + wire.MCMemberRecordLen
	memberKeyLen = 32
	memberLen    = 11
	proxyLen     = memberLen + 8 // a member with the port GUID of its proxy
	stateLen     = 6

	groupWellKnown = 1 << 0
	memberProxy    = 1 << 0
	stateForeign   = 1 << 0
)

// stateKey is the key, in the table of groups, of the state that belongs to no
// group.
var stateKey = []byte{0}

// GroupRecords encodes a group and its members for the store, so that the Start
// of another Core can load them.
func GroupRecords(g *Group) []store.Record {
	list := []store.Record{groupRecord(g)}
	for i := range g.Members {
		list = append(list, memberRecord(g.MGID, &g.Members[i], 0))
	}
	return list
}

func groupRecord(g *Group) store.Record {
	b := make([]byte, groupKeyLen+groupLen)
	key, v := b[:groupKeyLen:groupKeyLen], b[groupKeyLen:]
	copy(key, g.MGID[:])
	v[0] = groupVersion
	if g.WellKnown {
		v[1] = groupWellKnown
	}
	r := g.record()
	r.Put(v[2:])
	return store.Record{Table: store.TableGroups, Key: key, Value: v}
}

// memberRecord encodes a membership. by is the port that requested it, if that is another
// port; 0: unknown.
func memberRecord(mgid ib.GID, m *Member, by ib.GUID) store.Record {
	b := make([]byte, memberKeyLen+memberLen, memberKeyLen+proxyLen)
	key, v := b[:memberKeyLen:memberKeyLen], b[memberKeyLen:]
	copy(key, mgid[:])
	copy(key[16:], m.PortGID[:])
	v[0] = memberVersion
	if m.Proxy {
		v[1] = memberProxy
	}
	v[2] = m.JoinState
	binary.BigEndian.PutUint64(v[3:], uint64(m.PortGUID))
	if m.Proxy && by != 0 {
		v[0] = proxyVersion
		v = binary.BigEndian.AppendUint64(v, uint64(by))
	}
	return store.Record{Table: store.TableMembers, Key: key, Value: v}
}

func decodeGroup(key, v []byte) (g Group, err error) {
	var r wire.MCMemberRecord
	switch {
	case len(key) != groupKeyLen:
		return g, fmt.Errorf("a key of %d bytes", len(key))
	case len(v) == 0 || v[0] != groupVersion:
		return g, errVersion
	case len(v) != groupLen:
		return g, fmt.Errorf("%d bytes, want %d", len(v), groupLen)
	}
	if err := r.Decode(v[2:]); err != nil {
		return g, err
	}
	switch {
	case string(r.MGID[:]) != string(key) || !r.MGID.IsMulticast():
		return g, fmt.Errorf("an MGID of %v", r.MGID)
	case !r.MLID.IsMulticast():
		return g, fmt.Errorf("an MLID of %v", r.MLID)
	case r.MTU < ib.MTU256 || r.MTU > ib.MTU4096 || !r.Rate.Valid():
		return g, fmt.Errorf("MTU code %d and rate code %d", r.MTU, r.Rate)
	case r.PKey.IsEmpty():
		return g, errors.New("no P_Key")
	}
	return Group{
		MGID: r.MGID, MLID: r.MLID, QKey: r.QKey, PKey: r.PKey, MTU: r.MTU, Rate: r.Rate, PacketLife: r.PacketLifeTime, SL: r.SL,
		TClass: r.TClass, FlowLabel: r.FlowLabel, HopLimit: r.HopLimit, Scope: r.Scope, WellKnown: v[1]&groupWellKnown != 0,
	}, nil
}

var errVersion = errors.New("an unknown layout version")

func decodeMember(key, v []byte) (mgid ib.GID, m Member, by ib.GUID, err error) {
	switch {
	case len(key) != memberKeyLen:
		return mgid, m, 0, fmt.Errorf("a key of %d bytes", len(key))
	case len(v) == 0 || v[0] != memberVersion && v[0] != proxyVersion:
		return mgid, m, 0, errVersion
	case v[0] == memberVersion && len(v) != memberLen:
		return mgid, m, 0, fmt.Errorf("%d bytes, want %d", len(v), memberLen)
	case v[0] == proxyVersion && len(v) != proxyLen:
		return mgid, m, 0, fmt.Errorf("%d bytes, want %d", len(v), proxyLen)
	case v[2] == 0 || v[2] > 0xF:
		return mgid, m, 0, fmt.Errorf("a join state of %#x", v[2])
	}
	m = Member{
		PortGID: ib.GID(key[16:]), PortGUID: ib.GUID(binary.BigEndian.Uint64(v[3:])),
		JoinState: v[2], Proxy: v[1]&memberProxy != 0,
	}
	if v[0] == proxyVersion {
		by = ib.GUID(binary.BigEndian.Uint64(v[memberLen:]))
	}
	return ib.GID(key[:16]), m, by, nil
}

// load reads a stored record, groups before members. An unreadable record stays
// in the store; a member without its group is deleted.
func (x *multicast) load(c *Core, r *store.Record) error {
	switch {
	case r.Table == store.TableMembers:
		mgid, m, by, err := decodeMember(r.Key, r.Value)
		if err != nil {
			return fmt.Errorf("sa: member of a multicast group, key %x: %w", r.Key, err)
		}
		g := x.group(mgid)
		if g == nil {
			x.dropMember(c, &mcGroup{Group: Group{MGID: mgid}}, &m)
			return fmt.Errorf("sa: port %v is a member of the multicast group %v, which is not stored; the membership is deleted", m.PortGID, mgid)
		}
		i, is := g.member(m.PortGID.GUID())
		if is {
			return fmt.Errorf("sa: port %v is twice in the multicast group %v", m.PortGID, mgid)
		}
		x.touch(c, g)
		g.Members = append(g.Members, Member{})
		copy(g.Members[i+1:], g.Members[i:])
		g.Members[i] = m
		if m.Proxy && by != 0 {
			x.proxies[membershipID{g.MGID, m.PortGID}] = by
		}
		x.count(g, &m, 1)
	case string(r.Key) == string(stateKey):
		if len(r.Value) != stateLen || r.Value[0] != stateVersion {
			return fmt.Errorf("sa: state of the multicast groups: %w", errVersion)
		}
		x.counter = binary.BigEndian.Uint32(r.Value[2:])
		x.takeover.foreign = r.Value[1]&stateForeign != 0
	default:
		g, err := decodeGroup(r.Key, r.Value)
		if err != nil {
			return fmt.Errorf("sa: multicast group, key %x: %w", r.Key, err)
		}
		if x.group(g.MGID) != nil {
			return fmt.Errorf("sa: the multicast group %v is stored twice", g.MGID)
		}
		x.insert(c, &mcGroup{Group: g})
	}
	return nil
}

func (x *multicast) saveGroup(c *Core, g *mcGroup) {
	r := groupRecord(&g.Group)
	c.save(r.Table, r.Key, r.Value)
}

func (x *multicast) dropGroup(c *Core, g *mcGroup) {
	c.save(store.TableGroups, append([]byte(nil), g.MGID[:]...), nil)
}

func (x *multicast) saveMember(c *Core, g *mcGroup, m *Member) {
	r := memberRecord(g.MGID, m, x.proxies[membershipID{g.MGID, m.PortGID}])
	c.save(r.Table, r.Key, r.Value)
}

func (x *multicast) dropMember(c *Core, g *mcGroup, m *Member) {
	c.save(store.TableMembers, memberKey(g, m), nil)
}

func memberKey(g *mcGroup, m *Member) []byte {
	return append(append(make([]byte, 0, memberKeyLen), g.MGID[:]...), m.PortGID[:]...)
}

// isStored reports whether a group and one of its members are stored as they are, which an answer then
// promises.
func (x *multicast) isStored(c *Core, g *mcGroup, m *Member) bool {
	if !c.isStored(store.TableGroups, g.MGID[:]) || !c.isStored(store.TableMembers, memberKey(g, m)) {
		return false
	}
	if c.unsure {
		c.promise(groupRecord(&g.Group), memberRecord(g.MGID, m, x.proxies[membershipID{g.MGID, m.PortGID}]))
	}
	return true
}

// saveState stores the state that belongs to no group.
func (x *multicast) saveState(c *Core) {
	v := make([]byte, stateLen)
	v[0] = stateVersion
	if x.takeover.foreign {
		v[1] = stateForeign
	}
	binary.BigEndian.PutUint32(v[2:], x.counter)
	c.save(store.TableGroups, stateKey, v)
}
